//! `tasuki-bench relays` measures calls that pass through servers, as the first paper has them.
//!
//! A call is an area of one page, the *control area*, which is handed from party to party. Each
//! relay pushes its own return path onto a stack in it and hands it on. The last party answers. It
//! answers the caller directly, whose path is at the bottom of the stack; or the answer goes back
//! through all relays, each of which takes its own path off the stack. With data, an area of 64 KiB
//! is handed on beside the control area; no party touches its bytes.
//!
//! A synchronous caller waits for the answer to each call. An asynchronous one has 16 calls on
//! their way. Every party is a thread with a mapping of its own. It sleeps when it has nothing to
//! do, and is rung by whoever gives it something. Neighbours are on different processors, if there
//! are two.

mod party;
mod world;

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use self::party::Party;
use self::world::{CallWay, RelayWorld};
use crate::calls::server::pin;
use crate::median::median;

/// Calls of an asynchronous caller that are on their way at once.
const OUTSTANDING: u32 = 16;

/// What `relays` runs.
#[derive(Args)]
pub(crate) struct RelaysArgs {
    /// Relays between the caller and the party that answers.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3, 4],
        value_parser = clap::value_parser!(u32).range(0..=8))]
    relays: Vec<u32>,
    /// Milliseconds of each figure.
    #[arg(long, default_value_t = 20)]
    millis: u64,
    /// The processors of the caller and of the first party behind it; then they take turns.
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
    processors: Vec<usize>,
    /// Figures as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// One way to call.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct RelayFigure {
    pub(crate) relays: u32,
    pub(crate) asynchronous: bool,
    pub(crate) data: bool,
    /// The last party answers the caller itself.
    pub(crate) direct: bool,
    /// Nanoseconds per call.
    pub(crate) nanos: f64,
}

impl RelayFigure {
    /// The way in words.
    pub(crate) fn way(&self) -> String {
        let calls = if self.asynchronous { "16 at a time" } else { "one by one" };
        let data = if self.data { "with data" } else { "without data" };
        let back = if self.direct { "answered directly" } else { "answer relayed" };
        format!("{calls}, {data}, {back}")
    }
}

/// Measure and print.
pub(crate) fn run(args: &RelaysArgs) -> Result<()> {
    let &[here, there] = args.processors.as_slice() else {
        anyhow::bail!("--processors takes two numbers")
    };
    pin(here)?;
    let time = Duration::from_millis(args.millis);
    let mut figures = Vec::new();
    for &relays in &args.relays {
        for direct in [true, false] {
            for data in [false, true] {
                let way = CallWay { relays, direct, data };
                for (asynchronous, nanos) in measure(way, time, [here, there])? {
                    figures.push(RelayFigure { relays, asynchronous, data, direct, nanos });
                }
            }
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
        return Ok(());
    }
    println!("| relays | way | ns per call |\n|---:|---|---:|");
    for figure in &figures {
        println!("| {} | {} | {:.0} |", figure.relays, figure.way(), figure.nanos);
    }
    Ok(())
}

/// Nanoseconds per call, synchronous and asynchronous.
fn measure(way: CallWay, time: Duration, processors: [usize; 2]) -> Result<[(bool, f64); 2]> {
    let world = RelayWorld::new(way, OUTSTANDING)?;
    std::thread::scope(|scope| {
        let world = &world;
        let parties = (1..world.parties()).map(|me| {
            scope.spawn(move || {
                pin(processors[me % 2])?;
                let done = Party::new(world, me).and_then(Party::serve);
                // The others would wait for this one for ever.
                if done.is_err() {
                    world.end();
                }
                done
            })
        });
        let parties: Vec<_> = parties.collect();
        let called = Party::new(world, 0).and_then(|mut caller| {
            let sync = per_call(&mut caller, 1, time)?;
            Ok([(false, sync), (true, per_call(&mut caller, OUTSTANDING, time)?)])
        });
        world.end();
        for party in parties {
            party.join().map_err(|_| anyhow::anyhow!("a relay panicked"))??;
        }
        called
    })
}

/// The median over groups of calls, of which so many are on their way at once.
fn per_call(caller: &mut Party<'_>, outstanding: u32, time: Duration) -> Result<f64> {
    // The first group finds nothing in the caches.
    caller.call(4 * outstanding, outstanding)?;
    let (mut times, begun) = (Vec::new(), Instant::now());
    while times.is_empty() || begun.elapsed() < time {
        let began = Instant::now();
        let calls = 4 * outstanding;
        caller.call(calls, outstanding)?;
        times.push(began.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
    }
    Ok(median(times).unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_back_through_relays_and_directly() {
        for (relays, direct, data) in
            [(0, true, false), (1, false, true), (3, true, true), (2, false, false)]
        {
            let way = CallWay { relays, direct, data };
            let times = measure(way, Duration::from_millis(1), [0, 0]).expect("times");
            assert!(times.iter().all(|(_, nanos)| *nanos > 0.0), "{way:?}: {times:?}");
        }
    }
}

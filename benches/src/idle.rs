//! `tasuki-bench idle`: how often an instance in which nothing happens is woken. `tasuki lab scale`
//! measures the same with many connections ([`watched`]).

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::instruments::{ALL_SWITCHES, Instance, InstanceArgs, switches_of};

/// How long nothing may happen.
const QUIET: Duration = Duration::from_secs(3);
/// Within so many such times everything that the start brought is over: ARP, handshakes.
const TRIES: u32 = 8;
/// A client that waits.
#[derive(Args)]
pub(crate) struct WaitingArgs {
    #[arg(long)]
    connect: SocketAddr,
}

/// The result.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Idle {
    /// split or fused.
    pub(crate) mode: String,
    /// Context switches per second of all of the instance's processes and its program.
    pub(crate) switches_per_second: f64,
}

/// Connects and waits for bytes that never come.
pub(crate) fn waiting(args: &WaitingArgs) -> Result<()> {
    let mut stream = TcpStream::connect(args.connect)?;
    println!("waits");
    stream.read_exact(&mut [0])?;
    Ok(())
}

/// Counts.
pub(crate) fn idle(args: &InstanceArgs) -> Result<()> {
    let instance = Instance::new(args)?;
    let mut program = instance.client(&["waiting"])?.stdout(Stdio::piped()).spawn()?;
    let said = program.stdout.as_mut().context("the program's output")?.read_exact(&mut [0; 6]);
    let found = said.map_err(anyhow::Error::from).and_then(|()| watch(&instance));
    // It waits for ever.
    program.kill()?;
    program.wait()?;
    let idle = Idle { mode: args.mode.clone(), switches_per_second: found? };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&idle)?);
    } else {
        println!("{}: {} context switches per second", idle.mode, idle.switches_per_second);
    }
    Ok(())
}

/// The least of some times of quiet, up to the first without any.
fn watch(instance: &Instance) -> Result<f64> {
    let status = instance.asked(&["ps"])?;
    let processes = status[0]["processes"].as_array().context("the processes of `tasuki ps`")?;
    let pids: Vec<u64> = processes.iter().filter_map(|process| process["pid"].as_u64()).collect();
    let mut least = f64::INFINITY;
    for _ in 0..TRIES {
        let before = switches(&pids, &ALL_SWITCHES)?;
        sleep(QUIET);
        let count = since(&before, &switches(&pids, &ALL_SWITCHES)?);
        least = least.min(count as f64 / QUIET.as_secs_f64());
        if count == 0 {
            break;
        }
    }
    Ok(least)
}

/// Context switches of these kinds of all threads of some processes so far.
fn switches(pids: &[u64], kinds: &[&str]) -> Result<Counts> {
    of_threads(pids, |thread| switches_of(thread, kinds))
}

/// What some processes did in a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct IdleCost {
    /// Context switches that a thread wished for, a second: so often it was woken.
    pub(crate) wake_ups: f64,
    /// Milliseconds of processor time a second. `None`: the kernel does not tell (schedstat).
    pub(crate) processor_ms: Option<f64>,
}

/// Watches these processes for so long.
pub(crate) fn watched(pids: &[u64], time: Duration) -> Result<IdleCost> {
    let woken = || switches(pids, &["voluntary"]);
    let nanos = || of_threads(pids, nanos_of).ok();
    let (began, woken_before, nanos_before) = (Instant::now(), woken()?, nanos());
    sleep(time);
    let seconds = began.elapsed().as_secs_f64();
    let passed = nanos().zip(nanos_before).map(|(now, then)| since(&then, &now));
    Ok(IdleCost {
        wake_ups: since(&woken_before, &woken()?) as f64 / seconds,
        processor_ms: passed.map(|nanos| nanos as f64 / 1e6 / seconds),
    })
}

/// What each thread counts, by its number. A sum would fall when a thread ends.
type Counts = HashMap<u64, u64>;

/// What was counted between two looks: of a thread that began in between all, of one that ended
/// nothing.
fn since(before: &Counts, after: &Counts) -> u64 {
    let of = |(thread, count): (&u64, &u64)| {
        count.saturating_sub(before.get(thread).copied().unwrap_or_default())
    };
    after.iter().map(of).sum()
}

/// What all threads of these processes count. A process that is not there is an error, a thread
/// that ends meanwhile is not.
fn of_threads(pids: &[u64], count: impl Fn(&Path) -> Result<u64>) -> Result<Counts> {
    let mut counts = Counts::new();
    for pid in pids {
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let path = thread?.path();
            match count(&path) {
                Err(_) if !path.exists() => (),
                counted => {
                    let name = path.file_name().and_then(|name| name.to_str());
                    counts.insert(name.context("a thread's number")?.parse()?, counted?);
                }
            }
        }
    }
    Ok(counts)
}

/// Nanoseconds on a processor so far.
fn nanos_of(thread: &Path) -> Result<u64> {
    let stat = fs::read_to_string(thread.join("schedstat"))?;
    Ok(stat.split_whitespace().next().context("the time of a thread")?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_is_woken_and_whoever_sleeps_is_not() {
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let time = Duration::from_millis(50);
        // Until it sleeps.
        let mut least = f64::INFINITY;
        for _ in 0..100 {
            least = least.min(watched(&[sleeper.id().into()], time).expect("a process").wake_ups);
            if least == 0.0 {
                break;
            }
        }
        sleeper.kill().expect("it lives");
        sleeper.wait().expect("it ends");
        assert_eq!(least, 0.0);
        let own = watched(&[std::process::id().into()], time).expect("this process");
        assert!(own.wake_ups > 0.0, "{own:?}");
        assert!(watched(&[u64::from(u32::MAX)], time).is_err());
    }

    #[test]
    fn a_thread_that_ends_takes_nothing_from_the_others() {
        let before = Counts::from([(1, 1_000), (2, 5)]);
        assert_eq!(since(&before, &Counts::from([(2, 8), (3, 4)])), 7);
        assert_eq!(since(&before, &before), 0);
        // The same with a real one: its sleeps are more than those of the thread that watches.
        let (says, slept) = std::sync::mpsc::channel();
        let ends = std::thread::spawn(move || {
            (0..1_000).for_each(|_| sleep(Duration::from_micros(1)));
            says.send(()).expect("the test waits");
            sleep(Duration::from_millis(20));
        });
        slept.recv().expect("the thread sleeps");
        let own = watched(&[std::process::id().into()], Duration::from_millis(100));
        ends.join().expect("the thread ends");
        assert!(own.expect("this process").wake_ups > 0.0);
    }
}

//! The honest client. It obeys orders on its standard input, and prints what it measured.

use std::io::{BufRead as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::protocol::{Order, Test};

/// No answer for so long ends a measurement: the neighbour is stopped.
const LONGEST: Duration = Duration::from_secs(5);
/// Bytes of a round trip, and of a read in bulk.
const SMALL: u32 = 64;
const LARGE: u32 = 64 << 10;

/// The neighbour's arguments.
#[derive(Args)]
pub(crate) struct NeighbourArgs {
    #[arg(long)]
    connect: SocketAddr,
}

/// One measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Round trips of 64 bytes, microseconds.
    pub(crate) median_us: f64,
    pub(crate) p99_us: f64,
    /// The rate of a received stream.
    pub(crate) mib_per_second: f64,
}

/// Measures for so many milliseconds whenever a line with a number comes.
pub(crate) fn run(args: &NeighbourArgs) -> Result<()> {
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let time = Duration::from_millis(line?.parse().context("milliseconds")?);
        println!("{}", serde_json::to_string(&measure(args.connect, time / 2)?)?);
    }
    Ok(())
}

fn connect(to: SocketAddr, test: Test, size: u32) -> Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, LONGEST)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LONGEST))?;
    Order { test, pause: 0, size, total: u64::MAX }.write(&mut stream)?;
    Ok(stream)
}

fn measure(to: SocketAddr, each: Duration) -> Result<Measured> {
    let mut times = round_trips(to, each).unwrap_or_default();
    if times.is_empty() {
        times.push(LONGEST.as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    let mib_per_second = received(to, each).unwrap_or_default();
    Ok(Measured { median_us: at(50), p99_us: at(99), mib_per_second })
}

/// The times of all round trips; one that never came back counts as [`LONGEST`].
fn round_trips(to: SocketAddr, time: Duration) -> Result<Vec<f64>> {
    let mut stream = connect(to, Test::Rtt, SMALL)?;
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < time {
        let sent = Instant::now();
        let answered = stream
            .write_all(&[0xa5; SMALL as usize])
            .and_then(|()| stream.read_exact(&mut [0; 4]))
            .is_ok();
        times.push(if answered { sent.elapsed() } else { LONGEST }.as_secs_f64() * 1e6);
        if !answered {
            break;
        }
    }
    Ok(times)
}

fn received(to: SocketAddr, time: Duration) -> Result<f64> {
    let mut stream = connect(to, Test::Receive, LARGE)?;
    let mut bytes = vec![0; LARGE as usize];
    let (begun, mut all) = (Instant::now(), 0);
    while begun.elapsed() < time {
        match stream.read(&mut bytes) {
            Ok(len @ 1..) => all += len,
            _ => break,
        }
    }
    Ok(all as f64 / f64::from(1 << 20) / begun.elapsed().as_secs_f64())
}

//! A program with many connections, for `tasuki lab scale`. It goes from one phase to the next when
//! a line comes on its standard input, and prints a line when it is there. So whoever started it
//! can look at its processes between two phases.
//!
//! | phase | line |
//! |---|---|
//! | one connection is open, and one request on it was answered | `began` |
//! | the same of all connections | `connected` |
//! | round trips are measured, and all connections are closed | the result, JSON |
//!
//! Connections end by a reset, so none is in TIME-WAIT when the next program begins.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use socket2::SockRef;

use crate::median::median;
use crate::protocol::{Order, Test, warm_up_of};

/// Bytes of a request.
const REQUEST: usize = 64;
/// No answer for so long: something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);
/// Descriptors that a program needs besides those of its connections.
const OTHERS: u64 = 64;

/// Its words.
#[derive(Args)]
pub(crate) struct ManyConnectionsArgs {
    /// The server.
    #[arg(long)]
    connect: SocketAddr,
    /// Connections.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Round trips on one connection, and at least so many over all in turn.
    #[arg(long, default_value_t = 1000)]
    count: u32,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ManyConnections {
    /// Median round trip on one connection while the others are idle, microseconds.
    pub(crate) one_us: f64,
    /// Round trips a second, over all connections in turn.
    pub(crate) in_turn: f64,
}

/// Raises this process's limit of descriptors for so many connections. Root also raises the hard
/// limit.
///
/// # Errors
/// A sentence with the limit, if that is too low.
pub(crate) fn allow_connections(count: u64) -> Result<()> {
    let wanted = count + OTHERS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let maximum = maximum.map(|maximum| maximum.max(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).with_context(|| {
        format!("{count} connections need {wanted} descriptors: raise the limit (`ulimit -Hn`)")
    })
}

/// From phase to phase.
pub(crate) fn run(args: &ManyConnectionsArgs) -> Result<()> {
    allow_connections(args.connections.into())?;
    let mut streams = vec![open(args.connect).context("the first connection")?];
    println!("began");
    next_phase()?;
    for number in 1..args.connections {
        let stream = open(args.connect);
        streams.push(stream.with_context(|| format!("connection {}", number + 1))?);
    }
    println!("connected");
    next_phase()?;
    let found = measure(&mut streams, args.count)?;
    drop(streams);
    // The instance may end with this program. This answer comes behind all resets.
    drop(open(args.connect)?);
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

/// Waits for the line.
fn next_phase() -> Result<()> {
    let read = io::stdin().lock().read_line(&mut String::new())?;
    ensure!(read > 0, "the program that measures has ended");
    Ok(())
}

fn open(to: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    Order { test: Test::Rtt, pause: 0, size: REQUEST as u32, total: u64::MAX }
        .write(&mut stream)?;
    round_trip(&mut stream)?;
    Ok(stream)
}

fn round_trip(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(&[0xa5; REQUEST])?;
    stream.read_exact(&mut [0; 4])
}

fn measure(streams: &mut [TcpStream], count: u32) -> Result<ManyConnections> {
    let one = streams.first_mut().context("a connection")?;
    let mut times = Vec::new();
    let warm_up = warm_up_of(count);
    for round in 0..count + warm_up {
        let began = Instant::now();
        round_trip(one)?;
        if round >= warm_up {
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    let all = streams.len().max(count as usize);
    let began = Instant::now();
    for at in 0..all {
        let turn = at % streams.len();
        round_trip(&mut streams[turn])?;
    }
    let in_turn = all as f64 / began.elapsed().as_secs_f64();
    Ok(ManyConnections { one_us: median(times).context("round trips")?, in_turn })
}

//! The clients of `hops` and `stages`: programs that do one operation again and again.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use sockets::{CallBatch, Request, Wait};

use crate::median::median;
use crate::protocol::{Order, Test};

/// Milliseconds: long enough for everybody to have gone to sleep again.
pub(crate) const PAUSE: u8 = 2;
/// Where `accepting` listens.
pub(crate) const LISTENS: u16 = 5203;

/// A client that sends or receives, and pauses.
#[derive(Args)]
pub(crate) struct PacedArgs {
    #[arg(long)]
    connect: SocketAddr,
    #[arg(long)]
    size: u32,
    #[arg(long)]
    count: u32,
    /// The server sends, and pauses.
    #[arg(long)]
    receive: bool,
    /// Print the median time of a send's system call, nanoseconds.
    #[arg(long, conflicts_with = "receive")]
    timed: bool,
}

/// Sends (receives) `count` times, with a pause after each.
pub(crate) fn paced(args: &PacedArgs) -> Result<()> {
    let mut stream = TcpStream::connect(args.connect)?;
    stream.set_nodelay(true)?;
    let (size, total) = (args.size, u64::from(args.size) * u64::from(args.count));
    let mut bytes = vec![0xa5; size as usize];
    if args.receive {
        Order { test: Test::Receive, pause: PAUSE, size, total }.write(&mut stream)?;
        while stream.read(&mut bytes)? > 0 {}
        return Ok(());
    }
    Order { test: Test::Send, pause: 0, size, total }.write(&mut stream)?;
    let mut times = Vec::new();
    for _ in 0..args.count {
        let began = Instant::now();
        stream.write_all(&bytes)?;
        times.push(began.elapsed().as_secs_f64() * 1e9);
        std::thread::sleep(Duration::from_millis(PAUSE.into()));
    }
    stream.read_exact(&mut [0; 4])?;
    if args.timed {
        println!("{}", median(times).context("no sends")?);
    }
    Ok(())
}

/// A program that sends datagrams.
#[derive(Args)]
pub(crate) struct DatagramsArgs {
    #[arg(long)]
    connect: SocketAddr,
    #[arg(long)]
    size: usize,
    #[arg(long)]
    count: u32,
    /// Pause after each.
    #[arg(long)]
    paced: bool,
}

/// Sends `count` datagrams and says how many that were in a second.
pub(crate) fn datagrams(args: &DatagramsArgs) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(args.connect)?;
    let bytes = vec![0xa5; args.size];
    // The first one waits for its way to be found.
    socket.send(&bytes)?;
    let begun = Instant::now();
    for _ in 0..args.count {
        socket.send(&bytes)?;
        if args.paced {
            std::thread::sleep(Duration::from_millis(PAUSE.into()));
        }
    }
    println!("{:.0} datagrams/s", f64::from(args.count) / begun.elapsed().as_secs_f64());
    Ok(())
}

/// A program that accepts connections and closes them, or its peer.
#[derive(Args)]
pub(crate) struct AcceptArgs {
    #[arg(long)]
    connect: SocketAddr,
    #[arg(long)]
    count: u32,
}

/// Accepts `count` connections and closes each.
pub(crate) fn accepting(args: &AcceptArgs) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, LISTENS))?;
    for _ in 0..args.count {
        drop(listener.accept()?);
    }
    Ok(())
}

/// The peer of [`accepting`]: one connection after the other, until the end of each.
pub(crate) fn dialing(args: &AcceptArgs) -> Result<()> {
    let begun = Instant::now();
    for _ in 0..args.count {
        let mut stream = loop {
            match TcpStream::connect(args.connect) {
                // It may not listen yet.
                Err(_) if begun.elapsed() < Duration::from_secs(10) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => break other.context("connecting to the program that accepts")?,
            }
        };
        stream.read_to_end(&mut Vec::new())?;
    }
    Ok(())
}

/// A program that makes null calls.
#[derive(Args)]
pub(crate) struct NullsArgs {
    #[arg(long)]
    connect: SocketAddr,
    #[arg(long)]
    count: u32,
    /// Calls that travel together.
    #[arg(long)]
    together: u32,
}

/// Makes `count` null calls, `together` at a time.
pub(crate) fn nulls(args: &NullsArgs) -> Result<()> {
    let client = sockets::instance()?;
    let mut batch = CallBatch::with_threshold(&client, args.together)?;
    let mut left = args.count;
    while left > 0 {
        let now = left.min(args.together.max(1));
        for _ in 0..now {
            batch.submit(Request::null())?;
        }
        batch.wait_for(now, Wait::Forever)?;
        while let Some(over) = batch.fetch() {
            over.result?;
        }
        left -= now;
    }
    Ok(())
}

//! A connection that two processes use in turn, a round trip each. On Tasuki it moves to the one
//! that uses it. The other process is this very program, and inherits the connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Instant;

use clap::Args;

/// The other process. Its standard input is the connection, its standard output a Unix socket to
/// the first.
#[derive(Args)]
pub(crate) struct TurnsArgs {
    #[arg(long)]
    size: usize,
}

/// Microseconds of each turn, `count` of them by this process and as many by another one. A turn is
/// a round trip, and the message that says whose turn is next.
///
/// # Errors
/// Those of the connection, and of starting the other process.
pub(crate) fn times(mut stream: TcpStream, size: usize, count: u32) -> io::Result<Vec<f64>> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut other = Command::new(std::env::current_exe()?)
        .args(["take-turns", "--size", &size.to_string()])
        .stdin(OwnedFd::from(stream.try_clone()?))
        .stdout(OwnedFd::from(theirs))
        .spawn()?;
    let mut times = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        ours.write_all(&[0])?;
        ours.read_exact(&mut [0])?;
        round_trip(&mut stream, size)?;
        times.push(began.elapsed().as_secs_f64() * 1e6 / 2.0);
    }
    drop(ours);
    other.wait()?;
    Ok(times)
}

/// Takes its turns until the first process closes its end.
pub(crate) fn take(args: &TurnsArgs) -> anyhow::Result<()> {
    let mut stream = TcpStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut first = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    while first.read(&mut [0])? > 0 {
        round_trip(&mut stream, args.size)?;
        first.write_all(&[0])?;
    }
    Ok(())
}

fn round_trip(stream: &mut TcpStream, size: usize) -> io::Result<()> {
    stream.write_all(&vec![0xa5; size])?;
    stream.read_exact(&mut [0; 4])
}

//! The measured end. It uses nothing but `std::net`, so the same program runs on the kernel's stack
//! and on Tasuki. A peer stack that is a library brings its own [`Connect`], and so does Tasuki's
//! native API.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::args::{ClientArgs, Congestion};
use crate::native::Native;
use crate::protocol::{Order, Test, warm_up_of};
use crate::row::{Sample, TripDetails};
use crate::smoltcp_peer::Smoltcp;
use crate::transport::{Bulk, Connect, MOST_READ, TransferUnit};
use crate::turns;

/// Seconds of a measurement of goodput without `--most-seconds`.
const GOODPUT_SECONDS: f64 = 4.0;
/// How long the answer of such a measurement may be late: retransmissions have long timeouts.
const GOODPUT_PATIENCE: Duration = Duration::from_secs(20);

/// What a client says that waits for a word to begin.
pub(crate) const STANDS: &str = "the connection stands";

/// Whatever `std::net` is on.
struct Std<'a> {
    /// For bytes in bulk.
    congestion: Option<&'a Congestion>,
}

impl Connect for Std<'_> {
    type Stream = TcpStream;

    /// The congestion control is set before the handshake. A kernel with BBR as default begins to
    /// pace a connection when it is established, and goes on after a change to CUBIC.
    fn connect(&mut self, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        self.congestion.map_or(Ok(()), |congestion| congestion.set(&socket))?;
        socket.connect(&to.into())?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Congestion {
    /// Sets the congestion control. The error names the sysctl that lists the system's.
    pub(crate) fn set(&self, socket: &impl AsFd) -> io::Result<()> {
        let name = &self.congestion;
        SockRef::from(socket).set_tcp_congestion(name.as_bytes()).map_err(|error| {
            let see = "sysctl net.ipv4.tcp_available_congestion_control";
            io::Error::new(error.kind(), format!("congestion control {name}: {error}; see `{see}`"))
        })
    }
}

/// Measure each size and print a line for it.
pub(crate) fn run(args: &ClientArgs) -> anyhow::Result<()> {
    match &args.smoltcp {
        Some(tap) => measure(args, &mut Smoltcp::open(tap)?),
        None if args.native => measure(args, &mut Native),
        None => {
            let in_bulk = matches!(args.test, Test::Send | Test::Receive | Test::Goodput);
            let mut stack = Std { congestion: in_bulk.then_some(&args.congestion) };
            match args.test {
                Test::Turns => turns(args, &mut stack),
                Test::Goodput => goodput(args, &mut stack),
                _ => measure(args, &mut stack),
            }
        }
    }
}

fn measure(args: &ClientArgs, stack: &mut impl Connect) -> anyhow::Result<()> {
    for &size in &args.size {
        let sample = match args.test {
            Test::Send | Test::Receive => stream(args, stack, size)?,
            Test::Rtt => round_trips(args, stack, size)?,
            Test::Connect => connections(args, stack, size)?,
            Test::Turns => anyhow::bail!("two processes share sockets of the POSIX calls only"),
            Test::Goodput => anyhow::bail!("goodput is measured by the POSIX calls only"),
        };
        println!("{}", serde_json::to_string(&sample)?);
    }
    Ok(())
}

/// The connection of two processes.
fn turns(args: &ClientArgs, stack: &mut Std<'_>) -> anyhow::Result<()> {
    for &size in &args.size {
        let stream = start(args, stack, size, 2 * u64::from(args.count))?;
        let times = turns::times(stream, size as usize, args.count)?;
        println!("{}", serde_json::to_string(&summary(args.test, size, times))?);
    }
    Ok(())
}

/// Writes for a time on each connection. A second thread does it, since a write may wait for longer
/// than the answer. The connection ends by a reset, so nothing of it is sent any more.
fn goodput(args: &ClientArgs, stack: &mut Std<'_>) -> anyhow::Result<()> {
    let time = Duration::from_secs_f64(args.most_seconds.unwrap_or(GOODPUT_SECONDS));
    for &size in &args.size {
        let stream = Arc::new(start(args, stack, size, time.as_millis() as u64)?);
        SockRef::from(&*stream).set_linger(Some(Duration::ZERO))?;
        let (writer, buffer) = (Arc::clone(&stream), vec![0xa5; size as usize]);
        std::thread::spawn(move || while (&*writer).write_all(&buffer).is_ok() {});
        stream.set_read_timeout(Some(time + GOODPUT_PATIENCE))?;
        let mut bytes = [0; 8];
        (&*stream).read_exact(&mut bytes)?;
        let rate = u64::from_le_bytes(bytes) as f64 / f64::from(1 << 20) / time.as_secs_f64();
        println!("{}", serde_json::to_string(&Sample::of_rate(args.test, size, rate))?);
        // The writer finds it closed.
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
    Ok(())
}

fn start<C: Connect>(
    args: &ClientArgs,
    stack: &mut C,
    size: u32,
    total: u64,
) -> io::Result<C::Stream> {
    let mut stream = stack.connect(args.connect)?;
    if args.wait {
        println!("{STANDS}");
        io::stdin().lock().read_line(&mut String::new())?;
    }
    Order { test: args.test, pause: 0, size, total }.write(&mut stream)?;
    Ok(stream)
}

fn stream(args: &ClientArgs, stack: &mut impl Connect, size: u32) -> io::Result<Sample> {
    let unit = TransferUnit { bytes: size as usize, pieces: args.pieces.map_or(1, usize::from) };
    // Small writes are slow everywhere: a quarter of the bytes is measurement enough.
    let total = if unit.all() < 4096 { args.bytes / 4 } else { args.bytes };
    // Where the units of this end are asked about, those of the other end are no bound.
    let theirs = if args.pieces.is_some() { unit.all().max(MOST_READ) } else { unit.all() };
    let mut stream = start(args, stack, theirs as u32, total)?;
    let began = Instant::now();
    if args.test == Test::Send {
        stream.write_bulk(unit, total)?;
        stream.read_exact(&mut [0; 4])?;
    } else {
        stream.read_bulk(unit, total)?;
    }
    let rate = total as f64 / f64::from(1 << 20) / began.elapsed().as_secs_f64();
    Ok(Sample::of_rate(args.test, size, rate))
}

/// Round trips, after a tenth as many to warm up. They take a tenth of the most time at most, so
/// hosts that are slow have as large a part that counts.
fn round_trips(args: &ClientArgs, stack: &mut impl Connect, size: u32) -> io::Result<Sample> {
    let most_warm_up = warm_up_of(args.count);
    let mut stream = start(args, stack, size, u64::from(args.count + most_warm_up))?;
    let request = vec![0xa5; size as usize];
    let mut times = Vec::with_capacity(args.count as usize);
    let (mut answer, mut one_read) = ([0; 4], 0);
    let mut trip = || -> io::Result<(f64, bool)> {
        let began = Instant::now();
        stream.write_all(&request)?;
        stream.read_exact(&mut answer)?;
        Ok((began.elapsed().as_secs_f64() * 1e6, u32::from_le_bytes(answer) == 1))
    };
    let (all, most) = (Instant::now(), args.most_seconds.unwrap_or(f64::INFINITY));
    let mut warm_up = 0;
    while warm_up < most_warm_up && all.elapsed().as_secs_f64() < most / 10.0 {
        trip()?;
        warm_up += 1;
    }
    while times.len() < args.count as usize {
        let (time, in_one_read) = trip()?;
        times.push(time);
        one_read += u32::from(in_one_read);
        if all.elapsed().as_secs_f64() > most {
            break;
        }
    }
    let trips = Some(TripDetails::new(&times, one_read, warm_up));
    Ok(Sample { trips, ..summary(args.test, size, times) })
}

/// Connections, after a tenth as many to warm up.
fn connections(args: &ClientArgs, stack: &mut impl Connect, size: u32) -> io::Result<Sample> {
    let request = vec![0xa5; size as usize];
    let mut times = Vec::with_capacity(args.count as usize);
    let warm_up = warm_up_of(args.count);
    for number in 0..args.count + warm_up {
        let began = Instant::now();
        let mut stream = start(args, stack, size, 1)?;
        stream.write_all(&request)?;
        stream.read_exact(&mut [0; 4])?;
        drop(stream);
        if number >= warm_up {
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(summary(args.test, size, times))
}

fn summary(test: Test, size: u32, mut times: Vec<f64>) -> Sample {
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times.get(times.len() * share / 100).copied();
    let rate = times.len() as f64 * 1e6 / times.iter().sum::<f64>();
    Sample { median_us: at(50), p99_us: at(99), ..Sample::of_rate(test, size, rate) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that was established with another control may keep that one's pacing.
    #[test]
    fn the_congestion_control_is_set_before_the_handshake() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let to = listener.local_addr().unwrap();
        let unknown = Congestion { congestion: "no-such".to_owned() };
        Std { congestion: Some(&unknown) }.connect(to).unwrap_err();
        let accepted = listener.accept().map(|_| ());
        assert_eq!(accepted.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

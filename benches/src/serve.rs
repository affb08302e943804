//! The other end. It obeys the order that comes first on each connection. It is a program on the
//! kernel's stack, or over a wire on Tasuki's, by POSIX calls or by the native API.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use crate::args::ServeArgs;
use crate::many_connections::allow_connections;
use crate::protocol::{Order, Test};
use crate::transport::{Bulk, MOST_READ, TransferUnit};

/// Connections at once, at most.
const MOST_CONNECTIONS: u64 = 10_000;

/// Serve until killed, one thread per connection.
pub(crate) fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    // With less, as many as are allowed.
    let _ = allow_connections(MOST_CONNECTIONS);
    if args.native {
        let listener = sockets::TcpListener::bind(args.bind)?;
        println!("{}", listener.local_addr()?);
        serve_all(|| {
            let stream = listener.accept()?.0;
            stream.set_nodelay(true).map(|()| stream)
        })
    } else {
        let listener = std::net::TcpListener::bind(args.bind)?;
        args.congestion.set(&listener)?;
        let datagrams = std::net::UdpSocket::bind(args.bind)?;
        println!("{}", listener.local_addr()?);
        // Connections that nobody accepts: the kernel receives until their windows are closed.
        let silent = std::net::SocketAddr::new(args.bind.ip(), args.bind.port() + 7);
        let _silent = std::net::TcpListener::bind(silent)?;
        // The datagrams are only taken, so that no client gets a "port unreachable".
        thread::spawn(move || while datagrams.recv(&mut [0; 1 << 16]).is_ok() {});
        serve_all(|| {
            let stream = listener.accept()?.0;
            stream.set_nodelay(true).map(|()| stream)
        })
    }
}

fn serve_all<S: Bulk + Send + 'static>(accept: impl Fn() -> io::Result<S>) -> anyhow::Result<()> {
    loop {
        let stream = accept()?;
        thread::spawn(move || {
            if let Err(error) = obey(stream)
                && !matches!(
                    error.kind(),
                    // The client has what it came for.
                    io::ErrorKind::UnexpectedEof
                        | io::ErrorKind::BrokenPipe
                        | io::ErrorKind::ConnectionReset
                )
            {
                eprintln!("tasuki-bench serve: {error}");
            }
        });
    }
}

fn obey(mut stream: impl Bulk) -> io::Result<()> {
    let order = Order::read(&mut stream)?;
    let size = order.size as usize;
    match order.test {
        Test::Send => {
            stream.read_bulk(TransferUnit::whole(size.max(MOST_READ)), order.total)?;
            stream.write_all(&[0; 4])
        }
        Test::Receive if order.pause > 0 => {
            for _ in 0..order.total / u64::from(order.size) {
                stream.write_all(&vec![0xa5; size])?;
                thread::sleep(Duration::from_millis(order.pause.into()));
            }
            Ok(())
        }
        Test::Receive => stream.write_bulk(TransferUnit::whole(size), order.total),
        Test::Goodput => count_for(&mut stream, Duration::from_millis(order.total)),
        Test::Rtt | Test::Connect | Test::Turns => {
            let mut request = vec![0; size];
            for _ in 0..order.total {
                let reads = read_counted(&mut stream, &mut request)?;
                stream.write_all(&reads.to_le_bytes())?;
            }
            Ok(())
        }
    }
}

/// Counts the bytes that come in this time, and tells. The rest is read for nothing until the
/// client has gone, so that a closed window never holds the answer back.
fn count_for(stream: &mut (impl Read + Write), time: Duration) -> io::Result<()> {
    let mut buffer = vec![0; MOST_READ];
    let (began, mut all) = (Instant::now(), 0_u64);
    loop {
        let now = stream.read(&mut buffer)?;
        if began.elapsed() > time {
            break;
        }
        if now == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        all += now as u64;
    }
    stream.write_all(&all.to_le_bytes())?;
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Reads the whole request, and tells with how many reads.
fn read_counted(stream: &mut impl Read, request: &mut [u8]) -> io::Result<u32> {
    let (mut done, mut reads) = (0, 0);
    while done < request.len() {
        match stream.read(&mut request[done..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(now) => (done, reads) = (done + now, reads + 1),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(reads)
}

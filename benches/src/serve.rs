//! The kernel-side end: obeys the order that comes first on each connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::protocol::{Order, Test};

/// Serve until killed, one thread per connection.
pub(crate) fn serve(bind: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(bind)?;
    println!("{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || {
            if let Err(error) = obey(stream)
                && error.kind() != io::ErrorKind::UnexpectedEof
            {
                eprintln!("tasuki-bench serve: {error}");
            }
        });
    }
    Ok(())
}

fn obey(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let order = Order::read(&mut stream)?;
    let mut buffer = vec![0x5a; (order.size as usize).max(256 << 10)];
    match order.test {
        Test::Send => {
            let mut left = order.total;
            while left > 0 {
                let n = stream.read(&mut buffer)?;
                if n == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                left = left.saturating_sub(n as u64);
            }
            stream.write_all(&[0; 4])
        }
        Test::Receive => {
            let mut left = order.total;
            while left > 0 {
                let n = left.min(u64::from(order.size));
                stream.write_all(&buffer[..usize::try_from(n).unwrap_or(usize::MAX)])?;
                left -= n;
            }
            Ok(())
        }
        Test::Rtt | Test::Connect => {
            for _ in 0..order.total {
                stream.read_exact(&mut buffer[..order.size as usize])?;
                stream.write_all(&[0; 4])?;
            }
            Ok(())
        }
    }
}

//! What a client can do with sockets alone.

use std::io::Write as _;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use sockets::{CallBatch, Client, Request, TcpListener, TcpStream, UdpSocket, Wait};

use super::kind::Kind;
use super::program::{WorstArgs, begun, forever};
use crate::protocol::{Order, Test};

/// Sockets that a client holds: most of the 1,024 that it may have.
const MANY: usize = 1000;
/// Clients of one process.
const CLIENTS: usize = 16;
/// Where floods from the host go to.
pub(super) const FLOODED: u16 = 5204;

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

pub(super) fn run(args: &WorstArgs) -> Result<()> {
    match args.kind {
        Kind::CallFlood => call_flood(),
        Kind::SocketChurn => {
            begun();
            forever(|| Ok(UdpSocket::bind((ANY, 0))?))
        }
        Kind::RefusedConnects => {
            begun();
            let nobody = SocketAddr::new(args.connect.ip(), 1);
            forever(|| {
                // A refusal is what this is about.
                let _ = TcpStream::connect(nobody);
                Ok(())
            })
        }
        Kind::PortsHeld => ports_held(args),
        Kind::TimeWaitFlood => {
            begun();
            forever(|| Ok(TcpStream::connect(args.connect)?))
        }
        Kind::DatagramFlood => {
            let socket = UdpSocket::bind((ANY, 0))?;
            socket.connect(args.connect)?;
            begun();
            forever(|| Ok(socket.send(&[1; 1400])?))
        }
        Kind::TinySends => {
            let mut stream = sender(args.connect, 1)?;
            stream.set_nodelay(true)?;
            begun();
            forever(|| Ok(stream.write_all(&[1])?))
        }
        Kind::BulkSends => bulk_sends(args),
        Kind::BacklogFlood => backlog_flood(args),
        Kind::TimerFlood => timer_flood(args),
        Kind::PollStorm => poll_storm(),
        Kind::UnreadDatagrams => unread_datagrams(args),
        Kind::UnreadStreams => unread_streams(args),
        Kind::ZeroWindowOrphans => orphans(args),
        Kind::GroupChurn => group_churn(args),
        _ => shutdown_loop(args),
    }
}

fn idle() -> Result<()> {
    begun();
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// A stream on which the server takes everything.
fn sender(to: SocketAddr, size: u32) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(to)?;
    Order { test: Test::Send, pause: 0, size, total: u64::MAX }.write(&mut stream)?;
    Ok(stream)
}

fn call_flood() -> Result<()> {
    let client = sockets::instance()?;
    let mut batch = CallBatch::with_threshold(&client, 256)?;
    begun();
    forever(|| {
        for _ in 0..256 {
            batch.submit(Request::null())?;
        }
        batch.wait_for(256, Wait::Forever)?;
        while batch.fetch().is_some() {}
        Ok(())
    })
}

/// Two processes bind all that they may; then connects fail again and again.
fn ports_held(args: &WorstArgs) -> Result<()> {
    let mut held = Vec::new();
    for _ in 0..CLIENTS {
        let Ok(client) = Client::connect(&args.socket) else { break };
        for _ in 0..MANY {
            match TcpListener::bind_via(&client, (ANY, 0)) {
                Ok(listener) => held.push(listener),
                Err(_) => break,
            }
        }
    }
    // The second process holds what it gets, and says so; the first connects.
    if std::env::var_os(SECOND).is_some() {
        return idle();
    }
    let mut second = std::process::Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(SECOND, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let said = second.stdout.as_mut().context("its output")?;
    std::io::Read::read_exact(said, &mut [0; 5])?;
    begun();
    forever(|| {
        for _ in 0..256 {
            // That it fails is what this is about.
            let _ = TcpStream::connect(args.connect);
        }
        Ok(())
    })
}

/// Set in the second process of [`ports_held`].
const SECOND: &str = "TASUKI_BENCH_SECOND";

fn bulk_sends(args: &WorstArgs) -> Result<()> {
    for _ in 0..4 {
        let mut stream = sender(args.connect, 1 << 16)?;
        std::thread::spawn(move || {
            let bytes = vec![1; 1 << 16];
            while stream.write_all(&bytes).is_ok() {}
        });
    }
    idle()
}

fn backlog_flood(args: &WorstArgs) -> Result<()> {
    let _listener = TcpListener::bind((ANY, FLOODED))?;
    // The other end is the kernel's, which has its own sockets.
    let to = SocketAddr::new(args.stack.ip(), FLOODED);
    for _ in 0..2 {
        std::thread::spawn(move || {
            forever(|| Ok(std::net::TcpStream::connect_timeout(&to, Duration::from_millis(50))?))
        });
    }
    idle()
}

fn timer_flood(args: &WorstArgs) -> Result<()> {
    let SocketAddr::V4(peer) = args.connect else { anyhow::bail!("an IPv4 address") };
    let client = sockets::instance()?;
    begun();
    let mut kept = std::collections::VecDeque::new();
    let mut host = 0_u8;
    forever(|| {
        host = host.wrapping_add(1).max(3);
        let [a, b, c, _] = peer.ip().octets();
        let socket = client.socket(sockets::Family::V4, sockets::SocketKind::Stream)?;
        let to = SocketAddr::from(([a, b, c, host], 80));
        // The attempt goes on while nobody waits for it.
        let _ = socket.connect(to, Wait::No);
        kept.push_back(socket);
        if kept.len() >= MANY {
            kept.pop_front();
        }
        Ok(())
    })
}

fn poll_storm() -> Result<()> {
    let all: Vec<UdpSocket> =
        (0..MANY).map(|_| UdpSocket::bind((ANY, 0))).collect::<Result<_, _>>()?;
    for socket in &all {
        socket.set_nonblocking(true)?;
    }
    begun();
    loop {
        for socket in &all {
            // There is never anything.
            let _ = socket.recv(&mut [0; 16]);
        }
    }
}

fn unread_datagrams(args: &WorstArgs) -> Result<()> {
    let all: Vec<UdpSocket> =
        (0..200).map(|n| UdpSocket::bind((ANY, FLOODED + n))).collect::<Result<_, _>>()?;
    let host = std::net::UdpSocket::bind((ANY, 0))?;
    begun();
    let bytes = [1; 1400];
    loop {
        for port in 0..200 {
            let _ = host.send_to(&bytes, (args.stack.ip(), FLOODED + port));
        }
        let _held = &all;
    }
}

fn unread_streams(args: &WorstArgs) -> Result<()> {
    let mut all = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(args.connect)?;
        let order = Order { test: Test::Receive, pause: 0, size: 1 << 16, total: u64::MAX };
        order.write(&mut stream)?;
        all.push(stream);
    }
    idle()
}

/// Connections to a server that accepts nothing: filled, closed, and made anew.
fn orphans(args: &WorstArgs) -> Result<()> {
    begun();
    let mut kept = 0;
    forever(|| {
        let mut stream = TcpStream::connect(args.silent)?;
        stream.set_nonblocking(true)?;
        let bytes = [1; 1 << 16];
        for _ in 0..64 {
            if stream.write(&bytes).is_err() {
                break;
            }
        }
        kept += 1;
        if kept > MANY {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    })
}

fn shutdown_loop(args: &WorstArgs) -> Result<()> {
    let mut stream = sender(args.silent, 1)?;
    stream.set_nonblocking(true)?;
    begun();
    loop {
        // Nothing of this has to succeed.
        let _ = stream.write(&[1; 100]);
        let _ = stream.shutdown(Shutdown::Read);
    }
}

/// Linux's numbers.
const IPPROTO_IP: i32 = 0;
const IP_ADD_MEMBERSHIP: i32 = 35;
const IP_DROP_MEMBERSHIP: i32 = 36;

/// Four thousand sockets are members of a group; then one of them leaves and joins. They are
/// members of as many other groups as they get, too.
fn group_churn(args: &WorstArgs) -> Result<()> {
    let SocketAddr::V4(stack) = args.stack else { anyhow::bail!("an IPv4 address") };
    // As `struct ip_mreq`: the group and the interface.
    let membership = |group: [u8; 4]| [group, stack.ip().octets()].concat();
    let one = membership([239, 1, 1, 1]);
    let mut all = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let Ok(client) = Client::connect(&args.socket) else { break };
        for n in 0..MANY {
            let socket = client.socket(sockets::Family::V4, sockets::SocketKind::Datagram)?;
            socket.set_option(IPPROTO_IP, IP_ADD_MEMBERSHIP, &one)?;
            // The share ends somewhere.
            let other = membership([239, 2, clients.len() as u8, n as u8]);
            let _ = socket.set_option(IPPROTO_IP, IP_ADD_MEMBERSHIP, &other);
            all.push(socket);
        }
        clients.push(client);
    }
    let socket = all.first().context("a socket")?;
    begun();
    forever(|| {
        socket.set_option(IPPROTO_IP, IP_DROP_MEMBERSHIP, &one)?;
        Ok(socket.set_option(IPPROTO_IP, IP_ADD_MEMBERSHIP, &one)?)
    })
}

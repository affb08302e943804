//! What a client can do to the supervisor, and with its own region and bells. Three kinds are an
//! operator's, whose socket programs are not given.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use abi::client::REQUESTS;
use abi::control::ClientRequest;
use anyhow::Result;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use shm::Producer;

use super::kind::Kind;
use super::member::{Member, ask, attach, connect};
use super::program::{WorstArgs, begun, forever};

/// Connections of which `ss` tells.
const CONNECTIONS: usize = 1000;
/// Clients of one process.
const CLIENTS: usize = 16;

pub(super) fn run(args: &WorstArgs) -> Result<()> {
    let socket = &args.socket;
    match args.kind {
        Kind::BellFlood => {
            let member = Member::admit(socket)?;
            begun();
            loop {
                member.ring();
            }
        }
        Kind::DirtyFlood => {
            let member = Member::admit(socket)?;
            let head = member.layout.head(&member.region)?;
            begun();
            loop {
                for socket in 0..member.layout.params.sockets {
                    head.dirty.set(socket);
                }
                member.ring();
            }
        }
        Kind::ClientBomb => client_bomb(socket),
        Kind::FaultLoop => {
            begun();
            forever(|| fault(socket))
        }
        Kind::LingeringBell => {
            let member = Member::admit(socket)?;
            begun();
            forever(|| {
                send_descriptor(member.thread_bell.as_fd(), &lingering()?)?;
                std::thread::sleep(Duration::from_millis(20));
                Ok(())
            })
        }
        Kind::LingeringControl => {
            begun();
            forever(|| {
                let line = UnixStream::connect(socket)?;
                send_descriptor(line.as_fd(), &lingering()?)?;
                std::thread::sleep(Duration::from_millis(20));
                Ok(())
            })
        }
        Kind::SsFlood => ss_flood(args),
        Kind::CaptureReaders => capture_readers(&args.operator),
        Kind::DescriptorFlood => descriptor_flood(socket),
        Kind::ControlGarbage => {
            begun();
            forever(|| {
                let line = UnixStream::connect(socket)?;
                Ok(std::io::Write::write_all(&mut &line, &[b'x'; 64])?)
            })
        }
        _ => {
            let mut line = connect(&args.operator)?;
            begun();
            forever(|| {
                if ask(&mut line, &ClientRequest::Ps).is_err() {
                    line = connect(&args.operator)?;
                }
                Ok(())
            })
        }
    }
}

fn client_bomb(socket: &Path) -> Result<()> {
    begun();
    for _ in 1..Kind::ClientBomb.threads() {
        let socket = socket.to_owned();
        std::thread::spawn(move || forever(|| Member::admit(&socket)));
    }
    forever(|| Member::admit(socket))
}

/// One client that writes a slot which means nothing, and is dropped for it.
fn fault(socket: &Path) -> Result<()> {
    let mut member = Member::admit(socket)?;
    let at = member.layout.request_ring(member.thread);
    Producer::attach(&member.region, at, REQUESTS)?.push(&[u64::MAX; 8])?;
    member.ring();
    // The supervisor closes the connection.
    while matches!(member.control.recv(), Ok(Some(_))) {}
    Ok(())
}

/// A kernel socket whose close waits: its peer never takes what it has sent.
fn lingering() -> Result<OwnedFd> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let mut stream = std::net::TcpStream::connect(listener.local_addr()?)?;
    let accepted = listener.accept()?.0;
    stream.set_nonblocking(true)?;
    while matches!(std::io::Write::write(&mut stream, &[0; 1 << 16]), Ok(1..)) {}
    stream.set_nonblocking(false)?;
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(40)))?;
    // The peer's end lives as long as this process.
    std::mem::forget(accepted);
    Ok(stream.into())
}

fn send_descriptor(line: BorrowedFd<'_>, fd: &OwnedFd) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    let _ = control.push(SendAncillaryMessage::ScmRights(&fds));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    // An error says that the way is closed, which is fine.
    let _ = rustix::net::sendmsg(line, &[IoSlice::new(&[1])], &mut control, flags);
    Ok(())
}

fn ss_flood(args: &WorstArgs) -> Result<()> {
    let connections: Vec<_> = (0..CONNECTIONS)
        .map(|_| sockets::TcpStream::connect(args.silent))
        .collect::<Result<_, _>>()?;
    let mut line = connect(&args.operator)?;
    begun();
    let _held = connections;
    let mut from = 0;
    forever(|| {
        if ask(&mut line, &ClientRequest::Ss { info: true, from }).is_err() {
            line = connect(&args.operator)?;
        }
        from = (from + 256) % 1024;
        Ok(())
    })
}

fn capture_readers(socket: &Path) -> Result<()> {
    let mut held = Vec::new();
    for _ in 0..100 {
        // Where programs may not capture, or not so often, that is the answer.
        let Ok(mut line) = connect(socket) else { break };
        let request = ClientRequest::Capture { snaplen: 65_535, interface: None };
        if let Ok((_, message)) = ask(&mut line, &request) {
            held.push((line, message.fds));
        }
    }
    begun();
    loop {
        std::thread::sleep(Duration::from_secs(3600));
        let _ = &held;
    }
}

fn descriptor_flood(socket: &Path) -> Result<()> {
    let mut held = Vec::new();
    let mut bells = Vec::new();
    for _ in 0..CLIENTS {
        let Ok(mut member) = Member::admit(socket) else { break };
        while let Ok(thread) = attach(&mut member.control) {
            bells.push(thread);
        }
        held.push(member);
    }
    begun();
    forever(|| {
        let mut member = Member::admit(socket)?;
        while attach(&mut member.control).is_ok() {}
        let _ = (&held, &bells);
        Ok(())
    })
}

//! Descriptors of every kind, sent over every Unix socket of a client.

use std::fs::File;
use std::io::{IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{PidfdFlags, PidfdGetfdFlags};

use crate::member::Member;
use crate::random::Random;

/// A kernel socket whose close waits: it lingers for bytes that its peer never takes.
fn lingering() -> Option<OwnedFd> {
    let listener = TcpListener::bind("127.0.0.1:0").ok()?;
    let mut stream = TcpStream::connect(listener.local_addr().ok()?).ok()?;
    let accepted = listener.accept().ok()?.0;
    stream.set_nonblocking(true).ok()?;
    while matches!(stream.write(&[0; 65_536]), Ok(1..)) {}
    stream.set_nonblocking(false).ok()?;
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(40))).ok()?;
    // The peer lives in a thread that nobody ends but the process.
    std::thread::spawn(move || {
        let _held = accepted;
        std::thread::sleep(Duration::from_secs(60));
    });
    Some(stream.into())
}

/// Unix sockets that hold each other: only the kernel's collector ends them.
fn circle() -> Option<OwnedFd> {
    let (a, b) = UnixStream::pair().ok()?;
    let _ = send(a.as_fd(), b"x", &[a.as_fd(), b.as_fd()]);
    Some(a.into())
}

/// A pipe that is full.
fn full_pipe() -> Option<OwnedFd> {
    let (_reader, writer) = rustix::pipe::pipe().ok()?;
    Some(writer)
}

/// One descriptor, and its kind.
fn descriptor(random: &mut Random) -> (&'static str, Option<OwnedFd>) {
    use rustix::event::{EventfdFlags, epoll, eventfd};
    use rustix::fs::{MemfdFlags, memfd_create};
    match random.below(12) {
        0 | 1 => ("lingering", lingering()),
        2 => ("udp", UdpSocket::bind("127.0.0.1:0").ok().map(OwnedFd::from)),
        3 => ("memfd", memfd_create("fuzz", MemfdFlags::ALLOW_SEALING).ok()),
        4 => {
            let me = rustix::process::getpid();
            ("pidfd", rustix::process::pidfd_open(me, PidfdFlags::empty()).ok())
        }
        5 => ("epoll", epoll::create(epoll::CreateFlags::CLOEXEC).ok()),
        6 => {
            let ring = io_uring::IoUring::new(8).ok();
            ("io_uring", ring.and_then(|ring| duplicate(&ring)))
        }
        7 => ("file", File::open("/proc/self/exe").ok().map(OwnedFd::from)),
        8 => ("folder", File::open("/").ok().map(OwnedFd::from)),
        9 => ("circle", circle()),
        10 => ("pipe", full_pipe()),
        _ => ("eventfd", eventfd(7, EventfdFlags::SEMAPHORE).ok()),
    }
}

/// A descriptor of this process's, by its number.
fn duplicate(fd: &impl AsRawFd) -> Option<OwnedFd> {
    let me = rustix::process::getpid();
    let pidfd = rustix::process::pidfd_open(me, PidfdFlags::empty()).ok()?;
    rustix::process::pidfd_getfd(pidfd, fd.as_raw_fd(), PidfdGetfdFlags::empty()).ok()
}

fn send(line: BorrowedFd<'_>, body: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let _ = control.push(SendAncillaryMessage::ScmRights(fds));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(line, &[IoSlice::new(body)], &mut control, flags)
}

/// Sends some descriptors over the control connection, a fresh one or the bells. Returns what was
/// sent where, for the log.
pub(crate) fn pass(member: Option<&Member>, socket: &str, random: &mut Random) -> String {
    let fresh = UnixStream::connect(socket).ok();
    let mut lines: Vec<(&str, BorrowedFd<'_>)> = Vec::new();
    if let Some(member) = member {
        lines.push(("control", member.control.as_fd()));
        lines.push(("bell", member.bell.as_fd()));
        lines.extend(member.threads.iter().map(|thread| ("thread", thread.bell.as_fd())));
    }
    lines.extend(fresh.as_ref().map(|line| ("fresh", line.as_fd())));
    if lines.is_empty() {
        return "nowhere".to_owned();
    }
    let (name, line) = random.pick(&lines);
    let count = random.pick(&[1, 1, 1, 2, 8, 9, 60]);
    let (kind, first) = descriptor(random);
    let mut held: Vec<OwnedFd> = first.into_iter().collect();
    // The kernel refuses a message with an io_uring in it.
    let more = (1..count).map(|_| descriptor(random)).filter(|(kind, _)| *kind != "io_uring");
    held.extend(more.filter_map(|(_, fd)| fd));
    let fds: Vec<_> = held.iter().map(|fd| fd.as_fd()).collect();
    // A message that announces what it brings, or anything else.
    let body = match random.below(4) {
        0 => {
            let body = br#"{"request":"attach-thread"}"#;
            let len = u32::try_from(body.len()).unwrap_or_default().to_le_bytes();
            let fds = u32::try_from(count).unwrap_or_default().to_le_bytes();
            [&len[..], &fds[..], &body[..]].concat()
        }
        1 => {
            let fds = random.word(1) as u32;
            [100_u32.to_le_bytes(), fds.to_le_bytes()].concat()
        }
        2 => vec![0],
        _ => random.bytes(16),
    };
    let sent = send(line, &body, &fds);
    format!("{count} descriptors from {kind} on over {name}: {sent:?}")
}

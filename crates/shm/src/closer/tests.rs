use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::*;
use crate::Channel;
use crate::channel::ChannelError;

/// A connection whose close takes a minute, and its peer.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    let minute = Some(Duration::from_secs(60));
    rustix::net::sockopt::set_socket_linger(&ours, minute).unwrap();
    ours.set_nonblocking(true).unwrap();
    while ours.write(&[0; 1 << 16]).is_ok() {}
    (ours.into(), peer)
}

fn within_seconds(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts the thread with its timer. Each test does so first: the thread is made once.
fn begin() {
    interrupter::allow();
    start();
}

#[test]
fn a_lingering_close_is_interrupted() {
    begin();
    let begun = Instant::now();
    // Their owner chose a minute for each, and for those in a queue.
    let mut peers = Vec::new();
    for _ in 0..3 {
        let (ours, peer) = lingering();
        close(ours);
        peers.push(peer);
        let (mut line, queued) = Channel::pair().unwrap();
        let (ours, peer) = lingering();
        line.send(b"x", &[ours.as_fd()]).unwrap();
        close(ours);
        close(OwnedFd::from(queued));
        peers.push(peer);
    }
    within_seconds("all are closed", || Closer::here().waiting.load(Ordering::Relaxed) == 0);
    assert!(begun.elapsed() < Duration::from_secs(50), "no close took its minute");
    // What was queued is still sent.
    let mut rest = Vec::new();
    peers[0].read_to_end(&mut rest).unwrap();
    assert!(!rest.is_empty());
}

#[test]
fn descriptors_stay_in_the_queue_of_a_channel_that_is_to_bring_none() {
    begin();
    let (a, b) = UnixStream::pair().unwrap();
    let mut a = Channel::from_fd(a.into());
    // As a kernel before Linux 6.16 has it: the end cannot refuse what is queued.
    let fds = [crate::eventfd().unwrap(), crate::eventfd().unwrap()];
    a.send(b"fine", &[]).unwrap();
    let mut b = Channel::from_fd(b.into()).limited(100, 1).untrusted().limited(100, 0);
    assert_eq!(b.recv().unwrap().unwrap().body, b"fine");
    a.send(b"not fine", &[fds[0].as_fd(), fds[1].as_fd()]).unwrap();
    for _ in 0..2 {
        let refused = b.try_recv();
        assert!(
            matches!(refused, Err(ChannelError::Peer { what: "too many descriptors", .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_close_holds_up_only_the_thread() {
    begin();
    let (ours, mut peer) = lingering();
    let (a, mut b) = UnixStream::pair().unwrap();
    let begun = Instant::now();
    close(ours);
    drop(ClosedLater::new(a.into(), true));
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody waited");
    assert!(!is_behind());
    // The peer takes the data; so the close ends, and the next one is done.
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).unwrap();
    b.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(b.read(&mut [0]).unwrap(), 0);
}

#[test]
fn descriptors_of_an_untrusted_end_are_closed_by_the_thread() {
    begin();
    let (a, b) = UnixStream::pair().unwrap();
    let mut a = Channel::from_fd(a.into());
    let mut b = Channel::from_fd(b.into()).limited(100, 1);
    let (ours, peer) = lingering();
    let (other, _other_peer) = lingering();
    a.send(b"two are one too many", &[ours.as_fd(), other.as_fd()]).unwrap();
    drop((ours, other));
    // More lie in the socket's queue when it is closed.
    let (queued, _queued_peer) = lingering();
    a.send(b"more", &[queued.as_fd()]).unwrap();
    drop(queued);
    b = b.untrusted();
    let begun = Instant::now();
    assert!(matches!(b.try_recv(), Err(ChannelError::Peer { what: "too many descriptors", .. })));
    drop(b);
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody waited");
    drop(peer);
}

#[test]
fn an_end_that_refuses_descriptors_gets_none() {
    let (mut a, b) = Channel::pair().unwrap();
    let (mut b, fd) = (b.refusing(), crate::eventfd().unwrap());
    if crate::passing::takes_descriptors(&b) {
        // Before Linux 6.16.
        a.send(b"x", &[fd.as_fd()]).unwrap();
        assert!(b.try_recv().is_err());
        return;
    }
    assert!(matches!(
        a.send(b"x", &[fd.as_fd()]),
        Err(ChannelError::System(rustix::io::Errno::PERM))
    ));
    a.send(b"x", &[]).unwrap();
    assert_eq!(b.recv().unwrap().unwrap().body, b"x");
    // The other direction is open.
    b.send(b"y", &[fd.as_fd()]).unwrap();
    within_seconds("it comes", || matches!(a.try_recv(), Ok(crate::TryRecv::Message(_))));
}

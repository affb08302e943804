use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;

use super::*;

fn file(content: &[u8]) -> OwnedFd {
    let fd = rustix::fs::memfd_create("channel-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = File::from(fd);
    file.write_all(content).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.into()
}

fn content(fd: OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::from(fd).read_to_end(&mut bytes).unwrap();
    bytes
}

fn message(found: TryRecv) -> Message {
    match found {
        TryRecv::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

fn peer_fault(result: Result<TryRecv, ChannelError>) -> (&'static str, usize) {
    match result {
        Err(ChannelError::Peer { what, value }) => (what, value),
        other => panic!("{other:?}"),
    }
}

/// A channel and the bare socket at its other end.
fn bare() -> (OwnedFd, Channel) {
    let (a, b) = Channel::pair().unwrap();
    (a.into(), b)
}

fn head(len: u32, fds: u32) -> Vec<u8> {
    [len.to_le_bytes(), fds.to_le_bytes()].concat()
}

fn send_raw(to: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
    let data = [IoSlice::new(bytes)];
    let sent = rustix::net::sendmsg(to, &data, &mut control, SendFlags::empty()).unwrap();
    assert_eq!(sent, bytes.len());
}

#[test]
fn messages_arrive_one_by_one_with_their_descriptors() {
    let (mut a, mut b) = Channel::pair().unwrap();
    let (first, second) = (file(b"first"), file(b"second"));
    a.send(b"plain", &[]).unwrap();
    a.send(b"one", &[first.as_fd()]).unwrap();
    a.send(b"", &[]).unwrap();
    a.send(b"two", &[second.as_fd(), first.as_fd()]).unwrap();
    let expected: [(&[u8], &[&[u8]]); 4] =
        [(b"plain", &[]), (b"one", &[b"first"]), (b"", &[]), (b"two", &[b"second", b""])];
    for (body, files) in expected {
        let got = b.recv().unwrap().unwrap();
        assert_eq!(got.body, body);
        for fd in &got.fds {
            let flags = rustix::io::fcntl_getfd(fd).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        let files_got: Vec<_> = got.fds.into_iter().map(content).collect();
        // The second time the shared file offset is at its end.
        assert_eq!(files_got, files);
    }
    assert!(matches!(b.try_recv().unwrap(), TryRecv::Empty));
    drop(a);
    assert!(b.recv().unwrap().is_none());
    assert!(matches!(b.try_recv().unwrap(), TryRecv::Ended));
}

#[test]
fn a_message_may_come_in_single_bytes() {
    let (socket, mut channel) = bare();
    let fd = file(b"x");
    let bytes = [head(3, 1), b"abc".to_vec()].concat();
    for (n, byte) in bytes.iter().enumerate() {
        assert!(matches!(channel.try_recv().unwrap(), TryRecv::Empty), "byte {n}");
        let fds = if n == 0 { vec![fd.as_fd()] } else { vec![] };
        send_raw(&socket, &[*byte], &fds);
    }
    let got = message(channel.try_recv().unwrap());
    assert_eq!((got.body, got.fds.len()), (b"abc".to_vec(), 1));
}

#[test]
fn the_largest_message_passes_while_both_sides_block() {
    let (mut a, mut b) = Channel::pair().unwrap();
    let body: Vec<u8> = (0..MAX_BODY).map(|n| (n % 251) as u8).collect();
    let fds: Vec<OwnedFd> = (0..MAX_FDS).map(|n| file(&[n as u8])).collect();
    let sent = body.clone();
    let sender = std::thread::spawn(move || {
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        for _ in 0..2 {
            a.send(&sent, &borrowed).unwrap();
        }
    });
    for _ in 0..2 {
        let got = b.recv().unwrap().unwrap();
        assert!(got.body == body);
        assert_eq!(got.fds.len(), MAX_FDS);
    }
    sender.join().unwrap();
    assert!(b.recv().unwrap().is_none());
}

#[test]
fn a_nonblocking_socket_makes_no_difference() {
    let (mut a, mut b) = Channel::pair().unwrap();
    for channel in [&a, &b] {
        rustix::io::ioctl_fionbio(channel, true).unwrap();
    }
    let sender = std::thread::spawn(move || a.send(&vec![7; MAX_BODY], &[]).unwrap());
    assert_eq!(b.recv().unwrap().unwrap().body.len(), MAX_BODY);
    sender.join().unwrap();
}

#[test]
fn our_own_message_over_the_limits_is_not_sent() {
    let (mut a, mut b) = Channel::pair().unwrap();
    let fd = file(b"");
    let many = vec![fd.as_fd(); MAX_FDS + 1];
    assert!(matches!(a.send(&[], &many), Err(ChannelError::TooLarge { body: 0, fds: 9 })));
    let long = vec![0; MAX_BODY + 1];
    assert!(matches!(a.send(&long, &[]), Err(ChannelError::TooLarge { .. })));
    assert!(matches!(b.try_recv().unwrap(), TryRecv::Empty));
}

#[test]
fn a_peer_that_breaks_the_protocol_is_named() {
    let fd = file(b"");
    let cases: [(Vec<u8>, usize, &str); 6] = [
        (head(MAX_BODY as u32 + 1, 0), 0, "its message is too long"),
        (head(u32::MAX, 0), 0, "its message is too long"),
        (head(0, 9), 8, "too many descriptors"),
        (head(0, 2), 1, "announced descriptors are missing"),
        (head(0, 0), 1, "descriptors without a message"),
        (head(0, 0), 20, "too many descriptors"),
    ];
    for (bytes, fds, what) in cases {
        let (socket, mut channel) = bare();
        send_raw(&socket, &bytes, &vec![fd.as_fd(); fds]);
        assert_eq!(peer_fault(channel.try_recv()).0, what);
    }
}

#[test]
fn descriptors_do_not_pile_up() {
    let (socket, mut channel) = bare();
    let fd = file(b"");
    // A body of 100 bytes, each with descriptors.
    send_raw(&socket, &head(100, 0), &[]);
    for _ in 0..3 {
        send_raw(&socket, b"x", &[fd.as_fd(); MAX_FDS]);
    }
    assert_eq!(peer_fault(channel.try_recv()).0, "too many descriptors");
    // All copies are closed with the channel.
    let links = || std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter(is_of(&fd)).count();
    drop(channel);
    assert_eq!(links(), 1);
}

fn is_of(fd: &OwnedFd) -> impl Fn(&std::fs::DirEntry) -> bool {
    let inode = File::from(fd.try_clone().unwrap()).metadata().unwrap().ino();
    move |entry| std::fs::metadata(entry.path()).is_ok_and(|m| m.ino() == inode)
}

#[test]
fn an_end_within_a_message_is_a_fault() {
    let (socket, mut channel) = bare();
    send_raw(&socket, &head(5, 0), &[]);
    send_raw(&socket, b"abc", &[]);
    drop(socket);
    assert_eq!(peer_fault(channel.try_recv()), ("it ended within a message", 11));
    assert!(channel.recv().is_err(), "and stays one");
}

#[test]
fn a_dead_peer_is_gone_for_sending_and_an_end_for_receiving() {
    let (mut a, mut b) = Channel::pair().unwrap();
    b.send(b"last words", &[]).unwrap();
    a.send(b"never read", &[]).unwrap();
    drop(b);
    assert!(matches!(a.send(b"x", &[]), Err(ChannelError::Gone)));
    assert_eq!(a.recv().unwrap().unwrap().body, b"last words");
    // Linux says ECONNRESET here, for the message that was not read.
    assert!(a.recv().unwrap().is_none());
}

#[test]
fn a_limited_channel_takes_no_more() {
    let limited = |bytes: &[u8], fds: &[BorrowedFd<'_>]| {
        let (to, channel) = bare();
        send_raw(&to, bytes, fds);
        let mut channel = channel.limited(100, 0);
        channel.try_recv()
    };
    let fits = limited(&[head(100, 0), vec![7; 100]].concat(), &[]).unwrap();
    assert_eq!(message(fits).body, [7; 100]);
    assert_eq!(peer_fault(limited(&head(101, 0), &[])), ("its message is too long", 101));
    assert_eq!(peer_fault(limited(&head(1, 1), &[])), ("too many descriptors", 1));
    let fd = file(b"");
    assert_eq!(peer_fault(limited(b"x", &[fd.as_fd()])), ("too many descriptors", 1));
}

#[test]
fn posting_never_waits() {
    let (mut a, mut b) = Channel::pair().unwrap();
    let body: Vec<u8> = (0..3 << 20).map(|n: u32| (n ^ n >> 8) as u8).collect();
    let fd = file(b"with it");
    assert!(!a.post(&body, &[fd.as_fd()]).unwrap(), "more than a socket takes");
    assert!(!a.flush().unwrap());
    assert!(matches!(a.post(b"next", &[]), Err(ChannelError::System(Errno::AGAIN))));
    let got = loop {
        match b.try_recv().unwrap() {
            TryRecv::Message(message) => break message,
            TryRecv::Empty => drop(a.flush().unwrap()),
            TryRecv::Ended => panic!("it ended"),
        }
    };
    assert!(got.body == body);
    assert_eq!(got.fds.into_iter().map(content).collect::<Vec<_>>(), [b"with it"]);
    assert!(a.post(b"next", &[]).unwrap(), "it is all sent");
    assert_eq!(message(b.try_recv().unwrap()).body, b"next");
    drop(b);
    assert!(matches!(a.post(b"more", &[]), Err(ChannelError::Gone)));
}

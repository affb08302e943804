//! The POSIX meaning of sending and receiving, apart from C's pointers.
//!
//! The runtime queues all of a blocking send, and receives the bytes that are there. Here are the
//! rules on top of that: MSG_WAITALL waits until all has come, bytes received before an error
//! count, MSG_TRUNC throws away, EPIPE comes with SIGPIPE. The socket is a trait, so that the rules
//! are tested without a server.

use core::ffi::c_int;
use core::net::SocketAddr;
use std::io::{IoSlice, IoSliceMut};

use rustix::io::Errno;
use sockets::{QueuedErrorEntry, Received, SendFlags, SocketKind, Wait};

use crate::errno::Outcome;

/// The operations of a socket that the rules need.
pub(crate) trait Endpoint {
    /// Stream or datagram.
    fn kind(&self) -> SocketKind;
    /// Sends as [`sockets::Socket::send`] does. A blocking send queues all bytes, or returns the
    /// count queued before a signal or an error.
    fn send(
        &self,
        bufs: &[IoSlice<'_>],
        flags: SendFlags,
        to: Option<SocketAddr>,
        wait: Wait,
    ) -> Outcome<usize>;
    /// Waits for more than so many bytes of a stream, as [`sockets::Socket::wait_for_more`].
    fn wait_for_more(&self, than: usize, wait: Wait) -> Outcome<bool>;
    /// Receives the urgent byte; `None` at the end.
    fn recv_urgent(&self, peek: bool) -> Outcome<Option<u8>>;
    /// Connects a stream whose SYN takes the first bytes of the next send.
    fn connect_fast(&self, to: SocketAddr, wait: Wait) -> Outcome<()>;
    /// Receives the packet of the oldest entry of the error queue.
    fn recv_error(&self, bufs: &mut [IoSliceMut<'_>]) -> Outcome<Received>;
    /// Receives the bytes or the datagram that are there.
    fn recv(&self, bufs: &mut [IoSliceMut<'_>], peek: bool, wait: Wait) -> Outcome<Received>;
}

/// A send's result: the outcome, and whether the thread gets SIGPIPE.
pub(crate) struct Sent {
    /// Bytes, or why not.
    pub(crate) outcome: Outcome<usize>,
    /// POSIX: EPIPE on a stream comes with SIGPIPE, unless MSG_NOSIGNAL.
    pub(crate) sigpipe: bool,
}

/// Sends `bufs` under send(2)'s `flags`.
pub(crate) fn send(
    endpoint: &impl Endpoint,
    bufs: &[IoSlice<'_>],
    flags: c_int,
    to: Option<SocketAddr>,
    wait: Wait,
) -> Sent {
    let how = send_flags(flags);
    let connected = || match flags & libc::MSG_FASTOPEN {
        0 => Ok(()),
        _ => endpoint.connect_fast(to.ok_or(Errno::INVAL)?, wait),
    };
    let outcome = match endpoint.kind() {
        // A stream's peer is the connected one whatever the call says, as on Linux.
        SocketKind::Stream => connected().and_then(|()| endpoint.send(bufs, how, None, wait)),
        // As Linux.
        _ if how.urgent => Err(Errno::OPNOTSUPP),
        _ => endpoint.send(bufs, how, to, wait),
    };
    let stream = endpoint.kind() == SocketKind::Stream;
    let sigpipe = stream && outcome == Err(Errno::PIPE) && flags & libc::MSG_NOSIGNAL == 0;
    Sent { outcome, sigpipe }
}

/// The MSG flags as [`SendFlags`].
pub(crate) fn send_flags(flags: c_int) -> SendFlags {
    let has = |flag| flags & flag != 0;
    SendFlags { more: has(libc::MSG_MORE), eor: has(libc::MSG_EOR), urgent: has(libc::MSG_OOB) }
}

/// Receives into `bufs` under recv(2)'s `flags`.
///
/// For a stream `full_len` is `len`. With MSG_TRUNC a stream throws the bytes away, and `len`
/// says how many.
pub(crate) fn receive(
    endpoint: &impl Endpoint,
    bufs: &mut [IoSliceMut<'_>],
    flags: c_int,
    wait: Wait,
) -> Outcome<Received> {
    if flags & libc::MSG_ERRQUEUE != 0 {
        return endpoint.recv_error(bufs);
    }
    let peek = flags & libc::MSG_PEEK != 0;
    // A datagram socket receives as ever.
    if flags & libc::MSG_OOB != 0 && endpoint.kind() == SocketKind::Stream {
        return receive_urgent(endpoint, bufs, flags, peek);
    }
    if endpoint.kind() != SocketKind::Stream {
        let received = endpoint.recv(bufs, peek, wait)?;
        // As Linux: where receiving is shut down, only a call that waits sees the end.
        let is_end = received.from.is_none();
        return if is_end && wait == Wait::No { Err(Errno::AGAIN) } else { Ok(received) };
    }
    let total = bufs.iter().fold(0_usize, |sum, buf| sum.saturating_add(buf.len()));
    let wanted = if flags & libc::MSG_WAITALL != 0 { total } else { total.min(1) };
    match flags & libc::MSG_TRUNC {
        _ if total == 0 => receive_nothing(endpoint, wait),
        0 if peek => peek_stream(endpoint, bufs, wanted, wait),
        0 => receive_stream(endpoint, bufs, wanted, wait),
        // Counted, and not copied.
        _ if peek => {
            let mut scratch = vec![0; total.min(MOST_PEEKED)];
            peek_stream(endpoint, &mut [IoSliceMut::new(&mut scratch)], wanted, wait)
        }
        _ => discard(endpoint, total, wanted, wait),
    }
}

/// The packet of an entry of the error queue. As Linux: MSG_TRUNC makes no difference.
pub(crate) fn error_packet(entry: &QueuedErrorEntry, bufs: &mut [IoSliceMut<'_>]) -> Received {
    let room = bufs.iter_mut().flat_map(|buf| buf.iter_mut());
    let copied = room.zip(&entry.payload).map(|(to, from)| *to = *from);
    let len = copied.count();
    Received { len, full_len: len, from: Some(entry.destination), ancillary: None }
}

/// Most bytes that MSG_PEEK with MSG_TRUNC counts.
const MOST_PEEKED: usize = 1 << 20;

/// A receive without room: as on Linux it waits until something can be received, tells an error,
/// and takes nothing.
fn receive_nothing(endpoint: &impl Endpoint, wait: Wait) -> Outcome<Received> {
    match endpoint.recv(&mut [IoSliceMut::new(&mut [0])], true, wait) {
        Err(Errno::AGAIN) if wait != Wait::No => Ok(Received::default()),
        seen => seen.map(|_| Received::default()),
    }
}

/// Looks at a stream's bytes, at least `wanted` of them if so many come.
fn peek_stream(
    endpoint: &impl Endpoint,
    bufs: &mut [IoSliceMut<'_>],
    wanted: usize,
    wait: Wait,
) -> Outcome<Received> {
    let mut seen = endpoint.recv(bufs, true, wait)?;
    while wait != Wait::No && (1..wanted).contains(&seen.len) {
        if endpoint.wait_for_more(seen.len, wait) != Ok(true) {
            break;
        }
        let more = endpoint.recv(bufs, true, Wait::No)?;
        if more.len <= seen.len {
            break;
        }
        seen = more;
    }
    Ok(seen)
}

/// The urgent byte, alone. As Linux: with MSG_TRUNC it is thrown away, without room it is lost.
fn receive_urgent(
    endpoint: &impl Endpoint,
    bufs: &mut [IoSliceMut<'_>],
    flags: c_int,
    peek: bool,
) -> Outcome<Received> {
    let Some(byte) = endpoint.recv_urgent(peek)? else { return Ok(Received::default()) };
    let place = bufs.iter_mut().find_map(|buf| buf.first_mut());
    let len = usize::from(place.is_some());
    if let Some(place) = place.filter(|_| flags & libc::MSG_TRUNC == 0) {
        *place = byte;
    }
    Ok(Received { len, full_len: 1, ..Received::default() })
}

/// Receives until at least `wanted` bytes have come, the stream ends, or nothing more comes.
fn receive_stream(
    endpoint: &impl Endpoint,
    mut bufs: &mut [IoSliceMut<'_>],
    wanted: usize,
    wait: Wait,
) -> Outcome<Received> {
    let mut sum = endpoint.recv(bufs, false, wait)?;
    let mut last = sum.len;
    while sum.len < wanted && last > 0 && wait != Wait::No {
        IoSliceMut::advance_slices(&mut bufs, last);
        // An error after the first bytes is for the next call.
        if endpoint.wait_for_more(0, wait) != Ok(true) {
            break;
        }
        last = endpoint.recv(bufs, false, Wait::No).map_or(0, |more| more.len);
        sum.len += last;
        sum.full_len = sum.len;
    }
    Ok(sum)
}

fn discard(endpoint: &impl Endpoint, total: usize, wanted: usize, wait: Wait) -> Outcome<Received> {
    let mut scratch = vec![0; total.min(1 << 16)];
    let mut sum = Received::default();
    loop {
        let room = scratch.len().min(total - sum.len);
        if sum.len > 0 {
            // The wanted bytes were waited for; further ones are taken as far as they are there.
            let wait = if sum.len >= wanted { Wait::No } else { wait };
            if endpoint.wait_for_more(0, wait) != Ok(true) {
                break;
            }
        }
        let outcome = endpoint.recv(&mut [IoSliceMut::new(&mut scratch[..room])], false, wait);
        match outcome {
            Ok(more) if more.len > 0 && more.len <= room => sum.len += more.len,
            Err(errno) if sum.len == 0 => return Err(errno),
            Ok(_) | Err(_) => break,
        }
        if sum.len >= total {
            break;
        }
    }
    sum.full_len = sum.len;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, SocketAddrV4};
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::time::Instant;

    use super::*;

    /// An endpoint that follows the script, one step a call.
    struct Script {
        kind: SocketKind,
        steps: RefCell<VecDeque<Outcome<usize>>>,
        sent: RefCell<Vec<u8>>,
        waits: RefCell<Vec<Wait>>,
    }

    fn script(kind: SocketKind, steps: &[Outcome<usize>]) -> Script {
        let steps = RefCell::new(steps.iter().copied().collect());
        Script { kind, steps, sent: RefCell::default(), waits: RefCell::default() }
    }

    impl Script {
        fn step(&self, wait: Wait) -> Outcome<usize> {
            self.waits.borrow_mut().push(wait);
            self.steps.borrow_mut().pop_front().expect("one call too many")
        }

        fn done(&self) -> bool {
            self.steps.borrow().is_empty()
        }
    }

    impl Endpoint for Script {
        fn kind(&self) -> SocketKind {
            self.kind
        }

        fn send(
            &self,
            bufs: &[IoSlice<'_>],
            _flags: SendFlags,
            to: Option<SocketAddr>,
            wait: Wait,
        ) -> Outcome<usize> {
            assert!(self.kind == SocketKind::Datagram || to.is_none());
            let count = self.step(wait)?;
            self.sent.borrow_mut().extend(bufs.iter().flat_map(|b| b.to_vec()).take(count));
            Ok(count)
        }

        fn connect_fast(&self, to: SocketAddr, wait: Wait) -> Outcome<()> {
            assert_eq!(to, PEER);
            self.step(wait).map(drop)
        }

        fn recv(&self, bufs: &mut [IoSliceMut<'_>], _peek: bool, wait: Wait) -> Outcome<Received> {
            let full_len = self.step(wait)?;
            let mut len = 0;
            for byte in bufs.iter_mut().flat_map(|buf| buf.iter_mut()).take(full_len) {
                *byte = b'a' + u8::try_from(full_len).unwrap();
                len += 1;
            }
            let from = (self.kind != SocketKind::Stream && full_len > 0).then_some(PEER);
            Ok(Received { len, full_len, from, ..Received::default() })
        }

        fn wait_for_more(&self, _than: usize, wait: Wait) -> Outcome<bool> {
            self.waits.borrow_mut().push(wait);
            Ok(matches!(self.steps.borrow().front(), Some(Ok(1..))))
        }

        fn recv_error(&self, _bufs: &mut [IoSliceMut<'_>]) -> Outcome<Received> {
            Err(Errno::AGAIN)
        }

        fn recv_urgent(&self, _peek: bool) -> Outcome<Option<u8>> {
            self.step(Wait::No).map(|left| (left > 0).then_some(b'!'))
        }
    }

    const STREAM: SocketKind = SocketKind::Stream;
    const PEER: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80));

    #[test]
    fn fastopen_connects_and_sends() {
        let sent = |script: &Script, to| {
            send(script, &[IoSlice::new(b"hello")], libc::MSG_FASTOPEN, to, Wait::No).outcome
        };
        let known = script(STREAM, &[Ok(0), Ok(5)]);
        assert_eq!(sent(&known, Some(PEER)), Ok(5));
        let unknown = script(STREAM, &[Err(Errno::INPROGRESS)]);
        assert_eq!(sent(&unknown, Some(PEER)), Err(Errno::INPROGRESS));
        assert_eq!(sent(&script(STREAM, &[]), None), Err(Errno::INVAL), "to whom?");
    }

    fn send_words(script: &Script, flags: c_int, wait: Wait) -> Outcome<usize> {
        let bufs = [IoSlice::new(b"hello "), IoSlice::new(b""), IoSlice::new(b"world")];
        send(script, &bufs, flags, None, wait).outcome
    }

    #[test]
    fn a_stream_sends_by_one_call() {
        let all = script(STREAM, &[Ok(11)]);
        assert_eq!(send_words(&all, 0, Wait::Forever), Ok(11));
        assert_eq!(*all.sent.borrow(), b"hello world");
        let some = script(STREAM, &[Ok(2)]);
        assert_eq!(send_words(&some, 0, Wait::No), Ok(2));
        // A second call here would send on after the signal or error that ended the first.
        let interrupted = script(STREAM, &[Ok(7)]);
        assert_eq!(send_words(&interrupted, 0, Wait::Forever), Ok(7));
        assert_eq!(*interrupted.waits.borrow(), [Wait::Forever]);
        let failed = script(STREAM, &[Err(Errno::CONNRESET)]);
        assert_eq!(send_words(&failed, 0, Wait::Forever), Err(Errno::CONNRESET));
    }

    #[test]
    fn sigpipe_is_for_streams_that_did_not_decline() {
        let sent = |kind, errno, flags| {
            let script = script(kind, &[Err(errno)]);
            send(&script, &[IoSlice::new(b"x")], flags, None, Wait::No).sigpipe
        };
        assert!(sent(STREAM, Errno::PIPE, 0));
        assert!(!sent(STREAM, Errno::PIPE, libc::MSG_NOSIGNAL));
        assert!(!sent(STREAM, Errno::CONNRESET, 0));
        assert!(!sent(SocketKind::Datagram, Errno::PIPE, 0));
    }

    #[test]
    fn flags_that_are_refused() {
        let none = script(STREAM, &[]);
        let datagram = script(SocketKind::Datagram, &[]);
        assert_eq!(send_words(&datagram, libc::MSG_OOB, Wait::No), Err(Errno::OPNOTSUPP));
        let received = |flags| receive(&none, &mut [], flags, Wait::No).map(|r| r.len);
        assert_eq!(received(libc::MSG_ERRQUEUE), Err(Errno::AGAIN));
    }

    #[test]
    fn an_urgent_byte_comes_alone() {
        let oob = libc::MSG_OOB;
        let one = script(STREAM, &[Ok(1)]);
        assert_eq!(receive_ten(&one, oob, Wait::Forever), (Ok(1), b"!.........".to_vec()));
        let thrown = script(STREAM, &[Ok(1)]);
        let (outcome, bytes) = receive_ten(&thrown, oob | libc::MSG_TRUNC, Wait::Forever);
        assert_eq!((outcome, bytes), (Ok(1), b"..........".to_vec()));
        let ended = script(STREAM, &[Ok(0)]);
        assert_eq!(receive_ten(&ended, oob, Wait::Forever).0, Ok(0));
        let none = script(STREAM, &[Err(Errno::INVAL)]);
        assert_eq!(receive_ten(&none, oob, Wait::Forever).0, Err(Errno::INVAL));
    }

    fn receive_ten(script: &Script, flags: c_int, wait: Wait) -> (Outcome<usize>, Vec<u8>) {
        let (mut a, mut b) = ([b'.'; 4], [b'.'; 6]);
        let mut bufs = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
        let outcome = receive(script, &mut bufs, flags, wait).map(|received| received.len);
        (outcome, [a.as_slice(), &b].concat())
    }

    #[test]
    fn a_stream_gives_what_is_there() {
        let one = script(STREAM, &[Ok(3)]);
        assert_eq!(receive_ten(&one, 0, Wait::Forever), (Ok(3), b"ddd.......".to_vec()));
    }

    #[test]
    fn waitall_waits_for_all() {
        let all = libc::MSG_WAITALL;
        let one = script(STREAM, &[Ok(3), Ok(5), Ok(2)]);
        assert_eq!(receive_ten(&one, all, Wait::Forever), (Ok(10), b"dddfffffcc".to_vec()));
        let ended = script(STREAM, &[Ok(3), Ok(0)]);
        assert_eq!(receive_ten(&ended, all, Wait::Forever).0, Ok(3));
        let failed = script(STREAM, &[Ok(3), Err(Errno::CONNRESET)]);
        assert_eq!(receive_ten(&failed, all, Wait::Until(Instant::now())).0, Ok(3));
        let nonblocking = script(STREAM, &[Ok(3)]);
        assert_eq!(receive_ten(&nonblocking, all, Wait::No).0, Ok(3));
        let peek = all | libc::MSG_PEEK;
        let peeked = script(STREAM, &[Ok(3), Ok(10)]);
        assert_eq!(receive_ten(&peeked, peek, Wait::Forever), (Ok(10), b"kkkkkkkkkk".to_vec()));
        let ended = script(STREAM, &[Ok(3), Err(Errno::CONNRESET)]);
        assert_eq!(receive_ten(&ended, peek, Wait::Forever).0, Ok(3));
        assert_eq!(receive_ten(&script(STREAM, &[Ok(3)]), peek, Wait::No).0, Ok(3));
    }

    #[test]
    fn a_receive_without_room_looks() {
        let outcome = |step| {
            receive(&script(STREAM, &[step]), &mut [], 0, Wait::No).map(|received| received.len)
        };
        assert_eq!(outcome(Ok(1)), Ok(0));
        assert_eq!(outcome(Err(Errno::NOTCONN)), Err(Errno::NOTCONN));
    }

    #[test]
    fn trunc_discards_from_a_stream() {
        let one = script(STREAM, &[Ok(3), Ok(4), Err(Errno::CONNRESET)]);
        let (outcome, bytes) = receive_ten(&one, libc::MSG_TRUNC, Wait::Forever);
        assert_eq!((outcome, bytes), (Ok(7), b"..........".to_vec()));
        let waits = [Wait::Forever, Wait::No, Wait::Forever, Wait::No];
        assert_eq!(*one.waits.borrow(), waits);
        assert!(!one.done(), "the error is for the next call");
        let none = script(STREAM, &[Err(Errno::AGAIN)]);
        assert_eq!(receive_ten(&none, libc::MSG_TRUNC, Wait::No).0, Err(Errno::AGAIN));
    }

    #[test]
    fn datagrams_say_their_full_length() {
        let one = script(SocketKind::Datagram, &[Ok(12)]);
        let mut place = [0; 4];
        let received = receive(&one, &mut [IoSliceMut::new(&mut place)], 0, Wait::No).unwrap();
        assert_eq!((received.len, received.full_len), (4, 12));
    }
    #[test]
    fn only_a_call_that_waits_sees_the_end_of_datagrams() {
        for kind in [SocketKind::Datagram, SocketKind::UdpLite] {
            assert_eq!(receive_ten(&script(kind, &[Ok(0)]), 0, Wait::No).0, Err(Errno::AGAIN));
            assert_eq!(receive_ten(&script(kind, &[Ok(0)]), 0, Wait::Forever).0, Ok(0));
            assert_eq!(receive_ten(&script(kind, &[Ok(3)]), 0, Wait::No).0, Ok(3));
        }
    }
}

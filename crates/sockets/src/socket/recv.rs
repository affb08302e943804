//! The receiving half: taking from the queue, and telling the server.
//!
//! `rx_consumed` counts the bytes or datagrams that the program has taken. By it the server gets
//! its areas back and opens the peer's window. A bell costs time if the server sleeps, so small
//! takings are only *marked*: the server reads them when it next wakes, as it does for any incoming
//! segment. It is rung when enough was taken that a peer could be waiting for it, see
//! [`RecvQueue::is_worth_a_bell`].

use std::io::IoSliceMut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use abi::stages::TraceStage;
use abi::{Errno, SocketFlags, SocketKind};
use shm::OutOfRange;

use super::core::SocketCore;
use super::held_parts::HeldPart;
use super::recv_queue::{DEFAULT_BELL_THRESHOLD, Received, RecvBuffers, RecvQueue};
use super::urgent::{UrgentAhead, is_inline, until_urgent, urgent_ahead, urgent_mark};
use crate::error::RegionFault;
use crate::lock::lock;
use crate::wait::Wait;

/// How to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecvFlags {
    /// MSG_PEEK: the received bytes stay in the queue.
    pub peek: bool,
}

/// Beyond this SO_RCVLOWAT means as much: a small receive buffer holds no more.
pub(super) const MOST_LOWAT: u32 = 32 * 1024;

/// The receiving half of a socket.
pub(super) struct RecvHalf {
    /// `None` after close.
    pub(super) queue: Mutex<Option<RecvQueue>>,
    /// Taken bytes below which the server is not woken ([`DEFAULT_BELL_THRESHOLD`], less for a
    /// small SO_RCVBUF).
    pub(super) bell_threshold: AtomicU32,
    /// SO_RCVLOWAT, at most [`MOST_LOWAT`]: fewer bytes are no reason for poll.
    pub(super) lowat: AtomicU32,
    /// Bytes or datagrams that the program has received.
    pub(super) taken: AtomicU64,
    /// The mark whose byte was received out of band, as `SocketWords::urgent` has it.
    urgent_taken: AtomicU64,
}

impl RecvHalf {
    pub(super) fn attach(core: &SocketCore) -> Result<Self, OutOfRange> {
        Ok(Self {
            queue: Mutex::new(Some(RecvQueue::attach(core)?)),
            bell_threshold: AtomicU32::new(DEFAULT_BELL_THRESHOLD),
            lowat: AtomicU32::new(1),
            taken: AtomicU64::new(0),
            urgent_taken: AtomicU64::new(0),
        })
    }

    /// Bytes or datagrams that the program has received.
    pub(super) fn received_count(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Receives the bytes that a stream has now, or one datagram.
    pub(super) fn recv(
        &self,
        core: &SocketCore,
        into: &mut RecvBuffers<'_, '_>,
        peek: bool,
        wait: Wait,
    ) -> Result<Received, Errno> {
        match core.kind {
            SocketKind::Stream => {
                self.until_received(core, wait, || self.try_recv_stream(core, into, peek))
            }
            SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => {
                self.until_received(core, wait, || self.try_recv_datagram(core, into, peek))
            }
        }
    }

    /// Repeats `attempt` until something is received, and marks the stages of it.
    pub(super) fn until_received<T>(
        &self,
        core: &SocketCore,
        wait: Wait,
        mut attempt: impl FnMut() -> Result<Option<T>, Errno>,
    ) -> Result<T, Errno> {
        let server = &core.membership.server;
        let attempt = || {
            server.mark(TraceStage::Recv);
            attempt()
        };
        let received = core.wait_until(wait, attempt, || self.is_readable(core));
        if received.is_ok() {
            server.mark(TraceStage::Received);
        }
        received
    }

    fn try_recv_stream(
        &self,
        core: &SocketCore,
        into: &mut RecvBuffers<'_, '_>,
        peek: bool,
    ) -> Result<Option<Received>, Errno> {
        core.check()?;
        // The server writes flags last. If they show an end, the data before it is seen below.
        let flags = core.flags();
        if into.left == 0 {
            return Ok(Some(Received::default()));
        }
        let (got, lost) = self.take(core, peek, |queue| {
            queue.read_stream(&core.membership, into, peek, |at| urgent_ahead(core, at))
        })?;
        let got = match lost {
            0 => got,
            lost => got.checked_sub(lost).filter(|&got| got > 0).ok_or(Errno::STALE)?,
        };
        if got > 0 {
            return Ok(Some(Received { len: got, full_len: got, ..Received::default() }));
        }
        // As Linux: an error after the peer's FIN does not hide the end, and stays pending.
        if flags.has(SocketFlags::PEER_ENDED) {
            return Ok(Some(Received::default()));
        }
        if let Some(errno) = core.take_error() {
            return Err(errno);
        }
        if flags.has(SocketFlags::READ_CLOSED) {
            return Ok(Some(Received::default()));
        }
        let coming = flags.has_any(SocketFlags::CONNECTED | SocketFlags::CONNECTING);
        if coming { Ok(None) } else { Err(core.stale_or(Errno::NOTCONN)) }
    }

    fn try_recv_datagram(
        &self,
        core: &SocketCore,
        into: &mut RecvBuffers<'_, '_>,
        peek: bool,
    ) -> Result<Option<Received>, Errno> {
        core.check()?;
        let flags = core.flags();
        if let Some(errno) = core.take_error() {
            return Err(errno);
        }
        if flags.has(SocketFlags::MOVED) {
            return Err(Errno::STALE);
        }
        match self.take(core, peek, |queue| queue.read_datagram(&core.membership, into, peek))? {
            (_, 1..) => Err(Errno::STALE),
            (None, _) if flags.has(SocketFlags::READ_CLOSED) => Ok(Some(Received::default())),
            (got, _) => Ok(got),
        }
    }

    /// Takes something from the queue, and lets the server know. The number is what of it does not
    /// count, since the socket moved to another process meanwhile, which gets it as well: bytes of
    /// a stream, or a datagram.
    fn take<T>(
        &self,
        core: &SocketCore,
        peek: bool,
        read: impl FnOnce(&mut RecvQueue) -> Result<T, RegionFault>,
    ) -> Result<(T, usize), Errno> {
        let mut queue = lock(&self.queue);
        let queue = queue.as_mut().ok_or(Errno::BADF)?;
        let (consumed, position) = (queue.consumed, queue.queue.position());
        let got = self.take_from(core, queue, peek, read);
        let lost = match core.move_counts()? {
            None => 0,
            // Its memory may have been another socket's already.
            Some(_) if peek || got.is_err() => return Err(Errno::STALE),
            Some(counts) if core.is_stream() => {
                let lost = queue.consumed.saturating_sub(counts.received);
                usize::try_from(lost.min(queue.consumed - consumed)).unwrap_or(usize::MAX)
            }
            Some(counts) => usize::from(counts.received == u64::from(position)),
        };
        got.map(|got| (got, lost)).map_err(|RegionFault| Errno::IO)
    }

    fn take_from<T>(
        &self,
        core: &SocketCore,
        queue: &mut RecvQueue,
        peek: bool,
        read: impl FnOnce(&mut RecvQueue) -> Result<T, RegionFault>,
    ) -> Result<T, RegionFault> {
        let before = (queue.consumed, queue.quiet_bytes, queue.quiet_slots);
        let got = read(queue)?;
        if peek || queue.consumed == before.0 {
            return Ok(got);
        }
        self.taken.store(queue.consumed, Ordering::Release);
        if !queue.held.is_empty() {
            // Released when the older parts are given back.
            let (bytes, slots) = (queue.quiet_bytes - before.1, queue.quiet_slots - before.2);
            (queue.quiet_bytes, queue.quiet_slots) = (before.1, before.2);
            queue.held.push(HeldPart { start: before.0, live: false, bytes, slots });
            return Ok(got);
        }
        self.release(core, queue, queue.consumed);
        Ok(got)
    }

    /// Throws away what a stream has received.
    #[cold]
    pub(super) fn discard(&self, core: &SocketCore) -> Result<(), Errno> {
        let mut scratch = vec![0; 1 << 14];
        self.urgent_taken.store(0, Ordering::Relaxed);
        loop {
            let mut room = [IoSliceMut::new(&mut scratch)];
            let mut into = RecvBuffers::new(&mut room);
            let nothing = |_| UrgentAhead::Nothing;
            let read = |queue: &mut RecvQueue| {
                queue.read_stream(&core.membership, &mut into, false, nothing)
            };
            if self.take(core, false, read)?.0 == 0 {
                return Ok(());
            }
        }
    }

    /// The program gives back a part that it held. True: it was the last.
    pub(super) fn end_held(&self, core: &SocketCore, number: u64) -> bool {
        let mut queue = lock(&self.queue);
        let Some(queue) = queue.as_mut() else { return false };
        if let Some((bytes, slots)) = queue.held.end(number) {
            queue.quiet_bytes += bytes;
            queue.quiet_slots += slots;
            let released = queue.held.first().unwrap_or(queue.consumed);
            self.release(core, queue, released);
        }
        queue.held.is_empty()
    }

    /// Gives memory back to the server up to the position `released`.
    fn release(&self, core: &SocketCore, queue: &mut RecvQueue, released: u64) {
        core.words.rx_consumed.set(released);
        // Streams count bytes. Of datagrams the bytes outstanding are not known; slots decide.
        let outstanding = match core.kind {
            SocketKind::Stream => {
                let published = core.words.rx_bytes.load(Ordering::Relaxed);
                published.saturating_sub(released).saturating_add(queue.quiet_bytes)
            }
            SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => 0,
        };
        if queue.is_worth_a_bell(outstanding, self.bell_threshold.load(Ordering::Relaxed)) {
            (queue.quiet_bytes, queue.quiet_slots) = (0, 0);
            core.membership.server.announce(core.id.index, false);
        } else {
            core.membership.server.mark_dirty(core.id.index);
        }
    }

    /// Would a receive return at once, with data, an end or an error?
    pub(super) fn is_readable(&self, core: &SocketCore) -> bool {
        let flags = core.flags();
        flags.has(SocketFlags::READ_CLOSED)
            || core.has_error()
            || self.has_data(core)
            || core.check().is_err()
            || (core.is_stream()
                && !flags.has_any(SocketFlags::CONNECTED | SocketFlags::CONNECTING))
    }

    /// Is there something in the receiving queue? From the words alone.
    pub(super) fn has_data(&self, core: &SocketCore) -> bool {
        let published = core.words.rx_bytes.get();
        let consumed = self.taken.load(Ordering::Relaxed);
        // An urgent byte that a receive would pass over is nothing to be received.
        let hidden = urgent_ahead(core, consumed) == UrgentAhead::Hidden;
        // The server counts bytes after it has put them into the queue: the program may have taken
        // some that are not counted yet.
        published.saturating_sub(consumed) > u64::from(hidden)
    }

    /// Is there so much that poll reports it?
    pub(super) fn has_enough(&self, core: &SocketCore) -> bool {
        let lowat = self.lowat.load(Ordering::Relaxed);
        let few = || lowat > 1 && core.is_stream() && self.readable_len(core) < lowat as usize;
        self.has_data(core) && !few()
    }

    /// Bytes that can be received now, or the length of the next datagram.
    pub(super) fn readable_len(&self, core: &SocketCore) -> usize {
        if core.check().is_err() {
            return 0;
        }
        let mut queue = lock(&self.queue);
        let Some(queue) = queue.as_mut() else { return 0 };
        match core.kind {
            SocketKind::Stream => {
                let published = core.words.rx_bytes.get();
                let there = published.saturating_sub(queue.consumed);
                let there = until_urgent(core, queue.consumed).map_or(there, |at| at.min(there));
                usize::try_from(there).unwrap_or(usize::MAX)
            }
            SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => {
                match queue.descriptor(0) {
                    Ok(Some(descriptor)) => descriptor.len as usize,
                    Ok(None) | Err(RegionFault) => 0,
                }
            }
        }
    }

    /// Is there an urgent byte that was neither received nor passed over: POLLPRI?
    pub(super) fn has_urgent(&self, core: &SocketCore) -> bool {
        let published = core.words.rx_bytes.get();
        urgent_mark(core, self.taken.load(Ordering::Relaxed))
            .is_some_and(|at| at < published && !self.is_urgent_taken(at))
    }

    fn is_urgent_taken(&self, at: u64) -> bool {
        self.urgent_taken.load(Ordering::Relaxed) == at + 1
    }

    /// Is the next byte to be received the urgent one?
    pub(super) fn is_at_mark(&self, core: &SocketCore) -> bool {
        let consumed = self.taken.load(Ordering::Relaxed);
        core.check().is_ok() && urgent_mark(core, consumed) == Some(consumed)
    }

    /// Receives the urgent byte on its own, or looks at it.
    pub(super) fn recv_urgent(&self, core: &SocketCore, peek: bool) -> Result<Option<u8>, Errno> {
        core.check()?;
        let flags = core.flags();
        let mut queue = lock(&self.queue);
        let queue = queue.as_mut().ok_or(Errno::BADF)?;
        let consumed = queue.consumed;
        let mark =
            urgent_mark(core, consumed).filter(|at| !is_inline(core) && !self.is_urgent_taken(*at));
        let at = mark.ok_or(Errno::INVAL)?;
        let byte = queue.byte_after(&core.membership, at - consumed);
        match byte.map_err(|RegionFault| Errno::IO)? {
            Some(byte) => {
                if !peek {
                    self.urgent_taken.store(at + 1, Ordering::Relaxed);
                }
                Ok(Some(byte))
            }
            None if flags.has(SocketFlags::READ_CLOSED) => Ok(None),
            None => Err(Errno::AGAIN),
        }
    }
}

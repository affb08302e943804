//! The sending half: one copy into the socket's open area, a descriptor into its queue.
//!
//! All pieces of one call but the last say that more follows, so that the end of an area makes no
//! small segment.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use abi::data::{DataDescriptor, DataFlags};
use abi::stages::TraceStage;
use abi::{Errno, SocketFlags, SocketKind};
use shm::{OutOfRange, Slot};

use super::core::SocketCore;
use super::destinations::ConfirmedDestinations;
use crate::error::RegionFault;
use crate::lock::lock;
use crate::membership::{Membership, wait_until};
use crate::memory::{SendBuffers, SendQueue};
use crate::wait::Wait;

/// How to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendFlags {
    /// MSG_MORE: more bytes follow at once. A small segment may wait for them; a datagram is not
    /// complete before.
    pub more: bool,
    /// MSG_EOR: a record ends with these bytes. The next bytes begin a new segment. Streams only.
    pub eor: bool,
    /// MSG_OOB: the last of these bytes is urgent. Streams only.
    pub urgent: bool,
}

impl SendFlags {
    /// As a descriptor says it.
    pub(super) fn to_bits(self) -> DataFlags {
        DataFlags::MORE.when(self.more)
            | DataFlags::RECORD.when(self.eor)
            | DataFlags::URGENT.when(self.urgent)
    }
}

/// Most payload of a UDP datagram over IPv6, where the IP header does not count.
pub(super) const MOST_V6: usize = 65_527;

/// The sending half of a socket.
pub(super) struct SendHalf {
    /// `None` after close.
    pub(super) queue: Mutex<Option<SendQueue>>,
    /// Destinations of datagrams that the server has taken.
    pub(super) destinations: Mutex<ConfirmedDestinations>,
    /// Datagrams may not be fragmented: how long one may be depends on the path.
    pub(super) dont_fragment: AtomicBool,
    /// UDP_SEGMENT is set: a datagram may be too long for it.
    pub(super) segments: AtomicBool,
    /// UDP_CORK is set.
    pub(super) corked: AtomicBool,
    /// The last datagram is not complete.
    pub(super) open: AtomicBool,
    /// How many bytes the SYN takes, while it waits for them; else 0.
    syn_room: AtomicU32,
}

impl SendHalf {
    pub(super) fn attach(core: &SocketCore) -> Result<Self, OutOfRange> {
        let server = &core.membership.server;
        let offset = server.layout().tx_queue(core.id.index);
        Ok(Self {
            queue: Mutex::new(Some(SendQueue::attach(server.region(), offset)?)),
            destinations: Mutex::default(),
            dont_fragment: AtomicBool::new(false),
            segments: AtomicBool::new(false),
            corked: AtomicBool::new(false),
            open: AtomicBool::new(false),
            syn_room: AtomicU32::new(0),
        })
    }

    /// The connection attempt just begun waits for its first bytes, if `room` is not 0.
    pub(super) fn set_syn_room(&self, room: u64) {
        self.syn_room.store(u32::try_from(room).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// How many bytes the SYN takes; `None` if it does not wait for any. Only the first caller gets
    /// the number.
    pub(super) fn take_syn_room(&self) -> Option<usize> {
        // Without a write for all sends but the first.
        let waits = self.syn_room.load(Ordering::Relaxed) != 0;
        let room = if waits { self.syn_room.swap(0, Ordering::Relaxed) } else { 0 };
        usize::try_from(room).ok().filter(|room| *room != 0)
    }

    /// Queues all bytes of `from` on a stream, unless `wait` ends first or an error comes. Then the
    /// call returns the count so far, and the next call reports the error.
    ///
    /// This is the one loop of blocking sends. After the first bytes any signal ends it, with the
    /// count so far. As on Linux, the handler's SA_RESTART does not matter.
    pub(super) fn send_stream(
        &self,
        core: &SocketCore,
        from: &mut SendBuffers<'_>,
        flags: SendFlags,
        wait: Wait,
    ) -> Result<usize, Errno> {
        core.membership.server.mark(TraceStage::Send);
        let sent = Cell::new(0);
        let attempt = || {
            if !self.may_send(core, sent.get() == 0)? {
                return Ok(None);
            }
            sent.set(sent.get() + self.push_stream(core, from, flags)?);
            let enough = from.is_empty() || (wait == Wait::No && sent.get() > 0);
            Ok(enough.then_some(()))
        };
        let wait = || if sent.get() == 0 { wait } else { wait.until_any_signal() };
        let is_ready = || self.may_go_on(core);
        let done = wait_until(&core.membership, &core.words, wait, attempt, is_ready);
        core.membership.server.mark(TraceStage::Returned);
        match done {
            Err(errno) if sent.get() == 0 => Err(errno),
            Ok(()) | Err(_) => Ok(sent.get()),
        }
    }

    /// May a stream send? False: not yet. A pending error is taken only if this call can report it.
    #[inline]
    pub(super) fn may_send(&self, core: &SocketCore, report: bool) -> Result<bool, Errno> {
        core.check()?;
        let flags = core.flags();
        if core.has_error() {
            let pending = if report { core.take_error() } else { None };
            return Err(pending.unwrap_or(Errno::PIPE));
        }
        if flags.has(SocketFlags::WRITE_CLOSED) {
            Err(Errno::PIPE)
        } else if flags.has(SocketFlags::CONNECTED) {
            Ok(true)
        } else if flags.has(SocketFlags::CONNECTING) {
            Ok(false)
        } else {
            Err(core.stale_or(Errno::PIPE))
        }
    }

    /// Publishes as much of `from` as there is room for now; returns how much.
    ///
    /// # Errors
    /// ESTALE when the socket moved to another process before any of it was taken. If it moved
    /// after a part, the rest of `from` is dropped, so that the call ends with its count.
    pub(super) fn push_stream(
        &self,
        core: &SocketCore,
        from: &mut SendBuffers<'_>,
        flags: SendFlags,
    ) -> Result<usize, Errno> {
        let mut queue = lock(&self.queue);
        let queue = queue.as_mut().ok_or(Errno::BADF)?;
        let pushed = fill_queue(core, queue, from, flags);
        match core.move_counts()? {
            None => pushed.map_err(|RegionFault| Errno::IO),
            Some(counts) => {
                from.left = 0;
                let lost = queue.sent().saturating_sub(counts.sent);
                let lost = usize::try_from(lost).unwrap_or(usize::MAX);
                match pushed.unwrap_or(0).saturating_sub(lost) {
                    0 => Err(Errno::STALE),
                    sent => Ok(sent),
                }
            }
        }
    }

    /// Would a waiting send find room that is worth it, or a reason to end?
    pub(super) fn may_go_on(&self, core: &SocketCore) -> bool {
        may_send_now(core).unwrap_or_else(|| self.has_room(core))
    }

    /// Is there room that is worth waking a sender for? For datagrams, for one of any size. True
    /// when a send would fail at once.
    pub(super) fn has_room(&self, core: &SocketCore) -> bool {
        let (pool, words) = (&core.membership.tx, &core.words);
        let least = match core.kind {
            SocketKind::Stream => 1,
            SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => {
                pool.area_len().max(largest_datagram(core))
            }
        };
        let mut queue = lock(&self.queue);
        let roomy = |queue: &mut SendQueue| queue.is_roomy(words, pool, least).unwrap_or(true);
        let room = queue.as_mut().is_none_or(roomy);
        drop(queue);
        if !room {
            hasten_release(core);
        }
        room
    }

    /// Bytes sent and not yet released by the server: SIOCOUTQ. 0 after close.
    pub(super) fn unsent_len(&self, core: &SocketCore) -> usize {
        if core.check().is_err() {
            return 0;
        }
        let sent = lock(&self.queue).as_ref().map_or(0, SendQueue::sent);
        let released = core.words.tx_released.load(Ordering::Acquire);
        if sent > released {
            hasten_release(core);
        }
        usize::try_from(sent.saturating_sub(released)).unwrap_or(usize::MAX)
    }
}

fn fill_queue(
    core: &SocketCore,
    queue: &mut SendQueue,
    from: &mut SendBuffers<'_>,
    said: SendFlags,
) -> Result<usize, RegionFault> {
    let server = &core.membership.server;
    let pool = &core.membership.tx;
    queue.take_back_released(&core.words, pool)?;
    let before = queue.unreleased();
    // The last descriptor made: published when it is known whether another follows.
    let mut last: Option<DataDescriptor> = None;
    let mut pushed = 0;
    while from.left > 0 && queue.has_slots(1 + u32::from(last.is_some()))? {
        let allowed = usize::try_from(queue.allowed(&core.words, 0)).unwrap_or(usize::MAX);
        let now = allowed.min(from.left).min(queue.room(pool, 1));
        if now == 0 {
            break;
        }
        let next = queue.fill(from, now)?;
        server.count_copied_tx(now);
        pushed += now;
        if let Some(last) = last.replace(next) {
            let last = DataDescriptor { flags: DataFlags::MORE, ..last };
            match server.stack() {
                None => publish(core, queue, &last, None)?,
                // The stack works once, for all of it.
                Some(_) => queue.stage(&last.encode())?,
            }
        }
    }
    if let Some(last) = last {
        let all = from.left == 0;
        let flags =
            SendFlags { eor: said.eor && all, urgent: said.urgent && all, ..said }.to_bits();
        queue.stage(&DataDescriptor { flags, ..last }.encode())?;
        let may_wait = before > 0 && !said.urgent && queue.may_defer()?;
        if publish_staged(core, queue, may_wait) {
            queue.note_served();
        }
    }
    Ok(pushed)
}

/// Publishes a descriptor, and the slot that comes with it.
pub(super) fn publish(
    core: &SocketCore,
    queue: &mut SendQueue,
    descriptor: &DataDescriptor,
    with: Option<&Slot>,
) -> Result<(), RegionFault> {
    for slot in [Some(&descriptor.encode()), with].into_iter().flatten() {
        queue.stage(slot)?;
    }
    publish_staged(core, queue, false);
    Ok(())
}

/// Publishes the staged descriptors. With `may_wait`, a stack in this process that works anyway may
/// see them later. True: the server was notified at once.
#[inline]
pub(super) fn publish_staged(core: &SocketCore, queue: &mut SendQueue, may_wait: bool) -> bool {
    let server = &core.membership.server;
    server.mark(TraceStage::Request);
    queue.publish(&core.words);
    let announced = server.announce(core.id.index, may_wait);
    server.mark(TraceStage::Send);
    announced
}

/// Would a send go on now, whatever the room? True: yes, or it would end with an error. False: the
/// stream still connects. `None`: the room decides.
pub(super) fn may_send_now(core: &SocketCore) -> Option<bool> {
    let flags = core.flags();
    if flags.has(SocketFlags::WRITE_CLOSED) || core.has_error() || core.check().is_err() {
        return Some(true);
    }
    if core.is_stream() && !flags.has(SocketFlags::CONNECTED) {
        return Some(!flags.has(SocketFlags::CONNECTING));
    }
    None
}

/// The longest datagram that there can be room for.
pub(super) fn largest_datagram(core: &SocketCore) -> usize {
    let Membership { server, tx, .. } = &*core.membership;
    if tx.could_hold(MOST_V6, server.layout().params.sockets) { MOST_V6 } else { tx.area_len() }
}

/// Makes the server check which datagrams have left. Without it the server is not woken for them.
/// Call it after the announcement of the wait.
pub(super) fn hasten_release(core: &SocketCore) {
    if core.kind != SocketKind::Stream {
        core.membership.server.ring();
    }
}

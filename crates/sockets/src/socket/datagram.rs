//! Sending datagrams: each is one descriptor, with a second slot for its ancillary data.
//!
//! A datagram lies in one piece, in an area as long as it needs. Which errors a send reports itself
//! is in `destinations`.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use abi::ancillary::SendAncillary;
use abi::data::{DataDescriptor, DataFlags};
use abi::{Errno, Family, SocketFlags};

use super::core::SocketCore;
use super::send::{MOST_V6, SendHalf, publish};
use crate::error::RegionFault;
use crate::lock::lock;
use crate::memory::{SendBuffers, SendQueue};
use crate::wait::Wait;

/// Most payload of a UDP datagram over IPv4: 65,535 bytes with both headers.
const MOST_V4: usize = 65_507;

/// A datagram, but for its bytes.
pub(super) struct Addressed<'a> {
    pub(super) len: usize,
    /// It is not complete yet.
    pub(super) more: bool,
    pub(super) to: Option<SocketAddr>,
    pub(super) ancillary: &'a SendAncillary,
}

impl SendHalf {
    /// Sends one datagram, the bytes of `from`.
    pub(super) fn send_datagram(
        &self,
        core: &SocketCore,
        from: &mut SendBuffers<'_>,
        datagram: &Addressed<'_>,
        wait: Wait,
    ) -> Result<usize, Errno> {
        // As Linux: one that is too long for any packet of IPv6 is refused by the stack, which
        // notes it in the error queue. Its first bytes are enough for that.
        let most = usize::from(u16::MAX);
        let too_long = datagram.len > most && goes_by_v6(core, datagram.to);
        let shortened = too_long.then_some(Addressed { len: most, ..*datagram });
        let datagram = shortened.as_ref().unwrap_or(datagram);
        let push = |queue: &mut SendQueue| push_datagram(core, queue, from, datagram);
        self.send_addressed(core, datagram, wait, || self.may_go_on(core), push)
    }

    /// Sends a datagram that `push` publishes when there is room; `is_ready` as in
    /// [`SocketCore::wait_until`].
    pub(super) fn send_addressed<T>(
        &self,
        core: &SocketCore,
        datagram: &Addressed<'_>,
        wait: Wait,
        is_ready: impl Fn() -> bool,
        mut push: impl FnMut(&mut SendQueue) -> Result<Option<T>, RegionFault>,
    ) -> Result<T, Errno> {
        let &Addressed { len, more, to, ancillary } = datagram;
        // A further part goes where the first one goes.
        let continues = self.open.load(Ordering::Relaxed);
        let attempt = || {
            may_send_datagram(core, len, (to, continues))?;
            let mut queue = lock(&self.queue);
            let queue = queue.as_mut().ok_or(Errno::BADF)?;
            let before = queue.sent();
            let pushed = push(queue).map_err(|RegionFault| core.stale_or(Errno::IO))?;
            match core.move_counts()? {
                Some(counts) if queue.sent().max(before + 1) > counts.sent => Err(Errno::STALE),
                _ => Ok(pushed),
            }
        };
        let sent = core.wait_until(wait, attempt, is_ready)?;
        // As Linux: the stack refuses what no packet holds, and notes it in the error queue.
        let fits = len <= MOST_V4 || len <= MOST_V6 && goes_by_v6(core, to);
        let known = fits && lock(&self.destinations).knows(to, len, ancillary);
        self.open.store(more || self.corked.load(Ordering::Relaxed), Ordering::Relaxed);
        if !known || continues {
            core.flush().inspect_err(|_| self.open.store(false, Ordering::Relaxed))?;
            let by_length = self.dont_fragment.load(Ordering::Relaxed)
                || self.segments.load(Ordering::Relaxed)
                || ancillary.segment != 0;
            let mut destinations = lock(&self.destinations);
            destinations.note(to, if by_length { len } else { usize::MAX });
            if *ancillary != SendAncillary::default() {
                destinations.note_manner(ancillary);
            }
        }
        Ok(sent)
    }
}

fn may_send_datagram(
    core: &SocketCore,
    len: usize,
    (to, continues): (Option<SocketAddr>, bool),
) -> Result<(), Errno> {
    core.check()?;
    let state = core.flags();
    if state.has(SocketFlags::MOVED) {
        return Err(core.take_error().unwrap_or(Errno::STALE));
    }
    // As Linux: before a pending error, which stays.
    if to.is_none() && !continues && !state.has(SocketFlags::CONNECTED) {
        return Err(Errno::DESTADDRREQ);
    }
    if let Some(errno) = core.take_error() {
        return Err(errno);
    }
    if state.has(SocketFlags::WRITE_CLOSED) {
        return Err(Errno::PIPE);
    }
    if core.family == Family::V4 && to.is_some_and(|to| to.is_ipv6()) {
        return Err(Errno::AFNOSUPPORT);
    }
    let sockets = core.membership.server.layout().params.sockets;
    if len > usize::from(u16::MAX) || !core.membership.tx.could_hold(len, sockets) {
        return Err(Errno::MSGSIZE);
    }
    Ok(())
}

/// Does a datagram to there, or to the peer, go in packets of IPv6?
fn goes_by_v6(core: &SocketCore, to: Option<SocketAddr>) -> bool {
    core.family == Family::V6 && to.is_none_or(|to| is_v6(to.ip()))
}

fn push_datagram(
    core: &SocketCore,
    queue: &mut SendQueue,
    from: &mut SendBuffers<'_>,
    datagram: &Addressed<'_>,
) -> Result<Option<usize>, RegionFault> {
    let &Addressed { len, more, to, ancillary } = datagram;
    let pool = &core.membership.tx;
    queue.take_back_released(&core.words, pool)?;
    let said = (*ancillary != SendAncillary::default()).then(|| ancillary.encode());
    // As on Linux, the last datagram may go over the limit. An empty datagram needs an area as
    // well, because its descriptor names one.
    if queue.allowed(&core.words, 0) == 0
        || queue.free_slots()? < 1 + u32::from(said.is_some())
        || queue.room(pool, len.max(1)) < len.max(1)
    {
        return Ok(None);
    }
    let descriptor = queue.fill(from, len)?;
    core.membership.server.count_copied_tx(len);
    let flags = DataFlags::MORE.when(more) | DataFlags::ANCILLARY.when(said.is_some());
    publish(core, queue, &DataDescriptor { peer: to, flags, ..descriptor }, said.as_ref())?;
    Ok(Some(len))
}

/// Is it an address of IPv6, and not an IPv4-mapped one?
fn is_v6(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_none(),
    }
}

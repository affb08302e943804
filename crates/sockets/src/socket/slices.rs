//! Sending slices: descriptors that name the program's own areas.
//!
//! The server may read a sent slice until it releases it. A stream's slice is released when the
//! peer has acknowledged it and the drivers have passed the last frame with it. Slices are numbered
//! per socket, as with MSG_ZEROCOPY; how many are over is a counter ([`Socket::slices_done`]), and
//! a thread can wait for one ([`Socket::wait_slice`]). Then
//! [`TxSlice::reclaim`](crate::TxSlice::reclaim) gives the area back for writing, if it was its
//! last slice; otherwise the area goes back to the pool with its last slice.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

use abi::ancillary::SendAncillary;
use abi::data::{DataDescriptor, DataFlags};
use abi::{Errno, SocketKind};
use shm::Waiters;

use super::core::SocketCore;
use super::datagram::Addressed;
use super::handle::Socket;
use super::send::{SendFlags, hasten_release, may_send_now, publish_staged};
use crate::error::RegionFault;
use crate::lock::lock;
use crate::memory::{SendQueue, TxSlice};
use crate::wait::Wait;

/// Most slices of one send.
pub const MOST_SLICES: usize = 32;
/// Most slices of one datagram: the pieces of memory that the core puts into one.
const MOST_OF_DATAGRAM: usize = 5;

impl Socket {
    /// Sends all bytes of `slices` in order, as a stream's next bytes or as one datagram to `to` or
    /// the connected peer. `to` is ignored on a stream. No byte is copied, and the cost does not
    /// depend on their number. Returns the numbers of these slices among all that were sent on this
    /// socket, counted from 0.
    ///
    /// A stream takes slices of any length as soon as fewer bytes than SO_SNDBUF are unreleased.
    ///
    /// # Errors
    /// EINVAL for no slices, for more than [`MOST_SLICES`], for one of another client, and on a
    /// stream for an empty one; EMSGSIZE for a datagram of more than 5 slices; EAGAIN when there is
    /// no room and no time; otherwise those of [`Socket::send`]. Then nothing was sent.
    pub fn send_slices(
        &self,
        slices: &[TxSlice],
        flags: SendFlags,
        to: Option<SocketAddr>,
        wait: Wait,
    ) -> Result<Range<u64>, Errno> {
        let pool = &self.membership().tx;
        let ours = |slice: &TxSlice| slice.is_of(pool);
        if !(1..=MOST_SLICES).contains(&slices.len()) || !slices.iter().all(ours) {
            return Err(Errno::INVAL);
        }
        match self.core().kind {
            SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => {
                self.send_datagram_slices(slices, flags, to, wait)
            }
            SocketKind::Stream if slices.iter().any(|slice| slice.is_empty()) => Err(Errno::INVAL),
            SocketKind::Stream => self.send_stream_slices(slices, flags, wait),
        }
    }

    fn send_stream_slices(
        &self,
        slices: &[TxSlice],
        flags: SendFlags,
        wait: Wait,
    ) -> Result<Range<u64>, Errno> {
        let (core, half) = (self.core(), self.send_half());
        let attempt = || {
            if !half.may_send(core, true)? {
                return Ok(None);
            }
            let mut queue = lock(&half.queue);
            let queue = queue.as_mut().ok_or(Errno::BADF)?;
            let pushed = push_slices(core, queue, slices, flags, None);
            match core.move_counts()? {
                Some(counts) if queue.sent() > counts.sent => Err(Errno::STALE),
                _ => pushed.map_err(|RegionFault| Errno::IO),
            }
        };
        let numbers = core.wait_until(wait, attempt, || self.may_take(slices.len()))?;
        if half.take_syn_room().is_some() {
            match half.open_with_queued(core, wait) {
                // The queued bytes go with the attempt.
                Ok(()) | Err(Errno::INPROGRESS) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(numbers)
    }

    fn send_datagram_slices(
        &self,
        slices: &[TxSlice],
        flags: SendFlags,
        to: Option<SocketAddr>,
        wait: Wait,
    ) -> Result<Range<u64>, Errno> {
        if slices.len() > MOST_OF_DATAGRAM {
            return Err(Errno::MSGSIZE);
        }
        let len = slices.iter().fold(0_usize, |sum, slice| sum.saturating_add(slice.len()));
        let ancillary = SendAncillary::default();
        let datagram = Addressed { len, more: flags.more, to, ancillary: &ancillary };
        let core = self.core();
        let push = |queue: &mut SendQueue| push_slices(core, queue, slices, flags, to);
        let is_ready = || self.may_take(slices.len());
        self.send_half().send_addressed(core, &datagram, wait, is_ready, push)
    }

    /// Would sending so many slices go on, or end?
    fn may_take(&self, slices: usize) -> bool {
        let core = self.core();
        if let Some(now) = may_send_now(core) {
            return now;
        }
        let (pool, words) = (&core.membership.tx, &core.words);
        let takes = |queue: &mut SendQueue| {
            queue
                .take_back_released(words, pool)
                .and_then(|()| queue.takes(slices, words))
                .unwrap_or(true)
        };
        let mut queue = lock(&self.send_half().queue);
        queue.as_mut().is_none_or(|queue| {
            if takes(queue) {
                return true;
            }
            // The server rings for slots of a queue that is not full only if it is asked to.
            words.waiters.await_position(Waiters::ROOM, queue.released());
            fence(Ordering::SeqCst);
            takes(queue)
        })
    }

    /// Slices are released in the order in which they were sent. All with a number below the
    /// returned one are not needed any more.
    ///
    /// # Errors
    /// EIO when the server wrote something impossible; EBADF after close; ENETDOWN when the
    /// instance is gone; ENOTCONN in a forked child. After an error the areas come back when the
    /// socket is dropped.
    pub fn slices_done(&self) -> Result<u64, Errno> {
        let (done, sent) = self.slices()?;
        if done < sent {
            hasten_release(self.core());
        }
        Ok(done)
    }

    /// Slices that are not needed any more, and all that were sent.
    fn slices(&self) -> Result<(u64, u64), Errno> {
        self.core().check()?;
        let mut queue = lock(&self.send_half().queue);
        let queue = queue.as_mut().ok_or(Errno::BADF)?;
        queue
            .take_back_released(&self.core().words, &self.membership().tx)
            .map_err(|RegionFault| Errno::IO)?;
        Ok((queue.slices_done(), queue.slices_sent()))
    }

    /// Waits until the slice of that number (see [`Socket::send_slices`]) is not needed any more.
    /// With [`Wait::No`] it only requests that the socket's version change then, for
    /// [`Client::wait_any`](crate::Client::wait_any).
    ///
    /// # Errors
    /// EINVAL if no slice of that number was sent; EAGAIN when the time is over; EINTR; otherwise
    /// as [`Socket::slices_done`].
    pub fn wait_slice(&self, number: u64, wait: Wait) -> Result<(), Errno> {
        let attempt = || {
            if self.slices()?.0 > number {
                return Ok(Some(()));
            }
            let queue = lock(&self.send_half().queue);
            let sent = queue.as_ref().ok_or(Errno::BADF)?;
            let end = sent.end_of_slice(number).ok_or(Errno::INVAL)?;
            // The server rings for less than a roomy queue only if it is asked to.
            self.core().words.waiters.await_position(end, sent.released());
            drop(queue);
            hasten_release(self.core());
            Ok(None)
        };
        self.core().wait_until(wait, attempt, || self.slices().is_ok_and(|(done, _)| done > number))
    }
}

/// Publishes all of `slices` if there is room for as many.
fn push_slices(
    core: &SocketCore,
    queue: &mut SendQueue,
    slices: &[TxSlice],
    said: SendFlags,
    to: Option<SocketAddr>,
) -> Result<Option<Range<u64>>, RegionFault> {
    queue.take_back_released(&core.words, &core.membership.tx)?;
    if !queue.takes(slices.len(), &core.words)? {
        return Ok(None);
    }
    let first = queue.slices_sent();
    for (left, slice) in (0..slices.len()).rev().zip(slices) {
        let descriptor = slice.descriptor().ok_or(RegionFault)?;
        let flags = if left > 0 { DataFlags::MORE } else { said.to_bits() };
        queue.record_slice(slice.clone());
        queue.stage(&DataDescriptor { flags, peer: to, ..descriptor }.encode())?;
    }
    publish_staged(core, queue, false);
    Ok(Some(first..queue.slices_sent()))
}

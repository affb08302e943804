//! Sending slices: descriptors that name the program's own areas.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

use abi::ancillary::SendAncillary;
use abi::data::DataDescriptor;
use abi::{Errno, SocketFlags, SocketKind};
use shm::Waiters;

use super::TxSlice;
use crate::client::lock;
use crate::datagram::Addressed;
use crate::error::Broken;
use crate::send::{SendFlags, SendSide};
use crate::socket::Socket;
use crate::wait::{Wait, until};

/// Most slices of one send.
pub const MOST_SLICES: usize = 32;
/// Most slices of one datagram: the pieces of memory that the core puts into one.
const MOST_OF_DATAGRAM: usize = 5;

impl Socket {
    /// Sends the bytes of `slices`, one after the other and all of them: a stream's next bytes, or
    /// one datagram to `to` or the connected peer (`to` is ignored on a stream). No byte is copied,
    /// and the cost does not depend on their number. Returns the numbers of these slices among all
    /// that were sent on this socket, counted from 0.
    ///
    /// A stream takes them when less than SO_SNDBUF is on its way, however long they are.
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
        let ours = |slice: &TxSlice| slice.is_of(&self.client().tx);
        if !(1..=MOST_SLICES).contains(&slices.len()) || !slices.iter().all(ours) {
            return Err(Errno::INVAL);
        }
        match self.kind() {
            SocketKind::Datagram => self.send_datagram_slices(slices, flags, to, wait),
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
        let attempt = || {
            if !self.may_send(true)? {
                return Ok(None);
            }
            let mut side = lock(self.send_side());
            let side = side.as_mut().ok_or(Errno::BADF)?;
            self.push_slices(side, slices, flags, None).map_err(|Broken| Errno::IO)
        };
        let numbers = until(self, wait, attempt, || self.may_take(slices.len()))?;
        if self.take_syn_room().is_some() {
            match self.open_with_queued(wait) {
                // What is queued goes with the attempt.
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
        let push = |side: &mut SendSide| self.push_slices(side, slices, flags, to);
        self.send_addressed(&datagram, wait, || self.may_take(slices.len()), push)
    }

    /// Publishes all of `slices` if there is room for as many.
    fn push_slices(
        &self,
        side: &mut SendSide,
        slices: &[TxSlice],
        said: SendFlags,
        to: Option<SocketAddr>,
    ) -> Result<Option<Range<u64>>, Broken> {
        side.collect(self.words(), &self.client().tx)?;
        if !side.takes(slices.len(), self.tx_limit())? {
            return Ok(None);
        }
        let first = side.slices_sent();
        for (left, slice) in (0..slices.len()).rev().zip(slices) {
            let descriptor = slice.descriptor().ok_or(Broken)?;
            let flags = if left > 0 { DataDescriptor::MORE } else { said.to_bits() };
            side.lend(slice.clone());
            side.stage(&DataDescriptor { flags, peer: to, ..descriptor }.encode())?;
        }
        self.publish_staged(side);
        Ok(Some(first..side.slices_sent()))
    }

    /// Would sending so many slices go on, or end?
    fn may_take(&self, slices: usize) -> bool {
        let flags = self.flags();
        if flags.has(SocketFlags::WRITE_CLOSED)
            || self.words().error.load(Ordering::Acquire) != 0
            || self.check().is_err()
        {
            return true;
        }
        if self.kind() == SocketKind::Stream && !flags.has(SocketFlags::CONNECTED) {
            return !flags.has(SocketFlags::CONNECTING);
        }
        let (limit, pool, words) = (self.tx_limit(), &self.client().tx, self.words());
        let takes = |side: &mut SendSide| {
            side.collect(words, pool).and_then(|()| side.takes(slices, limit)).unwrap_or(true)
        };
        let mut side = lock(self.send_side());
        side.as_mut().is_none_or(|side| {
            if takes(side) {
                return true;
            }
            // The server rings for slots of a queue that is not full only if it is asked to.
            words.waiters.await_place(Waiters::ROOM, side.released());
            fence(Ordering::SeqCst);
            takes(side)
        })
    }

    /// How many of the slices sent on this socket are not needed any more: those numbered below.
    /// They end in order.
    ///
    /// # Errors
    /// EIO when the server says what cannot be; EBADF after close, ENETDOWN when the instance is
    /// gone, ENOTCONN in a forked child: areas come back then when the socket is dropped.
    pub fn slices_done(&self) -> Result<u64, Errno> {
        let (done, sent) = self.slices()?;
        if done < sent {
            self.hasten_release();
        }
        Ok(done)
    }

    /// Slices that are not needed any more, and all that were sent.
    fn slices(&self) -> Result<(u64, u64), Errno> {
        self.check()?;
        let mut side = lock(self.send_side());
        let side = side.as_mut().ok_or(Errno::BADF)?;
        side.collect(self.words(), &self.client().tx).map_err(|Broken| Errno::IO)?;
        Ok((side.slices_done(), side.slices_sent()))
    }

    /// Waits until the slice of that number (see [`Socket::send_slices`]) is not needed any more.
    /// With [`Wait::No`] it only asks that the socket's version change then, for
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
            let side = lock(self.send_side());
            let sent = side.as_ref().ok_or(Errno::BADF)?;
            let end = sent.end_of_slice(number).ok_or(Errno::INVAL)?;
            // The server rings for less than a roomy queue only if it is asked to.
            self.words().waiters.await_place(end, sent.released());
            drop(side);
            self.hasten_release();
            Ok(None)
        };
        until(self, wait, attempt, || self.slices().is_ok_and(|(done, _)| done > number))
    }
}

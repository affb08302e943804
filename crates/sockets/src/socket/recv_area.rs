//! Receiving in place: the bytes of a descriptor, until the program gives them back.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::Ordering;

use abi::ancillary::RecvAncillary;
use abi::data::{DataDescriptor, DataFlags};
use abi::{Errno, SocketFlags};
use shm::BorrowedBytes;

use super::core::SocketCore;
use super::handle::Socket;
use super::held_parts::HeldPart;
use super::recv::RecvHalf;
use super::recv_queue::RecvQueue;
use super::urgent::{UrgentAhead, urgent_ahead};
use crate::error::RegionFault;
use crate::lock::lock;
use crate::membership::Membership;
use crate::wait::Wait;

/// Received bytes in place, from [`Socket::recv_area`]: the next of a stream, or one datagram.
///
/// Dropping it gives the memory back. A program that holds much of it closes the peer's window, as
/// if it did not read.
pub struct RxArea {
    bytes: Option<BorrowedBytes>,
    from: Option<SocketAddr>,
    ancillary: Option<RecvAncillary>,
    /// Its number; `None` at the end of the stream.
    number: Option<u64>,
    socket: Socket,
}

impl fmt::Debug for RxArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RxArea").field("len", &self.len()).field("from", &self.from).finish()
    }
}

impl Deref for RxArea {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }
}

impl RxArea {
    /// The sender of the datagram. Streams: `None`.
    #[must_use]
    pub fn from(&self) -> Option<SocketAddr> {
        self.from
    }

    /// How the datagram came, if an option of the socket asks for it ([`crate::AncillarySet`]).
    #[must_use]
    pub fn ancillary(&self) -> Option<&RecvAncillary> {
        self.ancillary.as_ref()
    }
}

impl Drop for RxArea {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        self.bytes = None;
        self.socket.end_held(number);
    }
}

/// A descriptor taken out of the queue.
struct TakenDescriptor {
    bytes: Option<BorrowedBytes>,
    from: Option<SocketAddr>,
    ancillary: Option<RecvAncillary>,
    number: u64,
}

impl RecvQueue {
    /// Takes the rest of the oldest descriptor of a stream, up to an urgent byte, as
    /// [`Socket::recv`] does. `None` if nothing is there.
    fn take_stream(
        &mut self,
        membership: &Membership,
        ahead: impl Fn(u64) -> UrgentAhead,
    ) -> Result<Option<TakenDescriptor>, RegionFault> {
        loop {
            let Some(descriptor) = self.descriptor(0)? else { return Ok(None) };
            let left = descriptor.len.checked_sub(self.taken).filter(|&left| left > 0);
            let left = left.ok_or(RegionFault)?;
            let (most, pass) = match ahead(self.consumed) {
                UrgentAhead::Nothing | UrgentAhead::Mark(0) => (u32::MAX, false),
                UrgentAhead::Mark(bytes) => (u32::try_from(bytes).unwrap_or(u32::MAX), false),
                UrgentAhead::Hidden => (1, true),
            };
            let now = left.min(most);
            let offset = descriptor.offset.checked_add(self.taken).ok_or(RegionFault)?;
            let bytes = match pass {
                true => None,
                false => {
                    let pool = membership.pool_of(&descriptor)?;
                    Some(pool.borrow_bytes(descriptor.area, offset, now)?)
                }
            };
            let start = self.consumed;
            self.taken += now;
            self.consumed += u64::from(now);
            let slots = u32::from(self.taken == descriptor.len);
            if slots == 1 {
                self.taken = 0;
                self.queue.advance();
            }
            let part = HeldPart { start, live: true, bytes: now.into(), slots };
            let number = self.held.push(part);
            if !pass {
                let from = descriptor.peer;
                return Ok(Some(TakenDescriptor { bytes, from, ancillary: None, number }));
            }
            // The program never holds the byte that was passed over.
            if let Some((bytes, slots)) = self.held.end(number) {
                self.quiet_bytes += bytes;
                self.quiet_slots += slots;
            }
        }
    }

    /// Takes the oldest datagram.
    fn take_datagram(
        &mut self,
        membership: &Membership,
    ) -> Result<Option<TakenDescriptor>, RegionFault> {
        let Some(descriptor) = self.descriptor(0)? else { return Ok(None) };
        let ancillary = match descriptor.flags.has(DataFlags::ANCILLARY) {
            false => None,
            true => Some(RecvAncillary::decode(&self.queue.peek_at(1)?.ok_or(RegionFault)?)?),
        };
        let DataDescriptor { area, offset, len, peer: from, .. } = descriptor;
        let bytes = match len {
            0 => None,
            len => Some(membership.pool_of(&descriptor)?.borrow_bytes(area, offset, len)?),
        };
        let slots = 1 + u32::from(ancillary.is_some());
        for _ in 0..slots {
            self.queue.advance();
        }
        let part = HeldPart { start: self.consumed, live: true, bytes: len.into(), slots };
        let number = self.held.push(part);
        self.consumed += 1;
        Ok(Some(TakenDescriptor { bytes, from, ancillary, number }))
    }
}

impl RecvHalf {
    /// Takes the next part into `part`, which stays empty at the end of the stream. `None`: there
    /// is nothing yet. A part is large, so it is written in place and not returned.
    fn try_recv_part(
        &self,
        core: &SocketCore,
        part: &mut Option<TakenDescriptor>,
    ) -> Result<Option<()>, Errno> {
        core.check()?;
        // The server writes flags last. If they show an end, the data before it is seen below.
        let flags = core.flags();
        let stream = core.is_stream();
        if !stream && let Some(errno) = core.take_error() {
            return Err(errno);
        }
        {
            let mut queue = lock(&self.queue);
            let queue = queue.as_mut().ok_or(Errno::BADF)?;
            // Looked at under the lock: closing sets it first, and looks for held parts there.
            if core.is_closed() {
                return Err(Errno::BADF);
            }
            let taken = match stream {
                true => queue.take_stream(&core.membership, |at| urgent_ahead(core, at)),
                false => queue.take_datagram(&core.membership),
            };
            self.taken.store(queue.consumed(), Ordering::Release);
            *part = taken.map_err(|RegionFault| Errno::IO)?;
        }
        if part.is_some() {
            return Ok(Some(()));
        }
        // As Linux: an error after the peer's FIN does not hide the end, and stays pending.
        let ended = flags.has(SocketFlags::PEER_ENDED);
        if stream
            && !ended
            && let Some(errno) = core.take_error()
        {
            return Err(errno);
        }
        let coming = flags.has_any(SocketFlags::CONNECTED | SocketFlags::CONNECTING);
        match flags.has(SocketFlags::READ_CLOSED) {
            true => Ok(Some(())),
            false if stream && !coming => Err(Errno::NOTCONN),
            false => Ok(None),
        }
    }
}

impl Socket {
    /// Receives in place: the bytes that one descriptor of a stream names (at least one), or one
    /// datagram. No byte is copied here. Empty: the end of the stream, or an empty datagram.
    ///
    /// # Errors
    /// As [`Socket::recv`].
    pub fn recv_area(&self, wait: Wait) -> Result<RxArea, Errno> {
        let (core, half) = (self.core(), self.recv_half());
        let mut part = None;
        half.until_received(core, wait, || half.try_recv_part(core, &mut part))?;
        let socket = self.clone();
        let Some(TakenDescriptor { bytes, from, ancillary, number }) = part else {
            return Ok(RxArea { bytes: None, from: None, ancillary: None, number: None, socket });
        };
        if from.is_some() {
            self.note_sender(from);
        }
        Ok(RxArea { bytes, from, ancillary, number: Some(number), socket })
    }
}

//! Receiving in place: the bytes of a descriptor, until the program gives them back.
//!
//! The server gets memory back by one counter in queue order, so the counter stays behind the
//! oldest part that the program still holds, whatever was received after it. Parts are numbered
//! from the oldest on, so that giving one back takes constant time.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::Ordering;

use abi::ancillary::RecvAncillary;
use abi::data::DataDescriptor;
use abi::{Errno, SocketFlags, SocketKind};
use shm::Borrowed;

use crate::client::{Client, lock};
use crate::error::Broken;
use crate::recv::RecvSide;
use crate::socket::Socket;
use crate::urgent::Ahead;
use crate::wait::Wait;

/// A part that was received and of which the server is not told yet.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Where it begins, in bytes or datagrams received.
    pub(crate) start: u64,
    /// The program holds it.
    pub(crate) live: bool,
    /// Bytes and descriptors that it is.
    pub(crate) bytes: u64,
    pub(crate) slots: u32,
}

/// The parts kept, oldest first; the first is live.
#[derive(Debug, Default)]
pub(crate) struct KeptList {
    parts: VecDeque<Kept>,
    /// The number of the first.
    first: u64,
}

impl KeptList {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Where the first begins.
    pub(crate) fn first(&self) -> Option<u64> {
        self.parts.front().map(|kept| kept.start)
    }

    /// Keeps one more; its number.
    pub(crate) fn push(&mut self, kept: Kept) -> u64 {
        self.parts.push_back(kept);
        self.first + self.parts.len() as u64 - 1
    }

    /// The program gives a part back. Bytes and descriptors of those that are over with it, the
    /// first and what follows it; `None` if an older one is still held.
    pub(crate) fn end(&mut self, number: u64) -> Option<(u64, u32)> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.parts.get_mut(index)?.live = false;
        let (mut bytes, mut slots) = (0, 0);
        while let Some(kept) = self.parts.front().filter(|kept| !kept.live) {
            (bytes, slots) = (bytes + kept.bytes, slots + kept.slots);
            self.first += 1;
            self.parts.pop_front();
        }
        (slots > 0 || bytes > 0).then_some((bytes, slots))
    }
}

/// Received bytes in place, from [`Socket::recv_area`]: the next of a stream, or one datagram.
///
/// Dropping it gives the memory back. A program that holds much of it closes the peer's window, as
/// one that does not read.
pub struct RxArea {
    bytes: Option<Borrowed>,
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
    /// Who sent the datagram. Streams: `None`.
    #[must_use]
    pub fn from(&self) -> Option<SocketAddr> {
        self.from
    }

    /// How the datagram came, if an option of the socket asks for it ([`crate::asked`]).
    #[must_use]
    pub fn ancillary(&self) -> Option<&RecvAncillary> {
        self.ancillary.as_ref()
    }
}

impl Drop for RxArea {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        self.bytes = None;
        // In a forked child the queues are the parent's, and its lock may be held for ever.
        if self.socket.client().is_stranger() {
            return;
        }
        let last = {
            let mut side = lock(self.socket.recv_side());
            let Some(side) = side.as_mut() else { return };
            self.socket.give_back(side, number);
            side.kept.is_empty()
        };
        if last && self.socket.is_closed() {
            self.socket.close();
        }
    }
}

/// What was taken out of the queue.
struct Taken {
    bytes: Option<Borrowed>,
    descriptor: DataDescriptor,
    ancillary: Option<RecvAncillary>,
    number: u64,
}

impl RecvSide {
    /// Takes the rest of the oldest descriptor of a stream, up to an urgent byte, as
    /// [`Socket::recv`] does. `None` if nothing is there.
    fn take_stream(
        &mut self,
        client: &Client,
        ahead: impl Fn(u64) -> Ahead,
    ) -> Result<Option<Taken>, Broken> {
        loop {
            let Some(descriptor) = self.descriptor(0)? else { return Ok(None) };
            let left = descriptor.len.checked_sub(self.taken).filter(|&left| left > 0);
            let left = left.ok_or(Broken)?;
            let (most, pass) = match ahead(self.consumed) {
                Ahead::Nothing | Ahead::Mark(0) => (u32::MAX, false),
                Ahead::Mark(bytes) => (u32::try_from(bytes).unwrap_or(u32::MAX), false),
                Ahead::Hidden => (1, true),
            };
            let now = left.min(most);
            let offset = descriptor.offset.checked_add(self.taken).ok_or(Broken)?;
            let bytes = match pass {
                true => None,
                false => {
                    let pool = client.pool_of(&descriptor)?;
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
            let kept = Kept { start, live: true, bytes: now.into(), slots };
            let number = self.kept.push(kept);
            if !pass {
                return Ok(Some(Taken { bytes, descriptor, ancillary: None, number }));
            }
            // The byte that was passed over is nobody's.
            if let Some((bytes, slots)) = self.kept.end(number) {
                self.quiet_bytes += bytes;
                self.quiet_slots += slots;
            }
        }
    }

    /// Takes the oldest datagram.
    fn take_datagram(&mut self, client: &Client) -> Result<Option<Taken>, Broken> {
        let Some(descriptor) = self.descriptor(0)? else { return Ok(None) };
        let ancillary = match descriptor.flags & DataDescriptor::ANCILLARY {
            0 => None,
            _ => Some(RecvAncillary::decode(&self.queue.peek_at(1)?.ok_or(Broken)?)?),
        };
        let DataDescriptor { area, offset, len, .. } = descriptor;
        let bytes = match len {
            0 => None,
            len => Some(client.pool_of(&descriptor)?.borrow_bytes(area, offset, len)?),
        };
        let slots = 1 + u32::from(ancillary.is_some());
        for _ in 0..slots {
            self.queue.advance();
        }
        let kept = Kept { start: self.consumed, live: true, bytes: len.into(), slots };
        let number = self.kept.push(kept);
        self.consumed += 1;
        Ok(Some(Taken { bytes, descriptor, ancillary, number }))
    }
}

impl Socket {
    /// Receives in place: what one descriptor names of a stream, at least a byte, or one datagram.
    /// No byte is copied here. Empty: the end of the stream, or an empty datagram.
    ///
    /// # Errors
    /// As [`Socket::recv`].
    pub fn recv_area(&self, wait: Wait) -> Result<RxArea, Errno> {
        self.until_received(wait, || self.try_recv_area())
    }

    fn try_recv_area(&self) -> Result<Option<RxArea>, Errno> {
        self.check()?;
        // The server writes flags last: what came before an end that they show is seen below.
        let flags = self.flags();
        let stream = self.kind() == SocketKind::Stream;
        if !stream && let Some(errno) = self.take_error() {
            return Err(errno);
        }
        let taken = {
            let mut side = lock(self.recv_side());
            let side = side.as_mut().ok_or(Errno::BADF)?;
            // Looked at under the lock: closing looks there for what is kept, after it has begun.
            if self.is_closed() {
                return Err(Errno::BADF);
            }
            let taken = match stream {
                true => side.take_stream(self.client(), |at| self.urgent_ahead(at)),
                false => side.take_datagram(self.client()),
            };
            self.rx_taken().store(side.consumed, Ordering::Release);
            taken.map_err(|Broken| Errno::IO)?
        };
        if let Some(Taken { bytes, descriptor, ancillary, number }) = taken {
            let (from, socket) = (descriptor.peer, self.clone());
            if from.is_some() {
                // Who sends to us can be answered.
                lock(self.confirmed()).note(from, usize::MAX);
            }
            return Ok(Some(RxArea { bytes, from, ancillary, number: Some(number), socket }));
        }
        if stream && let Some(errno) = self.take_error() {
            return Err(errno);
        }
        let end = || RxArea {
            bytes: None,
            from: None,
            ancillary: None,
            number: None,
            socket: self.clone(),
        };
        let coming = flags.0 & (SocketFlags::CONNECTED | SocketFlags::CONNECTING);
        match flags.has(SocketFlags::READ_CLOSED) {
            true => Ok(Some(end())),
            false if stream && coming == 0 => Err(Errno::NOTCONN),
            false => Ok(None),
        }
    }
}

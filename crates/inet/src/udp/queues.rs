//! The two queues of a datagram socket.
//!
//! Sending: a datagram remains queued until it leaves, is dropped, or is parked until its neighbour
//! is resolved. Other datagrams may overtake a parked one. Bytes are released in the order of
//! sending, so one counter tells the owner which chunks it may use again.
//!
//! Receiving: the queue is bounded by payload bytes and by number. A datagram that does not fit is
//! dropped, as UDP may.

use alloc::collections::VecDeque;

use crate::bytes::{RxPiece, TxBytes};
use crate::held::HeldFrame;
use crate::udp::message::{DatagramInfo, OutgoingDatagram};

/// A datagram to be sent, or the rest of it.
#[derive(Debug)]
enum SendEntry<T> {
    Queued(OutgoingDatagram<T>),
    /// Waits elsewhere.
    Away,
    /// Sent or dropped.
    Done,
}

/// The sending side.
#[derive(Debug)]
pub(crate) struct DatagramSendQueue<T> {
    /// With their lengths; the first is number `first`.
    entries: VecDeque<(usize, SendEntry<T>)>,
    first: u64,
    /// Number of the first that may be queued.
    next: u64,
    released: u64,
    pending: usize,
    /// The last datagram is still to grow.
    corked: bool,
}

impl<T: TxBytes> DatagramSendQueue<T> {
    pub(crate) fn new() -> Self {
        let entries = VecDeque::new();
        Self { entries, first: 0, next: 0, released: 0, pending: 0, corked: false }
    }

    /// Number of datagrams not yet released.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Payload bytes of these.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending
    }

    /// Payload bytes released in total.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    pub(crate) fn push(&mut self, load: OutgoingDatagram<T>) {
        self.pending += load.len();
        self.entries.push_back((load.len(), SendEntry::Queued(load)));
    }

    /// The datagram of which more is to come.
    pub(crate) fn open(&self) -> Option<&OutgoingDatagram<T>> {
        match self.entries.back() {
            Some((_, SendEntry::Queued(load))) if self.corked => Some(load),
            _ => None,
        }
    }

    /// Adds to the datagram of which more is to come; gives the chunk back if that cannot be.
    pub(crate) fn append(&mut self, chunk: T) -> Result<(), T> {
        match self.entries.back_mut() {
            Some((len, SendEntry::Queued(load))) if self.corked => {
                let more = chunk.len();
                load.append(chunk)?;
                *len += more;
                self.pending += more;
                Ok(())
            }
            _ => Err(chunk),
        }
    }

    /// The number of the datagram of which more is to come; no more of it will. The caller drops
    /// it by [`done`](Self::done).
    pub(crate) fn take_open(&mut self) -> Option<u64> {
        self.open()?;
        self.corked = false;
        Some(self.first + self.entries.len().saturating_sub(1) as u64)
    }

    /// Sets whether the last datagram is still to grow.
    pub(crate) fn cork(&mut self, on: bool) {
        self.corked = on && matches!(self.entries.back(), Some((_, SendEntry::Queued(_))));
    }

    /// Removes the next queued datagram, with its number. The caller later calls
    /// [`done`](Self::done) or [`put_back`](Self::put_back).
    pub(crate) fn take(&mut self) -> Option<(u64, OutgoingDatagram<T>)> {
        if !self.has_queued() {
            return None;
        }
        let index = usize::try_from(self.next.saturating_sub(self.first)).ok()?;
        let (_, entry) = self.entries.get_mut(index)?;
        let number = self.next;
        match core::mem::replace(entry, SendEntry::Away) {
            SendEntry::Queued(load) => {
                self.next += 1;
                Some((number, load))
            }
            other => {
                *entry = other;
                None
            }
        }
    }

    /// Returns the datagram that was just taken, to be continued later.
    pub(crate) fn put_back(&mut self, number: u64, load: OutgoingDatagram<T>) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some((_, entry)) = index.and_then(|index| self.entries.get_mut(index)) {
            *entry = SendEntry::Queued(load);
            self.next = number;
        }
    }

    pub(crate) fn has_queued(&self) -> bool {
        let waiting = (self.entries.len() as u64).saturating_sub(u64::from(self.corked));
        self.next.saturating_sub(self.first) < waiting
    }

    /// Datagram `number` has been sent or dropped; whether [`released`](Self::released) moved.
    pub(crate) fn done(&mut self, number: u64) -> bool {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some((_, entry)) = index.and_then(|index| self.entries.get_mut(index)) {
            *entry = SendEntry::Done;
        }
        let before = self.released;
        while let Some((len, SendEntry::Done)) = self.entries.front() {
            self.released += *len as u64;
            self.pending -= *len;
            self.entries.pop_front();
            self.first += 1;
        }
        // One that was dropped unfinished was never taken.
        self.next = self.next.max(self.first);
        self.released != before
    }
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct DatagramRecvQueue<R> {
    entries: VecDeque<(RxPiece<HeldFrame<R>>, DatagramInfo)>,
    queued: usize,
    /// Given out and not consumed.
    outside: usize,
}

impl<R> DatagramRecvQueue<R> {
    pub(crate) fn new() -> Self {
        Self { entries: VecDeque::new(), queued: 0, outside: 0 }
    }

    /// Payload bytes that wait, given out or not.
    pub(crate) fn bytes(&self) -> usize {
        self.queued + self.outside
    }

    /// Whether a datagram of `len` bytes fits. An empty queue takes a datagram of any length.
    pub(crate) fn fits(&self, len: usize, bytes: usize, number: usize) -> bool {
        self.entries.len() < number && (self.bytes() == 0 || self.bytes() + len <= bytes)
    }

    pub(crate) fn push(&mut self, piece: RxPiece<HeldFrame<R>>, info: DatagramInfo) {
        self.queued += piece.range.len();
        self.entries.push_back((piece, info));
    }

    pub(crate) fn pop(&mut self) -> Option<(RxPiece<HeldFrame<R>>, DatagramInfo)> {
        let (piece, info) = self.entries.pop_front()?;
        self.queued -= piece.range.len();
        self.outside += piece.range.len();
        Some((piece, info))
    }

    /// Number and length of the datagrams at the front that can be given as one (UDP_GRO). They
    /// have the same ends and length, but for the last, which may be shorter.
    pub(crate) fn run(&self, most_bytes: usize) -> Option<(usize, usize)> {
        let (first, info) = self.entries.front()?;
        let segment = first.range.len();
        let (mut count, mut bytes) = (0, 0);
        for (piece, other) in &self.entries {
            let len = piece.range.len();
            if other != info || len > segment || count > 0 && bytes + len > most_bytes {
                break;
            }
            count += 1;
            bytes += len;
            if len < segment || segment == 0 {
                break;
            }
        }
        Some((count, segment))
    }

    pub(crate) fn consumed(&mut self, bytes: usize) {
        self.outside = self.outside.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use super::*;
    use crate::tests::Chunk;
    use crate::udp::message::DatagramParameters;

    fn load(len: usize) -> OutgoingDatagram<Chunk> {
        let message = DatagramParameters {
            to: SocketAddr::new([10, 0, 0, 1].into(), 53),
            source: None,
            interface: None,
            ttl: None,
            tos: None,
            segment: 0,
        };
        OutgoingDatagram::new(Chunk((0..len).map(|n| n as u8).collect()), message)
    }

    #[test]
    fn bytes_are_released_in_order() {
        let mut queue = DatagramSendQueue::new();
        [5, 7, 0, 11].into_iter().for_each(|len| queue.push(load(len)));
        let numbers: std::vec::Vec<_> =
            core::iter::from_fn(|| queue.take()).map(|(number, ..)| number).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert!(!queue.has_queued());
        assert!(!queue.done(1));
        assert_eq!((queue.released(), queue.pending_bytes()), (0, 23));
        assert!(queue.done(0));
        assert_eq!((queue.released(), queue.pending_bytes(), queue.len()), (12, 11, 2));
        assert!(queue.done(3) || queue.done(2));
        assert_eq!((queue.released(), queue.len()), (23, 0));
        assert!(!queue.done(0), "a number that is gone changes nothing");
    }

    #[test]
    fn a_corked_datagram_waits_and_grows() {
        let mut queue = DatagramSendQueue::new();
        assert!(queue.append(Chunk([1].into())).is_err());
        queue.push(load(3));
        queue.push(load(4));
        queue.cork(true);
        assert_eq!(queue.take().map(|(number, load)| (number, load.len())), Some((0, 3)));
        assert!(!queue.has_queued() && queue.take().is_none());
        queue.append(Chunk([9; 5].into())).unwrap();
        assert_eq!((queue.pending_bytes(), queue.open().map(OutgoingDatagram::len)), (12, Some(9)));
        queue.cork(false);
        let (number, mut taken) = queue.take().unwrap();
        let (pieces, count) = taken.pieces(2..7);
        let seen: std::vec::Vec<u8> =
            pieces[..count].iter().flat_map(|p| p.bytes.0[p.range.clone()].to_vec()).collect();
        assert_eq!((seen, count), ([2, 3, 9, 9, 9].to_vec(), 2));
        // The sum does not depend on how it is cut.
        let whole = [1, 2, 3, 9, 9, 9, 9];
        assert_eq!(taken.sum(1..8), smoltcp::wire::checksum::data(&whole));
        for n in 2..5 {
            taken.append(Chunk([n].into())).unwrap();
        }
        assert!(taken.append(Chunk([1].into())).is_err(), "more pieces than a frame has");
        taken.sent = 2;
        queue.put_back(number, taken);
        assert!(queue.take().is_some_and(|(again, load)| (again, load.sent) == (number, 2)));
        // One that is dropped unfinished leaves the numbers right.
        queue.done(0);
        queue.done(number);
        queue.push(load(6));
        queue.cork(true);
        let dropped = queue.take_open().unwrap();
        assert!(queue.done(dropped) && queue.len() == 0);
        queue.push(load(8));
        let (next, whole) = queue.take().unwrap();
        assert_eq!((next, whole.len()), (dropped + 1, 8));
        assert!(queue.done(next) && queue.len() == 0);
    }
}

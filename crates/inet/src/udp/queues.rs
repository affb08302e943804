//! The two queues of a datagram socket.
//!
//! Sending: a datagram stays queued until it leaves, is dropped, or is taken away to wait for its
//! neighbour's address; others may overtake it then. Its bytes are released in the order of
//! sending, so one counter tells the owner which chunks are its own again. Receiving: bounded by
//! payload bytes and by number; what does not fit is dropped, as UDP may.

use alloc::collections::VecDeque;
use core::net::SocketAddr;

use crate::bytes::RxPiece;
use crate::held::Held;

/// A datagram to be sent, or what is left of it.
#[derive(Debug)]
enum Outgoing<T> {
    Queued {
        chunk: T,
        to: SocketAddr,
    },
    /// Waits elsewhere.
    Away,
    /// Sent or dropped.
    Done,
}

/// The sending side.
#[derive(Debug)]
pub(crate) struct SendQueue<T> {
    /// With their lengths; the first is number `first`.
    entries: VecDeque<(usize, Outgoing<T>)>,
    first: u64,
    /// Number of the first that may be queued.
    next: u64,
    released: u64,
    pending: usize,
}

impl<T> SendQueue<T> {
    pub(crate) fn new() -> Self {
        Self { entries: VecDeque::new(), first: 0, next: 0, released: 0, pending: 0 }
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

    pub(crate) fn push(&mut self, len: usize, chunk: T, to: SocketAddr) {
        self.pending += len;
        self.entries.push_back((len, Outgoing::Queued { chunk, to }));
    }

    /// Takes the next queued datagram out: its number, payload length, chunk and destination. It is
    /// to be [`done`](Self::done) later.
    pub(crate) fn take(&mut self) -> Option<(u64, usize, T, SocketAddr)> {
        let place = usize::try_from(self.next.saturating_sub(self.first)).ok()?;
        let (len, entry) = self.entries.get_mut(place)?;
        let number = self.next;
        match core::mem::replace(entry, Outgoing::Away) {
            Outgoing::Queued { chunk, to } => {
                self.next += 1;
                Some((number, *len, chunk, to))
            }
            other => {
                *entry = other;
                None
            }
        }
    }

    pub(crate) fn has_queued(&self) -> bool {
        self.next.saturating_sub(self.first) < self.entries.len() as u64
    }

    /// Datagram `number` has been sent or dropped; whether [`released`](Self::released) moved.
    pub(crate) fn done(&mut self, number: u64) -> bool {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        if let Some((_, entry)) = place.and_then(|place| self.entries.get_mut(place)) {
            *entry = Outgoing::Done;
        }
        let before = self.released;
        while let Some((len, Outgoing::Done)) = self.entries.front() {
            self.released += *len as u64;
            self.pending -= *len;
            self.entries.pop_front();
            self.first += 1;
        }
        self.released != before
    }
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct RecvQueue<R> {
    entries: VecDeque<(RxPiece<Held<R>>, SocketAddr)>,
    queued: usize,
    /// Given out and not consumed.
    outside: usize,
}

impl<R> RecvQueue<R> {
    pub(crate) fn new() -> Self {
        Self { entries: VecDeque::new(), queued: 0, outside: 0 }
    }

    /// Payload bytes that wait, given out or not.
    pub(crate) fn bytes(&self) -> usize {
        self.queued + self.outside
    }

    /// Whether a datagram of `len` bytes fits. An empty queue takes one of any length.
    pub(crate) fn fits(&self, len: usize, bytes: usize, number: usize) -> bool {
        self.entries.len() < number && (self.bytes() == 0 || self.bytes() + len <= bytes)
    }

    pub(crate) fn push(&mut self, piece: RxPiece<Held<R>>, from: SocketAddr) {
        self.queued += piece.range.len();
        self.entries.push_back((piece, from));
    }

    pub(crate) fn pop(&mut self) -> Option<(RxPiece<Held<R>>, SocketAddr)> {
        let (piece, from) = self.entries.pop_front()?;
        self.queued -= piece.range.len();
        self.outside += piece.range.len();
        Some((piece, from))
    }

    pub(crate) fn consumed(&mut self, bytes: usize) {
        self.outside = self.outside.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_released_in_order() {
        let to = SocketAddr::new([10, 0, 0, 1].into(), 53);
        let mut queue = SendQueue::new();
        for len in [5, 7, 0, 11] {
            queue.push(len, len, to);
        }
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
}

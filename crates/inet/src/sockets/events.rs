//! Events of sockets, for their owner.
//!
//! At most one event of each kind waits per socket, however often its cause occurs. An event only
//! says "look again"; the socket's getters give the state. So events need constant memory.

use crate::error::Error;

/// Something happened on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The tag given with `open` or `accept`.
    pub tag: u64,
    /// Its kind.
    pub kind: EventKind,
}

/// The kinds of events, in the order in which those of one socket are given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The connection attempt succeeded.
    Connected,
    /// A listener has connections to accept.
    Acceptable,
    /// The peer has marked a byte as urgent: `urgent_mark`.
    Urgent,
    /// There is something to receive.
    Readable,
    /// The error queue has a new entry.
    ErrorQueued,
    /// The peer has ended its stream and `recv` has given out all of it.
    Eof,
    /// `acked` has moved. Of a stream with `NotSentLowat` also: bytes were sent for the first time,
    /// so `unsent` has less.
    Acked,
    /// The connection attempt failed, or the connection broke. On a datagram socket, an earlier
    /// datagram could not be delivered, and the socket remains usable.
    Failed(Error),
    /// After `close`: the handle has ended, and none of the socket's sent bytes is needed. The
    /// connection may live on without an owner (FIN-WAIT-2, TIME-WAIT).
    Closed,
}

/// The events of one socket that wait to be given out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PendingEvents {
    bits: u8,
    error: Option<Error>,
}

impl PendingEvents {
    const KINDS: [EventKind; 7] = [
        EventKind::Connected,
        EventKind::Acceptable,
        EventKind::Urgent,
        EventKind::Readable,
        EventKind::Eof,
        EventKind::Acked,
        EventKind::ErrorQueued,
    ];
    const CLOSED: u8 = 1 << 7;

    pub(crate) fn add(&mut self, kind: EventKind) {
        match kind {
            EventKind::Failed(error) => self.error = self.error.or(Some(error)),
            EventKind::Closed => self.bits |= Self::CLOSED,
            simple => {
                let bit = Self::KINDS.iter().position(|kind| *kind == simple).unwrap_or_default();
                self.bits |= 1 << bit;
            }
        }
    }

    /// The next event.
    pub(crate) fn take(&mut self) -> Option<EventKind> {
        let simple = self.bits & !Self::CLOSED;
        if simple != 0 {
            let bit = simple.trailing_zeros();
            self.bits &= !(1 << bit);
            return Self::KINDS.get(bit as usize).copied();
        }
        if let Some(error) = self.error.take() {
            return Some(EventKind::Failed(error));
        }
        let closed = self.bits & Self::CLOSED != 0;
        self.bits = 0;
        closed.then_some(EventKind::Closed)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.bits == 0 && self.error.is_none()
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

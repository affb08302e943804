//! The error queue of a socket (IP_RECVERR, IPV6_RECVERR), as Linux's `MSG_ERRQUEUE` reads it.
//!
//! An entry is an ICMP error about a packet of the socket, or an error of this host about a
//! datagram that it refused. The queue of one socket is bounded by its receive buffer, as on Linux.
//! All queues of one owner together are bounded by [`OWNER_BYTES`]. An error beyond a bound is
//! not queued; the socket's pending error is set all the same.
//!
//! Few sockets have a queue, so it lives in memory of its own, which the first error allocates.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::{IpAddr, SocketAddr};

use crate::error::Error;
use crate::interface_id::InterfaceId;

/// Bytes that an entry counts beside its payload, about as many as on Linux.
const ENTRY_BYTES: usize = 768;
/// Most bytes of all error queues of one owner.
pub(crate) const OWNER_BYTES: usize = 1 << 20;

/// The origin of a queued error, with what only that origin has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorOrigin {
    /// This host refused to send a datagram.
    Local,
    /// An ICMP or ICMPv6 message.
    Icmp(IcmpOrigin),
}

/// The message that reported an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpOrigin {
    /// The node that sent the message; its port is 0.
    pub from: SocketAddr,
    /// The address that the message was sent to.
    pub to: IpAddr,
    /// The interface by which the message arrived.
    pub interface: InterfaceId,
    /// Time to live of the message's packet, or its hop limit.
    pub ttl: u8,
    /// Type of service byte of the message's packet, or its traffic class.
    pub tos: u8,
    /// The message's type.
    pub kind: u8,
    /// The message's code.
    pub code: u8,
}

/// An entry of a socket's error queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedError {
    /// The number of the entry among all of this socket; the first is 0.
    pub serial: u32,
    /// The error.
    pub error: Error,
    /// Where it comes from.
    pub origin: ErrorOrigin,
    /// The MTU, or the position of a bad byte of the packet; otherwise 0.
    pub info: u32,
    /// The destination of the packet that caused it.
    pub destination: SocketAddr,
    /// The payload of that packet, as far as the message quotes it. Of a segment it begins with the
    /// TCP header. Empty for a local error.
    pub payload: Box<[u8]>,
}

impl QueuedError {
    /// Bytes that it counts against the bounds.
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.payload.len()
    }

    fn is_icmp(&self) -> bool {
        matches!(self.origin, ErrorOrigin::Icmp(_))
    }
}

/// The change of the pending error (SO_ERROR) that taking an entry makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingErrorChange {
    /// None.
    Keep,
    /// No error is pending any more.
    Clear,
    /// The next entry's error is pending.
    Set(Error),
}

/// The error queue of one socket.
#[derive(Debug, Default)]
pub(crate) struct ErrorQueue {
    entries: VecDeque<QueuedError>,
    bytes: usize,
    next_serial: u32,
    /// An error of a connection that goes on, for SO_ERROR.
    soft: Option<Error>,
}

impl ErrorQueue {
    /// Adds an entry, unless the bytes would reach `most` of the socket, or `left` bytes are fewer
    /// than it counts. Its serial number is given here. Returns the bytes that it counts.
    pub(crate) fn push(&mut self, entry: QueuedError, most: usize, left: usize) -> usize {
        let bytes = entry.bytes();
        if self.bytes + bytes >= most || bytes > left {
            return 0;
        }
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        self.bytes += bytes;
        self.entries.push_back(QueuedError { serial, ..entry });
        bytes
    }

    /// The oldest entry.
    pub(crate) fn first(&self) -> Option<&QueuedError> {
        self.entries.front()
    }

    /// Removes the oldest entry, if it has that serial number. Gives the bytes that it counted.
    pub(crate) fn pop(&mut self, serial: u32) -> Option<(usize, PendingErrorChange)> {
        self.entries.front().filter(|first| first.serial == serial)?;
        let first = self.entries.pop_front()?;
        self.bytes -= first.bytes();
        let next = self.entries.front().filter(|next| next.is_icmp());
        let change = match next {
            Some(next) => PendingErrorChange::Set(next.error),
            None if first.is_icmp() => PendingErrorChange::Clear,
            None => PendingErrorChange::Keep,
        };
        Some((first.bytes(), change))
    }

    /// Removes all entries. Gives the bytes that they counted.
    pub(crate) fn clear(&mut self) -> usize {
        self.entries.clear();
        core::mem::take(&mut self.bytes)
    }

    /// Notes the error of a connection that goes on.
    pub(crate) fn set_soft_error(&mut self, error: Error) {
        self.soft = Some(error);
    }

    /// Takes the error of a connection that goes on.
    pub(crate) fn take_soft_error(&mut self) -> Option<Error> {
        self.soft.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(error: Error, icmp: bool, len: usize) -> QueuedError {
        let from = SocketAddr::new([10, 0, 0, 1].into(), 0);
        let icmp_origin = IcmpOrigin {
            from,
            to: from.ip(),
            interface: InterfaceId(0),
            ttl: 64,
            tos: 0,
            kind: 3,
            code: 3,
        };
        QueuedError {
            serial: 99,
            error,
            origin: if icmp { ErrorOrigin::Icmp(icmp_origin) } else { ErrorOrigin::Local },
            info: 0,
            destination: from,
            payload: alloc::vec![0; len].into(),
        }
    }

    #[test]
    fn entries_come_in_order_and_change_the_pending_error() {
        let mut queue = ErrorQueue::default();
        let entries = [(Error::Refused, true), (Error::MessageSize, true), (Error::Denied, false)];
        for (error, icmp) in entries {
            assert!(queue.push(entry(error, icmp, 8), usize::MAX, usize::MAX) > 0);
        }
        assert_eq!(
            queue.first().map(|first| (first.serial, first.error)),
            Some((0, Error::Refused))
        );
        assert_eq!(queue.pop(1), None, "another thread has taken it");
        let change = |popped: Option<(usize, PendingErrorChange)>| popped.map(|(_, change)| change);
        assert_eq!(change(queue.pop(0)), Some(PendingErrorChange::Set(Error::MessageSize)));
        assert_eq!(change(queue.pop(1)), Some(PendingErrorChange::Clear));
        assert_eq!(change(queue.pop(2)), Some(PendingErrorChange::Keep));
        assert_eq!(queue.first(), None);
        assert_eq!(queue.clear(), 0);
    }

    #[test]
    fn the_bounds_hold() {
        let mut queue = ErrorQueue::default();
        assert_eq!(queue.push(entry(Error::Refused, true, 32), 800, usize::MAX), 0);
        assert_eq!(queue.push(entry(Error::Refused, true, 32), 801, 799), 0);
        assert_eq!(queue.push(entry(Error::Refused, true, 32), 801, 800), 800);
        assert_eq!(queue.push(entry(Error::Refused, true, 0), 1569, 768), 768);
        assert_eq!(queue.clear(), 1568);
    }
}

//! Readiness, as Linux's poll gives it for TCP and UDP sockets, read from the words alone.

use std::sync::atomic::Ordering;

use abi::{Errno, SocketFlags, SocketKind};

use super::core::SocketCore;
use super::handle::Socket;
use crate::wait::Wait;

/// The event bits of poll(2) and epoll(7).
pub mod poll {
    /// Receiving (or accepting) does not block.
    pub const IN: u32 = 0x001;
    /// There is an urgent byte.
    pub const PRI: u32 = 0x002;
    /// Sending does not block.
    pub const OUT: u32 = 0x004;
    /// An error is pending.
    pub const ERR: u32 = 0x008;
    /// Both directions are over, or there is no connection.
    pub const HUP: u32 = 0x010;
    /// As [`IN`].
    pub const RDNORM: u32 = 0x040;
    /// As [`OUT`].
    pub const WRNORM: u32 = 0x100;
    /// As [`OUT`], of datagram sockets.
    pub const WRBAND: u32 = 0x200;
    /// The peer sends no more.
    pub const RDHUP: u32 = 0x2000;
}

const READABLE: u32 = poll::IN | poll::RDNORM;
const WRITABLE: u32 = poll::OUT | poll::WRNORM;

/// The events that a socket is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// Bits of [`poll`].
    pub events: u32,
    /// The socket's version, read before the events. While it stays the same, the server adds no
    /// events. Edge-triggered epoll compares it.
    pub version: u32,
}

impl Socket {
    /// Is a connection attempt of a stream under way?
    #[must_use]
    pub fn is_connecting(&self) -> bool {
        self.core().is_stream() && self.core().flags().has(SocketFlags::CONNECTING)
    }

    /// Is it a stream whose connection, or attempt to connect, is over?
    #[must_use]
    pub fn is_over(&self) -> bool {
        let used = SocketFlags::CONNECTED | SocketFlags::CONNECTING | SocketFlags::LISTENING;
        let flags = self.core().flags();
        self.core().is_stream() && flags.has(SocketFlags::HANGUP) && !flags.has_any(used)
    }

    /// Waits until more than `than` bytes can be received from a stream, and takes none: for
    /// MSG_WAITALL. False: no more will come before an end, an error or an urgent byte. A pending
    /// error stays.
    ///
    /// # Errors
    /// EAGAIN when the time is over; EINTR.
    pub fn wait_for_more(&self, than: usize, wait: Wait) -> Result<bool, Errno> {
        let (core, half) = (self.core(), self.recv_half());
        let outcome = || {
            let over = core.check().is_err()
                || core.has_error()
                || half.has_urgent(core)
                || core.flags().has(SocketFlags::READ_CLOSED)
                || !core.flags().has_any(SocketFlags::CONNECTED | SocketFlags::CONNECTING);
            // What ends the stream was published after the bytes before it.
            let more = half.readable_len(core) > than;
            (more || over).then_some(more)
        };
        core.wait_until(wait, || Ok(outcome()), || outcome().is_some())
    }

    /// A number that changes with each new urgent mark of a stream; 0 before the first one.
    #[must_use]
    pub fn urgent_position(&self) -> u64 {
        self.core().words.urgent.load(Ordering::Acquire)
    }

    /// Is it a stream that is connected, or a listener?
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let used = SocketFlags::CONNECTED | SocketFlags::LISTENING;
        self.core().is_stream() && self.core().flags().has_any(used)
    }

    /// The events that the socket is ready for now, by the rules of Linux's `tcp_poll` and
    /// `datagram_poll`.
    ///
    /// Without an instance the socket is ready for everything, with ERR and HUP, so no thread
    /// waits. A closed socket and one in a forked child have ERR and HUP.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        let core = self.core();
        match core.check() {
            Err(Errno::NETDOWN) if core.is_quiet() => return Readiness { events: 0, version: 0 },
            Err(Errno::NETDOWN) => {
                let events = READABLE | WRITABLE | poll::RDHUP | poll::ERR | poll::HUP;
                return Readiness { events, version: 0 };
            }
            Err(_) => return Readiness { events: poll::ERR | poll::HUP, version: 0 },
            Ok(()) => {}
        }
        let version = core.version();
        let flags = core.flags();
        let events = match core.kind {
            // Its readiness is with the process that uses it now.
            _ if flags.has(SocketFlags::MOVED) => 0,
            SocketKind::Stream if flags.has(SocketFlags::LISTENING) => {
                let waiting = core.words.accept_ready.load(Ordering::Acquire);
                if waiting > 0 { READABLE } else { 0 }
            }
            SocketKind::Stream => self.stream_events(flags),
            SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => {
                let events = self.common_events(flags);
                // As Linux's datagram_poll: with OUT, which is bit 2, comes WRBAND, bit 9.
                events | (events & poll::OUT) << 7
            }
        };
        Readiness { events, version }
    }

    fn stream_events(&self, flags: SocketFlags) -> u32 {
        if flags.has(SocketFlags::CONNECTING) {
            return error_event(self.core(), flags);
        }
        let none = if flags.has(SocketFlags::CONNECTED) { 0 } else { poll::HUP };
        let urgent = if self.recv_half().has_urgent(self.core()) { poll::PRI } else { 0 };
        self.common_events(flags) | none | urgent
    }

    fn common_events(&self, flags: SocketFlags) -> u32 {
        let core = self.core();
        let mut events = error_event(core, flags);
        if flags.has(SocketFlags::HANGUP) {
            events |= poll::HUP;
        }
        if flags.has(SocketFlags::READ_CLOSED) {
            events |= READABLE | poll::RDHUP;
        }
        if self.recv_half().has_enough(core) {
            events |= READABLE;
        }
        if flags.has(SocketFlags::WRITE_CLOSED) || self.send_half().has_room(core) {
            events |= WRITABLE;
        }
        events
    }
}

fn error_event(core: &SocketCore, flags: SocketFlags) -> u32 {
    if core.has_error() || flags.has(SocketFlags::ERROR_QUEUED) { poll::ERR } else { 0 }
}

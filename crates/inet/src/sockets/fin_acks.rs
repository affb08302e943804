//! FINs of peers that are not acknowledged yet.
//!
//! Most programs close as soon as they read the end. The FIN of this side then carries the ACK of
//! the peer's, which saves a frame. So the owner's event loop may defer the lone ACK while it looks
//! for the program's answer ([`Stack::poll_deferring`](crate::Stack::poll_deferring)). The ACK
//! waits until the loop has nothing else to do, and 200 µs at most.

use alloc::vec::Vec;
use core::time::Duration;

use crate::table::Handle;
use crate::time::Instant;

/// How long an ACK waits at most, however busy the owner is.
const DEFERRED: Duration = Duration::from_micros(200);
/// Most connections whose ACK is deferred. The ACK of a further one leaves at once.
const MOST: usize = 64;

/// The connections whose ACK of a FIN is deferred.
#[derive(Debug, Default)]
pub(crate) struct FinAcks {
    handles: Vec<Handle>,
    /// When the first of them was added.
    since: Instant,
    deferring: bool,
}

impl FinAcks {
    /// Whether such ACKs may be deferred from now on.
    pub(crate) fn defer(&mut self, deferring: bool) {
        self.deferring = deferring;
    }

    /// Whether an ACK may be deferred now.
    pub(super) fn defers(&self) -> bool {
        self.deferring && self.handles.len() < MOST
    }

    /// Adds a connection.
    pub(super) fn add(&mut self, now: Instant, handle: Handle) {
        if self.handles.is_empty() {
            self.since = now;
        }
        if !self.handles.contains(&handle) {
            self.handles.push(handle);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// When the ACKs have been deferred for long enough.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.is_empty()).then(|| self.since + DEFERRED)
    }

    /// Whether the ACKs are to be sent now.
    pub(crate) fn are_late(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// Removes one of the connections.
    pub(crate) fn pop(&mut self) -> Option<Handle> {
        self.handles.pop()
    }
}

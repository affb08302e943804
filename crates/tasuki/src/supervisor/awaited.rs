//! Operators' requests that servers have not answered yet.
//!
//! A server answers at once, or it is stuck: in mode `library` it is part of a program, which may
//! be stopped, or hostile. An operator waits for it at most [`REPLY_PATIENCE`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::connections::ConnectionId;

/// How long an operator waits for the reply of a server.
pub(super) const REPLY_PATIENCE: Duration = Duration::from_secs(5);

/// The connections whose requests wait for servers, and until when.
#[derive(Debug, Default)]
pub(super) struct AwaitedReplies(BTreeMap<ConnectionId, Instant>);

impl AwaitedReplies {
    /// A request of this connection goes to a server.
    pub(super) fn begin(&mut self, id: ConnectionId, now: Instant) {
        self.0.entry(id).or_insert(now + REPLY_PATIENCE);
    }

    /// The connection has its reply, or is gone.
    pub(super) fn end(&mut self, id: ConnectionId) {
        self.0.remove(&id);
    }

    /// When the first of them has waited too long.
    pub(super) fn until(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// Those that have waited too long.
    pub(super) fn late(&self, now: Instant) -> Vec<ConnectionId> {
        self.0.iter().filter(|(_, until)| now >= **until).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_so_long_from_its_beginning() {
        let (mut awaited, now) = (AwaitedReplies::default(), Instant::now());
        assert_eq!(awaited.until(), None);
        awaited.begin(1, now);
        awaited.begin(2, now + REPLY_PATIENCE / 2);
        // The second part of the same request.
        awaited.begin(1, now + REPLY_PATIENCE / 2);
        assert_eq!(awaited.until(), Some(now + REPLY_PATIENCE));
        assert!(awaited.late(now).is_empty());
        assert_eq!(awaited.late(now + REPLY_PATIENCE), [1]);
        awaited.end(1);
        assert_eq!(awaited.late(now + 2 * REPLY_PATIENCE), [2]);
    }
}

//! Time: logins and logouts that do not end, and silence.

use std::time::Duration;

use bytes::Bytes;

use super::connection::{InitiatorConnection, InitiatorPhase};
use super::event::Ending;

impl InitiatorConnection {
    /// When to call [`InitiatorConnection::handle_timeout`] at the latest.
    pub fn next_timeout(&self) -> Option<Duration> {
        match (self.phase, self.ping_deadline, self.config.ping_interval) {
            (InitiatorPhase::Login | InitiatorPhase::LoggingOut, ..) => Some(self.deadline),
            (InitiatorPhase::FullFeature, Some(deadline), _) => Some(deadline),
            (InitiatorPhase::FullFeature, None, Some(interval)) => {
                Some(self.last_heard.saturating_add(interval))
            }
            _ => None,
        }
    }

    /// Does what is due at `now`: ends a login or logout that takes too long, sends a ping, or ends
    /// a connection whose ping has no answer.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.next_timeout().is_none_or(|due| now < due) {
            return;
        }
        if self.phase != InitiatorPhase::FullFeature {
            self.close(Ending::Timeout);
        } else if self.ping_deadline.is_some() {
            self.close(Ending::PingTimeout);
        } else {
            self.queue_ping(Bytes::new(), false);
            self.ping_deadline = Some(now.saturating_add(self.config.ping_timeout));
        }
    }
}

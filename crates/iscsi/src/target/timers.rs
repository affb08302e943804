//! Time: logins that do not end, and silence.

use std::time::Duration;

use super::connection::{TargetConnection, TargetPhase};
use super::event::CloseReason;

impl TargetConnection {
    /// When to call [`TargetConnection::handle_timeout`] at the latest.
    pub fn next_timeout(&self) -> Option<Duration> {
        match (&self.phase, self.ping, self.config.ping_interval) {
            (TargetPhase::Login | TargetPhase::Ready(..), ..) => Some(self.deadline),
            (TargetPhase::FullFeature, Some((_, deadline)), _) => Some(deadline),
            (TargetPhase::FullFeature, None, Some(interval)) => {
                Some(self.last_heard.saturating_add(interval))
            }
            _ => None,
        }
    }

    /// Does what is due at `now`: ends a login that takes too long, sends a ping, or ends a
    /// connection whose ping has no answer.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.next_timeout().is_none_or(|due| now < due) {
            return;
        }
        if !self.is_full_feature() {
            self.close(CloseReason::LoginTimeout);
        } else if self.ping.is_some() || self.ping(now).is_err() {
            self.close(CloseReason::PingTimeout);
        }
    }
}

//! The first sequence number of a connection.

use super::endpoints::Endpoints;
use super::seq::Seq;
use crate::secret::Secret;
use crate::time::Instant;

impl Secret {
    /// Initial sequence number of a connection between `ends` (RFC 9293 3.4.1).
    pub(crate) fn isn(&self, now: Instant, ends: &Endpoints) -> Seq {
        Seq::new(self.isn_number(now, ends))
    }
}

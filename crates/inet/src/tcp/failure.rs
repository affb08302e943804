//! The reason why a connection has failed, or may fail.

use crate::Error;

/// The errors of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConnectionFailure {
    error: Option<Error>,
    /// The network's report (RFC 9293 3.9.2.2): the reason should the connection time out.
    reported: Option<Error>,
}

impl ConnectionFailure {
    /// Why the connection failed.
    #[inline]
    pub(super) fn error(&self) -> Option<Error> {
        self.error
    }

    /// The connection fails with `error`, unless it has failed before.
    pub(super) fn set(&mut self, error: Option<Error>) {
        self.error = self.error.or(error);
    }

    /// ICMP has reported `error`.
    pub(super) fn report(&mut self, error: Error) {
        self.reported = Some(error);
    }

    /// There is progress: the report no longer counts.
    #[inline]
    pub(super) fn forget_report(&mut self) {
        self.reported = None;
    }

    /// The error of a connection that has timed out.
    pub(super) fn of_timeout(&self) -> Error {
        self.reported.unwrap_or(Error::TimedOut)
    }

    /// Whether there is none of either kind.
    pub(super) fn is_clear(&self) -> bool {
        self.error.is_none() && self.reported.is_none()
    }
}

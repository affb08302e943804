//! Errors that end the server.

use std::io;

use shm::ChannelError;

/// Why the server ended without a request to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The supervisor's end of the channel is closed.
    #[error("the supervisor is gone")]
    SupervisorGone,
    /// The supervisor sent a message without a meaning here.
    #[error("the supervisor sent a bad message: {0}")]
    BadMessage(String),
    /// The control connection to the supervisor broke.
    #[error("the supervisor's channel failed: {0}")]
    ControlConnection(#[from] ChannelError),
    /// A reply could not be written as JSON; a fault of this program.
    #[error("a reply could not be encoded: {0}")]
    Encode(#[source] serde_json::Error),
    /// A system call failed that the server cannot do without.
    #[error("{what} failed: {source}")]
    System {
        /// The failed operation.
        what: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The driver in this process (fused mode) cannot go on.
    #[error("the driver in this process failed: {0}")]
    Companion(String),
}

/// For `map_err` on a system call.
pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> ServerError {
    move |source| ServerError::System { what, source }
}

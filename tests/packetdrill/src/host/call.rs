//! The results of calls, and the reason why one has not returned yet.

use std::net::SocketAddr;

use inet::{Error, Instant};

use crate::errno;

/// Why a call has not returned a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It failed with this `errno`.
    Errno(i32),
    /// It waits; at the latest until this moment, when its repetition will return.
    Wait(Option<Instant>),
}

/// The result of a call.
pub type Outcome<T> = Result<T, Stop>;

/// The progress of a waiting call so far; made new for each call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Bytes.
    pub(super) done: usize,
    /// It has been made before.
    pub(super) begun: bool,
    /// It has found no room to send.
    pub(super) waited: bool,
    /// When it gives up.
    pub(super) until: Option<Instant>,
}

impl Progress {
    /// Whether the call was made before.
    pub fn has_begun(&self) -> bool {
        self.begun
    }
}

/// Received bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The result of the call: the number of bytes, or the datagram's length with MSG_TRUNC.
    pub length: usize,
    /// The sender of a datagram.
    pub from: Option<SocketAddr>,
    /// Flags that recvmsg(2) gives.
    pub flags: i32,
    /// Control messages, as recvmsg(2) lays them out.
    pub control: Vec<u8>,
}

pub(super) fn fail<T>(error: i32) -> Outcome<T> {
    Err(Stop::Errno(error))
}

pub(super) fn failed(error: Error) -> Stop {
    Stop::Errno(errno::of(error))
}

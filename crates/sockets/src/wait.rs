//! How long an operation may wait.

use std::time::{Duration, Instant};

use abi::Errno;
use rustix::event::{PollFd, Timespec};

/// A call that sleeps as poll(2) does, for a sleep under a signal mask: ppoll(2) with that mask.
pub type PollCall<'a> = &'a dyn Fn(&mut [PollFd<'_>], Option<&Timespec>) -> Result<usize, Errno>;

/// How long an operation may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: EAGAIN (for connect EINPROGRESS).
    No,
    /// As long as it takes. Signals whose handlers were installed with SA_RESTART do not end it.
    Forever,
    /// Until then, and EAGAIN afterwards; any signal ends it, as with SO_RCVTIMEO on Linux.
    Until(Instant),
}

impl Wait {
    /// Waiting for at most `limit`. `None`, and a time that no clock can count, is for ever.
    #[must_use]
    pub fn at_most(limit: Option<Duration>) -> Self {
        limit.and_then(|limit| Instant::now().checked_add(limit)).map_or(Self::Forever, Self::Until)
    }

    /// The same wait, which any signal ends, whatever its handler's SA_RESTART.
    pub(crate) fn until_any_signal(self) -> Self {
        match self {
            Self::Forever => Self::Until(far_away()),
            other => other,
        }
    }

    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Until(deadline) => Some(deadline),
            Self::No | Self::Forever => None,
        }
    }

    /// Is there no time left?
    pub(crate) fn is_over(self) -> bool {
        match self {
            Self::No => true,
            Self::Forever => false,
            Self::Until(deadline) => Instant::now() >= deadline,
        }
    }
}

/// A deadline later than any wait lasts.
pub(crate) fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(1 << 30)
}

/// The time left until `deadline`, for poll. `None` is for ever.
pub(crate) fn timespec(deadline: Option<Instant>) -> Option<Timespec> {
    let left = deadline?.saturating_duration_since(Instant::now());
    Timespec::try_from(left).ok()
}

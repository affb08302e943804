//! Deadlines from the timeouts of C calls, on the monotonic clock.
//!
//! `None` is "for ever". A timeout too long for the clock is for ever too.

use core::ffi::c_int;
use core::time::Duration;
use std::time::Instant;

use libc::{timespec, timeval};
use rustix::io::Errno;

use crate::errno::Outcome;

/// `duration` from now.
pub(crate) fn after(duration: Duration) -> Option<Instant> {
    Instant::now().checked_add(duration)
}

/// The duration of poll's and epoll's timeout: milliseconds, negative for ever.
pub(crate) fn from_millis(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// The duration of a `struct timespec`.
///
/// # Errors
/// EINVAL for negative seconds or nanoseconds outside of 0..10^9.
pub(crate) fn from_timespec(time: timespec) -> Outcome<Duration> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::INVAL)?;
    let nanos = u32::try_from(time.tv_nsec).map_err(|_| Errno::INVAL)?;
    if nanos >= 1_000_000_000 {
        return Err(Errno::INVAL);
    }
    Ok(Duration::new(seconds, nanos))
}

/// The duration of select's `struct timeval`. Microseconds above 10^6 count as seconds, as on
/// Linux.
///
/// # Errors
/// EINVAL for a negative number.
pub(crate) fn from_timeval(time: timeval) -> Outcome<Duration> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::INVAL)?;
    let micros = u64::try_from(time.tv_usec).map_err(|_| Errno::INVAL)?;
    Ok(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
}

/// A duration as a `struct timeval`, rounded down.
pub(crate) fn to_timeval(duration: Duration) -> timeval {
    timeval {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_usec: duration.subsec_micros().into(),
    }
}

/// The time left until `deadline`, zero when it has passed.
pub(crate) fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Has `deadline` passed?
pub(crate) fn passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|at| at <= Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_by_the_rules_of_their_calls() {
        assert_eq!(from_millis(-1), None);
        assert_eq!(from_millis(1500), Some(Duration::from_millis(1500)));
        let spec = |tv_sec, tv_nsec| from_timespec(timespec { tv_sec, tv_nsec });
        assert_eq!(spec(1, 5), Ok(Duration::new(1, 5)));
        assert_eq!(spec(0, 1_000_000_000), Err(Errno::INVAL));
        assert_eq!(spec(-1, 0), Err(Errno::INVAL));
        let val = |tv_sec, tv_usec| from_timeval(timeval { tv_sec, tv_usec });
        assert_eq!(val(0, 1_500_000), Ok(Duration::from_millis(1500)));
        assert_eq!(val(0, -1), Err(Errno::INVAL));
        assert_eq!(val(i64::MAX, 1_000_000).map(|d| after(d).is_none()), Ok(true));
    }

    #[test]
    fn what_is_left() {
        assert_eq!(left(Instant::now()), Duration::ZERO);
        assert!(passed(after(Duration::ZERO)));
        assert!(!passed(None));
        let time = to_timeval(Duration::from_micros(2_000_003));
        assert_eq!((time.tv_sec, time.tv_usec), (2, 3));
    }
}

//! Time and secrets, from the kernel.

use std::time::Duration;

use inet::Instant;
use rustix::time::{ClockId, clock_gettime};

use crate::error::{ServerError, system};

/// Nanoseconds of the monotonic clock.
pub(crate) fn clock() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    let nanos = Duration::try_from(now).map_or(0, |since| since.as_nanos());
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Random bytes that nobody can guess.
pub(crate) fn secret() -> Result<[u8; 16], ServerError> {
    let mut secret = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    rustix::rand::getrandom(&mut secret, flags)
        .map_err(|errno| system("getrandom")(errno.into()))?;
    Ok(secret)
}

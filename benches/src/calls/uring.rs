//! The kernel's own packaged calls that do nothing: io_uring's NOP.
#![allow(unsafe_code)]

use std::time::Duration;

use anyhow::Result;
use io_uring::{IoUring, opcode};

use super::measure::per_call;

/// Nanoseconds per NOP when `count` of them are submitted together. `None` where io_uring is not
/// allowed (`kernel.io_uring_disabled`, a filter).
pub(crate) fn nops(count: u32, time: Duration) -> Result<Option<f64>> {
    let Ok(mut ring) = IoUring::new(count.next_power_of_two()) else { return Ok(None) };
    let nanos = per_call(count, time, || {
        for _ in 0..count {
            // SAFETY: a NOP refers to no memory, so none has to outlive it.
            let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
            // As many fit as were asked for, and all earlier ones were taken.
            pushed.map_err(std::io::Error::other)?;
        }
        ring.submit_and_wait(count as usize)?;
        ring.completion().for_each(drop);
        Ok::<_, std::io::Error>(())
    })?;
    Ok(Some(nanos))
}

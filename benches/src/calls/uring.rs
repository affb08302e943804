//! The kernel's own packaged calls that do nothing: io_uring's NOP.
#![allow(unsafe_code)]

use std::hint::spin_loop;
use std::io;
use std::time::Duration;

use anyhow::Result;
use io_uring::{IoUring, opcode};

use super::measure::per_call;

/// Milliseconds after which the kernel's thread sleeps. It is awake during a measurement.
const IDLE: u32 = 100;

/// Who takes submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Submission {
    /// The caller's system call.
    Call,
    /// A kernel thread on this processor, which looks at the ring all the time
    /// (IORING_SETUP_SQPOLL). The caller looks for results as well.
    Polled(u32),
}

impl Submission {
    fn ring(self, count: u32) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        if let Self::Polled(processor) = self {
            builder.setup_sqpoll(IDLE).setup_sqpoll_cpu(processor);
        }
        builder.build(count.next_power_of_two())
    }
}

/// Nanoseconds per NOP when `count` of them are submitted together. `None` where io_uring is not
/// allowed (`kernel.io_uring_disabled`, a filter).
pub(crate) fn nops(count: u32, time: Duration, how: Submission) -> Result<Option<f64>> {
    let Ok(mut ring) = how.ring(count) else { return Ok(None) };
    let nanos = per_call(count, time, || {
        for _ in 0..count {
            // The kernel's thread may still hold places whose results are there already.
            while ring.submission().is_full() {
                spin_loop();
            }
            // SAFETY: a NOP refers to no memory, so none has to outlive it.
            let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
            pushed.map_err(io::Error::other)?;
        }
        match how {
            Submission::Call => {
                ring.submit_and_wait(count as usize)?;
                ring.completion().for_each(drop);
            }
            Submission::Polled(_) => {
                // A system call only if the thread sleeps.
                ring.submit()?;
                let mut left = count as usize;
                while left > 0 {
                    left -= ring.completion().count();
                    spin_loop();
                }
            }
        }
        Ok::<_, io::Error>(())
    })?;
    Ok(Some(nanos))
}

//! When the device's queue of unsolicited frames is asked, and for how many.
//!
//! The inet server takes frames in the order of the `rx` ring, so a frame of a connection waits for
//! all unsolicited ones before it. Their share is bounded three times:
//!
//! * They come after the frames of the regular queue, at most [`BATCH`] in a step.
//! * The inet server has no more than [`BATCH`] frames before it then. A server that is slower than
//!   the driver still gets one for each [`REGULAR`] frames of the other queue.
//! * After a full batch the next one comes [`PACE`] later: a flood must not take the processors.
//!
//! Asking the queue in vain costs a system call. So it is asked when the epoll set has reported it,
//! and again as long as it may have frames. While the driver does not sleep, it is asked two steps
//! after it had a frame, and twice as many steps after each time that it had none, up to
//! [`ASK_EVERY`].

use std::time::{Duration, Instant};

/// Most unsolicited frames in a step, and before them in the `rx` ring.
pub(super) const BATCH: u32 = 16;
/// The time from one full batch to the next.
pub(super) const PACE: Duration = Duration::from_micros(100);
/// Most steps between two times that the queue is asked although nothing reported it.
pub(super) const ASK_EVERY: u32 = 16;
/// Frames of the regular queue after which an unsolicited one may come in any case.
pub(super) const REGULAR: usize = 256;

/// When the queue of unsolicited frames is asked.
#[derive(Debug)]
pub(super) struct UnsolicitedSchedule {
    /// The device has such a queue.
    pub(super) exists: bool,
    /// The queue may have frames: it was reported, or the last batch was full or put off.
    pub(super) ready: bool,
    /// Steps until it is asked although it is not `ready`.
    ask_in: u32,
    /// The same number after it was asked.
    interval: u32,
    /// No batch comes before.
    pub(super) resume_at: Option<Instant>,
    /// Frames of the regular queue since the last unsolicited one.
    pub(super) regular: usize,
    pub(super) received: u64,
}

impl UnsolicitedSchedule {
    /// Of a device with such a queue, or without.
    pub(super) fn new(exists: bool) -> Self {
        Self {
            exists,
            ready: exists,
            ask_in: 0,
            interval: 1,
            resume_at: None,
            regular: 0,
            received: 0,
        }
    }

    /// The device is another.
    pub(super) fn replaced(&mut self, exists: bool) {
        *self = Self { received: self.received, ..Self::new(exists) };
    }

    /// A step has received so many frames of the regular queue: is it time for this queue, which
    /// exists?
    #[inline]
    pub(super) fn is_due(&mut self, regular: usize) -> bool {
        self.regular += regular;
        if self.ready || self.ask_in == 0 {
            return true;
        }
        self.ask_in -= 1;
        false
    }

    /// It was asked, and had some frames or none.
    pub(super) fn asked(&mut self, some: bool) {
        self.interval = if some { 1 } else { (2 * self.interval).min(ASK_EVERY) };
        self.ask_in = self.interval;
    }

    /// Is it too early for another batch?
    pub(super) fn rests(&mut self) -> bool {
        self.resume_at = self.resume_at.filter(|at| Instant::now() < *at);
        self.resume_at.is_some()
    }
}

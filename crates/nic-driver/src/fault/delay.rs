//! Frames on their way: each stays there for the delay.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Frames of one direction, the oldest first.
#[derive(Debug)]
pub(super) struct DelayLine<T> {
    delay: Duration,
    /// With the time at which it is due, if there is a delay at all.
    frames: VecDeque<(Option<Instant>, T)>,
    delayed: u64,
}

impl<T> DelayLine<T> {
    pub(super) fn new(delay: Duration) -> Self {
        Self { delay, frames: VecDeque::new(), delayed: 0 }
    }

    pub(super) fn push(&mut self, frame: T) {
        let due = (!self.delay.is_zero()).then(|| Instant::now() + self.delay);
        self.delayed += u64::from(due.is_some());
        self.frames.push_back((due, frame));
    }

    /// A frame that could not go on: it is the next one again.
    pub(super) fn push_back_to_front(&mut self, frame: T) {
        self.frames.push_front((None, frame));
    }

    /// The oldest, if its time has come.
    pub(super) fn pop(&mut self) -> Option<T> {
        if !self.has_due() {
            return None;
        }
        self.frames.pop_front().map(|(_, frame)| frame)
    }

    /// Has the time of the oldest come?
    pub(super) fn has_due(&self) -> bool {
        self.frames.front().is_some_and(|(due, _)| due.is_none_or(|due| due <= Instant::now()))
    }

    /// When the oldest is due, if that is not yet.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.frames.front().and_then(|(due, _)| *due)
    }

    /// Frames that were delayed, ever.
    pub(super) fn delayed(&self) -> u64 {
        self.delayed
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_delay_frames_are_due_at_once() {
        let mut line = DelayLine::new(Duration::ZERO);
        line.push(1);
        line.push(2);
        assert!(line.has_due() && line.next_due().is_none());
        assert_eq!((line.pop(), line.pop(), line.pop()), (Some(1), Some(2), None));
    }

    #[test]
    fn a_frame_stays_until_its_time_has_come() {
        const LONG: Duration = Duration::from_secs(3600);
        let mut line = DelayLine::new(LONG);
        let before = Instant::now();
        line.push(1);
        assert!(line.pop().is_none() && !line.has_due());
        let due = line.next_due().unwrap();
        assert!(due >= before + LONG && due <= Instant::now() + LONG);
        line.push_back_to_front(0);
        assert_eq!((line.pop(), line.pop(), line.len()), (Some(0), None, 1));
    }
}

//! Turns of a TAP device's two queues for frames of programs: which one is asked next.
//!
//! Datagrams have a queue of their own ([`super::steering`]), because nothing slows their sender
//! down: what fills it must not take the places of TCP's segments, nor the time of the driver.
//! So the queues take turns of [`TURN`] frames while both have some.
//!
//! Asking a queue in vain costs a system call. A queue that had a frame is asked first, so a
//! program alone pays for one queue. The other one is asked after a turn, when the epoll set
//! reported it, and at every second time that the first was asked in vain: a driver that does not
//! sleep gets no reports.
//!
//! While segments come beside a flood of datagrams, their answers must not wait for it either. So
//! after a turn of datagrams the driver's step ends, and there is none while the inet server has
//! many frames to take already ([`Turns::crowded`]). And after a turn of datagrams without a
//! segment in between there is a [`PAUSE`]: else a flood keeps the driver and the inet server busy,
//! and these two, the flooder and a neighbour have to share the processors. A segment ends the
//! turn before, so moderate datagrams beside a busy connection have no pauses.

use std::time::{Duration, Instant};

/// Most frames of one queue while the other may have some.
pub(super) const TURN: u32 = 8;

/// How long datagrams wait after a turn, while segments are expected.
const PAUSE: Duration = Duration::from_micros(100);

/// Turns of datagrams after a segment for which another one is expected.
const EXPECTED: u32 = 64;

/// A queue for frames of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    /// TCP, ARP and whatever keeps addresses.
    Regular,
    Datagrams,
}

impl Queue {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Regular => Self::Datagrams,
            Self::Datagrams => Self::Regular,
        }
    }
}

/// Whose turn it is.
#[derive(Debug)]
pub(super) struct Turns {
    queue: Queue,
    /// Frames until the turn is over.
    left: u32,
    /// Each queue may have frames: it was reported, or its last answer was one.
    regular: bool,
    datagrams: bool,
    /// The other queue was asked the last time that the first had none.
    asked_other: bool,
    /// The inet server has many frames to take: datagrams wait while segments are expected.
    pub(super) crowded: bool,
    /// Turns of datagrams until no segment is expected any more.
    expected: u32,
    /// While segments are expected, datagrams wait until then.
    resume_at: Option<Instant>,
}

impl Turns {
    /// Both queues may have frames.
    pub(super) fn new() -> Self {
        let queue = Queue::Regular;
        Self {
            queue,
            left: TURN,
            regular: true,
            datagrams: true,
            asked_other: false,
            crowded: false,
            expected: 0,
            resume_at: None,
        }
    }

    /// The queue to be asked first.
    #[inline]
    pub(super) fn first(&mut self) -> Queue {
        if self.left == 0 {
            self.queue = self.queue.other();
            self.left = TURN;
            *self.may_have(self.queue) = true;
        }
        if self.datagrams_are_held() {
            self.queue = Queue::Regular;
        }
        self.queue
    }

    /// The epoll set reported it.
    pub(super) fn reported(&mut self, queue: Queue) {
        *self.may_have(queue) = true;
    }

    /// It had a frame.
    #[inline]
    pub(super) fn received(&mut self, queue: Queue) {
        if queue != self.queue {
            (self.queue, self.left) = (queue, TURN);
        }
        self.left -= 1;
        *self.may_have(queue) = true;
        match queue {
            Queue::Regular => self.expected = EXPECTED,
            Queue::Datagrams if self.left == 0 && self.expected > 0 => {
                self.expected -= 1;
                self.resume_at = Some(Instant::now() + PAUSE);
            }
            Queue::Datagrams => {}
        }
    }

    /// It had none.
    #[inline]
    pub(super) fn found_none(&mut self, queue: Queue) {
        *self.may_have(queue) = false;
    }

    /// The first queue had none: is the other one to be asked?
    ///
    /// After a turn of datagrams it is not, while segments come as well: the step ends, so that the
    /// driver sends the answers to those segments.
    #[inline]
    pub(super) fn asks_other(&mut self) -> bool {
        if self.queue == Queue::Regular && self.datagrams && self.expected > 0 {
            if !self.datagrams_are_held() {
                self.queue = Queue::Datagrams;
            }
            return false;
        }
        let other = self.queue.other();
        if self.left == TURN {
            // The turn passed to a queue without frames, so the one before stays the first.
            (self.queue, self.left) = (other, TURN - 1);
            return true;
        }
        self.asked_other = *self.may_have(other) || !self.asked_other;
        self.asked_other
    }

    /// May the queue of datagrams have frames that nothing reports again?
    pub(super) fn datagrams_wait(&self) -> bool {
        self.datagrams
    }

    /// Do they wait for the inet server to take frames, or for the end of a pause?
    pub(super) fn datagrams_are_held(&self) -> bool {
        let pauses = || self.resume_at.is_some_and(|at| Instant::now() < at);
        self.datagrams && self.expected > 0 && (self.crowded || pauses())
    }

    fn may_have(&mut self, queue: Queue) -> &mut bool {
        match queue {
            Queue::Regular => &mut self.regular,
            Queue::Datagrams => &mut self.datagrams,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues with so many frames: what is received, and how often a queue is asked.
    fn drain(turns: &mut Turns, mut regular: u32, mut datagrams: u32) -> (String, u32) {
        let (mut order, mut asked) = (String::new(), 0);
        loop {
            let mut take = |queue, turns: &mut Turns| {
                asked += 1;
                let (left, name) = match queue {
                    Queue::Regular => (&mut regular, 'r'),
                    Queue::Datagrams => (&mut datagrams, 'd'),
                };
                let some = *left > 0;
                if some {
                    *left -= 1;
                    order.push(name);
                    turns.received(queue);
                }
                some
            };
            let first = turns.first();
            if take(first, turns) {
                continue;
            }
            turns.found_none(first);
            if !turns.asks_other() {
                return (order, asked);
            }
            if !take(first.other(), turns) {
                turns.found_none(first.other());
                return (order, asked);
            }
        }
    }

    #[test]
    fn both_queues_get_turns_while_both_have_frames() {
        let mut turns = Turns::new();
        assert_eq!(drain(&mut turns, 20, 12).0, "rrrrrrrrddddddddrrrrrrrrrrrr");
        // The others came after the pause.
        turns.resume_at = None;
        let order = [0; 2].map(|_| drain(&mut turns, 0, 4).0).concat();
        assert!(order.starts_with("dddd"), "{order}");
    }

    #[test]
    fn a_frame_behind_many_of_the_other_queue_waits_for_a_turn_at_most() {
        let mut turns = Turns::new();
        drain(&mut turns, 0, 100);
        let (order, _) = drain(&mut turns, 1, 100);
        assert!(order.find('r').unwrap() <= TURN as usize, "{order}");
    }

    #[test]
    fn a_program_alone_pays_for_one_queue() {
        for queue in [Queue::Regular, Queue::Datagrams] {
            let some = |count| if queue == Queue::Regular { (count, 0) } else { (0, count) };
            let mut turns = Turns::new();
            drain(&mut turns, some(1).0, some(1).1);
            let mut asked = 0;
            // A frame and none more, again and again: two requests each would be the least.
            for _ in 0..1000 {
                turns.reported(queue);
                let (order, requests) = drain(&mut turns, some(1).0, some(1).1);
                assert_eq!(order.len(), 1);
                asked += requests;
            }
            assert!(asked <= 2700, "{asked}");
            drain(&mut turns, 0, 0);
            assert!(!turns.datagrams_wait());
        }
    }

    #[test]
    fn datagrams_wait_for_a_crowded_server_only_while_segments_are_expected() {
        let mut turns = Turns::new();
        drain(&mut turns, 1, 0);
        turns.crowded = true;
        turns.reported(Queue::Datagrams);
        assert_eq!(drain(&mut turns, 0, 100).0, "");
        assert!(turns.datagrams_wait() && turns.datagrams_are_held());
        turns.reported(Queue::Regular);
        assert_eq!(drain(&mut turns, 3, 100).0, "rrr");
        turns.crowded = false;
        // A step ends with a turn.
        drain(&mut turns, 0, 20);
        let (order, _) = drain(&mut turns, 0, 20);
        assert!((1..=TURN as usize).contains(&order.len()), "{order}");
        let mut left = 20 + TURN * (EXPECTED + 2);
        while left > 0 {
            left -= drain(&mut turns, 0, left).0.len() as u32;
        }
        turns.crowded = true;
        turns.reported(Queue::Datagrams);
        assert_eq!(drain(&mut turns, 0, 100).0.len(), 100);
    }

    #[test]
    fn beside_segments_there_is_a_pause_after_a_turn_of_datagrams() {
        let mut turns = Turns::new();
        drain(&mut turns, 1, 0);
        turns.reported(Queue::Datagrams);
        let mut received = 0;
        while turns.resume_at.is_none() {
            received += drain(&mut turns, 0, 100).0.len();
        }
        assert!((1..=TURN as usize).contains(&received), "{received}");
        turns.resume_at = Some(Instant::now() + Duration::from_secs(3600));
        assert_eq!(drain(&mut turns, 0, 100).0, "");
        assert!(turns.datagrams_wait() && turns.datagrams_are_held());
        turns.reported(Queue::Regular);
        assert_eq!(drain(&mut turns, 3, 100).0, "rrr");
        turns.resume_at = Some(Instant::now());
        let order = [0; 2].map(|_| drain(&mut turns, 0, 100).0).concat();
        assert!(order.starts_with('d'), "{order}");
    }

    #[test]
    fn without_reports_the_other_queue_is_asked_at_the_second_time() {
        let mut turns = Turns::new();
        drain(&mut turns, 1, 0);
        drain(&mut turns, 0, 0);
        let found = [0; 3].map(|_| drain(&mut turns, 0, 1).0);
        assert!(found[0] == "d" || found[1] == "d", "{found:?}");
        // From then on it is the first.
        assert_eq!(found[2], "d");
        drain(&mut turns, 0, 0);
        turns.reported(Queue::Datagrams);
        assert!(turns.datagrams_wait());
        assert_eq!(drain(&mut turns, 0, 1).0, "d");
    }
}

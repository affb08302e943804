use alloc::vec::Vec;
use proptest::prelude::*;

use super::*;

/// A segment as a plain record; `sent` is the number of its last transmission.
#[derive(Debug, Clone)]
struct Plain {
    start: u32,
    end: u32,
    sent: u64,
    sacked: bool,
    lost: bool,
    retransmitted: bool,
}

impl Plain {
    fn awaits_retransmission(&self) -> bool {
        self.lost && !self.retransmitted && !self.sacked
    }
}

/// The queue beside a list that is searched from end to end.
struct Model {
    queue: SentQueue,
    plain: Vec<Plain>,
    base: u32,
    next: u32,
    clock: u64,
}

impl Model {
    fn new(base: u32) -> Self {
        Self { queue: SentQueue::new(), plain: Vec::new(), base, next: 0, clock: 0 }
    }

    fn seq(&self, offset: u32) -> Seq {
        Seq::new(self.base) + offset
    }

    fn now(&mut self) -> Instant {
        self.clock += 1;
        Instant::from_nanos(self.clock)
    }

    /// Sends `len` bytes in segments of at most 3, with or without a FIN.
    fn push(&mut self, len: u32, fin: bool) {
        const MSS: u32 = 3;
        let at = self.now();
        let (start, marks) =
            (self.seq(self.next), WriteMarks { push: true, ..WriteMarks::default() });
        let before = self.plain.len();
        let end = self.next + len + u32::from(fin);
        while self.next < end {
            let next = if end - u32::from(fin) <= self.next + MSS { end } else { self.next + MSS };
            let (start, sent) = (self.next, self.clock);
            let (sacked, lost, retransmitted) = (false, false, false);
            self.plain.push(Plain { start, end: next, sent, sacked, lost, retransmitted });
            self.next = next;
        }
        let new = self.queue.push((start, len, fin), MSS, (at, DeliverySnapshot::default()), marks);
        assert_eq!(new as usize, self.plain.len() - before);
        let pushed = self.queue.iter().skip(before).map(|segment| segment.marks().push);
        assert!(pushed.enumerate().all(|(n, push)| push == (n + 1 == new as usize)));
    }

    fn ack(&mut self, una: u32) {
        let count = self.plain.iter().take_while(|plain| plain.end <= una).count();
        let mut gone: Vec<Plain> = self.plain.drain(..count).collect();
        while let Some(AckedSegments { first, last, count }) = self.queue.pop_acked(self.seq(una)) {
            let rest = gone.split_off(count as usize);
            let run = core::mem::replace(&mut gone, rest);
            let end = |plain: &Plain| Seq::new(self.base) + plain.end;
            assert_eq!((first.end, last), (end(&run[0]), end(&run[run.len() - 1])));
            assert_eq!(first.sacked(), run[0].sacked);
            // More than one only of those that are alike.
            let plain = |one: &Plain| !one.sacked && !one.lost && !one.retransmitted;
            let alike = run.iter().all(|one| one.sent == run[0].sent && plain(one));
            assert!(run.len() == 1 || (alike && !first.ever_retransmitted() && !first.ambiguous()));
        }
        assert!(gone.is_empty());
        if let Some(first) = self.plain.first_mut() {
            first.start = first.start.max(una);
        }
    }

    fn step(&mut self, what: u8, amount: u32) {
        let index = amount as usize % self.plain.len().max(1);
        let at = self.now();
        let clock = self.clock;
        match (what, self.plain.get_mut(index)) {
            (0 | 1, _) => self.push(amount % 20, what == 1),
            (2, Some(_)) => {
                let first = self.plain[0].start;
                self.ack(first + amount % (self.next - first + 1));
            }
            (3, Some(plain)) => {
                if !plain.sacked {
                    plain.sacked = true;
                    plain.retransmitted &= !plain.lost;
                    plain.lost = false;
                }
                self.queue.sack(index);
            }
            (4 | 5, Some(plain)) => {
                let new = !plain.sacked && !plain.awaits_retransmission();
                if new {
                    (plain.lost, plain.retransmitted) = (true, false);
                }
                assert_eq!(self.queue.mark_lost(index), new);
            }
            (6 | 7, Some(plain)) => {
                if !plain.sacked {
                    (plain.retransmitted, plain.sent) = (plain.retransmitted || plain.lost, clock);
                }
                self.queue.retransmit(index, at, DeliverySnapshot::default(), false);
            }
            (8, Some(plain)) => {
                let len = amount % 7;
                if len > 0 && len < plain.end - plain.start {
                    let mut rest = plain.clone();
                    plain.end = plain.start + len;
                    rest.start = plain.end;
                    self.plain.insert(index + 1, rest);
                }
                self.queue.split(index, len);
            }
            (9, Some(_)) => {
                self.plain.iter_mut().for_each(|plain| plain.lost = false);
                self.queue.unmark_lost();
            }
            (10, Some(_)) => {
                self.plain.iter_mut().for_each(|plain| plain.sacked = false);
                self.queue.unmark_sacked();
            }
            (11, Some(plain)) => {
                plain.retransmitted &= plain.lost;
                self.queue.retransmission_arrived(index);
            }
            _ => {}
        }
    }

    fn check(&mut self) {
        let count =
            |is: fn(&Plain) -> bool| self.plain.iter().filter(|plain| is(plain)).count() as u32;
        let (sacked, lost) = (count(|p| p.sacked), count(|p| p.lost));
        let retransmitted = count(|p| p.retransmitted);
        let out = self.plain.len() as u32;
        let q = &self.queue;
        assert_eq!((q.packets_out(), q.sacked_out), (out, sacked));
        assert_eq!((q.lost_out(), q.retrans_out()), (lost, retransmitted));
        assert_eq!(q.in_flight(), out + retransmitted - sacked - lost);
        // By time: what may be on its way, and nothing else.
        let mut listed = Vec::new();
        let mut next = q.oldest();
        while let Some(index) = next {
            listed.push(index);
            assert!(listed.len() <= self.plain.len(), "a ring");
            next = q.after(index);
        }
        let mut wanted: Vec<usize> = (0..self.plain.len())
            .filter(|i| !self.plain[*i].sacked && !self.plain[*i].awaits_retransmission())
            .collect();
        wanted.sort_by_key(|i| self.plain[*i].sent);
        assert_eq!(listed, wanted);
        for seq in self.plain.first().map_or(0, |first| first.start)..=self.next {
            let place = self.plain.iter().take_while(|plain| plain.end <= seq).count();
            assert_eq!(self.queue.find(self.seq(seq)), place);
        }
        let first = self.plain.iter().position(Plain::awaits_retransmission);
        assert_eq!(self.queue.next_to_retransmit(), first);
    }
}

proptest! {
    #[test]
    fn the_queue_is_a_plain_list(
        base: u32,
        steps in prop::collection::vec((0_u8..12, any::<u32>()), 1..200),
    ) {
        let mut model = Model::new(base);
        for (what, amount) in steps {
            model.step(what, amount);
            model.check();
        }
        model.ack(model.next);
        prop_assert!(model.queue.is_empty());
        prop_assert!(model.queue.segments.capacity() <= RETAINED);
    }
}

#[test]
fn numbers_begin_anew_long_before_they_end() {
    let mut model = Model::new(0);
    model.queue.first = NONE / 2 - 3;
    model.queue.hint = model.queue.first;
    model.push(1, false);
    for _ in 0..10 {
        model.push(1, false);
        model.queue.mark_lost(0);
        model.plain[0].lost = true;
        model.check();
        model.ack(model.plain[0].end);
        model.check();
    }
    assert!(model.queue.first < 100);
}

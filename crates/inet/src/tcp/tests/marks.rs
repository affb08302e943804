//! What is said of a write: where it is pushed, where a record ends.

use super::*;

impl Rig {
    fn say(&mut self, len: usize, flags: SendFlags) {
        let chunk = Chunk { bytes: alloc::vec![7; len], joins: true };
        self.c.send_with(self.now, chunk, flags).unwrap();
    }

    /// Length and PSH of all that leaves now.
    fn pushes(&mut self) -> Vec<(usize, bool)> {
        let mut all = Vec::new();
        while let Some(out) = self.c.poll_segment(self.now) {
            all.push((out.body_len(), out.repr.psh));
        }
        all
    }
}

const MORE: SendFlags = SendFlags { more: true, eor: false };
const RECORD: SendFlags = SendFlags { more: false, eor: true };
const NOTHING: SendFlags = SendFlags { more: false, eor: false };

#[test]
fn a_push_is_where_a_write_ends() {
    let mut rig = Rig::established(&plain());
    rig.say(2500, NOTHING);
    assert_eq!(rig.pushes(), [(1000, false), (1000, false), (500, true)]);
    // The end of a full segment is the queue's end, but not the write's.
    rig.ack(1, 2501);
    rig.say(1000, MORE);
    assert_eq!(rig.pushes(), [(1000, false)]);
    rig.say(1000, NOTHING);
    assert_eq!(rig.pushes(), [(1000, true)]);
}

#[test]
fn more_waits_for_the_next_write_or_ack() {
    let mut rig = Rig::established(&plain());
    rig.c.set_nodelay(rig.now, true);
    rig.say(100, MORE);
    rig.silent();
    rig.say(100, NOTHING);
    assert_eq!(rig.pushes(), [(200, true)]);
    rig.say(100, MORE);
    rig.silent();
    rig.ack(1, 201);
    assert_eq!(rig.pushes(), [(100, false)]);
    rig.ack(1, 301);
    // Nobody will acknowledge anything: a timer, and then it is pushed.
    rig.say(100, MORE);
    rig.quiet_until(millis(200));
    assert_eq!(rig.pushes(), [(100, true)]);
}

#[test]
fn half_a_window_is_pushed_though_more_follows() {
    let config = TcpConfig { initial_window: 60, ..plain() };
    let mut rig = Rig::established(&config);
    // The peer's window is 60,000 bytes.
    for _ in 0..31 {
        rig.say(1000, MORE);
    }
    let pushed: Vec<usize> =
        rig.pushes().iter().enumerate().filter(|(_, (_, psh))| *psh).map(|(at, _)| at).collect();
    assert_eq!(pushed, [30]);
}

#[test]
fn no_segment_contains_the_end_of_a_record() {
    let mut rig = Rig::established(&plain());
    rig.say(300, RECORD);
    rig.say(400, RECORD);
    rig.say(500, NOTHING);
    // The last one is small and waits (Nagle); the others could not get longer.
    assert_eq!(rig.burst(), [(1, 300), (301, 400)]);
    rig.ack(1, 701);
    assert_eq!(rig.burst(), [(701, 500)]);
}

#[test]
fn a_record_stays_one_when_it_is_sent_again() {
    let mut rig = Rig::established(&plain());
    rig.say(300, RECORD);
    rig.say(400, RECORD);
    rig.say(1000, NOTHING);
    assert_eq!(rig.burst(), [(1, 300), (301, 400), (701, 1000)]);
    // In the meantime the queue has grown.
    rig.say(100, NOTHING);
    rig.pass(secs(2));
    let again = rig.pushes();
    assert_eq!(again, [(300, true)]);
    rig.ack(1, 301);
    assert_eq!(rig.pushes(), [(400, true), (1000, true)]);
}

/// Linux's tcp_tso_autosize: a millisecond at the connection's rate, at least two.
#[test]
fn bursts_follow_the_rate() {
    let config = TcpConfig { gso_max_segs: 64, initial_window: 40, ..plain() };
    let mut rig = Rig::established(&config);
    rig.c.enable_super_segments(true);
    rig.say(8 * MSS, NOTHING);
    // 10 ms of round trip: 40 segments in it are 4 in a millisecond, twice that in slow start.
    let lengths: Vec<usize> = rig.pushes().iter().map(|(len, _)| *len).collect();
    assert_eq!(lengths, [7 * MSS, MSS]);
    let config = TcpConfig { gso_max_segs: 64, initial_window: 10, ..plain() };
    let mut rig = Rig::established(&config);
    rig.c.enable_super_segments(true);
    rig.say(4 * MSS, NOTHING);
    assert_eq!(rig.pushes(), [(2 * MSS, true), (2 * MSS, true)]);
}

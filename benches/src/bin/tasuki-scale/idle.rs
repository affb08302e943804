//! Many idle connections and an active one.

use core::time::Duration;
use std::time::Instant as Clock;

use inet::{Config, Handle};

use crate::allocator::allocated;
use crate::pair::{Bytes, Pair};

/// Connections to one port of the server's: fewer than there are ephemeral ports.
const TO_ONE_PORT: usize = 25_000;
/// Connections opened at a time.
const AT_ONCE: usize = 500;
/// Bytes that are sent and come back.
const PAYLOAD: usize = 64;

struct Set {
    pair: Pair,
    /// The active connection's ends.
    active: [Handle; 2],
    trip: Vec<u64>,
}

impl Set {
    /// With `idle` connections. Also how many bytes each of them costs at each end.
    fn new(idle: usize) -> (Self, f64) {
        let config = Config { sockets: 2 * idle + 100, ..Config::default() };
        let mut pair = Pair::new(&config);
        for number in 0..=idle / TO_ONE_PORT {
            pair.ends[1].listen(1000 + number as u16);
        }
        let client = pair.connect(1000);
        pair.rest();
        let server = pair.ends[1].accepted[0];
        pair.pass(Duration::from_secs(1));
        let before = allocated();
        for number in 0..idle {
            pair.connect(1000 + (number / TO_ONE_PORT) as u16);
            if number % AT_ONCE == 0 {
                pair.rest();
            }
        }
        pair.rest();
        // After two seconds of silence a connection sleeps.
        pair.pass(Duration::from_secs(5));
        assert_eq!(pair.ends[0].connected, idle + 1, "not all connections were established");
        assert_eq!(pair.ends[1].accepted.len(), idle + 1, "not all connections were accepted");
        // The benchmark's own memory for each.
        let own = pair.ends[1].accepted.capacity() * size_of::<Handle>();
        let each = allocated().saturating_sub(before + own) as f64 / (2 * idle.max(1)) as f64;
        (Self { pair, active: [client, server], trip: Vec::new() }, each)
    }

    /// The median of so many round trips, ns.
    fn median(&mut self, trips: usize) -> u64 {
        self.trip.clear();
        for _ in 0..trips {
            let begin = Clock::now();
            for side in 0..2 {
                let end = &mut self.pair.ends[side];
                let sent = end.stack.send(self.pair.now, self.active[side], message(), None);
                assert!(sent.is_ok(), "an open connection takes data");
                self.pair.rest();
                let to = &mut self.pair.ends[1 - side];
                let mut got = 0;
                while let Some(received) = to.stack.recv(self.active[1 - side]) {
                    let len = received.piece.bytes().len();
                    to.stack.consumed(self.pair.now, self.active[1 - side], len);
                    got += len;
                }
                assert_eq!(got, PAYLOAD, "a message was lost");
            }
            self.trip.push(begin.elapsed().as_nanos() as u64);
            self.pair.now += Duration::from_micros(50);
        }
        middle(&mut self.trip)
    }
}

/// Bytes allocated for each of `count` connections in TIME-WAIT that their owners have closed. The
/// growth of the tables is included.
fn time_wait(count: usize) -> f64 {
    let config = Config { sockets: count + 100, max_tw_buckets: count, ..Config::default() };
    let mut pair = Pair::new(&config);
    pair.ends[1].listen(1000);
    pair.pass(Duration::from_secs(1));
    let before = allocated();
    for _ in 0..count {
        let client = pair.connect(1000);
        pair.rest();
        let server = pair.ends[1].accepted.pop().expect("an accepted connection");
        for (side, handle) in [(0, client), (1, server)] {
            let now = pair.now;
            pair.ends[side].stack.close(now, handle).expect("an open connection");
            pair.rest();
        }
    }
    let waiting = pair.ends[0].stack.sockets().filter(|socket| socket.state == "TIME-WAIT").count();
    assert_eq!(waiting, count, "not all connections are in TIME-WAIT");
    allocated().saturating_sub(before) as f64 / count.max(1) as f64
}

fn message() -> Bytes {
    Bytes(vec![7; PAYLOAD])
}

fn middle(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Measures and prints.
pub(crate) fn run(connections: usize, rounds: usize, trips: usize) {
    let (mut few, _) = Set::new(1);
    let begin = Clock::now();
    let (mut many, bytes) = Set::new(connections);
    let took = begin.elapsed();
    println!("| measure | value |\n|---|---|");
    println!("| idle connections, both ends in one process | {connections} |");
    println!("| opened in | {:.2} s |", took.as_secs_f64());
    println!("| bytes allocated for each connection and end | {bytes:.0} |");
    let closed = connections.min(TO_ONE_PORT);
    let bytes = time_wait(closed);
    println!("| bytes allocated for each of {closed} connections in TIME-WAIT | {bytes:.0} |");
    // One round to warm up, not counted.
    let (mut alone, mut beside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (one, all) = (few.median(trips), many.median(trips));
        if round > 0 {
            alone.push(one);
            beside.push(all);
            ratios.push(all * 1000 / one.max(1));
        }
    }
    println!("| p50 round trip beside 1 idle connection | {} ns |", middle(&mut alone));
    println!("| p50 round trip beside all | {} ns |", middle(&mut beside));
    let ratio = middle(&mut ratios) as f64 / 1000.0;
    println!("| ratio, median of {rounds} paired rounds | {ratio:.3} |");
}

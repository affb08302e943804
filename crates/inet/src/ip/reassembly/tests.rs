use core::net::{Ipv4Addr, Ipv6Addr};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use core::time::Duration;

use super::*;
use crate::config::Config;
use crate::config::REASSEMBLY_TIMEOUTS;
use crate::interface_id::InterfaceId;
use crate::secret::Secret;

const HEADER: usize = 20;
const START: Instant = Instant::from_nanos(1_000_000_000);

fn reassembler(change: impl FnOnce(&mut ReassemblyConfig)) -> Reassembler<Vec<u8>> {
    let mut limits = Config::default().reassembly;
    change(&mut limits);
    Reassembler::new(Secret::new(&[7; 16]).tables(), limits)
}

fn key(host: u8, id: u32) -> DatagramKey {
    let source = IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
    let destination = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 99));
    DatagramKey { source, destination, id, protocol: 17, secured: None }
}

/// A fragment with `payload` at `at`, after a header whose bytes are all 0x45.
fn fragment(key: DatagramKey, at: usize, more: bool, payload: &[u8]) -> Fragment<Vec<u8>> {
    let header = if key.source.is_ipv4() { HEADER } else { HEADER_V6 };
    let frame = [&vec![0x45; header][..], payload].concat();
    let payload = header..frame.len();
    let packet = Packet {
        interface: InterfaceId(0),
        source: key.source,
        destination: key.destination,
        protocol_at: 0,
        protocol: key.protocol.into(),
        tos: 0,
        ttl: 64,
        extent: 0..frame.len(),
        payload: payload.clone(),
        fragment: None,
    };
    Fragment { key, at, more, ecn: 0, next_header: 17, header: 0..header, payload, packet, frame }
}

fn taken(reassembler: &Reassembler<Vec<u8>>) -> (usize, usize, usize) {
    let SourceUsage { bytes, frames } = reassembler.taken;
    (bytes, frames, reassembler.assemblies.len())
}

fn payload_of(outcome: ReassemblyOutcome) -> Vec<u8> {
    let ReassemblyOutcome::Complete(whole) = outcome else { panic!("{outcome:?}") };
    assert!(whole.bytes[..whole.header_len].iter().all(|byte| *byte == 0x45));
    whole.bytes[whole.header_len..].to_vec()
}

#[test]
fn in_any_order() {
    let payload: Vec<u8> = (0..50).collect();
    let parts = [(0, true, 0..16), (16, true, 16..40), (40, false, 40..50)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut all = reassembler(|_| {});
        for (n, which) in order.into_iter().enumerate() {
            let (at, more, ref range) = parts[which];
            let outcome = all.insert(START, fragment(key(1, 7), at, more, &payload[range.clone()]));
            if n < 2 {
                assert_eq!(outcome, ReassemblyOutcome::Stored, "{order:?}");
            } else {
                assert_eq!(payload_of(outcome), payload, "{order:?}");
            }
        }
        assert_eq!(taken(&all), (0, 0, 0));
        assert!(all.sources.is_empty() && all.poll_at().is_none());
    }
}

#[test]
fn datagrams_are_told_apart_by_all_of_the_key() {
    let mut all = reassembler(|_| {});
    let keys = [
        key(1, 7),
        key(2, 7),
        key(1, 8),
        DatagramKey { protocol: 6, ..key(1, 7) },
        DatagramKey { destination: Ipv4Addr::new(10, 0, 0, 98).into(), ..key(1, 7) },
    ];
    for (n, key) in (0..).zip(keys) {
        assert_eq!(all.insert(START, fragment(key, 0, true, &[n; 8])), ReassemblyOutcome::Stored);
    }
    for (n, key) in (0..).zip(keys) {
        let outcome = all.insert(START, fragment(key, 8, false, &[n; 3]));
        assert_eq!(payload_of(outcome), [n; 11]);
    }
}

#[test]
fn the_longest_packet_and_no_longer() {
    // The ping of death: a last fragment that ends behind what a packet can hold.
    let mut all = reassembler(|_| {});
    let at = 65_528 - 16;
    assert_eq!(
        all.insert(START, fragment(key(1, 1), at, true, &[0; 8])),
        ReassemblyOutcome::TooLong
    );
    assert_eq!(
        all.insert(START, fragment(key(1, 1), 65_528, false, &[0; 100])),
        ReassemblyOutcome::TooLong
    );
    assert_eq!(taken(&all), (0, 0, 0));
    let most = 65_535 - HEADER;
    let head = vec![1; 65_504];
    assert_eq!(all.insert(START, fragment(key(1, 1), 0, true, &head)), ReassemblyOutcome::Stored);
    let outcome = all.insert(START, fragment(key(1, 1), 65_504, false, &vec![2; most - 65_504]));
    assert_eq!(payload_of(outcome).len(), most);
    // The first fragment's header is longer than that of the last: together it is too much.
    let long =
        Fragment { header: 0..60, payload: 60..68, ..fragment(key(1, 2), 0, true, &[0; 60]) };
    assert_eq!(all.insert(START, fragment(key(1, 2), 16, true, &head)), ReassemblyOutcome::TooLong);
    assert_eq!(
        all.insert(START, fragment(key(1, 2), 8, true, &head[8..])),
        ReassemblyOutcome::Stored
    );
    assert_eq!(
        all.insert(START, fragment(key(1, 2), 65_504, false, &[0; 11])),
        ReassemblyOutcome::Stored
    );
    assert_eq!(all.insert(START, long), ReassemblyOutcome::TooLong);
    assert_eq!(taken(&all), (0, 0, 0));
}

#[test]
fn overlaps_spoil_and_duplicates_do_not() {
    // What is there, what comes, what becomes of it.
    let there = [(8, true, 16), (40, false, 5)];
    let table = [
        ((8, true, 16), ReassemblyOutcome::Duplicate),
        ((40, false, 5), ReassemblyOutcome::Duplicate),
        ((0, true, 8), ReassemblyOutcome::Stored),
        ((24, true, 16), ReassemblyOutcome::Stored),
        // Teardrop: within another one; over its start; over its end; over all of it.
        ((16, true, 8), ReassemblyOutcome::Inconsistent),
        ((0, true, 16), ReassemblyOutcome::Inconsistent),
        ((16, true, 16), ReassemblyOutcome::Inconsistent),
        ((0, true, 32), ReassemblyOutcome::Inconsistent),
        // Another end: earlier, later, and something behind the end.
        ((32, false, 2), ReassemblyOutcome::Inconsistent),
        ((40, false, 6), ReassemblyOutcome::Inconsistent),
        ((48, true, 8), ReassemblyOutcome::Inconsistent),
        ((40, true, 8), ReassemblyOutcome::Inconsistent),
        // Nonsense that says nothing about the datagram.
        ((0, true, 0), ReassemblyOutcome::BadLength),
        ((0, true, 7), ReassemblyOutcome::BadLength),
        ((45, false, 0), ReassemblyOutcome::BadLength),
    ];
    for ((at, more, len), expected) in table {
        let mut all = reassembler(|_| {});
        for (at, more, len) in there {
            let outcome = all.insert(START, fragment(key(1, 1), at, more, &vec![1; len]));
            assert_eq!(outcome, ReassemblyOutcome::Stored);
        }
        let outcome = all.insert(START, fragment(key(1, 1), at, more, &vec![2; len]));
        assert_eq!(outcome, expected, "{at} {more} {len}");
        if expected == ReassemblyOutcome::Inconsistent {
            assert_eq!(taken(&all), (0, 1, 1), "the frames are free, the place is not");
            // RFC 5722 4: also those that come later.
            for (at, more, len) in [(0, true, 8), (24, true, 16), (8, true, 16), (40, false, 5)] {
                let late = fragment(key(1, 1), at, more, &vec![1; len]);
                assert_eq!(all.insert(START, late), ReassemblyOutcome::Inconsistent);
            }
            let later = START + REASSEMBLY_TIMEOUTS[0];
            assert!(all.pop_expired(later).is_none(), "nobody is told");
            assert_eq!(taken(&all), (0, 0, 0));
            assert_eq!(
                all.insert(later, fragment(key(1, 1), 0, true, &[1; 8])),
                ReassemblyOutcome::Stored
            );
        }
    }
}

#[test]
fn an_end_before_what_is_there_spoils() {
    let mut all = reassembler(|_| {});
    all.insert(START, fragment(key(1, 1), 64, true, &[0; 8]));
    assert_eq!(
        all.insert(START, fragment(key(1, 1), 8, false, &[0; 8])),
        ReassemblyOutcome::Inconsistent
    );
}

#[test]
fn time_is_over_for_each_family_on_its_own() {
    let mut all = reassembler(|_| {});
    let source = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    let v6 = DatagramKey { source, destination: source, id: 1, protocol: 0, secured: None };
    all.insert(START, fragment(v6, 0, true, &[6; 8]));
    all.insert(START, fragment(key(1, 1), 8, true, &[4; 8]));
    let second = Duration::from_secs(1);
    all.insert(START + 10 * second, fragment(key(1, 2), 0, true, &[4; 8]));
    // More of the same does not prolong it.
    all.insert(START + 20 * second, fragment(key(1, 1), 16, true, &[4; 8]));
    assert_eq!(all.poll_at(), Some(START + 30 * second));
    assert!(all.pop_expired(START + 29 * second).is_none());
    let expired = all.pop_expired(START + 30 * second).expect("the first IPv4 datagram");
    assert!(expired.first.is_none(), "its first fragment never came");
    assert!(all.pop_expired(START + 39 * second).is_none());
    let expired = all.pop_expired(START + 70 * second).expect("the second");
    assert_eq!(expired.first.expect("a first fragment").key, key(1, 2));
    let expired = all.pop_expired(START + 70 * second).expect("the IPv6 datagram");
    assert_eq!(expired.first.expect("a first fragment").key, v6);
    assert_eq!((taken(&all), all.poll_at()), ((0, 0, 0), None));
}

#[test]
fn tiny_fragments_of_one_source_hurt_only_that_source() {
    let mut all = reassembler(|limits| {
        limits.frames = 100;
        limits.source_frames = 20;
    });
    all.insert(START, fragment(key(2, 1), 0, true, &[0; 8]));
    for n in 0..10_000u32 {
        let at = 8 * (1 + n as usize % 4);
        all.insert(START, fragment(key(1, n / 4), at, true, &[0; 8]));
        assert!(taken(&all).1 <= 21);
    }
    assert!(all.displaced > 1000);
    let outcome = all.insert(START, fragment(key(2, 1), 8, false, &[0; 1]));
    assert_eq!(payload_of(outcome).len(), 9);
    // Spoilt datagrams are bounded by the same count.
    for n in 0..1000 {
        for len in [8, 16] {
            all.insert(START, fragment(key(3, n), 0, true, &vec![0; len]));
        }
    }
    assert!(taken(&all).1 <= 40 && taken(&all).2 <= 40, "{:?}", taken(&all));
}

#[test]
fn many_sources_displace_the_oldest() {
    let mut all = reassembler(|limits| limits.bytes = 10 * (HEADER + 8));
    for n in 0..30u8 {
        let now = START + Duration::from_millis(u64::from(n));
        all.insert(now, fragment(key(n, 1), 0, true, &[n; 8]));
    }
    assert_eq!((taken(&all), all.displaced), ((280, 10, 10), 20));
    assert_eq!(
        all.insert(START, fragment(key(5, 1), 8, false, &[0; 1])),
        ReassemblyOutcome::Stored,
        "is gone"
    );
    let outcome = all.insert(START, fragment(key(29, 1), 8, false, &[29; 1]));
    assert_eq!(payload_of(outcome), [29; 9]);
}

#[test]
fn congestion_marks() {
    // The values of two fragments, and of the whole (RFC 3168 5.3).
    let table = [
        (0, 0, Some(0)),
        (2, 2, Some(2)),
        (1, 1, Some(1)),
        (2, 3, Some(3)),
        (3, 2, Some(3)),
        (3, 3, Some(3)),
        (0, 3, None),
        (3, 0, None),
        (2, 0, Some(0)),
    ];
    for (first, second, whole) in table {
        let mut all = reassembler(|_| {});
        all.insert(START, Fragment { ecn: first, ..fragment(key(1, 1), 0, true, &[0; 8]) });
        let last = Fragment { ecn: second, ..fragment(key(1, 1), 8, false, &[0; 8]) };
        match (all.insert(START, last), whole) {
            (ReassemblyOutcome::Complete(joined), Some(ecn)) => assert_eq!(joined.ecn, ecn),
            (ReassemblyOutcome::Inconsistent, None) => {}
            (other, _) => panic!("{first} {second}: {other:?}"),
        }
        assert_eq!(taken(&all), (0, 0, 0));
    }
}

/// The same by bytes, one datagram at a time: which bytes there are, and where the end is.
#[derive(Default)]
struct Model {
    bytes: Vec<Option<u8>>,
    pieces: Vec<(usize, bool, usize)>,
    spoilt: bool,
}

impl Model {
    fn insert(&mut self, at: usize, more: bool, payload: &[u8]) -> ReassemblyOutcome {
        if payload.is_empty() || more && !payload.len().is_multiple_of(8) {
            return ReassemblyOutcome::BadLength;
        }
        let end = at + payload.len();
        if self.spoilt {
            return ReassemblyOutcome::Inconsistent;
        }
        if self.pieces.contains(&(at, more, payload.len())) {
            return ReassemblyOutcome::Duplicate;
        }
        self.bytes.resize(self.bytes.len().max(end), None);
        let last = self.pieces.iter().find(|(_, more, _)| !more).map(|(at, _, len)| at + len);
        let beyond = match last {
            Some(last) => end > last || !more,
            None => !more && self.pieces.iter().any(|(at, _, len)| at + len > end),
        };
        if beyond || self.bytes[at..end].iter().any(Option::is_some) {
            self.spoilt = true;
            return ReassemblyOutcome::Inconsistent;
        }
        for (place, byte) in self.bytes[at..end].iter_mut().zip(payload) {
            *place = Some(*byte);
        }
        self.pieces.push((at, more, payload.len()));
        let ended = last.is_some() || !more;
        match self.bytes.iter().copied().collect::<Option<Vec<u8>>>() {
            Some(whole) if ended => {
                *self = Self::default();
                let bytes = [&vec![0x45; HEADER][..], &whole].concat().into_boxed_slice();
                ReassemblyOutcome::Complete(Reassembled {
                    bytes,
                    header_len: HEADER,
                    ecn: 0,
                    next_header: 17,
                })
            }
            _ => ReassemblyOutcome::Stored,
        }
    }
}

proptest! {
    /// Whatever comes, the outcome is the model's, and nothing is left when time is over.
    #[test]
    fn as_the_model(inputs in prop::collection::vec(
        (0u32..2, 0usize..6, any::<bool>(), 0usize..5, 0usize..3, any::<u8>()), 1..60,
    )) {
        let mut all = reassembler(|_| {});
        let mut models = [Model::default(), Model::default()];
        for (id, at, more, units, odd, byte) in inputs {
            let len = units * 8 + if more && odd < 2 { 0 } else { odd };
            let payload: Vec<u8> = (0..len).map(|n| byte.wrapping_add(n as u8)).collect();
            let expected = models[id as usize].insert(at * 8, more, &payload);
            let got = all.insert(START, fragment(key(1, id), at * 8, more, &payload));
            prop_assert_eq!(got, expected);
            let held: usize = all.assemblies.values().map(|held| held.taken().frames).sum();
            prop_assert_eq!(held, all.taken.frames);
            let bytes: usize = all.assemblies.values().map(|held| held.taken().bytes).sum();
            prop_assert_eq!(bytes, all.taken.bytes);
        }
        while all.pop_expired(START + REASSEMBLY_TIMEOUTS[0]).is_some() {}
        prop_assert_eq!(taken(&all), (0, 0, 0));
        prop_assert!(all.sources.is_empty());
    }

    /// A datagram cut anyhow, its fragments shuffled and some doubled, comes out as it went in.
    #[test]
    fn cut_and_joined(
        payload in prop::collection::vec(any::<u8>(), 9..3000),
        cuts in prop::collection::btree_set(1usize..374, 1..20),
        order in prop::collection::vec(any::<prop::sample::Index>(), 200),
    ) {
        let mut bounds: Vec<usize> =
            cuts.into_iter().map(|cut| cut * 8).filter(|at| *at < payload.len()).collect();
        bounds.insert(0, 0);
        bounds.push(payload.len());
        let mut left: Vec<_> = bounds.windows(2).map(|pair| (pair[0], pair[1])).collect();
        prop_assume!(left.len() > 1);
        let mut all = reassembler(|_| {});
        for index in order.iter().cycle() {
            let place = index.index(left.len());
            let (start, end) = left[place];
            let part = || fragment(key(1, 1), start, end < payload.len(), &payload[start..end]);
            left.swap_remove(place);
            match all.insert(START, part()) {
                ReassemblyOutcome::Complete(whole) => {
                    prop_assert!(left.is_empty());
                    prop_assert_eq!(&whole.bytes[HEADER..], &payload[..]);
                    break;
                }
                outcome => prop_assert_eq!(outcome, ReassemblyOutcome::Stored),
            }
            prop_assert_eq!(all.insert(START, part()), ReassemblyOutcome::Duplicate);
        }
        prop_assert_eq!(taken(&all), (0, 0, 0));
    }
}

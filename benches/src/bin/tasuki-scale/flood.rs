//! SYNs from invented addresses.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::time::Instant as Clock;

use inet::Config;
use inet::tcp::{MAX_HEADER, SegmentRepr, Seq};

use crate::allocator::allocated;
use crate::pair::{ADDRESSES, Bytes, Packet, Pair, Wire};

const PORT: u16 = 80;
/// Time between SYNs: a million of them take ten seconds.
const APART: Duration = Duration::from_micros(10);
/// How long a connection may take in the midst of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The frame of a SYN from somewhere, by its number.
fn syn(number: u32) -> Vec<u8> {
    // SplitMix: addresses and numbers without a pattern.
    let mut mixed = u64::from(number).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^= mixed >> 27;
    let [a, b, c, ports, more, ..] = mixed.to_be_bytes();
    let source = Ipv4Addr::new(20 + a % 80, b, c, 1 + more % 250);
    let repr = SegmentRepr {
        src_port: 1024 + u16::from_be_bytes([ports, more]) % 60_000,
        dst_port: PORT,
        seq: Seq::new(mixed as u32),
        syn: true,
        window: 65_535,
        mss: Some(1460),
        ..SegmentRepr::default()
    };
    let mut head = [0; MAX_HEADER];
    let len = repr.emit::<Bytes>(source.into(), ADDRESSES[1].into(), &[], &mut head);
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 8, 0, 0x45, 0];
    frame.extend_from_slice(&((20 + len) as u16).to_be_bytes());
    frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend_from_slice(&source.octets());
    frame.extend_from_slice(&ADDRESSES[1].octets());
    let words = frame[14..].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame.extend_from_slice(&head[..len]);
    frame
}

/// Floods, measures and prints.
pub(crate) fn run(syns: u32, every: u32) {
    let mut pair = Pair::new(&Config::default());
    pair.flooded = true;
    pair.ends[1].listen(PORT);
    // The neighbours know each other.
    pair.connect(PORT);
    pair.rest();
    let before = allocated();
    let (mut most, mut tried, mut made, mut slowest) = (0, 0, 0, Duration::ZERO);
    let mut spent = Duration::ZERO;
    for number in 0..syns {
        let frame = syn(number);
        let begin = Clock::now();
        let server = &mut pair.ends[1];
        server.stack.handle_frame(pair.now, server.id, Packet(frame), &mut Wire::default());
        server.stack.poll(pair.now, &mut Wire::default());
        spent += begin.elapsed();
        pair.now += APART;
        if number % every == every - 1 {
            tried += 1;
            let (begin, before) = (pair.now, pair.ends[1].accepted.len());
            pair.connect(PORT);
            pair.rest();
            while pair.ends[1].accepted.len() == before && pair.now - begin < PATIENCE {
                pair.pass(Duration::from_millis(10));
            }
            if pair.ends[1].accepted.len() > before {
                made += 1;
                slowest = slowest.max(pair.now - begin);
            }
        }
        most = most.max(allocated().saturating_sub(before));
    }
    let nanos = spent.as_nanos() as f64 / f64::from(syns.max(1));
    println!("| measure | value |\n|---|---|");
    println!("| SYNs from made-up addresses | {syns} |");
    println!("| most bytes allocated over the start | {most} |");
    println!("| time for each SYN | {nanos:.0} ns |");
    println!("| connections tried in the midst of it, made | {tried}, {made} |");
    println!("| longest handshake (the stack's clock) | {:.0} ms |", slowest.as_secs_f64() * 1e3);
    for (name, value) in pair.ends[1]
        .stack
        .counters()
        .filter(|(name, value)| *value > 0 && (name.contains("cookies") || name.contains("syn")))
    {
        println!("| counter {name} | {value} |");
    }
}

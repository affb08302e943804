use alloc::vec::Vec;
use proptest::prelude::*;

use super::*;
use crate::tcp::tests::Chunk;
use core::net::Ipv4Addr;

const SRC: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const DST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// The segment as bytes.
fn bytes_of(repr: &SegmentRepr, payload: &[&[u8]]) -> Vec<u8> {
    let chunks: Vec<Chunk> =
        payload.iter().map(|bytes| Chunk { bytes: bytes.to_vec(), joins: false }).collect();
    let body: Vec<TxPiece<'_, Chunk>> =
        chunks.iter().map(|chunk| TxPiece { bytes: chunk, range: 0..chunk.bytes.len() }).collect();
    let mut out = [0; MAX_HEADER];
    let len = repr.emit(SRC, DST, &body, &mut out);
    let mut bytes = out[..len].to_vec();
    bytes.extend(payload.concat());
    bytes
}

/// A header with `options` and a right checksum.
fn with_options(options: &[u8]) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0);
    let repr = SegmentRepr { src_port: 1, dst_port: 2, syn: true, ..SegmentRepr::default() };
    let mut bytes = bytes_of(&repr, &[]);
    bytes.extend(options);
    bytes[12] = (((20 + options.len()) / 4) << 4) as u8;
    resum(&mut bytes);
    bytes
}

fn resum(bytes: &mut [u8]) {
    bytes[16..18].fill(0);
    let pseudo = ip::pseudo_sum(SRC, DST, IpProtocol::Tcp, bytes.len());
    let total = checksum::combine(&[pseudo, checksum::data(bytes)]);
    bytes[16..18].copy_from_slice(&(!total).to_be_bytes());
}

fn parse(bytes: &[u8]) -> Result<SegmentRepr, SegmentError> {
    SegmentRepr::parse(SRC, DST, bytes).map(|parsed| parsed.repr)
}

prop_compose! {
    fn reprs()(
        ports: (u16, u16), numbers: (u32, Option<u32>), bits: [bool; 7], window: u16,
        mss: Option<u16>, scale in prop::option::of(0..=MAX_SCALE), stamps: Option<(u32, u32)>,
        blocks in prop::collection::vec(any::<(u32, u32)>(), 0..4),
        cookie in prop::option::of((any::<bool>(), prop::collection::vec(any::<[u8; 2]>(), 0..=8))),
    ) -> SegmentRepr {
        let [syn, fin, rst, psh, sack_permitted, ece, cwr] = bits;
        let mut sack = SackBlocks::default();
        // The longest options of all at once do not fit into a header.
        let cookie = cookie.filter(|(_, pairs)| syn && pairs.len() != 1);
        let fast_open = cookie.and_then(|(experimental, pairs)| match &pairs.concat()[..] {
            [] => Some(FastOpenOption::request(experimental)),
            cookie => FastOpenOption::new(experimental, cookie),
        });
        let all = [mss.is_some(), scale.is_some(), sack_permitted, stamps.is_some()];
        let most = if fast_open.is_some() && all.contains(&true) {
            0
        } else if mss.is_some() || scale.is_some() || sack_permitted || fast_open.is_some() {
            1
        } else {
            3
        };
        for (start, end) in blocks.into_iter().take(most) {
            sack.push(SackBlock { start: Seq::new(start), end: Seq::new(end) });
        }
        SegmentRepr {
            joined: 0,
            src_port: ports.0, dst_port: ports.1, window, mss,
            seq: Seq::new(numbers.0), ack: numbers.1.map(Seq::new),
            urgent: psh.then_some(window ^ 0x5a5a),
            syn, fin, rst, psh, window_scale: scale, sack_permitted,
            timestamps: stamps.map(|(value, echo)| Timestamps { value, echo }),
            sack, fast_open, ece, cwr, ecn: EcnField::NotEct,
        }
    }
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed(repr in reprs(), payload: Vec<Vec<u8>>) {
        let pieces: Vec<&[u8]> = payload.iter().map(Vec::as_slice).collect();
        let bytes = bytes_of(&repr, &pieces);
        let parsed = SegmentRepr::parse(SRC, DST, &bytes).unwrap();
        prop_assert_eq!(parsed.repr, repr);
        prop_assert_eq!(parsed.payload, repr.header_len());
        prop_assert_eq!(&bytes[parsed.payload..], payload.concat());
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(mut bytes: Vec<u8>, offset in 4_u8..16, repaired: bool) {
        if repaired && bytes.len() >= FIXED {
            bytes[12] = offset << 4;
            resum(&mut bytes);
        }
        if let Ok(parsed) = SegmentRepr::parse(SRC, DST, &bytes) {
            prop_assert!(parsed.payload <= bytes.len());
            // What was understood survives.
            let again = bytes_of(&parsed.repr, &[&bytes[parsed.payload..]]);
            prop_assert_eq!(parse(&again), Ok(parsed.repr));
        }
    }

    #[test]
    fn a_flipped_bit_is_seen(
        repr in reprs(),
        payload in prop::collection::vec(any::<u8>(), 0..50),
        bit: prop::sample::Index,
    ) {
        let mut bytes = bytes_of(&repr, &[&payload]);
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parse(&bytes).is_err());
    }
}

#[test]
fn impossible_lengths_are_refused() {
    let whole = bytes_of(&SegmentRepr::default(), &[]);
    for len in 0..FIXED {
        assert_eq!(parse(&whole[..len]), Err(SegmentError::Truncated));
    }
    for offset in 0..5 {
        let mut bytes = whole.clone();
        bytes[12] = offset << 4;
        assert_eq!(parse(&bytes), Err(SegmentError::Offset));
    }
    let mut bytes = whole;
    bytes[12] = 6 << 4;
    assert_eq!(parse(&bytes), Err(SegmentError::Truncated));
}

/// As Linux: nothing tells where the option after one of impossible length begins.
#[test]
fn an_impossible_length_ends_the_options() {
    let cases: [&[u8]; 8] = [
        &[MSS, 4, 2, 1, MSS, 0, 9, 9],
        &[MSS, 4, 2, 1, MSS, 1, 9, 9],
        &[MSS, 4, 2, 1, WINDOW_SCALE, 5, 1, 1],
        &[MSS, 4, 2, 1, TIMESTAMPS, 40, 1, 1],
        &[MSS, 4, 2, 1, 99, 0, SACK_PERMITTED, 2],
        &[MSS, 4, 2, 1, NO_OPERATION, NO_OPERATION, NO_OPERATION, SACK_PERMITTED],
        &[MSS, 4, 2, 1, FAST_OPEN, 1, SACK_PERMITTED, 2],
        &[MSS, 4, 2, 1, EXPERIMENT, 255, SACK_PERMITTED, 2],
    ];
    for options in cases {
        let repr = parse(&with_options(options)).unwrap();
        let understood = SegmentRepr { mss: Some(0x201), ..parse(&with_options(&[])).unwrap() };
        assert_eq!(repr, understood, "{options:?}");
    }
}

/// As Linux: an option whose length is wrong for its kind is skipped by that length.
#[test]
fn a_wrong_length_skips_the_option() {
    let cases: [&[u8]; 12] = [
        &[MSS, 2, NO_OPERATION, NO_OPERATION],
        &[MSS, 3, 5, NO_OPERATION],
        &[MSS, 8, 5, 5, 5, 5, 5, 5],
        &[WINDOW_SCALE, 2, NO_OPERATION, NO_OPERATION],
        &[WINDOW_SCALE, 4, 1, 1],
        &[SACK_PERMITTED, 3, 1, NO_OPERATION],
        &[SACK_PERMITTED, 4, 1, 1],
        &[TIMESTAMPS, 4, 1, 1],
        &[TIMESTAMPS, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[SACK, 2, NO_OPERATION, NO_OPERATION],
        &[SACK, 12, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0],
        // An odd cookie, and the signature of RFC 2385, which is not there.
        &[FAST_OPEN, 3, 1, NO_OPERATION],
    ];
    for wrong in cases {
        let options = [wrong, &[MSS, 4, 2, 1]].concat();
        let repr = parse(&with_options(&options)).unwrap();
        let understood = SegmentRepr { mss: Some(0x201), ..parse(&with_options(&[])).unwrap() };
        assert_eq!(repr, understood, "{options:?}");
    }
    let signed = [19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, MSS, 4, 2, 1, 1, 1];
    assert_eq!(parse(&with_options(&signed)).unwrap().mss, Some(0x201));
}

#[test]
fn unknown_options_are_skipped_and_the_end_ends() {
    let repr = parse(&with_options(&[99, 3, 7, NO_OPERATION, MSS, 4, 2, 1])).unwrap();
    assert_eq!(repr.mss, Some(0x201));
    let repr = parse(&with_options(&[END_OF_OPTIONS, 0, 99, 0, MSS, 4, 2, 1])).unwrap();
    assert_eq!(repr.mss, None);
    let repr = parse(&with_options(&[WINDOW_SCALE, 3, 200, END_OF_OPTIONS])).unwrap();
    assert_eq!(repr.window_scale, Some(MAX_SCALE));
}

#[test]
fn another_address_is_another_checksum() {
    let bytes = bytes_of(&SegmentRepr::default(), &[b"x"]);
    let other = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));
    assert_eq!(SegmentRepr::parse(SRC, other, &bytes), Err(SegmentError::Checksum));
}

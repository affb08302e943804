use super::*;
use crate::error::ProtocolError;
use crate::pdu::{BHS, Bhs};
use bytes::Bytes;
use proptest::prelude::*;

fn bhs(tag: u32) -> Bhs {
    Bhs([0; BHS]).with_u32(16, tag)
}

fn wire(pdus: &[(Vec<u8>, Vec<u8>)], digests: (bool, bool)) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, (ahs, data)) in pdus.iter().enumerate() {
        let cut = data.len() / 3;
        let pieces =
            vec![Bytes::copy_from_slice(&data[..cut]), Bytes::copy_from_slice(&data[cut..])];
        let pdu = encode(bhs(tag as u32), ahs, pieces, digests);
        let before = out.len();
        pdu.pieces().for_each(|piece| out.extend_from_slice(piece));
        assert_eq!(out.len() - before, pdu.wire_len());
        let owned: Vec<u8> = pdu.into_pieces().flatten().collect();
        assert_eq!(owned, out[before..]);
    }
    out
}

/// RFC 7143 A.4 (and RFC 3720 B.4): the CRC of a read command, and of 32 zeros.
#[test]
fn digests_have_the_values_of_the_rfc() {
    let mut read = [0; BHS];
    read[..2].copy_from_slice(&[0x01, 0xc0]);
    read[16] = 0x14;
    read[22] = 0x04;
    read[27] = 0x14;
    read[31] = 0x18;
    read[32] = 0x28;
    read[40] = 0x02;
    let sent = encode(Bhs(read), &[], Vec::new(), (true, true));
    let bytes: Vec<u8> = sent.pieces().flatten().copied().collect();
    assert_eq!(bytes[BHS..], [0x56, 0x3a, 0x96, 0xd9]);
    let zeros = encode(bhs(0), &[], vec![Bytes::from(vec![0; 32])], (false, true));
    let bytes: Vec<u8> = zeros.pieces().flatten().copied().collect();
    assert_eq!(bytes[BHS + 32..], [0xaa, 0x36, 0x91, 0x8a]);
}

#[test]
fn damage_is_seen() {
    let sound = wire(&[(vec![0, 1, 9, 0], vec![5; 7])], (true, true));
    let check = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        let mut decoder = Decoder::new(8192);
        decoder.set(8192, true, true);
        decoder.decode(&mut bytes.into()).map(|pdu| pdu.map(|pdu| pdu.data_is_sound))
    };
    for at in (8..BHS + 8).filter(|at| !(4..8).contains(at)) {
        assert_eq!(check(at), Err(ProtocolError::HeaderDigest), "byte {at}");
    }
    for at in BHS + 8..sound.len() {
        assert_eq!(check(at), Ok(Some(false)), "byte {at}");
    }
}

#[test]
fn a_long_payload_is_refused_before_it_is_kept() {
    let mut decoder = Decoder::new(512);
    let header = bhs(0).with_lengths(0, 513);
    let error = decoder.decode(&mut Bytes::copy_from_slice(&header.0)).map(|pdu| pdu.is_some());
    assert_eq!(error, Err(ProtocolError::TooLong { length: 513, most: 512 }));
}

#[test]
fn a_payload_in_one_piece_is_not_copied_unless_it_is_small() {
    let mut input = Bytes::from(wire(&[(vec![], vec![1; 4000])], (false, false)));
    let place = input[BHS..].as_ptr();
    let pdu = Decoder::new(8192).decode(&mut input).expect("sound").expect("complete");
    assert_eq!(pdu.data.as_ptr(), place);
    let many: Vec<_> = (0..20).map(|_| (vec![], vec![1; 100])).collect();
    let mut input = Bytes::from(wire(&many, (false, false)));
    let place = input[BHS..].as_ptr();
    let pdu = Decoder::new(8192).decode(&mut input).expect("sound").expect("complete");
    assert_ne!(pdu.data.as_ptr(), place);
}

proptest! {
    #[test]
    fn pdus_survive_any_cutting(
        pdus in prop::collection::vec(
            (0_usize..5, prop::collection::vec(any::<u8>(), 0..200)),
            1..6,
        ),
        cuts in prop::collection::vec(1_usize..90, 1..20),
        digests: (bool, bool),
    ) {
        let pdus = pdus.into_iter().map(|(words, data)| (vec![9; words * 4], data));
        let pdus: Vec<_> = pdus.collect();
        let mut stream = Bytes::from(wire(&pdus, digests));
        let mut decoder = Decoder::new(200);
        decoder.set(200, digests.0, digests.1);
        let mut seen = Vec::new();
        for cut in cuts.iter().cycle() {
            let mut piece = stream.split_to((*cut).min(stream.len()));
            while let Some(pdu) = decoder.decode(&mut piece).expect("sound") {
                prop_assert!(pdu.data_is_sound && pdu.bhs.task_tag() == seen.len() as u32);
                seen.push((pdu.ahs.to_vec(), pdu.data.to_vec()));
            }
            prop_assert!(piece.is_empty());
            if stream.is_empty() {
                break;
            }
        }
        prop_assert!(!decoder.is_inside_pdu());
        prop_assert_eq!(seen, pdus);
    }

    #[test]
    fn payloads_in_parts_survive_any_cutting(
        pdus in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..6),
        cuts in prop::collection::vec(1_usize..90, 1..20),
        digests: (bool, bool),
        damaged: Option<prop::sample::Index>,
    ) {
        let pdus: Vec<_> = pdus.into_iter().map(|data| (Vec::new(), data)).collect();
        let mut stream = wire(&pdus, digests);
        // The last byte of a PDU with a payload: of its data, padding or digest.
        let ends = pdus.iter().scan(0, |end, (_, data)| {
            *end += BHS + 4 * usize::from(digests.0) + data.len().next_multiple_of(4);
            *end += 4 * usize::from(digests.1 && !data.is_empty());
            Some(*end)
        });
        let ends: Vec<usize> = ends.collect();
        let damaged = damaged.map(|index| index.index(pdus.len()));
        let damaged = damaged.filter(|index| digests.1 && !pdus[*index].1.is_empty());
        if let Some(index) = damaged {
            stream[ends[index] - 1] ^= 1;
        }
        let mut stream = Bytes::from(stream);
        let mut decoder = Decoder::new(200);
        decoder.set(200, digests.0, digests.1);
        let mut seen: Vec<(Vec<u8>, bool)> = Vec::new();
        for cut in cuts.iter().cycle() {
            let mut piece = stream.split_to((*cut).min(stream.len()));
            // Those with an even number come in parts.
            let parts = |bhs: &Bhs| bhs.task_tag().is_multiple_of(2);
            while let Some(decoded) = decoder.decode_parts(&mut piece, parts).expect("sound") {
                match decoded {
                    Decoded::Pdu(pdu) => seen.push((pdu.data.to_vec(), pdu.data_is_sound)),
                    Decoded::Begin(bhs) => {
                        prop_assert_eq!(bhs.task_tag() as usize, seen.len());
                        seen.push((Vec::new(), false));
                    }
                    Decoded::Part { data, is_sound } => {
                        let last = seen.last_mut().expect("it has begun");
                        last.0.extend_from_slice(&data);
                        last.1 = is_sound.unwrap_or(false);
                    }
                }
            }
            prop_assert!(piece.is_empty());
            if stream.is_empty() {
                break;
            }
        }
        prop_assert!(!decoder.is_inside_pdu());
        let sound = |index| damaged != Some(index);
        let expected = pdus.into_iter().enumerate().map(|(index, (_, data))| (data, sound(index)));
        prop_assert_eq!(seen, expected.collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes_stay_within_the_bound(bytes: Vec<u8>, digests: (bool, bool)) {
        let mut decoder = Decoder::new(600);
        decoder.set(600, digests.0, digests.1);
        let mut input = Bytes::from(bytes);
        while let Ok(Some(_)) = decoder.decode(&mut input) {
            prop_assert!(decoder.held() < 600 + BHS + 2048);
        }
        prop_assert!(decoder.held() < 600 + BHS + 2048);
    }
}

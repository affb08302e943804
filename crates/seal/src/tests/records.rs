//! Attacks on records: by the path, which has no key, and by a peer, which has them.

use super::forger::Forger;
use super::world::{Ends, Talker};
use crate::{
    Fault, HEADER_LEN, Kind, MAX_BOUND, MAX_CHANGES_WITHOUT_DATA, MAX_PADDING, MIN_BOUND,
    OpenError, Opener, Padding, Receiver, SealError, SessionSettings, TAG_LEN,
};

/// Gives the records to a receiver; the number of those that it took, and its first error.
fn offer(opener: Opener, records: &[Vec<u8>]) -> (usize, Result<(), OpenError>) {
    let mut receiver = Receiver::new(opener);
    let mut taken = 0;
    for record in records {
        let mut bytes = &record[..];
        while !bytes.is_empty() {
            let len = receiver.handle_bytes(bytes);
            bytes = &bytes[len..];
            loop {
                match receiver.next() {
                    Ok(Some(_)) => taken += 1,
                    Ok(None) => break,
                    Err(error) => {
                        // The first error is the last.
                        assert_eq!(receiver.handle_end_of_stream(), Err(OpenError::Failed));
                        return (taken, Err(error));
                    }
                }
            }
        }
    }
    (taken, receiver.handle_end_of_stream())
}

/// A pair of talkers with padding, and some records of the client's.
fn padded() -> (Talker, Talker) {
    let padding = Padding::Multiple(64);
    Ends::common().connect_with(SessionSettings { padding, ..SessionSettings::default() })
}

/// Each bit of a padded record: kind, flags, epoch, length, ciphertext, padding, tag.
#[test]
fn a_flipped_bit_is_found() {
    let (mut client, _) = padded();
    let len = client.record(&[1; 70]).unwrap().len();
    assert_eq!(len, HEADER_LEN + 128 + TAG_LEN);
    for bit in 0..len * 8 {
        let (mut client, mut server) = padded();
        let mut record = client.record(&[1; 70]).unwrap();
        record[bit / 8] ^= 1 << (bit % 8);
        // Bytes for a length that has grown.
        let more = vec![0; if (4..8).contains(&(bit / 8)) { 2 << 18 } else { 0 }];
        let received = server.receive(&[record, more].concat());
        let error = received.expect_err("a flipped bit");
        assert_eq!(error.fault(), Fault::PeerOrPath, "bit {bit}: {error}");
        let expected = match bit / 8 {
            0 | 1 => matches!(
                error,
                OpenError::UnknownKind { .. }
                    | OpenError::UnknownFlags { .. }
                    | OpenError::BadLength { .. }
                    | OpenError::NotAuthentic { .. }
            ),
            2 | 3 => matches!(error, OpenError::WrongEpoch { expected: 0, .. }),
            4..=7 => {
                matches!(error, OpenError::BadLength { .. } | OpenError::NotAuthentic { .. })
            }
            _ => matches!(error, OpenError::NotAuthentic { epoch: 0, number: 1 }),
        };
        assert!(expected, "bit {bit}: {error}");
        // What was honest before and comes after is refused too.
        let honest = client.record(b"x").unwrap();
        assert_eq!(server.receive(&honest), Err(OpenError::Failed));
    }
}

/// The record that was refused leaves nothing to read.
#[test]
fn a_refused_record_is_overwritten() {
    let (mut forger, mut opener) = Forger::greeted(MIN_BOUND);
    let mut record = forger.record([2, 0], b"secret of the peer");
    *record.last_mut().unwrap() ^= 1;
    let (header, body) = record.split_at_mut(HEADER_LEN);
    let expected = opener.header((&*header).try_into().unwrap()).unwrap();
    assert!(opener.open_in_place(&expected, body).is_err());
    assert_eq!(body[..body.len() - TAG_LEN], [0; 18]);
    // So does an authentic one whose padding is wrong.
    let (mut forger, mut opener) = Forger::greeted(MIN_BOUND);
    let mut record = forger.record([2, 1], b"secret of the peer");
    let (header, body) = record.split_at_mut(HEADER_LEN);
    let expected = opener.header((&*header).try_into().unwrap()).unwrap();
    assert_eq!(opener.open_in_place(&expected, body), Err(OpenError::BadPadding));
    assert_eq!(body[..body.len() - TAG_LEN], [0; 18]);
}

#[test]
fn a_replayed_record_is_refused() {
    let (mut client, mut server) = Ends::common().connect();
    let record = client.record(b"write block 7").unwrap();
    assert_eq!(server.receive(&record).unwrap().len(), 1);
    assert_eq!(server.receive(&record), Err(OpenError::NotAuthentic { epoch: 0, number: 2 }));
}

#[test]
fn reordered_records_are_refused() {
    let (mut client, mut server) = Ends::common().connect();
    let (_first, second) = (client.record(b"1").unwrap(), client.record(b"2").unwrap());
    assert_eq!(server.receive(&second), Err(OpenError::NotAuthentic { epoch: 0, number: 1 }));
}

/// Dropped data, a dropped Rekey, a dropped Hello, a dropped End.
#[test]
fn a_dropped_record_is_missed() {
    let (mut client, mut server) = Ends::common().connect();
    client.record(b"1").unwrap();
    let second = client.record(b"2").unwrap();
    assert!(matches!(server.receive(&second), Err(OpenError::NotAuthentic { .. })));

    let (mut client, mut server) = Ends::common().connect();
    client.sealer.rekey(false).unwrap();
    let record = client.record(b"1").unwrap();
    assert_eq!(server.receive(&record), Err(OpenError::WrongEpoch { got: 1, expected: 0 }));

    let mut pair = Ends::common().begin();
    pair.run(&mut |_, _| {}).unwrap();
    let client = pair.client.into_session(SessionSettings::default()).unwrap();
    let server = pair.server.into_session(SessionSettings::default()).unwrap();
    let mut client = Talker::new(client);
    let end = client.sealer.end().unwrap();
    let kind = Kind::End;
    let (taken, error) = offer(server.opener, &[end.as_ref().to_vec()]);
    assert_eq!((taken, error), (0, Err(OpenError::HelloOutOfPlace { kind })));

    let (mut client, mut server) = Ends::common().connect();
    let record = client.record(b"1").unwrap();
    client.sealer.end().unwrap();
    assert_eq!(server.receive(&record).unwrap().len(), 1);
    let ended = server.receiver.handle_end_of_stream();
    assert_eq!(ended, Err(OpenError::Truncated { partial: 0 }));
}

/// The stream is cut behind each of its bytes.
#[test]
fn a_truncated_stream_is_no_end() {
    let (mut client, _) = padded();
    let stream =
        [&client.record(&[1; 70]).unwrap(), client.sealer.end().unwrap().as_ref()].concat();
    for cut in 0..stream.len() {
        let (mut client, mut server) = padded();
        let record = client.record(&[1; 70]).unwrap();
        let whole = [&record, client.sealer.end().unwrap().as_ref()].concat();
        let events = server.receive(&whole[..cut]).unwrap();
        assert_eq!(events.len(), usize::from(cut >= record.len()));
        let partial = if cut < record.len() { cut } else { cut - record.len() };
        let ended = server.receiver.handle_end_of_stream();
        assert_eq!(ended, Err(OpenError::Truncated { partial }));
        assert_eq!(ended.unwrap_err().fault(), Fault::PeerOrPath);
        // The rest comes too late.
        assert_eq!(server.receive(&whole[cut..]), Err(OpenError::Failed));
    }
}

/// A record whose end is cut off, with the next one behind it.
#[test]
fn a_truncated_record_is_refused() {
    for cut in 1..40 {
        let (mut client, mut server) = Ends::common().connect();
        let first = client.record(&[1; 30]).unwrap();
        let second = client.record(&[2; 30]).unwrap();
        let bytes = [&first[..first.len() - cut], &second].concat();
        let error = server.receive(&bytes).unwrap_err();
        assert_eq!(error, OpenError::NotAuthentic { epoch: 0, number: 1 });
    }
}

/// A record of another session, of the other direction, of another epoch.
#[test]
fn spliced_records_are_refused() {
    let not_authentic = Err(OpenError::NotAuthentic { epoch: 0, number: 1 });
    let (mut client, mut server) = Ends::common().connect();
    let (mut other, _) = Ends::common().connect();
    assert_eq!(server.receive(&other.record(b"x").unwrap()), not_authentic);
    // The client's own record comes back to it.
    let record = client.record(b"x").unwrap();
    assert_eq!(client.receive(&record), not_authentic);

    let (mut client, mut server) = Ends::common().connect();
    let old = client.record(b"x").unwrap();
    server.receive(&old).unwrap();
    let rekey = client.sealer.rekey(false).unwrap();
    server.receive(rekey.as_ref()).unwrap();
    // As it was, and with the epoch made to fit, as the record of the same number.
    assert_eq!(server.receive(&old), Err(OpenError::WrongEpoch { got: 0, expected: 1 }));
    let (mut client, mut server) = Ends::common().connect();
    let mut old = client.record(b"x").unwrap();
    server.receive(&old).unwrap();
    let rekey = client.sealer.rekey(false).unwrap();
    server.receive(rekey.as_ref()).unwrap();
    let next = client.record(b"y").unwrap();
    server.receive(&next).unwrap();
    old[3] = 1;
    assert_eq!(server.receive(&old), Err(OpenError::NotAuthentic { epoch: 1, number: 1 }));
}

/// Two handshakes of the same ends never have the same keys.
#[test]
fn a_recorded_session_does_not_fit_the_next() {
    let (mut client, _) = Ends::common().connect();
    let record = client.record(b"x").unwrap();
    let (mut client, _) = Ends::common().connect();
    assert_ne!(client.record(b"x").unwrap(), record);
}

/// What each kind of record may be long; one byte less and one more.
#[test]
fn wrong_lengths_are_refused_by_the_header() {
    let tag = TAG_LEN as u32;
    let padding = MAX_PADDING as u32;
    let ranges = [
        ([1, 0], tag + 8, tag + 8),
        ([2, 0], tag + 1, tag + MIN_BOUND),
        ([2, 1], tag + 2, tag + MIN_BOUND + padding),
        ([3, 0], tag, tag),
        ([3, 2], tag, tag),
        ([4, 0], tag, tag),
        ([5, 0], tag + 1, tag + 1),
    ];
    let header = |kind: [u8; 2], length: u32| {
        let length = length.to_be_bytes();
        [kind[0], kind[1], 0, 0, length[0], length[1], length[2], length[3]]
    };
    for (kind, least, most) in ranges {
        let opener = || match kind[0] {
            1 => Forger::new(MIN_BOUND).1,
            _ => Forger::greeted(MIN_BOUND).1,
        };
        for length in [least, most] {
            let expected = opener().header(header(kind, length)).unwrap();
            assert_eq!(expected.body_len(), length as usize);
        }
        for length in [0, 1, tag - 1, least - 1, most + 1, MAX_BOUND * 2, u32::MAX] {
            let error = opener().header(header(kind, length)).unwrap_err();
            assert!(matches!(error, OpenError::BadLength { .. }), "{kind:?} {length}: {error}");
        }
    }
}

#[test]
fn unknown_kinds_and_flags_are_refused() {
    let (mut opener, mut known) = (Forger::greeted(MIN_BOUND).1, Vec::new());
    for kind in 0..=255 {
        for flags in 0..=255 {
            let length = match kind {
                2 => 18,
                5 => 17,
                1 => 24,
                _ => 16,
            };
            match opener.header([kind, flags, 0, 0, 0, 0, 0, length]) {
                Ok(_) => known.push([kind, flags]),
                Err(OpenError::UnknownKind { kind: told }) => assert_eq!(told, kind),
                Err(OpenError::UnknownFlags { kind: told, .. }) => assert_eq!(told, kind),
                Err(OpenError::HelloOutOfPlace { .. }) => assert_eq!(kind, 1),
                Err(error) => panic!("{kind} {flags}: {error}"),
            }
            opener = Forger::greeted(MIN_BOUND).1;
        }
    }
    assert_eq!(known, [[2, 0], [2, 1], [3, 0], [3, 2], [4, 0], [5, 0]]);
}

/// Authentic records that a peer must not send.
#[test]
fn a_peer_that_breaks_rules_is_refused() {
    let mut far = vec![0; MAX_PADDING + 2];
    far[1] = 0x80;
    let hello = OpenError::HelloOutOfPlace { kind: Kind::Hello };
    let cases: [([u8; 2], &[u8], OpenError); 6] = [
        ([2, 1], &[0; 40], OpenError::BadPadding),
        ([2, 1], &[0x80, 0, 0, 0], OpenError::BadPadding),
        ([2, 1], &[1, 2, 3], OpenError::BadPadding),
        ([2, 1], &[1, 0x80, 1], OpenError::BadPadding),
        ([2, 1], &far, OpenError::BadPadding),
        ([1, 0], &[1, 0, 0, 0, 0, 1, 0, 0], hello),
    ];
    for (kind, content, expected) in cases {
        let (mut forger, opener) = Forger::greeted(MIN_BOUND);
        let records = [forger.record([2, 0], b"x"), forger.record(kind, content)];
        let (taken, error) = offer(opener, &records);
        assert_eq!((taken, error), (1, Err(expected)), "{kind:?} {content:?}");
    }
    // One byte of content and the longest padding are right.
    let (mut forger, opener) = Forger::greeted(MIN_BOUND);
    let longest = forger.record([2, 1], &far[..=MAX_PADDING]);
    let records = [longest, forger.record([4, 0], &[])];
    assert_eq!(offer(opener, &records), (2, Ok(())));
}

#[test]
fn hellos_of_another_version_or_bound_are_refused() {
    let bound = |bytes: [u8; 4]| [&[1, 0, 0, 0][..], &bytes].concat();
    let cases = [
        (bound([0, 0, 0x3f, 0xff]), Err(OpenError::BadBound { bound: MIN_BOUND - 1 })),
        (bound([0, 4, 0, 1]), Err(OpenError::BadBound { bound: MAX_BOUND + 1 })),
        (bound([255; 4]), Err(OpenError::BadBound { bound: u32::MAX })),
        (vec![2, 0, 0, 0, 0, 1, 0, 0], Err(OpenError::BadHello)),
        (vec![1, 0, 0, 1, 0, 1, 0, 0], Err(OpenError::BadHello)),
        (bound([0, 0, 0x40, 0]), Ok(())),
        (bound([0, 4, 0, 0]), Ok(())),
    ];
    for (content, expected) in cases {
        let (mut forger, opener) = Forger::new(MIN_BOUND);
        let records = [forger.record([1, 0], &content), forger.record([4, 0], &[])];
        assert_eq!(offer(opener, &records).1, expected, "{content:?}");
    }
}

/// Bytes behind an End or an Alert, with an authentic record or without.
#[test]
fn bytes_behind_the_end_are_refused() {
    for last in [&[4, 0][..], &[5, 0]] {
        let content: &[u8] = if last[0] == 5 { &[1] } else { &[] };
        for more in [true, false] {
            let (mut forger, opener) = Forger::greeted(MIN_BOUND);
            let mut records = vec![forger.record([last[0], 0], content)];
            records.push(if more { forger.record([2, 0], b"x") } else { vec![0; HEADER_LEN] });
            assert_eq!(offer(opener, &records), (1, Err(OpenError::AfterEnd)));
        }
    }
}

/// A shell that says it has received more than it had space for.
#[test]
fn no_more_is_received_than_there_was_space_for() {
    let (mut forger, opener) = Forger::greeted(MIN_BOUND);
    let mut receiver = Receiver::new(opener);
    let record = forger.record([2, 0], &[1; 5000]);
    let space = receiver.space();
    let len = space.len();
    assert_eq!(len, HEADER_LEN + crate::READ_AHEAD);
    space.copy_from_slice(&record[..len]);
    receiver.handle_filled(usize::MAX);
    assert_eq!(receiver.next(), Ok(None));
    receiver.handle_bytes(&record[len..]);
    assert!(matches!(receiver.next(), Ok(Some(crate::Opened::Data(data))) if data.len() == 5000));
}

/// Less than a header behind the End.
#[test]
fn a_part_of_a_record_behind_the_end_is_refused() {
    let (mut forger, opener) = Forger::greeted(MIN_BOUND);
    let records = [forger.record([4, 0], &[]), vec![2]];
    let mut receiver = Receiver::new(opener);
    assert_eq!(receiver.handle_bytes(&records.concat()), records.concat().len());
    assert_eq!(receiver.next(), Ok(Some(crate::Opened::End)));
    assert_eq!(receiver.next(), Ok(None));
    assert_eq!(receiver.handle_end_of_stream(), Err(OpenError::AfterEnd));
}

/// A peer that was refused sends an Alert in the place of its Hello.
#[test]
fn an_alert_may_come_first() {
    let (mut forger, opener) = Forger::new(MIN_BOUND);
    let records = [forger.record([5, 0], &[2])];
    assert_eq!(offer(opener, &records), (1, Ok(())));
}

/// A peer changes its key again and again, and sends no data.
#[test]
fn a_peer_that_changes_its_key_without_end_is_refused() {
    let (mut forger, opener) = Forger::greeted(MIN_BOUND);
    let most = usize::from(MAX_CHANGES_WITHOUT_DATA);
    let mut records: Vec<Vec<u8>> = (0..most).map(|_| forger.rekey()).collect();
    records.push(forger.record([2, 0], b"x"));
    records.extend((0..most + 1).map(|_| forger.rekey()));
    assert_eq!(offer(opener, &records), (2 * most + 1, Err(OpenError::ChangesWithoutData)));
    // The own sealer keeps to it.
    let (mut client, _) = Ends::common().connect();
    for _ in 0..2 {
        for _ in 0..most {
            client.sealer.rekey(false).unwrap();
        }
        assert_eq!(client.sealer.rekey(false), Err(SealError::ChangesWithoutData));
        client.record(b"x").unwrap();
    }
    client.sealer.rekey(false).unwrap();
}

/// The header has 16 bits of the epoch, which begin anew; the keys do not.
#[test]
fn epochs_go_on_beyond_what_the_header_counts() {
    let (mut client, mut server) = Ends::common().connect();
    let first = client.record(b"x").unwrap();
    server.receive(&first).unwrap();
    let mut stream = Vec::new();
    for epoch in 1..=1_u64 << 16 {
        stream.extend(client.sealer.rekey(false).unwrap().as_ref());
        if epoch % 8 == 0 {
            stream.extend(client.record(b"y").unwrap());
        }
    }
    let events = server.receive(&stream).unwrap();
    assert_eq!(events.len(), (1 << 16) + (1 << 13));
    assert_eq!((client.sealer.epoch(), server.receiver.opener().epoch()), (1 << 16, 1 << 16));
    // The same number and the same epoch in the header, and another key.
    let replayed = server.receive(&first);
    assert_eq!(replayed, Err(OpenError::NotAuthentic { epoch: 1 << 16, number: 1 }));
}

/// Whatever a peer sends, the receiver's memory is the longest record's.
#[test]
fn memory_is_bounded() {
    for bound in [MIN_BOUND, MAX_BOUND] {
        let (_, opener) = Forger::greeted(bound);
        let mut receiver = Receiver::new(opener);
        // The longest record that may be announced, and bytes without end.
        let length = (bound as usize + MAX_PADDING + TAG_LEN) as u32;
        let header = [&[2, 1, 0, 0][..], &length.to_be_bytes()].concat();
        let mut taken = receiver.handle_bytes(&header);
        for _ in 0..1000 {
            if receiver.next().is_err() {
                break;
            }
            taken += receiver.handle_bytes(&[0; 4096]);
        }
        let most = HEADER_LEN + length as usize + crate::READ_AHEAD;
        assert!(taken >= HEADER_LEN + length as usize && taken <= most);
        // A caller that does not ask for records is given no more room either.
        for _ in 0..1000 {
            taken += receiver.handle_bytes(&[0; 4096]);
        }
        assert!(taken <= 2 * most, "{taken}");
        assert_eq!(receiver.handle_end_of_stream(), Err(OpenError::Failed));
    }
}

/// A body that is not the last header's is the caller's error.
#[test]
fn a_body_of_another_length_is_refused() {
    let (mut forger, mut opener) = Forger::greeted(MIN_BOUND);
    let mut record = forger.record([2, 0], b"x");
    let (header, body) = record.split_at_mut(HEADER_LEN);
    let expected = opener.header((&*header).try_into().unwrap()).unwrap();
    let error = opener.open_in_place(&expected, &mut body[1..]).unwrap_err();
    assert_eq!((error, error.fault()), (OpenError::WrongBody, Fault::Caller));
}

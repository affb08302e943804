//! What holds for all chunks, cuts and bytes.

use proptest::prelude::*;

use super::world::{Ends, Event, Talker};
use crate::{
    Handshake, KnownPeers, MAX_BOUND, MIN_BOUND, OpenError, Opened, Padding, Receiver, SealError,
    SessionSettings, Step, Suite, halves_from_exporter,
};

#[derive(Debug, Clone)]
enum Action {
    Send(usize),
    Rekey(bool),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1..2000usize).prop_map(Action::Send),
        2 => (1..=MIN_BOUND as usize).prop_map(Action::Send),
        1 => Just(Action::Send(MIN_BOUND as usize)),
        1 => (1..=MAX_BOUND as usize).prop_map(Action::Send),
        1 => any::<bool>().prop_map(Action::Rekey),
    ]
}

fn padding() -> impl Strategy<Value = Padding> {
    prop_oneof![Just(Padding::None), any::<u16>().prop_map(Padding::Multiple)]
}

fn suite() -> impl Strategy<Value = Suite> {
    prop_oneof![Just(Suite::Aes256Gcm), Just(Suite::ChaCha20Poly1305)]
}

/// Both ends with these settings, without a handshake; each has the other's Hello.
fn keyed(suite: Suite, settings: SessionSettings) -> (Talker, Talker) {
    let output = vec![7; suite.hash_len()];
    let talker = |is_client| {
        let (sealer, opener, hello) =
            halves_from_exporter(is_client, suite, &output, settings).unwrap();
        Talker { sealer, receiver: Receiver::new(opener), output: hello.as_ref().to_vec() }
    };
    let (mut client, mut server) = (talker(true), talker(false));
    assert_eq!(client.receive(&server.take_output()), Ok(vec![Event::Hello]));
    assert_eq!(server.receive(&client.take_output()), Ok(vec![Event::Hello]));
    (client, server)
}

/// The data of record `number`.
fn data(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number * 31 + at * 7) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Any chunks, padding and changes of keys; the stream cut anywhere, received by copy or in
    /// the receiver's own space: what arrives is what was sent.
    #[test]
    fn what_arrives_is_what_was_sent(
        suite in suite(),
        padding in padding(),
        bound in any::<u32>(),
        actions in prop::collection::vec(action(), 1..20),
        cuts in prop::collection::vec(1..70_000usize, 1..30),
        in_place in any::<bool>(),
    ) {
        let settings = SessionSettings { bound, padding, ..SessionSettings::default() };
        let (mut client, mut server) = keyed(suite, settings);
        let most = client.sealer.max_chunk().unwrap() as usize;
        let (mut stream, mut expected) = (Vec::new(), Vec::new());
        for (number, action) in actions.into_iter().enumerate() {
            match action {
                Action::Send(len) => {
                    let data = data(number, len.min(most));
                    stream.extend(client.record(&data).unwrap());
                    expected.push(Event::Data(data));
                }
                Action::Rekey(ask) => {
                    // Many changes in a row are refused.
                    if let Ok(rekey) = client.sealer.rekey(ask) {
                        stream.extend(rekey.as_ref());
                        expected.push(Event::Rekeyed(client.sealer.epoch(), ask));
                    }
                }
            }
        }
        stream.extend(client.sealer.end().unwrap().as_ref());
        expected.push(Event::End);
        let (mut arrived, mut rest) = (Vec::new(), &stream[..]);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            if in_place {
                let space = server.receiver.space();
                let len = space.len().min(now.len());
                prop_assert!(len > 0);
                space[..len].copy_from_slice(&now[..len]);
                server.receiver.handle_filled(len);
                arrived.extend(server.receive(&[]).unwrap());
                rest = &rest[len..];
            } else {
                arrived.extend(server.receive(now).unwrap());
                rest = later;
            }
        }
        prop_assert_eq!(server.receiver.handle_end_of_stream(), Ok(()));
        prop_assert!(arrived == expected);
    }

    /// Both directions at once, with delays of any length. A Rekey that asks is answered once, by
    /// one that does not ask.
    #[test]
    fn both_directions_go_on_at_once(
        suite in suite(),
        steps in prop::collection::vec((any::<bool>(), action(), 0..3000usize), 1..60),
    ) {
        let (client, server) = keyed(suite, SessionSettings::default());
        let mut ends = [client, server];
        let (mut sent, mut arrived) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        let (mut asked, mut answered) = ([0, 0], [0, 0]);
        // Then a last round, in which all that is on its way arrives.
        let last = [true, false, true, false].map(|side| (side, Action::Send(1), usize::MAX));
        for (number, (side, action, moved)) in steps.into_iter().chain(last).enumerate() {
            let from = usize::from(side);
            match action {
                Action::Send(len) => {
                    let data = data(number, len.min(5000));
                    let record = ends[from].record(&data).unwrap();
                    ends[from].output.extend(record);
                    sent[from].extend(data);
                }
                Action::Rekey(ask) => {
                    if let Ok(rekey) = ends[from].sealer.rekey(ask) {
                        ends[from].output.extend(rekey.as_ref());
                        asked[from] += usize::from(ask);
                    }
                }
            }
            let moved = moved.min(ends[from].output.len());
            let bytes: Vec<u8> = ends[from].output.drain(..moved).collect();
            let to = 1 - from;
            for event in ends[to].receive(&bytes).unwrap() {
                match event {
                    Event::Data(data) => arrived[from].extend(data),
                    Event::Rekeyed(_, true) => {
                        // A key that was changed many times in a row stays.
                        if let Ok(rekey) = ends[to].sealer.rekey(false) {
                            ends[to].output.extend(rekey.as_ref());
                        }
                        answered[to] += 1;
                    }
                    Event::Rekeyed(_, false) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        prop_assert!(sent == arrived);
        prop_assert_eq!(asked, [answered[1], answered[0]]);
        for (one, other) in [(0, 1), (1, 0)] {
            prop_assert_eq!(ends[one].sealer.epoch(), ends[other].receiver.opener().epoch());
        }
    }

    /// Any bytes in the place of records: an error or nothing, and no data.
    #[test]
    fn any_bytes_are_no_records(
        suite in suite(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        kind in 1..6u8,
        length in 0..100u8,
    ) {
        for bytes in [bytes.clone(), [&[kind, 0, 0, 0, 0, 0, 0, length], &bytes[..]].concat()] {
            let (_, mut server) = keyed(suite, SessionSettings::default());
            if let Ok(events) = server.receive(&bytes) {
                prop_assert_eq!(events, []);
            }
            let ended = server.receiver.handle_end_of_stream();
            let cut = matches!(ended, Err(OpenError::Truncated { .. } | OpenError::Failed));
            prop_assert!(cut, "{ended:?}");
        }
    }

    /// Any bytes in the place of a handshake, or behind a part of one: an error or nothing.
    #[test]
    fn any_bytes_are_no_handshake(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        behind in 0..1500usize,
        is_client in any::<bool>(),
        kind in 20..24u8,
    ) {
        let ends = Ends::common();
        let mut pair = ends.begin();
        let hello = pair.client.poll_output();
        let (mut end, honest): (Handshake, Vec<u8>) = if is_client {
            pair.server.handle_bytes(&hello).unwrap();
            (pair.client, pair.server.poll_output())
        } else {
            (pair.server, hello)
        };
        let honest = &honest[..behind.min(honest.len() - 1)];
        let len = (bytes.len() as u16).to_be_bytes();
        let record = [&[kind, 3, 3, len[0], len[1]], &bytes[..]].concat();
        let _ = end.handle_bytes(&[honest, &record, &bytes].concat());
        prop_assert!(matches!(end.step(), Step::Reading | Step::Failed));
        prop_assert!(end.peer().is_none());
    }

    /// Any text as a file of known peers: an error or lines that are read back.
    #[test]
    fn any_text_is_parsed_or_refused(text in "(.{0,60}\n){0,4}") {
        if let Ok(known) = KnownPeers::parse(&text) {
            for peer in known.iter() {
                prop_assert!(text.contains(peer.address()));
            }
        }
    }

    /// A record is the same whether it is sealed where it lies or into other memory.
    #[test]
    fn records_are_sealed_into_other_memory(
        suite in suite(),
        padding in padding(),
        len in 1..5000usize,
    ) {
        let settings = SessionSettings { padding, ..SessionSettings::default() };
        let (mut one, _) = keyed(suite, settings);
        let (mut other, _) = keyed(suite, settings);
        let content = data(1, len);
        let expected = one.record(&content).unwrap();
        let (mut header, mut sealed) = ([0; crate::HEADER_LEN], vec![0; len]);
        let mut tail = vec![0; other.sealer.tail_len(len)];
        let longer = &mut vec![0; len + 1];
        let (mut third, _) = keyed(suite, settings);
        let refused = third.sealer.seal_into(&mut header, &content, longer, &mut tail);
        prop_assert_eq!(refused, Err(SealError::WrongChunk { got: len + 1, expected: len }));
        other.sealer.seal_into(&mut header, &content, &mut sealed, &mut tail).unwrap();
        prop_assert!([&header[..], &sealed, &tail].concat() == expected);
    }

    /// A shell that places the bytes itself: no receiver, no buffer of ours.
    #[test]
    fn records_are_opened_where_they_lie(suite in suite(), len in 1..5000usize) {
        let (mut client, _) = keyed(suite, SessionSettings::default());
        let settings = SessionSettings::default();
        let output = vec![7; suite.hash_len()];
        let (_, mut opener, _) = halves_from_exporter(false, suite, &output, settings).unwrap();
        let (_, _, hello) = halves_from_exporter(true, suite, &output, settings).unwrap();
        let sent = data(1, len);
        let records = [hello.as_ref().to_vec(), client.record(&sent).unwrap()];
        for (number, record) in records.iter().enumerate() {
            let (header, body) = record.split_first_chunk().unwrap();
            let expected = opener.header(*header).unwrap();
            prop_assert_eq!(expected.body_len(), body.len());
            let mut body = body.to_vec();
            let start = body.as_ptr();
            match opener.open_in_place(&expected, &mut body).unwrap() {
                Opened::Hello(_) => prop_assert_eq!(number, 0),
                Opened::Data(data) => {
                    prop_assert_eq!(data.as_ptr(), start);
                    prop_assert!(data == sent);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

//! An attacker between the ends of a handshake, who changes what he likes.

use rustls::{CipherSuite, SignatureScheme};

use super::world::{Ends, Event, Pair, Side, Talker, Tamper, raw_key};
use crate::{
    ALPN, Handshake, HandshakeError, Judgement, KnownPeers, Reason, SessionSettings, Step, Suite,
    SuiteChoice, Trust, known_peer_line,
};

/// Whether a session stands at both ends after a handshake with the attacker between: both are
/// ready, and each opens the other's Hello. If not, both handshakes are returned.
fn attack(ends: &Ends, tamper: &mut Tamper<'_>) -> (Option<Pair>, bool) {
    let mut pair = ends.begin();
    let ran = pair.run(tamper);
    if pair.steps() == (Step::Ready, Step::Ready) {
        let [mut client, mut server] = [pair.client, pair.server]
            .map(|end| Talker::new(end.into_session(SessionSettings::default()).unwrap()));
        let stands = |from: &Talker, to: &mut Talker, before: &[u8]| {
            to.receive(&[before, &from.output].concat()) == Ok(vec![Event::Hello])
        };
        let at_client = stands(&server, &mut client, &pair.to_client);
        let at_server = stands(&client, &mut server, &pair.to_server);
        return (None, at_client && at_server);
    }
    // An end that has failed is not ready, and does not become so.
    if let Err((side, _)) = ran {
        let failed = if side == Side::Client { &mut pair.client } else { &mut pair.server };
        assert_eq!((failed.step(), failed.peer()), (Step::Failed, None));
        assert_eq!(failed.accept(), Err(HandshakeError::OutOfStep));
    }
    (Some(pair), false)
}

/// The TLS records of a flight.
fn records(flight: &[u8]) -> Vec<Vec<u8>> {
    let (mut records, mut rest) = (Vec::new(), flight);
    while let [_, _, _, high, low, ..] = *rest {
        let (record, later) = rest.split_at(5 + usize::from(u16::from_be_bytes([high, low])));
        records.push(record.to_vec());
        rest = later;
    }
    records
}

/// A kind of TLS record (RFC 8446 5.1).
const CHANGE_CIPHER_SPEC: u8 = 20;

/// Each byte of each flight with a flipped bit.
///
/// TLS leaves a few bytes without protection, and without meaning: a ChangeCipherSpec, and the
/// version in a record's header (RFC 8446 5.1, D.4). With these a session stands, the same as ever.
#[test]
fn each_changed_byte_ends_the_handshake() {
    let ends = Ends::common();
    let mut lengths = Vec::new();
    attack(ends, &mut |side, flight| lengths.push((side, flight.len())));
    let flights: Vec<usize> = (0..lengths.len()).filter(|i| lengths[*i].1 > 0).collect();
    assert!(flights.len() >= 3, "{lengths:?}");
    let mut harmless = 0;
    for flight in flights {
        let (side, len) = lengths[flight];
        for place in 0..len {
            let (mut number, mut meaning) = (0, None);
            let (_, both) = attack(ends, &mut |_, bytes| {
                if number == flight && place < bytes.len() {
                    meaning = Some(has_no_meaning(bytes, place));
                    bytes[place] ^= 1 << (place % 8);
                }
                number += 1;
            });
            match meaning {
                // A shorter flight than before, as a signature in DER may be.
                None => {}
                Some(harmless_byte) => {
                    assert!(!both || harmless_byte, "byte {place} of {len} of the {side:?}");
                    harmless += usize::from(both);
                }
            }
        }
    }
    println!("{harmless} bytes without meaning");
    assert!(harmless <= 10);
}

/// Whether the byte is a ChangeCipherSpec's, or the version in a record's header.
fn has_no_meaning(flight: &[u8], place: usize) -> bool {
    let mut start = 0;
    for record in records(flight) {
        if (start..start + record.len()).contains(&place) {
            let version = (1..=2).contains(&(place - start));
            return record[0] == CHANGE_CIPHER_SPEC || version;
        }
        start += record.len();
    }
    false
}

/// Each record of each flight dropped, repeated, and exchanged with the next.
///
/// A ChangeCipherSpec has no meaning in TLS 1.3 (RFC 8446 D.4), so it may be dropped.
#[test]
fn records_of_the_handshake_have_their_place() {
    let ends = Ends::common();
    let mut tried = 0;
    for side in [Side::Client, Side::Server] {
        for place in 0..8 {
            for change in 0..3 {
                let (mut number, mut matters) = (0, false);
                let (_, both) = attack(ends, &mut |sender, flight| {
                    let mut all = records(flight);
                    let mine = (sender == side).then(|| place - number).filter(|i: &i32| *i >= 0);
                    number += if sender == side { all.len() as i32 } else { 0 };
                    let Some(index) = mine.map(|i| i as usize).filter(|i| *i < all.len()) else {
                        return;
                    };
                    let plain = |record: &Vec<u8>| record[0] == CHANGE_CIPHER_SPEC;
                    match change {
                        0 => matters = !plain(&all.remove(index)),
                        1 => {
                            matters = !plain(&all[index]);
                            all.insert(index, all[index].clone());
                        }
                        _ if index + 1 < all.len() => {
                            matters = !plain(&all[index]) && !plain(&all[index + 1]);
                            all.swap(index, index + 1);
                        }
                        _ => {}
                    }
                    *flight = all.concat();
                });
                assert!(!(both && matters), "{side:?}, record {place}, change {change}");
                tried += usize::from(matters);
            }
        }
    }
    assert!(tried >= 8, "{tried}");
}

/// The extensions of a hello: from their length's place to the end.
fn extensions(hello: &[u8], is_client: bool) -> usize {
    // Record and handshake header, version, random.
    let mut at = 5 + 4 + 2 + 32;
    at += 1 + usize::from(hello[at]);
    if !is_client {
        return at + 3;
    }
    at += 2 + usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
    at + 1 + usize::from(hello[at])
}

/// Puts the hello's extensions through `change`, and sets the lengths around them right.
fn rewrite(
    flight: &mut Vec<u8>,
    is_client: bool,
    change: &mut dyn FnMut(u16, Vec<u8>) -> Option<Vec<u8>>,
) {
    let mut all = records(flight);
    let hello = &mut all[0];
    let start = extensions(hello, is_client);
    let mut rest = hello.split_off(start + 2);
    hello.truncate(start);
    let mut kept = Vec::new();
    while rest.len() >= 4 {
        let kind = u16::from_be_bytes([rest[0], rest[1]]);
        let len = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        let later = rest.split_off(4 + len);
        if let Some(body) = change(kind, rest.split_off(4)) {
            kept.extend(kind.to_be_bytes());
            kept.extend((body.len() as u16).to_be_bytes());
            kept.extend(body);
        }
        rest = later;
    }
    hello.extend((kept.len() as u16).to_be_bytes());
    hello.extend(kept);
    let len = hello.len() - 9;
    hello[6..9].copy_from_slice(&(len as u32).to_be_bytes()[1..]);
    let len = (hello.len() - 5) as u16;
    hello[3..5].copy_from_slice(&len.to_be_bytes());
    *flight = all.concat();
}

/// Each extension of both hellos removed: versions, groups, keys, ALPN, kinds of credentials.
#[test]
fn each_extension_is_covered() {
    let ends = Ends::common();
    for side in [Side::Client, Side::Server] {
        let mut kinds = Vec::new();
        let mut first = true;
        attack(ends, &mut |sender, flight| {
            if sender == side && !flight.is_empty() && std::mem::take(&mut first) {
                rewrite(flight, side == Side::Client, &mut |kind, body| {
                    kinds.push(kind);
                    Some(body)
                });
            }
        });
        let least = if side == Side::Client { 8 } else { 2 };
        assert!(kinds.len() >= least, "{kinds:?}");
        // Rewriting alone changes nothing.
        for removed in kinds.iter().copied().map(Some).chain([None]) {
            let mut first = true;
            let (_, both) = attack(ends, &mut |sender, flight| {
                if sender == side && !flight.is_empty() && std::mem::take(&mut first) {
                    rewrite(flight, side == Side::Client, &mut |kind, body| {
                        (Some(kind) != removed).then_some(body)
                    });
                }
            });
            assert_eq!(both, removed.is_none(), "{side:?} without extension {removed:?}");
        }
    }
}

/// What the client offers is made less, to what the server takes too.
#[test]
fn an_offer_cannot_be_made_less() {
    let first_suite = |flight: &mut Vec<u8>, suite: CipherSuite| {
        // Behind the session id: the length of the list, then the suites. Both become the same.
        let at = 5 + 4 + 2 + 32;
        let at = at + 1 + usize::from(flight[at]) + 2;
        let [high, low] = u16::from(suite).to_be_bytes();
        assert_ne!(flight[at..at + 2], [high, low]);
        flight[at..at + 4].copy_from_slice(&[high, low, high, low]);
    };
    let ends = Ends::raw(SuiteChoice::Prefer(Suite::Aes256Gcm), SuiteChoice::ByProcessor);
    let mut first = true;
    let (_, both) = attack(&ends, &mut |sender, flight| {
        if sender == Side::Client && std::mem::take(&mut first) {
            first_suite(flight, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
        }
    });
    assert!(!both);
    // TLS 1.2 as the only version (43), another ALPN protocol (16), X.509 for raw keys (19, 20),
    // one signature scheme (13).
    let scheme = u16::from(SignatureScheme::ED25519).to_be_bytes();
    let other = [&[0, 14, 13][..], b"tasuki-seal/0"].concat();
    let same = [&[0, 14, 13][..], ALPN].concat();
    let changes: [(u16, Vec<u8>, bool); 6] = [
        (16, same, true),
        (43, vec![2, 3, 3], false),
        (16, other, false),
        (19, vec![1, 0], false),
        (20, vec![1, 0], false),
        (13, [&[0, 4][..], &scheme, &scheme].concat(), false),
    ];
    for (extension, new, stands) in changes {
        let mut first = true;
        let (mut found, ends) = (false, Ends::common());
        let (_, both) = attack(ends, &mut |sender, flight| {
            if sender == Side::Client && std::mem::take(&mut first) {
                rewrite(flight, true, &mut |kind, body| {
                    found |= kind == extension;
                    Some(if kind == extension { new.clone() } else { body })
                });
            }
        });
        assert!(found, "no extension {extension}");
        assert_eq!(both, stands, "extension {extension}");
    }
}

/// The attacker has no key of the ends, and speaks to each with his own.
#[test]
fn an_attacker_with_keys_of_his_own_is_seen() {
    let ends = Ends::common();
    let attacker = Ends::new((raw_key(), Trust::RawKeys), (raw_key(), Trust::RawKeys));
    let right = ends.server.identity().fingerprint();
    let line = known_peer_line("10.9.0.2:3260", right, "disks").unwrap();
    let known = KnownPeers::parse(&line).unwrap();

    // Towards the client: its shell sees another key, and sends nothing of its own.
    let mut pair = Pair { server: attacker.begin().server, ..ends.begin() };
    let hello = pair.client.poll_output();
    pair.server.handle_bytes(&hello).unwrap();
    let flight = pair.server.poll_output();
    pair.client.handle_bytes(&flight).unwrap();
    let found = pair.client.peer().unwrap().fingerprint();
    assert_eq!(found, attacker.server.identity().fingerprint());
    let judgement = known.judge("10.9.0.2:3260", found);
    assert!(matches!(judgement, Judgement::Changed { known } if known.fingerprint() == right));
    assert!(pair.client.refuse(Reason::UnknownIdentity).is_empty());

    // Towards the server: it sees the attacker's key, not the client's.
    let mut pair = Pair { client: attacker.begin().client, ..ends.begin() };
    pair.run(&mut |_, _| {}).unwrap();
    let found = pair.server.peer().unwrap().fingerprint();
    assert_eq!(found, attacker.client.identity().fingerprint());
    let line = known_peer_line("*", ends.client.identity().fingerprint(), "a host").unwrap();
    assert_eq!(KnownPeers::parse(&line).unwrap().find(found), None);
}

/// A recorded handshake of the client, offered to the server again.
#[test]
fn a_replayed_handshake_is_refused() {
    let ends = Ends::common();
    let mut recorded = Vec::new();
    attack(ends, &mut |side, flight| {
        if side == Side::Client {
            recorded.extend(flight.clone());
        }
    });
    let mut server = ends.begin().server;
    let replayed = server.handle_bytes(&recorded);
    assert!(matches!(replayed, Err(HandshakeError::Tls(_))), "{replayed:?}");
    assert_eq!(server.step(), Step::Failed);
    assert_eq!(server.handle_bytes(&recorded), Err(HandshakeError::Failed));
}

/// The stream is cut behind each byte; neither end takes it for more than an unfinished handshake.
#[test]
fn a_truncated_handshake_is_unfinished() {
    let ends = Ends::common();
    for side in [Side::Client, Side::Server] {
        for cut in (0..2600).step_by(13) {
            let (mut sent, mut all) = (0, 0);
            let (pair, both) = attack(ends, &mut |sender, flight| {
                if sender == side {
                    all += flight.len();
                    flight.truncate(cut - cut.min(sent));
                    sent += flight.len();
                }
            });
            if sent < cut {
                break;
            }
            let Some(pair) = pair else {
                assert!(both && all == cut);
                continue;
            };
            let Pair { mut client, mut server, .. } = pair;
            let receiver = if side == Side::Client { &mut server } else { &mut client };
            let ended = receiver.handle_end_of_stream();
            assert_eq!(ended, HandshakeError::Truncated { received: cut });
        }
    }
}

/// The attacker moves the server's sealed Hello between two sessions.
#[test]
fn sessions_of_two_handshakes_do_not_mix() {
    let ends = Ends::common();
    let session = || {
        let mut pair = ends.begin();
        pair.run(&mut |_, _| {}).unwrap();
        let [client, server] = [pair.client, pair.server]
            .map(|end: Handshake| end.into_session(SessionSettings::default()).unwrap());
        (Talker::new(client), server.hello)
    };
    let ((mut one, right), (_, wrong)) = (session(), session());
    assert!(one.receive(wrong.as_ref()).is_err());
    let (mut one, _) = session();
    assert!(one.receive(right.as_ref()).is_err());
}

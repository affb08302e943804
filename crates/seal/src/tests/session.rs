//! Honest sessions.

use base64ct::{Base64, Encoding as _};

use super::world::{Authority, Ends, Event, NOW, Side, raw_key};
use crate::{
    ClientEndpoint, CredentialKind, Handshake, HandshakeError, Identity, MAX_BOUND, MIN_BOUND,
    Opener, Padding, Reason, RekeyAfter, SealError, SealJob, Sealer, ServerEndpoint, Session,
    SessionSettings, Step, Suite, SuiteChoice, Trust, generate_key_pem,
};

#[test]
fn data_goes_both_ways() {
    let (mut client, mut server) = Ends::common().connect();
    let record = client.record(b"a command").unwrap();
    assert_eq!(server.receive(&record).unwrap(), [Event::Data(b"a command".to_vec())]);
    let record = server.record(b"its answer").unwrap();
    assert_eq!(client.receive(&record).unwrap(), [Event::Data(b"its answer".to_vec())]);
    let end = client.sealer.end().unwrap();
    assert_eq!(server.receive(end.as_ref()).unwrap(), [Event::End]);
    assert_eq!(server.receiver.handle_end_of_stream(), Ok(()));
    // The other direction goes on.
    let record = server.record(b"more").unwrap();
    assert_eq!(client.receive(&record).unwrap(), [Event::Data(b"more".to_vec())]);
}

/// Raw keys and certificates, in every combination.
#[test]
fn every_kind_of_credential_meets_every_other() {
    let authority = Authority::new();
    for (client_raw, server_raw) in [(true, true), (true, false), (false, true), (false, false)] {
        let trust = |raw| if raw { Trust::RawKeys } else { authority.trust() };
        let client = if client_raw { raw_key() } else { authority.client() };
        let server = if server_raw { raw_key() } else { authority.server() };
        let ends =
            Ends::new((client.clone(), trust(server_raw)), (server.clone(), trust(client_raw)));
        let mut pair = ends.begin();
        pair.run(&mut |_, _| {}).unwrap();
        assert_eq!(pair.steps(), (Step::Ready, Step::Ready));
        let seen = pair.client.peer().unwrap();
        assert_eq!((seen.fingerprint(), seen.kind()), (server.fingerprint(), server.kind()));
        let seen = pair.server.peer().unwrap();
        assert_eq!((seen.fingerprint(), seen.kind()), (client.fingerprint(), client.kind()));
        let names: &[&str] = match seen.kind() {
            CredentialKind::RawKey => &[],
            CredentialKind::Certificate => &["host.example", "iqn.2026-11.example:host.example"],
        };
        assert_eq!(seen.names(), names);
        let (mut client, mut server) = ends.connect();
        let record = client.record(b"x").unwrap();
        assert_eq!(server.receive(&record).unwrap(), [Event::Data(b"x".to_vec())]);
    }
}

/// The end that prefers ChaCha20-Poly1305 has its way.
#[test]
fn both_ends_agree_on_a_suite() {
    use Suite::{Aes256Gcm, ChaCha20Poly1305};
    use SuiteChoice::{Only, Prefer};
    let cases = [
        (Prefer(Aes256Gcm), Prefer(Aes256Gcm), Aes256Gcm),
        (Prefer(Aes256Gcm), Prefer(ChaCha20Poly1305), ChaCha20Poly1305),
        (Prefer(ChaCha20Poly1305), Prefer(Aes256Gcm), ChaCha20Poly1305),
        (Prefer(ChaCha20Poly1305), Prefer(ChaCha20Poly1305), ChaCha20Poly1305),
        (Only(Aes256Gcm), Prefer(ChaCha20Poly1305), Aes256Gcm),
        (Prefer(ChaCha20Poly1305), Only(Aes256Gcm), Aes256Gcm),
    ];
    for (client, server, suite) in cases {
        let (mut client, mut server) = Ends::raw(client, server).connect();
        assert_eq!((client.sealer.suite(), server.receiver.opener().suite()), (suite, suite));
        let record = client.record(b"x").unwrap();
        assert_eq!(server.receive(&record).unwrap(), [Event::Data(b"x".to_vec())]);
    }
    let mut pair = Ends::raw(Only(Aes256Gcm), Only(ChaCha20Poly1305)).begin();
    assert!(matches!(pair.run(&mut |_, _| {}), Err((Side::Server, HandshakeError::Tls(_)))));
}

/// The client's first record comes in one piece with its last flight of TLS, as it may.
#[test]
fn bytes_beyond_the_switch_are_left_for_the_session() {
    let ends = Ends::common();
    let mut pair = ends.begin();
    let hello = pair.client.poll_output();
    assert_eq!(pair.server.handle_bytes(&hello).unwrap(), hello.len());
    let flight = pair.server.poll_output();
    assert_eq!(pair.client.handle_bytes(&[&flight[..], b"\x01\0"].concat()).unwrap(), flight.len());
    assert_eq!(pair.client.step(), Step::Judging);
    // The client's credential stays until the server is accepted.
    assert!(pair.client.poll_output().is_empty());
    pair.client.accept().unwrap();
    let last = pair.client.poll_output();
    assert!(last.len() > 100);
    let both = [&last[..], b"\x01\0\0\0\0\0\0\x18"].concat();
    // In pieces of any length, no byte of the record is taken.
    let mut taken = 0;
    for end in (1..=both.len()).step_by(7).chain([both.len()]) {
        taken += pair.server.handle_bytes(&both[taken..end]).unwrap();
    }
    assert_eq!((taken, pair.server.step()), (last.len(), Step::Judging));
    assert_eq!(pair.server.handle_bytes(&both[taken..]).unwrap(), 0);
    pair.server.accept().unwrap();
    assert!(pair.server.poll_output().is_empty());
    assert_eq!(pair.client.step(), Step::Reading);
    assert_eq!(pair.client.handle_bytes(b"\x01\0").unwrap(), 0);
    assert_eq!(pair.steps(), (Step::Ready, Step::Ready));
}

/// Calls in the wrong order are the caller's errors.
#[test]
fn calls_out_of_step_are_refused() {
    let mut pair = Ends::common().begin();
    assert_eq!(pair.client.accept(), Err(HandshakeError::OutOfStep));
    assert_eq!(pair.client.peer(), None);
    let settings = SessionSettings::default();
    assert!(matches!(pair.client.into_session(settings), Err(HandshakeError::OutOfStep)));
    let bad = Handshake::client(&Ends::common().client, "not a name", NOW).unwrap_err();
    assert_eq!(bad, HandshakeError::BadName { name: "not a name".into() });
}

#[test]
fn a_server_that_refuses_tells_the_client_why() {
    let mut pair = Ends::common().begin();
    loop {
        let bytes = pair.client.poll_output();
        pair.server.handle_bytes(&bytes).unwrap();
        if pair.server.step() == Step::Judging {
            break;
        }
        let bytes = pair.server.poll_output();
        pair.client.handle_bytes(&bytes).unwrap();
        pair.client.accept().unwrap();
    }
    let alert = pair.server.refuse(Reason::UnknownIdentity);
    assert_eq!(pair.client.handle_bytes(&alert).unwrap(), 0);
    let session = pair.client.into_session(SessionSettings::default()).unwrap();
    let mut client = super::world::Talker::new(session);
    assert_eq!(client.receive(&alert).unwrap(), [Event::Alert(Reason::UnknownIdentity)]);
    assert_eq!(client.record(b"x"), Err(SealError::NoHello));
}

/// A client that refuses sends nothing at all: not even its credential.
#[test]
fn a_client_that_refuses_is_silent() {
    let mut pair = Ends::common().begin();
    let bytes = pair.client.poll_output();
    pair.server.handle_bytes(&bytes).unwrap();
    let bytes = pair.server.poll_output();
    pair.client.handle_bytes(&bytes).unwrap();
    assert_eq!(pair.client.step(), Step::Judging);
    assert!(pair.client.refuse(Reason::UnknownIdentity).is_empty());
    let ended = pair.server.handle_end_of_stream();
    assert!(matches!(ended, HandshakeError::Truncated { received } if received > 100));
    assert_eq!(pair.server.handle_end_of_stream(), HandshakeError::Failed);
}

#[test]
fn keys_change_in_both_directions() {
    let (mut client, mut server) = Ends::common().connect();
    for epoch in 1..=3 {
        let rekey = client.sealer.rekey(true).unwrap();
        assert_eq!(server.receive(rekey.as_ref()).unwrap(), [Event::Rekeyed(epoch, true)]);
        let answer = server.sealer.rekey(false).unwrap();
        assert_eq!(client.receive(answer.as_ref()).unwrap(), [Event::Rekeyed(epoch, false)]);
        let record = client.record(b"x").unwrap();
        assert_eq!(server.receive(&record).unwrap(), [Event::Data(b"x".to_vec())]);
        let record = server.record(b"y").unwrap();
        assert_eq!(client.receive(&record).unwrap(), [Event::Data(b"y".to_vec())]);
    }
    assert_eq!((client.sealer.epoch(), client.receiver.opener().epoch()), (3, 3));
}

#[test]
fn a_key_is_changed_when_it_is_due() {
    let rekey_after = RekeyAfter { bytes: 100, records: 5 };
    let settings = SessionSettings { rekey_after, ..SessionSettings::default() };
    let (mut client, _) = Ends::common().connect_with(settings);
    client.record(&[0; 99]).unwrap();
    assert!(!client.sealer.rekey_due());
    client.record(&[0; 1]).unwrap();
    assert!(client.sealer.rekey_due());
    client.sealer.rekey(false).unwrap();
    for _ in 0..4 {
        client.record(&[0; 1]).unwrap();
        assert!(!client.sealer.rekey_due());
    }
    client.record(&[0; 1]).unwrap();
    assert!(client.sealer.rekey_due());
}

/// Jobs run on other threads, in any order; records are sent in the order of `begin`.
#[test]
fn sealing_runs_on_other_threads() {
    let (mut client, mut server) = Ends::common().connect();
    let mut jobs: Vec<(usize, SealJob)> = Vec::new();
    let mut rekey = None;
    for number in 0..8 {
        if number == 4 {
            rekey = Some(client.sealer.rekey(false).unwrap());
        }
        jobs.push((number, client.sealer.begin(1000 + number).unwrap()));
    }
    jobs.reverse();
    let run = |(number, job): (usize, SealJob)| {
        let (mut header, mut chunk) = ([0; crate::HEADER_LEN], vec![number as u8; job.chunk_len()]);
        let mut tail = vec![0; job.tail_len()];
        job.run(&mut header, &mut chunk, &mut tail).unwrap();
        (number, [&header[..], &chunk, &tail].concat())
    };
    let mut records: Vec<(usize, Vec<u8>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = jobs.into_iter().map(|job| scope.spawn(move || run(job))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    records.sort();
    for (number, record) in records {
        if number == 4 {
            let rekey = rekey.take().unwrap();
            assert_eq!(server.receive(rekey.as_ref()).unwrap(), [Event::Rekeyed(1, false)]);
        }
        let data = vec![number as u8; 1000 + number];
        assert_eq!(server.receive(&record).unwrap(), [Event::Data(data)]);
    }
}

#[test]
fn chunks_are_as_long_as_the_peer_takes() {
    let settings = SessionSettings { bound: 1, ..SessionSettings::default() };
    let (mut client, mut server) = Ends::common().connect_with(settings);
    assert_eq!(client.sealer.max_chunk(), Some(MIN_BOUND));
    let most = MIN_BOUND as usize;
    assert_eq!(client.record(&[]), Err(SealError::BadChunk { len: 0, most: MIN_BOUND }));
    let long = vec![0; most + 1];
    assert_eq!(client.record(&long), Err(SealError::BadChunk { len: most + 1, most: MIN_BOUND }));
    let record = client.record(&long[..most]).unwrap();
    assert_eq!(server.receive(&record).unwrap(), [Event::Data(long[..most].to_vec())]);
    let settings = SessionSettings { bound: u32::MAX, ..SessionSettings::default() };
    let (mut client, mut server) = Ends::common().connect_with(settings);
    assert_eq!(client.sealer.max_chunk(), Some(MAX_BOUND));
    let long = vec![7; MAX_BOUND as usize];
    let record = client.record(&long).unwrap();
    assert_eq!(server.receive(&record).unwrap(), [Event::Data(long)]);
}

/// Lengths on the wire are multiples, whatever the contents are.
#[test]
fn padding_hides_lengths() {
    for multiple in [2, 16, 512, 4096, 16384] {
        let padding = Padding::Multiple(multiple);
        let settings = SessionSettings { padding, ..SessionSettings::default() };
        let (mut client, mut server) = Ends::common().connect_with(settings);
        for len in [1, 2, 15, 16, 511, 512, 513, 16384, 100_000, MAX_BOUND as usize] {
            let data = vec![0x80; len];
            let record = client.record(&data).unwrap();
            let sealed = record.len() - crate::HEADER_LEN - crate::TAG_LEN;
            let multiple = usize::from(multiple);
            assert_eq!(sealed % multiple, 0);
            assert!(sealed > len && sealed <= len + multiple);
            assert_eq!(server.receive(&record).unwrap(), [Event::Data(data)]);
        }
    }
}

/// A wrong call costs no number, so the session goes on.
#[test]
fn a_tail_of_the_wrong_length_costs_nothing() {
    let (mut client, mut server) = Ends::common().connect();
    let (mut header, mut chunk, mut tail) = ([0; crate::HEADER_LEN], *b"x", [0; 17]);
    let sealed = client.sealer.seal(&mut header, &mut chunk, &mut tail);
    assert_eq!(sealed, Err(SealError::BadTail { got: 17, expected: 16 }));
    let record = client.record(b"x").unwrap();
    assert_eq!(server.receive(&record).unwrap(), [Event::Data(b"x".to_vec())]);
    let job = client.sealer.begin(5).unwrap();
    let ran = job.run(&mut header, &mut chunk, &mut tail);
    assert_eq!(ran, Err(SealError::WrongChunk { got: 1, expected: 5 }));
}

#[test]
fn nothing_follows_the_end() {
    let (mut client, mut server) = Ends::common().connect();
    client.sealer.end().unwrap();
    assert_eq!(client.record(b"x"), Err(SealError::Ended));
    assert_eq!(client.sealer.end(), Err(SealError::Ended));
    assert_eq!(client.sealer.rekey(false), Err(SealError::Ended));
    let alert = server.sealer.alert(Reason::GoingAway).unwrap();
    assert_eq!(server.sealer.alert(Reason::GoingAway), Err(SealError::Ended));
    assert_eq!(client.receive(alert.as_ref()).unwrap(), [Event::Alert(Reason::GoingAway)]);
}

/// Neither an identity nor what is made of it prints the private key.
#[test]
fn private_keys_are_not_printed() {
    let pem = generate_key_pem().unwrap();
    let der = Base64::decode_vec(pem.lines().nth(1).unwrap()).unwrap();
    // The last 32 bytes of RFC 8410's encoding.
    let seed = &der[16..];
    assert_eq!(seed.len(), 32);
    let identity = Identity::raw_key(&pem).unwrap();
    let choice = SuiteChoice::default();
    let client = ClientEndpoint::new(identity.clone(), &Trust::RawKeys, choice).unwrap();
    let server = ServerEndpoint::new(identity.clone(), &Trust::RawKeys, choice).unwrap();
    let handshake = Handshake::client(&client, "disks.example", NOW).unwrap();
    let printed = format!("{identity:?} {client:?} {server:?} {handshake:?}");
    // Its first bytes as decimal, as hexadecimal numbers, and as text.
    let decimal = format!("{}, {}, {}, {}", seed[0], seed[1], seed[2], seed[3]);
    let hex: String = seed[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    for part in [&decimal, &hex, &hex.to_uppercase(), &pem[50..60]] {
        assert!(!printed.contains(part), "{printed}");
    }
    // The public key is there, so the printed text does have bytes.
    assert!(printed.contains(&identity.fingerprint().to_string()));
}

/// The values that a shell keeps can go to other threads, and print no secret.
#[test]
fn halves_can_be_sent_and_print_no_secret() {
    fn send<T: Send>() {}
    send::<Sealer>();
    send::<Opener>();
    send::<SealJob>();
    send::<Session>();
    send::<Handshake>();
    let (mut client, _) = Ends::common().connect();
    let job = client.sealer.begin(1).unwrap();
    let printed = format!(
        "{:?} {:?} {job:?} {:?}",
        client.sealer,
        client.receiver,
        Ends::common().client.identity()
    );
    // Types and numbers only: no list of bytes but the header, which is sent in the clear.
    let lists = printed.matches('[').count();
    assert_eq!(lists, 1, "{printed}");
    assert!(printed.contains("header: [2, 0, 0, 0, 0, 0, 0, 17]"), "{printed}");
}

//! The test vectors of docs/reference/sealed-transport.md, read out of the page.

use super::world::{Event, Talker};
use crate::fingerprint::sha256;
use crate::handshake::exporter_context;
use crate::traffic::{Direction, Secret};
use crate::{
    CredentialKind, Padding, Reason, Receiver, SessionSettings, Suite, halves_from_exporter,
};

/// A name and the bytes that belong to it.
type Vector = (String, Vec<u8>);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
    digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
}

/// The vectors of one suite: lines of `name = hex` in a fence.
fn page(suite: &str) -> Vec<Vector> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/sealed-transport.md");
    let text = std::fs::read_to_string(path).expect("the specification");
    let fence = format!("```text vectors {suite}\n");
    let fence = text.split(&fence).nth(1).expect("the suite's fence");
    let fence = fence.split("```").next().expect("the end of the fence");
    let vectors = fence.lines().map(|line| {
        let (name, value) = line.split_once(" = ").expect("name = hex");
        (name.to_owned(), unhex(value))
    });
    vectors.collect()
}

fn exporter_output(suite: Suite) -> Vec<u8> {
    (0..suite.hash_len() as u8).collect()
}

/// The Ed25519 key of RFC 8410 10.3 as SubjectPublicKeyInfo.
const SPKI: &str =
    "302a300506032b657003210019bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";

/// Secrets, keys and nonces.
fn schedule(suite: Suite) -> Vec<Vector> {
    let credential = sha256(&unhex(SPKI));
    let certificate = sha256(b"a certificate in DER");
    let context = exporter_context(
        suite,
        (CredentialKind::RawKey, credential),
        (CredentialKind::Certificate, certificate),
    );
    let output = exporter_output(suite);
    let mut vectors =
        vec![("exporter context".to_owned(), context), ("exporter output".into(), output.clone())];
    let exported = Secret::exported(suite, |out| {
        out.copy_from_slice(&output);
        Ok::<_, ()>(())
    });
    let exported = exported.unwrap();
    for (name, direction) in [("c", Direction::ClientToServer), ("s", Direction::ServerToClient)] {
        let mut secret = exported.of_direction(direction).unwrap();
        for epoch in 0..2 {
            let (bytes, key, iv) = secret.reveal();
            let name = |what: &str| format!("{name} {what} {epoch}");
            vectors.push((name("secret"), bytes));
            vectors.push((name("key"), key));
            vectors.push((name("iv"), iv));
            vectors.push((name("nonce 258 of"), secret.key().unwrap().revealed_nonce(258)));
            secret.step().unwrap();
        }
    }
    vectors
}

fn talker(suite: Suite, is_client: bool, padding: Padding) -> Talker {
    let settings = SessionSettings { bound: 65536, padding, ..SessionSettings::default() };
    let output = exporter_output(suite);
    let (sealer, opener, hello) =
        halves_from_exporter(is_client, suite, &output, settings).unwrap();
    Talker { sealer, receiver: Receiver::new(opener), output: hello.as_ref().to_vec() }
}

/// The records of the client's stream, and then of the server's, each with what it means.
fn records(suite: Suite) -> Vec<(&'static str, Vec<u8>, Event)> {
    let padding = Padding::Multiple(16);
    let (mut client, mut server) =
        (talker(suite, true, padding), talker(suite, false, Padding::None));
    let hellos = (client.take_output(), server.take_output());
    assert_eq!(client.receive(&hellos.1), Ok(vec![Event::Hello]));
    assert_eq!(server.receive(&hellos.0), Ok(vec![Event::Hello]));
    let data = |text: &[u8]| Event::Data(text.to_vec());
    let control = |record: crate::ControlRecord| record.as_ref().to_vec();
    vec![
        ("c Hello, bound 65536", hellos.0, Event::Hello),
        (
            "c Data \"a padded block\"",
            client.record(b"a padded block").unwrap(),
            data(b"a padded block"),
        ),
        ("c Data of 16 bytes 11", client.record(&[0x11; 16]).unwrap(), data(&[0x11; 16])),
        (
            "c Rekey, answer wanted",
            control(client.sealer.rekey(true).unwrap()),
            Event::Rekeyed(1, true),
        ),
        ("c Data \"next key\"", client.record(b"next key").unwrap(), data(b"next key")),
        ("c End", control(client.sealer.end().unwrap()), Event::End),
        ("s Hello, bound 65536", hellos.1, Event::Hello),
        ("s Data \"an answer\"", server.record(b"an answer").unwrap(), data(b"an answer")),
        ("s Rekey", control(server.sealer.rekey(false).unwrap()), Event::Rekeyed(1, false)),
        ("s Data \"next key\"", server.record(b"next key").unwrap(), data(b"next key")),
        (
            "s Alert, going away",
            control(server.sealer.alert(Reason::GoingAway).unwrap()),
            Event::Alert(Reason::GoingAway),
        ),
    ]
}

const SUITES: [(&str, Suite); 2] =
    [("aes-256-gcm", Suite::Aes256Gcm), ("chacha20-poly1305", Suite::ChaCha20Poly1305)];

/// What is computed equals what the page says; a difference prints the page's new text.
#[test]
fn the_page_has_what_is_computed() {
    for (name, suite) in SUITES {
        let records = records(suite).into_iter().map(|(name, bytes, _)| (name.to_owned(), bytes));
        let computed: Vec<Vector> = schedule(suite).into_iter().chain(records).collect();
        let page = page(name);
        if page != computed {
            for (name, bytes) in &computed {
                println!("{name} = {}", hex(bytes));
            }
        }
        assert_eq!(page.len(), computed.len(), "{name}");
        for (page, computed) in page.into_iter().zip(computed) {
            assert_eq!((page.0, hex(&page.1)), (computed.0, hex(&computed.1)), "{name}");
        }
    }
}

/// The page's records are opened by an end that has only the page's exporter output.
#[test]
fn the_records_of_the_page_are_opened() {
    for (name, suite) in SUITES {
        let page = page(name);
        let record = |wanted: &str| {
            let found = page.iter().find(|(name, _)| name == wanted);
            found.map(|(_, bytes)| bytes.clone()).expect(wanted)
        };
        let mut server = talker(suite, false, Padding::None);
        let mut client = talker(suite, true, Padding::None);
        let all = records(suite);
        assert_eq!(all.len(), 11);
        for (name, _, event) in all {
            let receiver = if name.starts_with("c ") { &mut server } else { &mut client };
            assert_eq!(receiver.receive(&record(name)), Ok(vec![event]), "{name}");
        }
        assert_eq!(server.receiver.handle_end_of_stream(), Ok(()));
        assert_eq!(client.receiver.handle_end_of_stream(), Ok(()));
    }
}

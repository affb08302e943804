//! A sealed handshake with an attacker between the ends.
//!
//! The first byte chooses. With its lowest bit, the other bytes go to a server as they are, and
//! with the next bit to a client. Else they are records of four bytes: a flight, a place, an
//! action and its argument. The attacker changes, cuts and adds to the flights so.
//!
//! The keys of a handshake are new each time, so an input does not always do the same. For any
//! input there is no panic, no identity without a whole handshake, and no session with keys that
//! differ.

use std::sync::OnceLock;

use seal::{
    ClientEndpoint, Handshake, Identity, KnownPeers, Opened, Receiver, ServerEndpoint, Session,
    SessionSettings, Step, SuiteChoice, Trust, generate_key_pem,
};

/// Seconds since 1970.
const NOW: u64 = 1_795_564_800;

/// Bytes of a flight that may still be doubled: more than an end takes (32 KiB).
const LONGEST_DOUBLED: usize = 1 << 16;

/// Both ends.
struct Ends {
    client: ClientEndpoint,
    server: ServerEndpoint,
}

impl Ends {
    fn get() -> &'static Self {
        static ENDS: OnceLock<Ends> = OnceLock::new();
        ENDS.get_or_init(|| {
            let identity = || Identity::raw_key(&generate_key_pem().expect("a key"));
            let (client, server) = (identity().expect("a key"), identity().expect("a key"));
            let choice = SuiteChoice::default();
            Self {
                client: ClientEndpoint::new(client, &Trust::RawKeys, choice).expect("a client"),
                server: ServerEndpoint::new(server, &Trust::RawKeys, choice).expect("a server"),
            }
        })
    }
}

/// What the attacker does to one flight.
fn tamper(flight: &mut Vec<u8>, place: u8, action: u8, argument: u8) {
    if flight.is_empty() {
        return;
    }
    let place = usize::from(place) * flight.len() / 256;
    match action % 6 {
        0 => flight[place] ^= argument,
        1 => flight.truncate(place),
        2 => flight.insert(place, argument),
        3 => drop(flight.remove(place)),
        // Twice as long each time.
        4 if flight.len() <= LONGEST_DOUBLED => {
            let again = flight.clone();
            flight.extend(again);
        }
        _ => flight.extend([argument; 7]),
    }
}

/// Both ends say Hello, and whether each takes the other's.
fn same_keys(client: Handshake, server: Handshake) -> [bool; 2] {
    let session = |end: Handshake| -> Session {
        end.into_session(SessionSettings::default()).expect("a ready handshake")
    };
    let (client, server) = (session(client), session(server));
    let mut opened = Vec::new();
    for (opener, hello) in [(client.opener, server.hello), (server.opener, client.hello)] {
        let mut receiver = Receiver::new(opener);
        receiver.handle_bytes(hello.as_ref());
        opened.push(matches!(receiver.next(), Ok(Some(Opened::Hello(_)))));
    }
    [opened[0], opened[1]]
}

/// Gives bytes to one end.
fn alone(mut end: Handshake, bytes: &[u8]) {
    let first = end.poll_output();
    let taken = end.handle_bytes(bytes);
    assert!(taken.is_ok_and(|taken| taken == bytes.len()) || end.step() == Step::Failed);
    assert!(matches!(end.step(), Step::Reading | Step::Failed) && end.peer().is_none());
    let more = end.poll_output();
    assert!(first.len() + more.len() < 1 << 14);
    end.handle_end_of_stream();
    if let Ok(text) = core::str::from_utf8(bytes) {
        // The parser of a file that users write.
        if let Ok(known) = KnownPeers::parse(text) {
            assert!(known.iter().all(|peer| text.contains(peer.address())));
        }
    }
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let [choice, rest @ ..] = data else { return };
    let ends = Ends::get();
    let client = || Handshake::client(&ends.client, "disks.example", NOW).expect("a client");
    let server = || Handshake::server(&ends.server, NOW).expect("a server");
    match choice & 3 {
        1 => return alone(server(), rest),
        3 => return alone(client(), rest),
        _ => {}
    }
    let (mut client, mut server) = (client(), server());
    let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
    for number in 0..6_u8 {
        let is_client = number % 2 == 0;
        let sender = if is_client { &mut client } else { &mut server };
        let mut flight = sender.poll_output();
        for four in rest.chunks_exact(4).filter(|four| four[0] % 6 == number) {
            tamper(&mut flight, four[1], four[2], four[3]);
        }
        let (receiver, queue) = match is_client {
            true => (&mut server, &mut to_server),
            false => (&mut client, &mut to_client),
        };
        queue.extend(flight);
        match receiver.handle_bytes(queue) {
            Ok(taken) => drop(queue.drain(..taken)),
            Err(_) => assert_eq!(receiver.step(), Step::Failed),
        }
        if receiver.step() == Step::Judging {
            assert!(receiver.peer().is_some());
            receiver.accept().expect("something to judge");
        }
    }
    if server.step() == Step::Ready && client.step() == Step::Reading {
        // The kind of a Hello, in its place.
        let _ = client.handle_bytes(&[1]);
    }
    if (client.step(), server.step()) == (Step::Ready, Step::Ready) {
        assert_eq!(same_keys(client, server), [true, true]);
    } else {
        assert!(!rest.is_empty(), "an honest handshake failed");
    }
}

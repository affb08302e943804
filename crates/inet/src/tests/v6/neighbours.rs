//! Neighbours and duplicates.

use super::*;

#[test]
fn a_question_for_us_is_answered_and_its_sender_learnt() {
    let mut b = b6(at_once());
    b.take(&solicitation(A6, v6::solicited_node(B6), B6, Some(MAC_A)));
    let sent = b.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][..12], [MAC_A.0, MAC_B.0].concat());
    assert_eq!(sent[0][21], 255, "hop limit");
    let (from, to, message) = icmp_in(&sent[0]).unwrap();
    assert_eq!((from, to), (B6, A6));
    assert_eq!((message[0], message[4]), (136, SOLICITED | OVERRIDE));
    assert_eq!(message[8..24], B6.octets());
    assert_eq!(message[24..], [&[2, 1][..], &MAC_B.0].concat());
    assert_eq!(b.stack.context().link.neighbours().count(), 1);
}

#[test]
fn questions_that_cannot_be_are_not_answered() {
    let group = v6::solicited_node(B6);
    let nobody = Ipv6Addr::UNSPECIFIED;
    let good = solicitation(A6, group, B6, Some(MAC_A));
    let message = &good[54..];
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = message.to_vec();
        change(&mut message);
        icmp_frame(A6, group, 255, &message)
    };
    let table = [
        ("through a router", icmp_frame(A6, group, 254, message)),
        ("code", with(&|m| m[1] = 1)),
        ("option of length 0", with(&|m| m[25] = 0)),
        ("option that is cut", with(&|m| m[25] = 2)),
        ("short", icmp_frame(A6, group, 255, &message[..20])),
        ("group as target", with(&|m| m[8] = 0xff)),
        ("a probe to one", solicitation(nobody, B6, B6, None)),
        ("a probe with an address", solicitation(nobody, group, B6, Some(MAC_A))),
    ];
    let mut b = b6(at_once());
    for (number, (name, frame)) in (1..).zip(table) {
        b.take(&frame);
        assert_eq!(b.counter("nd.malformed"), number, "{name}");
    }
    b.take(&solicitation(A6, group, A6, Some(MAC_A)));
    b.take(&solicitation(A6, v6::ALL_NODES, "2001:db8::77".parse().unwrap(), Some(MAC_A)));
    assert_eq!((b.sent().len(), b.stack.context().link.neighbours().count()), (0, 0));
}

#[test]
fn neighbours_are_asked_in_their_group_three_times() {
    let mut b = b6(at_once());
    let stream = b.stack.open_in(Family::V6, SocketKind::Stream, 1).unwrap();
    b.stack.connect(b.now, stream, at6(A6, 80)).unwrap();
    for _ in 0..3 {
        let sent = b.sent();
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0][..6], [0x33, 0x33, 0xff, 0, 0, 0xa]);
        let (from, to, message) = icmp_in(&sent[0]).unwrap();
        assert_eq!((from, to), (B6, v6::solicited_node(A6)));
        assert_eq!(message[0], 135);
        assert_eq!(message[8..], [&A6.octets()[..], &[1, 1], &MAC_B.0].concat());
        assert_eq!(b.events(), []);
        b.pass(SECOND);
    }
    assert_eq!(b.events_of(1), [EventKind::Failed(Error::HostUnreachable)]);
    // The next attempt is answered.
    b.stack.connect(b.now, stream, at6(A6, 80)).unwrap();
    b.sent();
    b.take(&advertisement(A6, SOLICITED | OVERRIDE, Some(MAC_A)));
    let syn = b.sent().remove(0);
    assert_eq!((&syn[..6], syn[20]), (&MAC_A.0[..], 6));
}

#[test]
fn advertisements_nobody_asked_for_teach_nothing() {
    let mut b = b6(at_once());
    b.take(&advertisement(A6, SOLICITED | OVERRIDE, Some(MAC_A)));
    b.take(&advertisement(A6, OVERRIDE, Some(MAC_A)));
    assert_eq!(b.stack.context().link.neighbours().count(), 0);
    b.take(&advertisement(B6, OVERRIDE, Some(MAC_A)));
    assert_eq!(b.counter("ip6.martians"), 1, "it says that it is us");
}

#[test]
fn an_address_is_ours_when_nobody_answers() {
    let mut b = b6(Config::default());
    b.pass(Duration::from_millis(1));
    let sent = b.sent();
    let (from, to, message) = icmp_in(&sent[0]).unwrap();
    assert_eq!((from, to), (Ipv6Addr::UNSPECIFIED, v6::solicited_node(B6)));
    assert_eq!((sent.len(), message[0], &message[8..24]), (1, 135, &B6.octets()[..]));
    assert_eq!(message[24..26], [14, 1], "a nonce, and no address of ours");
    // Nobody gets an answer meanwhile, and no socket the address.
    b.take(&solicitation(A6, v6::solicited_node(B6), B6, Some(MAC_A)));
    let socket = b.stack.open_in(Family::V6, SocketKind::Datagram, 1).unwrap();
    assert_eq!(b.stack.bind(socket, at6(B6, 9)), Err(Error::AddrNotAvailable));
    assert_eq!(b.sent().len(), 0);
    // Our own probe, come back, says nothing (RFC 7527).
    b.take(&sent[0]);
    assert_eq!(b.counter("nd.looped"), 1);
    b.pass(SECOND);
    assert_eq!(states(&b), [AddressState::Preferred]);
    assert_eq!(b.stack.bind(socket, at6(B6, 9)), Ok(()));
    assert_eq!(b.stack.poll_at(), None);
    // Now it is defended.
    b.take(&solicitation(Ipv6Addr::UNSPECIFIED, v6::solicited_node(B6), B6, None));
    let (from, to, message) = icmp_in(&b.sent()[0]).unwrap();
    assert_eq!((from, to, message[4]), (B6, v6::ALL_NODES, OVERRIDE));
}

fn states(b: &Host) -> Vec<AddressState> {
    b.stack.addresses(ID).map(|ours| ours.state).collect()
}

#[test]
fn a_duplicate_is_not_used() {
    let probe = || solicitation(Ipv6Addr::UNSPECIFIED, v6::solicited_node(B6), B6, None);
    let advert = advertisement(B6, OVERRIDE, Some(MAC_A));
    for (evidence, owner) in [(advert, Some(MAC_A.0)), (probe(), None)] {
        let mut b = b6(Config::default());
        b.pass(Duration::from_millis(1));
        b.take(&evidence);
        b.pass(3 * SECOND);
        assert_eq!(states(&b), [AddressState::Duplicate]);
        assert_eq!(b.stack.addresses(ID).next().unwrap().owner, owner);
        assert_eq!((b.counter("nd.duplicates"), b.stack.duplicates()), (1, 1));
        assert_eq!(b.stack.poll_at(), None);
        // Nothing is sent from it, and nobody who asks for it gets an answer.
        b.sent();
        let socket = b.stack.open_in(Family::V6, SocketKind::Datagram, 1).unwrap();
        assert_eq!(b.stack.bind(socket, at6(B6, 9)), Err(Error::AddrNotAvailable));
        assert_eq!(b.stack.connect(b.now, socket, at6(A6, 9)), Err(Error::NetUnreachable));
        b.take(&probe());
        b.take(&solicitation(A6, v6::solicited_node(B6), B6, Some(MAC_A)));
        assert_eq!(b.sent().len(), 0);
    }
}

#[test]
fn the_owner_of_a_duplicate_is_a_neighbour_as_others() {
    const OTHER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xc);
    let mut b = b6(Config::default());
    b.pass(Duration::from_millis(1));
    b.take(&advertisement(B6, OVERRIDE, Some(MAC_A)));
    b.stack.add_address(ID, Cidr::new(OTHER, 64)).unwrap();
    b.pass(2 * SECOND);
    b.sent();
    let stream = b.stack.open_in(Family::V6, SocketKind::Stream, 1).unwrap();
    b.stack.connect(b.now, stream, at6(B6, 80)).unwrap();
    let (from, to, _) = icmp_in(&b.sent()[0]).unwrap();
    assert_eq!((from, to), (OTHER, v6::solicited_node(B6)));
    b.take(&advertisement(B6, OVERRIDE, Some(MAC_A)));
    let syn = b.sent().remove(0);
    assert_eq!((&syn[..6], syn[20]), (&MAC_A.0[..], 6));
    assert_eq!(b.counter("nd.conflicts"), 0);
}

#[test]
fn addresses_are_probed_again_when_the_link_was_away() {
    let mut b = b6(Config::default());
    b.stack.start_ipv6(b.now, ID);
    b.pass(3 * SECOND);
    assert_eq!(states(&b), [AddressState::Preferred; 2]);
    b.sent();
    let back = |b: &mut Host| {
        b.stack.set_link(b.now, ID, false).unwrap();
        b.stack.set_link(b.now, ID, true).unwrap();
        assert_eq!(states(b), [AddressState::Tentative; 2]);
        b.pass(Duration::from_millis(1));
        let probed: Vec<_> = b.sent().iter().filter_map(|frame| icmp_in(frame)).collect();
        let probes = probed.iter().filter(|(from, _, m)| from.is_unspecified() && m[0] == 135);
        assert_eq!(probes.count(), 2);
    };
    // On the link that it is now, others have them.
    back(&mut b);
    b.take(&advertisement(B6, OVERRIDE, Some(MAC_A)));
    b.take(&advertisement(B_LOCAL, OVERRIDE, Some(MAC_A)));
    b.pass(3 * SECOND);
    assert_eq!(states(&b), [AddressState::Duplicate; 2]);
    assert!(!sent_types(&mut b).contains(&133), "no router is asked from nowhere");
    // On the next they are ours, and autoconfiguration goes on.
    back(&mut b);
    b.pass(3 * SECOND);
    assert_eq!(states(&b), [AddressState::Preferred; 2]);
    assert!(sent_types(&mut b).contains(&133));
}

#[test]
fn an_interface_may_have_its_own_number_of_probes() {
    for (transmits, seconds) in [(0, 0), (1, 1), (3, 3)] {
        let mut b = Host::new(IP_B, MAC_B, Config::default());
        b.stack.remove_address(ID, IP_B.into()).unwrap();
        b.stack.set_dad_transmits(ID, transmits).unwrap();
        b.stack.add_address(ID, Cidr::new(B6, 64)).unwrap();
        b.pass(Duration::from_millis(1));
        for _ in 0..seconds {
            assert_eq!(states(&b), [AddressState::Tentative], "{transmits}");
            b.pass(SECOND);
        }
        assert_eq!(states(&b), [AddressState::Preferred], "{transmits}");
        assert_eq!(sent_types(&mut b).len(), transmits.into());
    }
    let mut b = b6(Config::default());
    assert_eq!(b.stack.set_dad_transmits(InterfaceId(9), 1), Err(Error::BadHandle));
    let other = b.stack.add_interface(InterfaceConfig { mac: [2, 0, 0, 0, 0, 9], mtu: 1500 });
    let tentative = b.stack.add_address(other, Cidr::new(B6, 64));
    assert_eq!(tentative, Err(Error::AddrInUse), "one that is being probed is taken");
}

#[test]
fn a_connection_outlives_the_probing() {
    let mut pair = pair6();
    pair.b.stack.set_dad_transmits(ID, 1).unwrap();
    let listener = pair.b.stack.open_in(Family::V6, SocketKind::Stream, 2).unwrap();
    pair.b.stack.bind(listener, at6(B6, 80)).unwrap();
    pair.b.stack.listen(listener, 5).unwrap();
    let client = pair.a.stack.open_in(Family::V6, SocketKind::Stream, 1).unwrap();
    pair.a.stack.connect(pair.a.now, client, at6(B6, 80)).unwrap();
    pair.settle();
    let (server, _) = pair.b.stack.accept(listener, 3).unwrap().expect("a connection");
    pair.b.stack.announce(pair.b.now, ID).unwrap();
    pair.a.send(client, b"there");
    pair.b.send(server, b"and back");
    pair.pass(SECOND / 2);
    assert_eq!((pair.a.received(client), pair.b.received(server)), (Vec::new(), Vec::new()));
    pair.pass(5 * SECOND);
    assert_eq!(pair.b.received(server), b"there");
    assert_eq!(pair.a.received(client), b"and back");
    assert_eq!(pair.b.events_of(3), [EventKind::Readable, EventKind::Acked]);
}

#[test]
fn an_address_is_told_when_it_becomes_usable_and_to_another_link() {
    let notify = |dad_transmits| Config {
        v6: V6Config { dad_transmits, ndisc_notify: true, ..V6Config::default() },
        ..Config::default()
    };
    let told = |b: &mut Host| -> Vec<Vec<u8>> {
        let all = b.sent();
        let adverts =
            all.iter().filter_map(|frame| icmp_in(frame)).filter_map(|(from, to, said)| {
                assert!(said[0] != 136 || (from, to) == (B6, v6::ALL_NODES));
                (said[0] == 136).then_some(said)
            });
        adverts.collect()
    };
    let one = advertisement(B6, OVERRIDE, Some(MAC_B)).split_off(54 + 4);
    let said_once = |b: &mut Host| {
        let told = told(b);
        assert!(told.len() == 1 && told[0][4..] == one, "{told:?}");
    };
    let mut at_once = b6(notify(0));
    said_once(&mut at_once);
    let mut b = b6(notify(1));
    assert_eq!(told(&mut b).len(), 0, "it is being probed");
    b.pass(SECOND);
    said_once(&mut b);
    b.pass(10 * SECOND);
    assert_eq!(told(&mut b).len(), 0);
    b.stack.announce(b.now, ID).unwrap();
    assert_eq!(told(&mut b).len(), 0, "it is being probed again");
    b.pass(SECOND);
    said_once(&mut b);
    at_once.stack.announce(at_once.now, ID).unwrap();
    said_once(&mut at_once);
    at_once.stack.set_link(at_once.now, ID, false).unwrap();
    at_once.stack.set_link(at_once.now, ID, true).unwrap();
    said_once(&mut at_once);
    let mut silent = b6(super::at_once());
    silent.stack.announce(silent.now, ID).unwrap();
    assert_eq!(told(&mut silent).len(), 0);
}

#[test]
fn floods_stay_within_bounds() {
    let config = Config { neighbours: 8, ..at_once() };
    let mut b = b6(config);
    for n in 0..2000 {
        let other = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, n);
        b.take(&solicitation(other, v6::solicited_node(B6), B6, Some(MAC_A)));
        b.take(&advertisement(other, OVERRIDE, Some(MAC_A)));
        assert!(b.stack.context().link.neighbours().count() <= 8);
        b.wire.frames.clear();
    }
    b.pass(70 * SECOND);
    assert_eq!((b.stack.context().link.neighbours().count(), b.stack.poll_at()), (0, None));
}

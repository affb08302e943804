//! Routers, prefixes, and the addresses made of them.

use super::*;

const NETWORK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 0);
/// In [`NETWORK`] with the identifier of [`MAC_B`].
const MADE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0xff, 0xfe00, 2);
const FAR: Ipv6Addr = Ipv6Addr::new(0x2a00, 1, 0, 0, 0, 0, 0, 1);
const HOUR: u32 = 3600;
const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;

/// A router advertisement with a lifetime in seconds, flags, and options.
fn advert(router: Ipv6Addr, lifetime: u16, flags: u8, options: &[Vec<u8>]) -> Vec<u8> {
    let [high, low] = lifetime.to_be_bytes();
    let mut message = std::vec![134, 0, 0, 0, 0, flags, high, low, 0, 0, 0, 0, 0, 0, 0, 0];
    options.iter().for_each(|option| message.extend_from_slice(option));
    icmp_frame(router, v6::ALL_NODES, 255, &message)
}

fn prefix(network: Ipv6Addr, len: u8, flags: u8, valid: u32, preferred: u32) -> Vec<u8> {
    let mut option = std::vec![3, 4, len, flags];
    option.extend_from_slice(&valid.to_be_bytes());
    option.extend_from_slice(&preferred.to_be_bytes());
    option.extend_from_slice(&[0; 4]);
    option.extend_from_slice(&network.octets());
    option
}

fn both(valid: u32, preferred: u32) -> Vec<u8> {
    prefix(NETWORK, 64, ON_LINK | AUTONOMOUS, valid, preferred)
}

fn router(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last)
}

/// B with nothing but its link-local address, to which it has just come.
fn started(config: Config) -> Host {
    let mut b = Host::new(IP_B, MAC_B, config);
    b.stack.remove_address(ID, IP_B.into()).unwrap();
    b.stack.start_ipv6(b.now, ID);
    b.pass(3 * SECOND);
    b
}

/// The state of an address of B, and for how many seconds it is preferred and valid.
fn address(b: &Host, ip: Ipv6Addr) -> Option<(AddressState, Option<u64>, Option<u64>)> {
    let found = b.stack.addresses(ID).find(|ours| ours.cidr.address == ip)?;
    let left = |until: Option<Instant>| until.map(|until| until.since(b.now).as_secs());
    Some((found.state, left(found.preferred_until), left(found.valid_until)))
}

/// The default routers, the best first.
fn routers(b: &Host) -> Vec<IpAddr> {
    let defaults = b.stack.routes().filter(|route| route.network.prefix == 0);
    defaults.filter_map(|route| route.gateway).collect()
}

#[test]
fn an_interface_starts_with_its_link_local_address_and_asks_for_routers() {
    let mut b = started(Config::default());
    let sent: Vec<_> = b.sent().iter().filter_map(|frame| icmp_in(frame)).collect();
    assert_eq!(sent.iter().map(|(.., m)| m[0]).collect::<Vec<_>>(), [135, 133]);
    let (from, to, message) = &sent[1];
    assert_eq!((*from, *to), (B_LOCAL, v6::ALL_ROUTERS));
    assert_eq!(message[8..], [&[1, 1][..], &MAC_B.0].concat());
    assert_eq!(address(&b, B_LOCAL), Some((AddressState::Preferred, None, None)));
    // RFC 7559: on and on, ever more rarely.
    b.pass(Duration::from_secs(3600));
    let asked = sent_types(&mut b).len();
    assert!((8..=11).contains(&asked), "{asked}");
    b.take(&advert(router(1), 1800, 0, &[]));
    b.pass(Duration::from_secs(1700));
    assert_eq!(sent_types(&mut b), [0; 0], "answered");
    b.pass(Duration::from_secs(110));
    assert_eq!(sent_types(&mut b)[0], 133, "the router has gone");
}

#[test]
fn a_prefix_becomes_an_address_and_a_network_on_the_link() {
    let mut b = started(Config::default());
    b.wire.frames.clear();
    let mtu = std::vec![5, 1, 0, 0, 0, 0, 5, 0x78];
    let mac = [&[1, 1][..], &MAC_A.0].concat();
    b.take(&advert(router(1), 1800, 0, &[mac, mtu, both(2 * HOUR, HOUR)]));
    assert_eq!(address(&b, MADE).unwrap().0, AddressState::Tentative);
    b.pass(3 * SECOND);
    let left = (AddressState::Preferred, Some(u64::from(HOUR) - 4), Some(u64::from(2 * HOUR) - 4));
    assert_eq!(address(&b, MADE), Some(left));
    assert_eq!(routers(&b), [IpAddr::from(router(1))]);
    assert_eq!(b.stack.context().find(&at6(FAR, 1), None).map(|path| path.mtu), Ok(1400));
    b.wire.frames.clear();
    // Through the router, whose address came with the advertisement.
    let socket = b.stack.open_in(Family::V6, SocketKind::Datagram, 1).unwrap();
    b.stack.connect(b.now, socket, at6(FAR, 53)).unwrap();
    assert_eq!(b.stack.local_addr(socket).unwrap().ip(), IpAddr::from(MADE));
    b.send(socket, b"x");
    assert_eq!(b.sent()[0][..6], MAC_A.0);
    // On the link: the neighbour itself is asked for.
    let near = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 9);
    b.stack.send(b.now, socket, Chunk(std::vec![1]), Some(at6(near, 9))).unwrap();
    assert_eq!(icmp_in(&b.sent()[0]).unwrap().1, v6::solicited_node(near));
    // Lifetimes end.
    b.pass(Duration::from_secs(3600));
    assert_eq!(address(&b, MADE).unwrap().0, AddressState::Deprecated);
    assert_eq!(routers(&b), [IpAddr::V4(IP_A); 0]);
    b.pass(Duration::from_secs(3700));
    assert_eq!(address(&b, MADE), None);
    assert_eq!(b.stack.routes().count(), 1, "that of the link-local network");
}

/// RFC 4862 5.5.3 (e): what is left, what is said, what is left then; seconds.
#[test]
fn the_two_hour_rule() {
    let table = [
        (8 * HOUR, 4 * HOUR, 4 * HOUR),
        (8 * HOUR, 9 * HOUR, 9 * HOUR),
        (8 * HOUR, HOUR, 2 * HOUR),
        (8 * HOUR, 0, 2 * HOUR),
        (HOUR, HOUR / 2, HOUR),
        (HOUR, 0, HOUR),
        (HOUR, HOUR + 1, HOUR + 1),
        (u32::MAX, 0, 2 * HOUR),
        (HOUR, u32::MAX, u32::MAX),
    ];
    for (before, said, after) in table {
        let mut b = started(at_once());
        b.take(&advert(router(1), 0, 0, &[both(before, 0)]));
        assert_eq!(address(&b, MADE).unwrap().0, AddressState::Deprecated);
        b.take(&advert(router(1), 0, 0, &[both(said, said)]));
        let (_, preferred, valid) = address(&b, MADE).unwrap();
        let some = |seconds: u32| (seconds != u32::MAX).then_some(u64::from(seconds));
        assert_eq!((preferred, valid), (some(said), some(after)), "{before} {said}");
    }
}

#[test]
fn prefixes_that_make_no_address() {
    let with = |len, flags, valid, preferred| prefix(NETWORK, len, flags, valid, preferred);
    let table = [
        ("not autonomous", with(64, ON_LINK, HOUR, HOUR)),
        ("another length", with(63, AUTONOMOUS, HOUR, HOUR)),
        ("preferred longer than valid", with(64, AUTONOMOUS, HOUR, 2 * HOUR)),
        ("no lifetime", with(64, AUTONOMOUS, 0, 0)),
        ("link-local", prefix(router(0), 64, AUTONOMOUS | ON_LINK, HOUR, HOUR)),
        ("a group", prefix("ff02::".parse().unwrap(), 64, AUTONOMOUS, HOUR, HOUR)),
        ("impossible", with(129, AUTONOMOUS | ON_LINK, HOUR, HOUR)),
    ];
    for (name, option) in table {
        let mut b = started(at_once());
        b.take(&advert(router(1), 0, 0, &[option]));
        assert_eq!(b.stack.addresses(ID).count(), 1, "{name}");
    }
    let off = V6Config { autoconf: false, ..at_once().v6 };
    let mut b = started(Config { v6: off, ..at_once() });
    b.take(&advert(router(1), 1800, 0, &[both(HOUR, HOUR)]));
    assert_eq!((b.stack.addresses(ID).count(), routers(&b).len()), (1, 1));
    let off = V6Config { accept_ra: false, ..at_once().v6 };
    let mut b = started(Config { v6: off, ..at_once() });
    b.take(&advert(router(1), 1800, 0, &[both(HOUR, HOUR)]));
    assert_eq!((b.stack.addresses(ID).count(), routers(&b).len()), (1, 0));
}

#[test]
fn routers_by_preference_and_by_whether_they_answer() {
    let mut b = started(at_once());
    const HIGH: u8 = 1 << 3;
    const LOW: u8 = 3 << 3;
    let ip = |last| IpAddr::from(router(last));
    b.take(&advert(router(1), 1800, LOW, &[both(HOUR, HOUR)]));
    b.take(&advert(router(2), 1800, 0, &[]));
    b.take(&advert(router(3), 1800, HIGH, &[]));
    assert_eq!(routers(&b), [ip(3), ip(2), ip(1)]);
    // A router changes its mind, and one is none any more.
    b.take(&advert(router(1), 1800, HIGH, &[]));
    b.take(&advert(router(3), 0, 0, &[]));
    assert_eq!(routers(&b), [ip(1), ip(2)]);
    // The best does not answer: the next is taken.
    let socket = b.stack.open_in(Family::V6, SocketKind::Datagram, 1).unwrap();
    b.stack.connect(b.now, socket, at6(FAR, 53)).unwrap();
    b.send(socket, b"x");
    b.pass(4 * SECOND);
    assert_eq!(routers(&b), [ip(2), ip(1)]);
    // It says that it is alive, when asked.
    let gateway = ip::scoped(ip(1), 9, ID);
    b.stack.send(b.now, socket, Chunk(std::vec![1]), Some(gateway)).unwrap();
    b.poll();
    let mut answer = advertisement(router(1), ROUTER | SOLICITED | OVERRIDE, Some(MAC_A));
    answer[38..54].copy_from_slice(&MADE.octets());
    let answer = icmp_frame(router(1), MADE, 255, &answer[54..]);
    b.take(&answer);
    assert_eq!(routers(&b), [ip(1), ip(2)]);
    // And that it is no router (RFC 4861 7.2.5).
    b.take(&advertisement(router(1), OVERRIDE, Some(MAC_A)));
    assert_eq!(routers(&b), [ip(2)]);
}

#[test]
fn advertisements_that_cannot_be() {
    let good = advert(router(1), 1800, 0, &[both(HOUR, HOUR)]);
    let message = &good[54..];
    let mut b = started(at_once());
    let mut cut = message.to_vec();
    cut.truncate(30);
    let mut empty = message.to_vec();
    empty[17] = 0;
    let bad = [
        icmp_frame(router(1), v6::ALL_NODES, 64, message),
        icmp_frame(A6, v6::ALL_NODES, 255, message),
        icmp_frame(router(1), v6::ALL_NODES, 255, &cut),
        icmp_frame(router(1), v6::ALL_NODES, 255, &empty),
        icmp_frame(router(1), v6::ALL_NODES, 255, &message[..12]),
    ];
    for (number, frame) in (1..).zip(bad) {
        b.take(&frame);
        assert_eq!(b.counter("nd.malformed"), number);
    }
    assert_eq!((b.stack.addresses(ID).count(), routers(&b).len()), (1, 0));
    let redirect = [&[137, 0, 0, 0, 0, 0, 0, 0][..], &FAR.octets(), &FAR.octets()].concat();
    b.take(&icmp_frame(router(1), B_LOCAL, 255, &redirect));
    assert_eq!(b.counter("nd.ignored"), 1);
}

#[test]
fn liars_fill_no_memory() {
    let mut b = started(at_once());
    for n in 0..500u16 {
        let network = Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 0);
        let prefixes = prefix(network, 64, ON_LINK | AUTONOMOUS, u32::MAX, u32::MAX);
        let mut dns = std::vec![25, 3, 0, 0, 0xff, 0xff, 0xff, 0xff];
        dns.extend_from_slice(&Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 53).octets());
        b.take(&advert(router(n + 1), 9000, 0, &[prefixes, dns]));
        b.wire.frames.clear();
    }
    let V6Config { max_addresses, routers: most, prefixes, dns_servers, .. } = V6Config::default();
    assert_eq!(b.stack.addresses(ID).count(), 1 + max_addresses);
    assert_eq!(routers(&b).len(), most);
    assert_eq!(b.stack.routes().count(), 1 + most + prefixes);
    assert_eq!(b.stack.dns_servers(b.now, ID).count(), dns_servers);
    assert!(b.counter("nd.refused") > 1000);
}

#[test]
fn resolvers_are_told_as_long_as_they_last() {
    let mut b = started(at_once());
    let dns = |lifetime: u32| {
        let mut option = std::vec![25, 3, 0, 0];
        option.extend_from_slice(&lifetime.to_be_bytes());
        option.extend_from_slice(&FAR.octets());
        option
    };
    b.take(&advert(router(1), 0, 0, &[dns(60)]));
    assert_eq!(b.stack.dns_servers(b.now, ID).collect::<Vec<_>>(), [IpAddr::from(FAR)]);
    b.pass(61 * SECOND);
    assert_eq!(b.stack.dns_servers(b.now, ID).count(), 0);
    b.take(&advert(router(1), 0, 0, &[dns(60)]));
    b.take(&advert(router(1), 0, 0, &[dns(0)]));
    assert_eq!(b.stack.dns_servers(b.now, ID).count(), 0);
}

#[test]
fn another_identifier_after_a_duplicate_and_none_without_a_secret() {
    let local = |b: &Host| {
        let mut all = b.stack.addresses(ID).filter(|ours| ours.state != AddressState::Duplicate);
        all.next().map(|ours| ours.cidr.address)
    };
    let config = Config {
        v6: V6Config { stable_secret: Some([9; 16]), ..V6Config::default() },
        ..Config::default()
    };
    let mut tried = Vec::new();
    let mut b = Host::new(IP_B, MAC_B, config);
    b.stack.remove_address(ID, IP_B.into()).unwrap();
    b.stack.start_ipv6(b.now, ID);
    while let Some(IpAddr::V6(target)) = local(&b) {
        assert!(!tried.contains(&target));
        tried.push(target);
        b.take(&advertisement(target, OVERRIDE, Some(MAC_A)));
    }
    assert_eq!(tried.len(), 4, "RFC 7217 6: three more");
    assert_eq!(b.stack.poll_at(), None, "IPv6 has ended here");
    let mut b = Host::new(IP_B, MAC_B, Config::default());
    b.stack.remove_address(ID, IP_B.into()).unwrap();
    b.stack.start_ipv6(b.now, ID);
    b.take(&advertisement(B_LOCAL, OVERRIDE, Some(MAC_A)));
    b.take(&advert(router(1), 1800, 0, &[both(HOUR, HOUR)]));
    assert_eq!((local(&b), routers(&b).len()), (None, 0));
}

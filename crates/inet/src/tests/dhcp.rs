//! DHCP and address conflicts in a whole stack.

use super::*;
use crate::link::arp::ArpPacket as Arp;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const LEASED: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);

/// A host without an address that has started to ask for one.
fn host() -> Host {
    let mut b = Host::b();
    b.stack.remove_address(ID, IP_B.into()).unwrap();
    b.stack.enable_dhcp(b.now, ID).unwrap();
    assert_eq!(b.stack.enable_dhcp(b.now, ID), Err(Error::Already));
    b
}

/// The DHCP messages among the frames sent.
fn messages(b: &mut Host) -> Vec<Vec<u8>> {
    let frames = b.sent().into_iter();
    let dhcp = frames.filter(|frame| frame.len() > 300 && frame[23] == 17 && frame[37] == 67);
    dhcp.collect()
}

/// The ARP packets among the frames sent.
fn arps(b: &mut Host) -> Vec<Arp> {
    b.sent().iter().filter_map(|frame| arp_packet::parse(&frame[14..])).collect()
}

/// The server's answer to the message in `frame`.
fn answer(frame: &[u8], kind: u8, to: Ipv4Addr) -> Vec<u8> {
    let mut bytes = std::vec![0; 240];
    bytes[..4].copy_from_slice(&[2, 1, 6, 0]);
    bytes[4..8].copy_from_slice(&frame[46..50]);
    bytes[16..20].copy_from_slice(&LEASED.octets());
    bytes[28..34].copy_from_slice(&MAC_B.0);
    bytes[236..240].copy_from_slice(&[0x63, 0x82, 0x53, 0x63]);
    let options: [(u8, &[u8]); 7] = [
        (53, &[kind]),
        (54, &SERVER.octets()),
        (51, &[0, 0, 14, 16]),
        (1, &[255, 255, 255, 0]),
        (3, &[10, 0, 0, 1]),
        (6, &[9, 9, 9, 9]),
        (26, &[5, 120]),
    ];
    for (code, data) in options {
        bytes.extend_from_slice(&[code, u8::try_from(data.len()).unwrap()]);
        bytes.extend_from_slice(data);
    }
    bytes.push(255);
    let mut datagram = std::vec![0, 67, 0, 68];
    datagram.extend_from_slice(&u16::try_from(8 + bytes.len()).unwrap().to_be_bytes());
    datagram.extend_from_slice(&[0, 0]);
    datagram.extend_from_slice(&bytes);
    let mut frame = ip_frame_with(SERVER, to, 17, &[], &datagram);
    if to.is_broadcast() {
        frame[..6].fill(0xff);
    }
    fix_transport(&mut frame);
    frame
}

/// Gets as far as the offered address being looked at.
fn checking() -> Host {
    let mut b = host();
    let discover = messages(&mut b).remove(0);
    assert_eq!(
        (&discover[..6], &discover[26..34]),
        (&[0xff; 6][..], &[0, 0, 0, 0, 255, 255, 255, 255][..])
    );
    assert_eq!(discover[284], 1);
    // Some servers answer to the address, whatever is asked for.
    b.take(&answer(&discover, 2, LEASED));
    let request = messages(&mut b).remove(0);
    assert_eq!(request[284], 3);
    b.take(&answer(&request, 5, Ipv4Addr::BROADCAST));
    assert_eq!(b.stack.dhcp_state(ID), Some(DhcpState::Checking));
    assert_eq!(b.stack.addresses(ID).count(), 0);
    b
}

fn bound() -> Host {
    let mut b = checking();
    b.pass(Duration::from_secs(10));
    b
}

#[test]
fn an_address_is_got_looked_at_announced_and_used() {
    let mut b = bound();
    let seen = arps(&mut b);
    let nobody = Ipv4Addr::UNSPECIFIED;
    let senders: Vec<_> = seen.iter().map(|packet| packet.sender).collect();
    assert_eq!(senders, [nobody, nobody, nobody, LEASED, LEASED]);
    assert!(seen.iter().all(|packet| packet.is_request && packet.target == LEASED));
    let lease = b.stack.dhcp_lease(ID).unwrap();
    assert_eq!((lease.address, lease.server), (LEASED, SERVER));
    assert!(b.stack.dhcp_lease_end(ID).is_some_and(|end| end > b.now));
    assert_eq!(b.stack.addresses(ID).count(), 1);
    assert_eq!(b.stack.name_servers().collect::<Vec<_>>(), [IpAddr::V4(Ipv4Addr::new(9, 9, 9, 9))]);
    // Used: the router is asked for on the way to elsewhere, and the MTU is the lease's.
    let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
    let to = Some(at(Ipv4Addr::new(192, 0, 2, 1), 9));
    b.stack.send(b.now, socket, Chunk(std::vec![1; 1400]), to).unwrap();
    let asked = arps(&mut b);
    assert_eq!((asked[0].sender, asked[0].target), (LEASED, SERVER));
    b.take(&arp_frame(MAC_A, SERVER, LEASED, false));
    assert_eq!(b.sent().len(), 2, "1428 bytes do not fit 1400");
    // Renewed by name.
    while b.stack.dhcp_state(ID) == Some(DhcpState::Bound) {
        b.pass(Duration::from_secs(1));
    }
    b.sent();
    b.take(&arp_frame(MAC_A, SERVER, LEASED, false));
    let frames = messages(&mut b);
    assert_eq!(
        (&frames[0][26..30], &frames[0][30..34]),
        (&LEASED.octets()[..], &SERVER.octets()[..])
    );
    b.take(&answer(&frames[0], 5, LEASED));
    assert_eq!(b.stack.dhcp_state(ID), Some(DhcpState::Bound));
    b.pass(Duration::from_secs(3000));
    assert_eq!(b.stack.addresses(ID).count(), 1);
    b.pass(Duration::from_secs(1000));
    assert_eq!(b.stack.addresses(ID).count(), 0, "nobody has renewed it");
    assert_eq!((b.stack.routes().count(), b.stack.dhcp_lease_end(ID)), (0, None));
}

#[test]
fn an_address_that_somebody_has_is_not_used() {
    let mut b = checking();
    b.pass(Duration::from_secs(2));
    b.sent();
    b.take(&arp_frame(MAC_A, LEASED, LEASED, false));
    let decline = messages(&mut b).remove(0);
    assert_eq!((decline[284], b.stack.addresses(ID).count()), (4, 0));
    assert_eq!(b.counter("arp.addresses-lost"), 1);
    b.pass(Duration::from_secs(11));
    assert_eq!(messages(&mut b)[0][284], 1, "again from the start");
    // In use: defended once, then given up.
    let mut b = bound();
    b.sent();
    let claim = arp_frame(MAC_A, LEASED, LEASED, false);
    b.take(&claim);
    assert_eq!(arps(&mut b).len(), 1);
    assert_eq!(b.stack.addresses(ID).count(), 1);
    b.take(&claim);
    assert_eq!(messages(&mut b)[0][284], 4);
    assert_eq!((b.stack.addresses(ID).count(), b.stack.routes().count()), (0, 0));
}

#[test]
fn the_link_and_the_end() {
    let mut b = bound();
    b.sent();
    b.stack.set_link(b.now, ID, false).unwrap();
    b.pass(Duration::from_secs(60));
    assert_eq!((b.sent().len(), b.stack.dhcp_state(ID)), (0, Some(DhcpState::Off)));
    b.stack.set_link(b.now, ID, true).unwrap();
    let request = messages(&mut b).remove(0);
    assert_eq!((request[284], b.stack.dhcp_state(ID)), (3, Some(DhcpState::Rebooting)));
    b.take(&answer(&request, 5, Ipv4Addr::BROADCAST));
    assert_eq!(b.stack.dhcp_state(ID), Some(DhcpState::Bound));
    b.stack.disable_dhcp(ID).unwrap();
    assert_eq!((b.stack.addresses(ID).count(), b.stack.dhcp_state(ID)), (0, None));
    assert_eq!(b.stack.disable_dhcp(ID), Err(Error::BadHandle));
    b.pass(Duration::from_secs(7200));
    assert_eq!(b.sent().len(), 0);
}

#[test]
fn what_was_not_asked_for_is_counted() {
    let mut b = host();
    let discover = messages(&mut b).remove(0);
    b.take(&answer(&discover, 5, Ipv4Addr::BROADCAST));
    let mut other = answer(&discover, 2, Ipv4Addr::BROADCAST);
    other[46] ^= 1;
    fix_transport(&mut other);
    b.take(&other);
    assert_eq!((b.counter("dhcp.ignored"), b.counter("dhcp.messages-in")), (2, 0));
    assert_eq!(b.counter("udp.no-port"), 0);
}

#[test]
fn static_addresses_are_announced_and_kept_if_wanted() {
    let config = Config { arp_notify: true, ..Config::default() };
    let mut b = Host::new(IP_B, MAC_B, config);
    b.pass(Duration::from_secs(5));
    let seen = arps(&mut b);
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|packet| (packet.sender, packet.target) == (IP_B, IP_B)));
    for _ in 0..30 {
        b.take(&arp_frame(MAC_A, IP_B, IP_B, false));
        b.pass(Duration::from_secs(1));
    }
    assert_eq!(arps(&mut b).len(), 3, "once in ten seconds");
    assert_eq!((b.stack.addresses(ID).count(), b.counter("arp.conflicts")), (1, 30));
    // Another link, maybe.
    b.stack.announce(b.now, ID).unwrap();
    b.pass(Duration::from_secs(5));
    let seen = arps(&mut b);
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|packet| (packet.sender, packet.target) == (IP_B, IP_B)));
    assert_eq!(b.stack.announce(b.now, InterfaceId(9)), Err(Error::BadHandle));
    // Without the wish nothing is said.
    let mut b = Host::b();
    b.stack.announce(b.now, ID).unwrap();
    b.pass(Duration::from_secs(5));
    assert_eq!(arps(&mut b).len(), 0);
}

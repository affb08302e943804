//! Multicast: sockets that are members of groups, and what routers are told.

use core::net::Ipv6Addr;

use super::*;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

/// A UDP frame from `source` to the group, port 9.
fn group_frame(source: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let mut frame = udp_frame(7, 9, payload);
    frame[..6].copy_from_slice(&[1, 0, 0x5e, 1, 2, 3]);
    frame[26..30].copy_from_slice(&source.octets());
    frame[30..34].copy_from_slice(&GROUP.octets());
    fix_ip(&mut frame);
    fix_transport(&mut frame);
    frame
}

fn socket(b: &mut Host, tag: u64) -> Handle {
    let socket = b.stack.open(SocketKind::Datagram, tag).unwrap();
    b.stack.set_option(b.now, socket, SockOption::ReuseAddr(true)).unwrap();
    b.stack.bind(socket, at(Ipv4Addr::UNSPECIFIED, 9)).unwrap();
    socket
}

fn join(b: &mut Host, socket: Handle) -> Result<(), Error> {
    b.stack.join_group(b.now, socket, GROUP.into(), None)
}

/// The kinds of the group records in the IGMPv3 reports that were sent.
fn reported(b: &mut Host) -> Vec<u8> {
    let frames = b.sent();
    let reports = frames.iter().filter(|frame| frame[23] == 2);
    reports
        .map(|frame| {
            assert_eq!(frame[..6], [1, 0, 0x5e, 0, 0, 22]);
            assert_eq!((frame[14], frame[15], frame[22]), (0x46, 0xc0, 1));
            assert_eq!(frame[34..38], [148, 4, 0, 0], "router alert");
            assert_eq!(checksum::data(&frame[14..38]), !0);
            assert_eq!(checksum::data(&frame[38..]), !0);
            assert_eq!((frame[38], frame[45]), (0x22, 1));
            assert_eq!(frame[50..54], GROUP.octets());
            frame[46]
        })
        .collect()
}

#[test]
fn members_receive_and_routers_are_told() {
    let mut b = Host::b_knowing_a();
    let (first, second) = (socket(&mut b, 1), socket(&mut b, 2));
    b.take(&group_frame(IP_A, b"early"));
    assert_eq!(b.counter("ip.not-ours"), 1);
    join(&mut b, first).unwrap();
    assert_eq!(join(&mut b, first), Err(Error::AddrInUse));
    b.pass(Duration::from_secs(2));
    assert_eq!(reported(&mut b), [4, 4], "to exclude nobody, twice");
    b.take(&group_frame(IP_A, b"to all"));
    assert_eq!((b.received(first), b.received(second)), (b"to all".to_vec(), b"to all".to_vec()));
    // Only for members, if it wants it so.
    b.stack.set_option(b.now, second, SockOption::MulticastAll4(false)).unwrap();
    b.take(&group_frame(IP_A, b"members"));
    assert_eq!((b.received(first), b.received(second)), (b"members".to_vec(), Vec::new()));
    join(&mut b, second).unwrap();
    b.stack.leave_group(b.now, first, GROUP.into(), None).unwrap();
    let again = b.stack.leave_group(b.now, first, GROUP.into(), None);
    assert_eq!(again, Err(Error::AddrNotAvailable));
    assert_eq!(reported(&mut b), [] as [u8; 0]);
    b.stack.close(b.now, second).unwrap();
    b.pass(Duration::from_secs(2));
    assert_eq!(reported(&mut b), [3, 3], "the last one has gone");
    b.take(&group_frame(IP_A, b"late"));
    assert_eq!(b.received(first), b"");
    assert!(!b.stack.context().ip.waits_for_groups());
}

#[test]
fn sources_are_filtered_for_each_socket() {
    let mut b = Host::b_knowing_a();
    let (first, second) = (socket(&mut b, 1), socket(&mut b, 2));
    let (good, bad) = (Ipv4Addr::new(10, 0, 0, 5), Ipv4Addr::new(10, 0, 0, 6));
    let filter = |b: &mut Host, socket, mode, sources: &[Ipv4Addr]| {
        let sources: Vec<IpAddr> = sources.iter().map(|ip| IpAddr::V4(*ip)).collect();
        b.stack.set_group_filter(b.now, socket, GROUP.into(), Some(ID), mode, &sources)
    };
    filter(&mut b, first, FilterMode::Include, &[good]).unwrap();
    filter(&mut b, second, FilterMode::Exclude, &[bad, good]).unwrap();
    let seen = b.stack.group_filter(second, GROUP.into(), Some(ID)).unwrap();
    assert_eq!(seen, (FilterMode::Exclude, [good.into(), bad.into()].into()));
    for (source, text) in [(good, b"g"), (bad, b"b"), (IP_A, b"a")] {
        b.take(&group_frame(source, text));
    }
    assert_eq!((b.received(first), b.received(second)), (b"g".to_vec(), b"a".to_vec()));
    // What nobody wants is not ours.
    assert_eq!(b.counter("ip.not-ours"), 1);
    let many: Vec<Ipv4Addr> = (0..65).map(|n| Ipv4Addr::new(10, 0, 1, n)).collect();
    assert_eq!(filter(&mut b, first, FilterMode::Include, &many), Err(Error::NoBuffers));
    filter(&mut b, first, FilterMode::Include, &[]).unwrap();
    assert_eq!(b.stack.group_filter(first, GROUP.into(), Some(ID)), None);
}

#[test]
fn queries_are_answered_from_near_only() {
    let mut b = Host::b_knowing_a();
    let socket = socket(&mut b, 1);
    join(&mut b, socket).unwrap();
    b.pass(Duration::from_secs(2));
    reported(&mut b);
    let mut query = std::vec![0x11, 10, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0];
    let sum = !checksum::data(&query);
    query[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = ip_frame_with(IP_A, Ipv4Addr::new(224, 0, 0, 1), 2, &[148, 4, 0, 0], &query);
    frame[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 1]);
    b.take(&frame);
    b.pass(Duration::from_secs(2));
    assert_eq!((reported(&mut b).len(), b.counter("igmp.malformed")), (0, 1));
    frame[22] = 1;
    fix_ip(&mut frame);
    b.take(&frame);
    b.pass(Duration::from_secs(2));
    assert_eq!(reported(&mut b), [2], "is to exclude nobody");
}

#[test]
fn what_is_sent_to_a_group_comes_back_to_its_members() {
    let mut b = Host::b_knowing_a();
    let (member, sender) = (socket(&mut b, 1), b.stack.open(SocketKind::Datagram, 2).unwrap());
    join(&mut b, member).unwrap();
    let to = Some(at(GROUP, 9));
    let send = |b: &mut Host, len| {
        b.stack.send(b.now, sender, Chunk(std::vec![5; len]), to).unwrap();
        b.sent().into_iter().filter(|frame| frame[23] == 17).collect::<Vec<_>>()
    };
    let frames = send(&mut b, 10);
    assert_eq!((frames.len(), frames[0][22]), (1, 1), "one hop");
    assert_eq!(b.received(member), [5; 10]);
    assert_eq!(send(&mut b, 4000).len(), 3);
    assert_eq!(b.received(member).len(), 4000, "in fragments, too");
    b.stack.set_option(b.now, sender, SockOption::MulticastTtl(9)).unwrap();
    b.stack.set_option(b.now, sender, SockOption::MulticastLoop(false)).unwrap();
    assert_eq!(send(&mut b, 10)[0][22], 9);
    assert_eq!(b.received(member), b"");
}

#[test]
fn memberships_are_bounded() {
    let mut b = Host::b();
    let datagram = socket(&mut b, 1);
    for n in 0..21 {
        let group = Ipv4Addr::new(239, 0, 0, n).into();
        let joined = b.stack.join_group(b.now, datagram, group, Some(ID));
        assert_eq!(joined.is_ok(), n < 20, "{n}");
    }
    let stream = b.stack.open(SocketKind::Stream, 2).unwrap();
    assert_eq!(join(&mut b, stream), Err(Error::Unsupported));
    let no_group = b.stack.join_group(b.now, datagram, IP_A.into(), Some(ID));
    assert_eq!(no_group, Err(Error::Invalid));
    let nowhere = b.stack.join_group(b.now, datagram, GROUP.into(), Some(InterfaceId(7)));
    assert_eq!(nowhere, Err(Error::AddrNotAvailable));
}

#[test]
fn a_link_that_comes_back_is_told_again() {
    let mut b = Host::b_knowing_a();
    let socket = socket(&mut b, 1);
    join(&mut b, socket).unwrap();
    b.pass(Duration::from_secs(2));
    reported(&mut b);
    b.stack.set_link(b.now, ID, false).unwrap();
    let to = Some(at(IP_A, 9));
    let refused = b.stack.send(b.now, socket, Chunk(b"x".to_vec()), to).unwrap_err();
    assert_eq!(refused.error, Error::NetUnreachable);
    b.stack.set_link(b.now, ID, true).unwrap();
    b.pass(Duration::from_secs(2));
    assert_eq!(reported(&mut b), [4, 4]);
    b.stack.set_link(b.now, ID, true).unwrap();
    b.stack.send(b.now, socket, Chunk(b"x".to_vec()), to).unwrap();
    assert_eq!(b.sent().len(), 1);
    assert_eq!(b.stack.set_link(b.now, InterfaceId(9), true), Err(Error::BadHandle));
}

#[test]
fn groups_of_ipv6() {
    let group = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 9);
    let mut pair = v6::pair6();
    let member = pair.b.stack.open_in(Family::V6, SocketKind::Datagram, 1).unwrap();
    pair.b.stack.bind(member, v6::at6(Ipv6Addr::UNSPECIFIED, 9)).unwrap();
    pair.b.stack.join_group(pair.b.now, member, group.into(), Some(ID)).unwrap();
    pair.b.pass(Duration::from_secs(2));
    let reports = pair.b.sent();
    // MLDv2, by one hop, behind a hop-by-hop header with a router alert.
    assert_eq!(reports.len(), 2);
    let report = &reports[0];
    assert_eq!((report[20], report[21], report[54], report[62]), (0, 1, 58, 143));
    assert_eq!((report[69], report[70], &report[74..90]), (1, 4, &group.octets()[..]));
    let (from, to) = ([0; 16], [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16]);
    assert_eq!((&report[22..38], &report[38..54]), (&from[..], &to[..]), "RFC 3590");
    let pseudo = crate::ip::pseudo_sum(
        Ipv6Addr::UNSPECIFIED.into(),
        Ipv6Addr::from(to).into(),
        smoltcp::wire::IpProtocol::Icmpv6,
        report.len() - 62,
    );
    assert_eq!(checksum::combine(&[pseudo, checksum::data(&report[62..])]), !0);
    let sender = pair.a.stack.open_in(Family::V6, SocketKind::Datagram, 1).unwrap();
    let to = Some(v6::at6(group, 9));
    pair.a.stack.send(pair.a.now, sender, Chunk(b"six".to_vec()), to).unwrap();
    pair.settle();
    assert_eq!(pair.b.received(member), b"six");
    // A query of MLDv2 from the link is answered; one from afar is not.
    let mut query = std::vec![130, 0, 0, 0, 0, 100, 0, 0];
    query.extend_from_slice(&[0; 16]);
    query.extend_from_slice(&[2, 125, 0, 0]);
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    for (source, hops, answers) in [(v6::A_LOCAL, 1, 1), (v6::A6, 1, 0), (v6::A_LOCAL, 2, 0)] {
        pair.b.take(&v6::icmp_frame(source, all, hops, &query));
        pair.b.pass(Duration::from_secs(1));
        let sent = pair.b.sent();
        assert_eq!(sent.iter().filter(|frame| frame[62] == 143).count(), answers, "{source}");
    }
}

/// A socket of the stack that is bound to an address, port 9.
fn bound(b: &mut Host, tag: u64, ip: Ipv4Addr) -> Handle {
    let socket = b.stack.open(SocketKind::Datagram, tag).unwrap();
    b.stack.set_option(b.now, socket, SockOption::ReuseAddr(true)).unwrap();
    b.stack.set_option(b.now, socket, SockOption::Broadcast(true)).unwrap();
    b.stack.bind(socket, at(ip, 9)).unwrap();
    socket
}

#[test]
fn a_socket_at_a_group_or_broadcast_address_receives_that_alone() {
    let mut b = Host::b_knowing_a();
    let subnet = Ipv4Addr::new(10, 0, 0, 255);
    let addresses = [GROUP, Ipv4Addr::new(239, 9, 9, 9), subnet, Ipv4Addr::BROADCAST, IP_B];
    let sockets: Vec<Handle> = (1..).zip(addresses).map(|(n, ip)| bound(&mut b, n, ip)).collect();
    join(&mut b, sockets[0]).unwrap();
    let other = Ipv4Addr::new(239, 9, 9, 9).into();
    b.stack.join_group(b.now, sockets[1], other, None).unwrap();
    assert_eq!(b.stack.local_addr(sockets[0]), Ok(at(GROUP, 9)));
    b.take(&group_frame(IP_A, b"group"));
    b.take(&udp_frame(7, 9, b"own"));
    let sender = b.stack.open(SocketKind::Datagram, 99).unwrap();
    b.stack.set_option(b.now, sender, SockOption::Broadcast(true)).unwrap();
    for (to, text) in [(subnet, b"subnet".as_slice()), (Ipv4Addr::BROADCAST, b"all")] {
        b.stack.send(b.now, sender, Chunk(text.to_vec()), Some(at(to, 9))).unwrap();
        b.poll();
    }
    let expected: [&[u8]; 5] = [b"group", b"", b"subnet", b"all", b"own"];
    for (socket, expected) in sockets.iter().zip(expected) {
        assert_eq!(b.received(*socket), expected);
    }
    // What such a socket sends comes from the stack's own address.
    b.sent();
    b.stack.send(b.now, sockets[0], Chunk(b"x".to_vec()), Some(at(IP_A, 7))).unwrap();
    b.poll();
    assert_eq!(b.sent()[0][26..30], IP_B.octets());
    let echo = b.stack.open(SocketKind::Echo, 100).unwrap();
    assert_eq!(b.stack.bind(echo, at(GROUP, 0)), Err(Error::AddrNotAvailable));
}

#[test]
fn groups_on_the_loopback_interface() {
    let mut b = Host::b_knowing_a();
    let (inside, outside) = (socket(&mut b, 1), socket(&mut b, 2));
    let lo = Some(InterfaceId::LOOPBACK);
    b.stack.join_group(b.now, inside, GROUP.into(), lo).unwrap();
    let again = b.stack.join_group(b.now, inside, GROUP.into(), lo);
    assert_eq!(again, Err(Error::AddrInUse));
    b.stack.set_option(b.now, outside, SockOption::MulticastAll4(false)).unwrap();
    b.stack.join_group(b.now, outside, GROUP.into(), Some(ID)).unwrap();
    let sender = b.stack.open(SocketKind::Datagram, 3).unwrap();
    b.stack.set_option(b.now, sender, SockOption::MulticastIf(lo)).unwrap();
    b.stack.set_option(b.now, sender, SockOption::MulticastLoop(false)).unwrap();
    b.pass(Duration::from_secs(3));
    b.sent();
    b.stack.send(b.now, sender, Chunk(b"lo".to_vec()), Some(at(GROUP, 9))).unwrap();
    b.poll();
    assert_eq!((b.received(inside), b.received(outside)), (b"lo".to_vec(), Vec::new()));
    // As on Linux the source address names the interface, too.
    let bound = b.stack.open(SocketKind::Datagram, 4).unwrap();
    b.stack.bind(bound, at(Ipv4Addr::LOCALHOST, 0)).unwrap();
    b.stack.send(b.now, bound, Chunk(b"lo".to_vec()), Some(at(GROUP, 9))).unwrap();
    b.poll();
    assert_eq!(b.received(inside), b"lo");
    assert!(b.sent().is_empty(), "nothing leaves");
    b.stack.leave_group(b.now, inside, GROUP.into(), None).unwrap();
    b.stack.send(b.now, bound, Chunk(b"lo".to_vec()), Some(at(GROUP, 9))).unwrap();
    b.poll();
    assert!(b.received(inside).is_empty());
}

#[test]
fn a_broadcast_from_a_loopback_address_stays_here() {
    let everyone = Ipv4Addr::BROADCAST;
    let mut b = Host::b_knowing_a();
    let receivers = [everyone, Ipv4Addr::UNSPECIFIED, IP_B].map(|bound| {
        let socket = b.stack.open(SocketKind::Datagram, 1).unwrap();
        b.stack.set_option(b.now, socket, SockOption::ReuseAddr(true)).unwrap();
        b.stack.bind(socket, at(bound, 9)).unwrap();
        socket
    });
    let sender = b.stack.open(SocketKind::Datagram, 2).unwrap();
    b.stack.bind(sender, at(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let send = |b: &mut Host| {
        let chunk = Chunk(b"all".to_vec());
        b.stack.send(b.now, sender, chunk, Some(at(everyone, 9))).map_err(|refused| refused.error)
    };
    assert_eq!(send(&mut b).err(), Some(Error::Denied));
    b.stack.set_option(b.now, sender, SockOption::Broadcast(true)).unwrap();
    send(&mut b).unwrap();
    b.poll();
    let received = receivers.map(|socket| b.received(socket));
    assert_eq!(received, [b"all".to_vec(), b"all".to_vec(), Vec::new()]);
    assert!(b.sent().is_empty(), "nothing leaves");
}

//! Who sends next, and what an interface that takes nothing holds up.

use super::*;
use crate::OwnerId;
use crate::tcp::SegmentRepr;

const IP_FAR: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);

/// A datagram socket of an owner, with so many datagrams queued to a peer.
fn sender(host: &mut Host, owner: OwnerId, tag: u64, to: SocketAddr, count: usize) -> Handle {
    let family = crate::Family::V4;
    let socket = host.stack.open_for(owner, family, SocketKind::Datagram, tag).unwrap();
    for _ in 0..count {
        host.stack.send(host.now, socket, Chunk([1; 100].into()), Some(to)).ok().unwrap();
    }
    socket
}

/// B with a second interface, on which it knows a host.
fn with_two_interfaces() -> (Host, InterfaceId) {
    let mut b = Host::b_knowing_a();
    let second = b.stack.add_interface(InterfaceConfig { mac: MAC_B.0, mtu: 1500 });
    b.stack.add_address(second, Cidr::new(Ipv4Addr::new(10, 1, 0, 1), 24)).unwrap();
    let arp = arp_frame(MAC_A, IP_FAR, Ipv4Addr::new(10, 1, 0, 1), true);
    b.stack.handle_frame(b.now, second, Known(arp, RxOffload::NONE), &mut b.wire);
    b.wire.frames.clear();
    (b, second)
}

#[test]
fn an_interface_that_takes_nothing_holds_up_no_other() {
    let (mut b, second) = with_two_interfaces();
    b.wire.stuck = Some(second);
    let owner = b.stack.add_owner();
    for tag in 0..100 {
        sender(&mut b, owner, tag, at(IP_FAR, 7), 5);
    }
    b.poll();
    assert_eq!(b.sent().len(), 0);
    sender(&mut b, owner, 200, at(IP_A, 7), 5);
    b.poll();
    assert_eq!(b.sent().len(), 5);
    b.wire.stuck = None;
    b.poll();
    assert_eq!(b.sent().len(), 500);
}

/// One socket sends to both: what it has for the stuck interface waits, and nothing is lost.
#[test]
fn datagrams_wait_for_their_own_interface() {
    let (mut b, second) = with_two_interfaces();
    let socket = sender(&mut b, OwnerId::default(), 1, at(IP_A, 7), 3);
    b.wire.stuck = Some(second);
    for to in [at(IP_FAR, 7), at(IP_A, 7)] {
        b.stack.send(b.now, socket, Chunk([1; 100].into()), Some(to)).ok().unwrap();
    }
    b.poll();
    assert_eq!(b.sent().len(), 3);
    b.wire.stuck = None;
    b.poll();
    assert_eq!(b.sent().len(), 2);
}

#[test]
fn resets_for_a_stuck_interface_hold_up_no_others() {
    let (mut b, second) = with_two_interfaces();
    b.wire.stuck = Some(second);
    let reset = SegmentRepr { rst: true, ..SegmentRepr::default() };
    let ends = |ip| tcp::Endpoints { local: at(IP_B, 1000), remote: at(ip, 80) };
    b.stack.fill_resets(100, ends(IP_FAR), reset);
    b.stack.fill_resets(1, ends(IP_A), reset);
    (0..8).for_each(|_| b.poll());
    assert_eq!(b.sent().len(), 1);
    b.wire.stuck = None;
    (0..8).for_each(|_| b.poll());
    assert_eq!(b.sent().len(), 100);
}

#[test]
fn an_owner_with_many_sockets_gets_no_more_turns() {
    let mut b = Host::b_knowing_a();
    let (many, one) = (b.stack.add_owner(), b.stack.add_owner());
    for tag in 0..200 {
        sender(&mut b, many, tag, at(IP_A, 7), 20);
    }
    sender(&mut b, one, 300, at(IP_A, 7), 100);
    b.wire.room = 400;
    b.wire.senders.clear();
    b.poll();
    let of = |owner| b.wire.senders.iter().filter(|sender| **sender == owner).count();
    assert_eq!(b.wire.senders.len(), 400);
    assert!(of(one) >= 96, "{} of 400 frames", of(one));
}

/// Datagrams that waited for their neighbour are their owner's frames, as those after them are.
/// Otherwise an egress with a queue for each sender would let the later ones pass.
#[test]
fn a_datagram_that_waited_for_its_neighbour_has_its_owner() {
    let mut b = Host::b();
    let owner = b.stack.add_owner();
    sender(&mut b, owner, 1, at(IP_A, 7), 2);
    b.poll();
    b.wire.senders.clear();
    b.take(&arp_frame(MAC_A, IP_A, IP_B, false));
    assert_eq!(b.wire.senders, [owner; 2]);
    b.wire.senders.clear();
    b.take(&echo_frame(b"whose?"));
    assert_eq!(b.wire.senders, [OwnerId::default()], "the answer is the stack's");
}

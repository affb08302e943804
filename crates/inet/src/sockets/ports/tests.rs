use super::*;
use crate::secret::Secret;
use core::net::Ipv4Addr;

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const PEER: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(OTHER), 80);

fn claim(address: Ipv4Addr, port: u16, reuse: bool, listening: bool) -> PortClaim {
    let local = SocketAddr::new(address.into(), port);
    let reuse = Reuse { address: reuse, port: false };
    let (kind, by_connect) = (SocketKind::Stream, None);
    PortClaim { kind, local, dual: false, device: None, reuse, listening, by_connect }
}

fn search(local: SocketAddr, remote: SocketAddr, random: u32) -> PortSearch {
    let (kind, owner) = (SocketKind::Stream, OwnerId::default());
    PortSearch { kind, local, remote, owner, random }
}

fn ports() -> Ports {
    Ports::new(&Secret::new(&[7; 16]), 40_000..=40_003)
}

#[test]
fn conflicts_are_those_of_linux() {
    // (held, asked address, asked reuse, allowed)
    let table = [
        (claim(ANY, 80, false, true), OURS, false, false),
        (claim(ANY, 80, true, true), OURS, true, false),
        (claim(ANY, 80, true, false), OURS, true, true),
        (claim(OURS, 80, true, false), ANY, true, true),
        (claim(OURS, 80, false, false), ANY, true, false),
        (claim(OURS, 80, true, false), OURS, false, false),
        (claim(OURS, 80, false, true), OTHER, false, true),
        (claim(OURS, 81, false, true), OURS, false, true),
    ];
    for (held, address, reuse, allowed) in table {
        let mut ports = ports();
        ports.claim(&held, OwnerId::default());
        let asked = SocketAddr::new(address.into(), 80);
        let reuse = Reuse { address: reuse, port: false };
        assert_eq!(
            ports.may_bind(held.kind, (asked, false), None, reuse),
            allowed,
            "{held:?} {address}"
        );
        assert!(
            ports.may_bind(SocketKind::Datagram, (asked, false), None, Reuse::default()),
            "protocols are apart"
        );
        ports.release(&held, OwnerId::default());
        assert!(ports.may_bind(held.kind, (asked, false), None, Reuse::default()));
        assert!(ports.holders.is_empty());
    }
}

#[test]
fn claims_on_different_devices_do_not_conflict() {
    let (one, two) = (Some(InterfaceId(1)), Some(InterfaceId(2)));
    let alone = Reuse::default();
    let shared = Reuse { address: false, port: true };
    // (device and sharing of the claims held, those of the claim asked for, allowed)
    type Row<'a> = (&'a [(Option<InterfaceId>, Reuse)], (Option<InterfaceId>, Reuse), bool);
    let table: [Row<'_>; 10] = [
        (&[(one, alone)], (two, alone), true),
        (&[(one, alone)], (one, alone), false),
        (&[(one, alone)], (one, shared), false),
        (&[(one, alone)], (None, alone), false),
        (&[(None, alone)], (one, alone), false),
        (&[(one, shared), (two, alone)], (None, shared), false),
        (&[(one, shared), (two, alone)], (one, shared), true),
        (&[(one, shared), (two, alone)], (two, shared), false),
        (&[(one, shared), (None, shared)], (two, alone), false),
        (&[(one, alone), (two, shared)], (Some(InterfaceId(3)), alone), true),
    ];
    for (held, (device, reuse), allowed) in table {
        for address in [ANY, OURS] {
            let mut ports = ports();
            let claims = held.iter().map(|(device, reuse)| PortClaim {
                device: *device,
                reuse: *reuse,
                ..claim(address, 80, false, false)
            });
            claims.clone().for_each(|claim| ports.claim(&claim, OwnerId::default()));
            let asked = SocketAddr::new(OURS.into(), 80);
            let may = ports.may_bind(SocketKind::Stream, (asked, false), device, reuse);
            assert_eq!(may, allowed, "{held:?} {device:?} {reuse:?}");
            claims.for_each(|claim| ports.release(&claim, OwnerId::default()));
            assert!(ports.holders.is_empty());
        }
    }
}

#[test]
fn listeners_share_a_port_if_all_of_them_say_so() {
    let mut ports = ports();
    let share = Reuse { address: false, port: true };
    let held = PortClaim { reuse: share, ..claim(ANY, 80, false, true) };
    ports.claim(&held, OwnerId::default());
    ports.claim(&held, OwnerId::default());
    assert!(ports.may_bind(held.kind, (held.local, false), None, share));
    assert!(!ports.may_bind(
        held.kind,
        (held.local, false),
        None,
        Reuse { address: true, port: false }
    ));
    ports.claim(&claim(ANY, 80, true, false), OwnerId::default());
    assert!(!ports.may_bind(held.kind, (held.local, false), None, share));
}

#[test]
fn families_meet_in_dual_claims_only() {
    let v6 = |last, dual| {
        let ip = core::net::Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, last);
        (SocketAddr::new(ip.into(), 80), dual)
    };
    let v4 = |ip: Ipv4Addr| (SocketAddr::new(ip.into(), 80), false);
    // (one, another, allowed beside each other); all without SO_REUSEADDR
    let table = [
        (v6(0, true), v4(ANY), false),
        (v6(0, true), v4(OURS), false),
        (v6(0, false), v4(ANY), true),
        (v6(0, false), v4(OURS), true),
        (v6(0, true), v6(0, false), false),
        (v6(0, true), v6(5, false), false),
        (v6(5, false), v6(6, false), true),
        (v6(5, true), v4(ANY), true),
    ];
    for (one, another, allowed) in table {
        for ((local, dual), (asked, asked_dual)) in [(one, another), (another, one)] {
            let held = PortClaim { local, dual, ..claim(ANY, 80, false, false) };
            let mut ports = ports();
            ports.claim(&held, OwnerId::default());
            let free = ports.may_bind(held.kind, (asked, asked_dual), None, Reuse::default());
            assert_eq!(free, allowed, "{local} {dual}, then {asked} {asked_dual}");
            ports.release(&held, OwnerId::default());
            assert!(ports.holders.is_empty());
        }
    }
}

#[test]
fn ephemeral_ports_run_out() {
    let mut ports = ports();
    let ours = SocketAddr::new(OURS.into(), 0);
    let mut seen = std::vec::Vec::new();
    while let Ok(port) = ports.free(SocketKind::Stream, ours, false, OwnerId::default(), 2) {
        ports.claim(&claim(OURS, port, false, false), OwnerId::default());
        seen.push(port);
    }
    assert_eq!(seen, [40_002, 40_003, 40_000, 40_001]);
    assert_eq!(
        ports.free(SocketKind::Stream, ours, false, OwnerId::default(), 0),
        Err(Error::AddrInUse)
    );
    let shared = ports.free_for_connect(search(ours, PEER, 0), |_| PairState::Free);
    assert_eq!(shared, Err(Error::AddrNotAvailable));
}

#[test]
fn connecting_sockets_share_ports() {
    let mut ports = ports();
    let ours = SocketAddr::new(OURS.into(), 0);
    let by_connect = PortClaim { by_connect: Some(0), ..claim(OURS, 40_000, false, false) };
    ports.claim(&by_connect, OwnerId::default());
    let mut choose = |kind, unique: &dyn Fn(u16) -> bool| {
        let pair = |port| if unique(port) { PairState::Free } else { PairState::Taken };
        let search = PortSearch { kind, ..search(ours, PEER, 0) };
        ports.free_for_connect(search, pair).map(|(port, _)| port)
    };
    assert_eq!(choose(SocketKind::Datagram, &|_| true), Ok(40_000));
    assert_eq!(choose(SocketKind::Datagram, &|port| port != 40_000), Ok(40_001));
    assert_eq!(choose(SocketKind::Stream, &|port| port == 40_000), Ok(40_000));
    let reuse = Reuse { address: true, port: false };
    assert!(!ports.may_bind(SocketKind::Stream, (by_connect.local, false), None, reuse));
}

/// RFC 6056 3.3.4.
#[test]
fn connections_to_a_peer_take_ports_in_turn() {
    let mut ports = Ports::new(&Secret::new(&[7; 16]), 32_768..=60_999);
    let ours = SocketAddr::new(OURS.into(), 0);
    let mut random = Secret::new(&[8; 16]);
    let mut next = |peer: SocketAddr| {
        let random = random.below(u32::MAX);
        let search = search(ours, peer, random);
        ports.free_for_connect(search, |_| PairState::Free).expect("free").0
    };
    let mut seen = std::collections::BTreeSet::new();
    for slot in 0..6_000 {
        assert!(seen.insert(next(PEER)), "a port comes back after {slot} connections");
    }
    let gap = next(PEER).abs_diff(next(SocketAddr::new(OTHER.into(), 443)));
    assert!(u32::from(gap) > STEP, "another peer's ports tell nothing of these");
}

/// Two hostile processes may hold all ports: a failing connect must not look at each of them.
#[test]
fn a_call_asks_about_few_ports() {
    let mut ports = Ports::new(&Secret::new(&[7; 16]), 32_768..=60_999);
    let ours = SocketAddr::new(OURS.into(), 0);
    for port in 32_768..=60_999 {
        let claim = PortClaim { by_connect: Some(0), ..claim(OURS, port, false, false) };
        ports.claim(&claim, OwnerId::default());
    }
    for random in 0..100 {
        let asked = core::cell::Cell::new(0);
        let pair = |_| {
            asked.set(asked.get() + 1);
            PairState::Taken
        };
        let refused = ports.free_for_connect(search(ours, PEER, random), pair);
        assert_eq!(refused, Err(Error::AddrNotAvailable));
        assert!(asked.get() <= 2 * PROBES, "{asked:?}");
    }
    for port in 32_768..=60_999 {
        let claim = PortClaim { by_connect: Some(0), ..claim(OURS, port, false, false) };
        ports.release(&claim, OwnerId::default());
    }
    assert!(ports.holders.is_empty() && ports.shares.is_empty());
}

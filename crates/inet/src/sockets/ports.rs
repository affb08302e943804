//! Ports: which socket holds which one, and the choice of free ones.
//!
//! A claim is counted twice, under its port and under its address and port, so that a conflict is
//! found by looking at two counts and never by a search. The rules are Linux's: two claims on the
//! same port conflict if their addresses are equal or one is the wildcard, unless both allow it
//! (SO_REUSEADDR) and neither listens, or both allow it in every case (SO_REUSEPORT). Ports that
//! were chosen by `connect` may be shared between connections to different peers, not with a socket
//! that was bound. The families are apart, but for a dual claim: one on all addresses of IPv6 that
//! also means all of IPv4.
//!
//! Connections to one peer take their ports in turn (RFC 6056 3.3.4, with small random steps as
//! Linux), from a start that others cannot foresee: a port comes back as late as can be, when the
//! peer has forgotten the connection that had it. `bind` and datagrams take any port (3.3.1).

use alloc::boxed::Box;
use core::hash::BuildHasher;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::ops::RangeInclusive;

use hashbrown::HashMap;

use super::kinds::SocketKind;
use crate::error::Error;
use crate::secret::{KeyedHash, Secret};
use crate::sockaddr::wildcard;

/// Addresses at which a socket bound to `local` receives. A `dual` socket on all IPv6 addresses
/// also receives on all IPv4 addresses.
pub(crate) fn receive_addresses(local: SocketAddr, dual: bool) -> impl Iterator<Item = SocketAddr> {
    let both = dual && local.is_ipv6() && local.ip().is_unspecified();
    let other = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), local.port());
    [Some(local), both.then_some(other)].into_iter().flatten()
}

/// The kinds of sockets that may share a socket's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reuse {
    /// SO_REUSEADDR was set.
    pub(crate) address: bool,
    /// SO_REUSEPORT was set.
    pub(crate) port: bool,
}

/// One socket's claim on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortClaim {
    pub(crate) kind: SocketKind,
    pub(crate) local: SocketAddr,
    /// If it is on all addresses of IPv6, it is on all of IPv4, too.
    pub(crate) dual: bool,
    pub(crate) reuse: Reuse,
    pub(crate) listening: bool,
    /// The port was chosen by `connect`.
    pub(crate) by_connect: bool,
}

impl PortClaim {
    fn keys(&self) -> impl Iterator<Item = ClaimKey> + use<> {
        receive_addresses(self.local, self.dual)
            .flat_map(|face| [ClaimKey::port(face), ClaimKey::Address(face)])
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct PortHolders {
    all: u32,
    exclusive: u32,
    /// Claims that may not be shared by SO_REUSEPORT.
    unshared: u32,
    listening: u32,
    by_connect: u32,
}

impl PortHolders {
    fn conflict(self, reuse: Reuse) -> bool {
        let by_address = reuse.address && self.exclusive == 0 && self.listening == 0;
        let by_port = reuse.port && self.unshared == 0;
        self.all > 0 && !by_address && !by_port
    }

    fn each(&mut self, claim: &PortClaim, change: fn(&mut u32)) {
        change(&mut self.all);
        if !claim.reuse.address {
            change(&mut self.exclusive);
        }
        if !claim.reuse.port {
            change(&mut self.unshared);
        }
        if claim.listening {
            change(&mut self.listening);
        }
        if claim.by_connect {
            change(&mut self.by_connect);
        }
    }
}

/// Where claims are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ClaimKey {
    /// At a port, for all addresses of the family of this wildcard address.
    Port(SocketAddr),
    /// At this very address and port.
    Address(SocketAddr),
}

impl ClaimKey {
    fn port(of: SocketAddr) -> Self {
        Self::Port(any(of))
    }
}

/// The wildcard address with the same port.
fn any(of: SocketAddr) -> SocketAddr {
    SocketAddr::new(wildcard(of.ip()), of.port())
}

/// Number of offsets counted apart; more peers share them by hash.
const OFFSETS: usize = 256;

/// Largest distance from one port to the next while all are free.
const STEP: u32 = 8;

/// How far the connections to each peer have come in the range of ports.
#[derive(Debug)]
struct PortOffsets {
    hash: KeyedHash,
    steps: Box<[u32; OFFSETS]>,
}

impl PortOffsets {
    /// The start for a peer, and where its steps are counted.
    fn of(&self, local: IpAddr, remote: SocketAddr) -> (u32, usize) {
        let hash = self.hash.hash_one((local, remote));
        #[expect(clippy::cast_possible_truncation, reason = "two parts of the hash")]
        (hash as u32, (hash >> 32) as usize % OFFSETS)
    }
}

/// All claims of one stack.
#[derive(Debug)]
pub(crate) struct Ports {
    holders: HashMap<(SocketKind, ClaimKey), PortHolders, KeyedHash>,
    range: RangeInclusive<u16>,
    offsets: PortOffsets,
}

impl Ports {
    pub(crate) fn new(secret: &Secret, range: RangeInclusive<u16>) -> Self {
        let offsets = PortOffsets { hash: secret.ports(), steps: Box::new([0; OFFSETS]) };
        Self { holders: HashMap::with_hasher(secret.tables()), range, offsets }
    }

    /// Number of ephemeral ports.
    pub(crate) fn ephemeral(&self) -> u32 {
        u32::from(self.range.end().saturating_sub(*self.range.start())) + 1
    }

    fn at(&self, kind: SocketKind, key: ClaimKey) -> PortHolders {
        self.holders.get(&(kind, key)).copied().unwrap_or_default()
    }

    /// Whether a socket may be bound to `local`, `dual` or not, beside the claims there are.
    pub(crate) fn may_bind(
        &self,
        kind: SocketKind,
        local: SocketAddr,
        dual: bool,
        reuse: Reuse,
    ) -> bool {
        let conflict = |key| self.at(kind, key).conflict(reuse);
        receive_addresses(local, dual).all(|face| {
            if face.ip().is_unspecified() {
                return !conflict(ClaimKey::port(face));
            }
            !conflict(ClaimKey::Address(face)) && !conflict(ClaimKey::Address(any(face)))
        })
    }

    pub(crate) fn claim(&mut self, claim: &PortClaim) {
        for key in claim.keys() {
            self.holders.entry((claim.kind, key)).or_default().each(claim, |count| *count += 1);
        }
    }

    /// Releases a [`claim`](Self::claim), given by the very same value.
    pub(crate) fn release(&mut self, claim: &PortClaim) {
        for key in claim.keys() {
            let key = (claim.kind, key);
            if let Some(holders) = self.holders.get_mut(&key) {
                holders.each(claim, |count| *count = count.saturating_sub(1));
                if holders.all == 0 {
                    self.holders.remove(&key);
                }
            }
        }
    }

    /// A port for a `bind` to `local` that no socket holds; the search starts at `offset`.
    pub(crate) fn free(
        &self,
        kind: SocketKind,
        mut local: SocketAddr,
        dual: bool,
        offset: u32,
    ) -> Result<u16, Error> {
        let usable = |port| {
            local.set_port(port);
            receive_addresses(local, dual).all(|face| self.at(kind, ClaimKey::port(face)).all == 0)
        };
        self.search(offset, usable).map(|(_, port)| port).ok_or(Error::AddrInUse)
    }

    /// A port for a `connect` from `local` to `remote`. Only other connecting sockets may hold the
    /// port, and the connection must be `unique` with it. `random` is the start of the search for
    /// datagrams. Connections take ports in sequence, `random` choosing the step.
    pub(crate) fn free_for_connect(
        &mut self,
        kind: SocketKind,
        mut local: SocketAddr,
        remote: SocketAddr,
        random: u32,
        unique: impl Fn(u16) -> bool,
    ) -> Result<u16, Error> {
        let (start, slot) = self.offsets.of(local.ip(), remote);
        let offset = match kind {
            SocketKind::Stream => start.wrapping_add(self.offsets.steps[slot]),
            SocketKind::Datagram | SocketKind::UdpLite => random,
        };
        let usable = |port| {
            local.set_port(port);
            let holders = self.at(kind, ClaimKey::port(local));
            holders.all == holders.by_connect && unique(port)
        };
        let (tried, port) = self.search(offset, usable).ok_or(Error::AddrNotAvailable)?;
        if kind == SocketKind::Stream {
            let steps = &mut self.offsets.steps[slot];
            *steps = steps.wrapping_add(tried.max(random % STEP) + 1);
        }
        Ok(port)
    }

    /// The first usable port from `offset` in the range on, and how many were not.
    fn search(&self, offset: u32, mut usable: impl FnMut(u16) -> bool) -> Option<(u32, u16)> {
        let count = self.ephemeral();
        (0..count).find_map(|n| {
            let step = u16::try_from((offset % count + n) % count).ok()?;
            let port = self.range.start().checked_add(step)?;
            usable(port).then_some((n, port))
        })
    }
}

#[cfg(test)]
mod tests {
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
        PortClaim {
            kind: SocketKind::Stream,
            local,
            dual: false,
            reuse,
            listening,
            by_connect: false,
        }
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
            ports.claim(&held);
            let asked = SocketAddr::new(address.into(), 80);
            let reuse = Reuse { address: reuse, port: false };
            assert_eq!(
                ports.may_bind(held.kind, asked, false, reuse),
                allowed,
                "{held:?} {address}"
            );
            assert!(
                ports.may_bind(SocketKind::Datagram, asked, false, Reuse::default()),
                "protocols are apart"
            );
            ports.release(&held);
            assert!(ports.may_bind(held.kind, asked, false, Reuse::default()));
            assert!(ports.holders.is_empty());
        }
    }

    #[test]
    fn listeners_share_a_port_if_all_of_them_say_so() {
        let mut ports = ports();
        let share = Reuse { address: false, port: true };
        let held = PortClaim { reuse: share, ..claim(ANY, 80, false, true) };
        ports.claim(&held);
        ports.claim(&held);
        assert!(ports.may_bind(held.kind, held.local, false, share));
        assert!(!ports.may_bind(
            held.kind,
            held.local,
            false,
            Reuse { address: true, port: false }
        ));
        ports.claim(&claim(ANY, 80, true, false));
        assert!(!ports.may_bind(held.kind, held.local, false, share));
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
                ports.claim(&held);
                let free = ports.may_bind(held.kind, asked, asked_dual, Reuse::default());
                assert_eq!(free, allowed, "{local} {dual}, then {asked} {asked_dual}");
                ports.release(&held);
                assert!(ports.holders.is_empty());
            }
        }
    }

    #[test]
    fn ephemeral_ports_run_out() {
        let mut ports = ports();
        let ours = SocketAddr::new(OURS.into(), 0);
        let mut seen = std::vec::Vec::new();
        while let Ok(port) = ports.free(SocketKind::Stream, ours, false, 2) {
            ports.claim(&claim(OURS, port, false, false));
            seen.push(port);
        }
        assert_eq!(seen, [40_002, 40_003, 40_000, 40_001]);
        assert_eq!(ports.free(SocketKind::Stream, ours, false, 0), Err(Error::AddrInUse));
        let shared = ports.free_for_connect(SocketKind::Stream, ours, PEER, 0, |_| true);
        assert_eq!(shared, Err(Error::AddrNotAvailable));
    }

    #[test]
    fn connecting_sockets_share_ports() {
        let mut ports = ports();
        let ours = SocketAddr::new(OURS.into(), 0);
        let by_connect = PortClaim { by_connect: true, ..claim(OURS, 40_000, false, false) };
        ports.claim(&by_connect);
        let mut choose = |kind, unique: &dyn Fn(u16) -> bool| {
            ports.free_for_connect(kind, ours, PEER, 0, unique)
        };
        assert_eq!(choose(SocketKind::Datagram, &|_| true), Ok(40_000));
        assert_eq!(choose(SocketKind::Datagram, &|port| port != 40_000), Ok(40_001));
        assert_eq!(choose(SocketKind::Stream, &|port| port == 40_000), Ok(40_000));
        let reuse = Reuse { address: true, port: false };
        assert!(!ports.may_bind(SocketKind::Stream, by_connect.local, false, reuse));
    }

    /// RFC 6056 3.3.4.
    #[test]
    fn connections_to_a_peer_take_ports_in_turn() {
        let mut ports = Ports::new(&Secret::new(&[7; 16]), 32_768..=60_999);
        let ours = SocketAddr::new(OURS.into(), 0);
        let mut random = Secret::new(&[8; 16]);
        let mut next = |peer: SocketAddr| {
            let random = random.below(u32::MAX);
            ports.free_for_connect(SocketKind::Stream, ours, peer, random, |_| true).expect("free")
        };
        let mut seen = std::collections::BTreeSet::new();
        for slot in 0..6_000 {
            assert!(seen.insert(next(PEER)), "a port comes back after {slot} connections");
        }
        let gap = next(PEER).abs_diff(next(SocketAddr::new(OTHER.into(), 443)));
        assert!(u32::from(gap) > STEP, "another peer's ports tell nothing of these");
    }
}

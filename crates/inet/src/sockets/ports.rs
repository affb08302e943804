//! Ports: which socket holds which one, and the choice of free ones.
//!
//! A claim is counted twice, under its port and under its address and port, so that a conflict is
//! found by looking at two counts and never by a search. The rules are Linux's: two claims on the
//! same port conflict if their addresses are equal or one is the wildcard, unless both allow it
//! (SO_REUSEADDR) and neither listens, or both allow it in every case (SO_REUSEPORT). Claims of
//! sockets that are bound to different devices never conflict: such claims are counted again, by
//! device and all together. Ports that
//! were chosen by `connect` may be shared between connections to different peers, not with a socket
//! that was bound. The families are apart, but for a dual claim: one on all addresses of IPv6 that
//! also means all of IPv4.
//!
//! Connections to one peer take their ports in turn (RFC 6056 3.3.4, with small random steps as
//! Linux), from a start that others cannot foresee: a port comes back as late as can be, when the
//! peer has forgotten the connection that had it. `bind` and datagrams take any port (3.3.1).
//!
//! The choice looks at sets of ports in use and asks the demultiplexer about a bounded number of
//! them. Each owner of sockets has a [share](shares).

mod crowded;
mod set;
mod shares;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::hash::BuildHasher;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::ops::RangeInclusive;

use hashbrown::HashMap;

use self::crowded::CrowdedPeers;
use self::set::next_clear;
use self::shares::{PortShares, SLOTS};
use super::kinds::SocketKind;
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::owner_id::OwnerId;
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
    /// The device that the socket is bound to.
    pub(crate) device: Option<InterfaceId>,
    pub(crate) reuse: Reuse,
    pub(crate) listening: bool,
    /// The port was chosen by `connect`: the slot in which connections to the peer are counted.
    pub(crate) by_connect: Option<u8>,
}

impl PortClaim {
    fn faces(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        receive_addresses(self.local, self.dual)
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
    /// The claims but for those of `part`.
    fn without(self, part: Self) -> Self {
        Self {
            all: self.all.saturating_sub(part.all),
            exclusive: self.exclusive.saturating_sub(part.exclusive),
            unshared: self.unshared.saturating_sub(part.unshared),
            listening: self.listening.saturating_sub(part.listening),
            by_connect: self.by_connect.saturating_sub(part.by_connect),
        }
    }

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
        if claim.by_connect.is_some() {
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
    /// At one of these places, the claims of sockets that are bound to this device, or to any.
    Device(ClaimPlace, Option<InterfaceId>),
}

/// A place where claims of sockets with a device are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ClaimPlace {
    Port(SocketAddr),
    Address(SocketAddr),
}

impl ClaimKey {
    fn port(of: SocketAddr) -> Self {
        Self::Port(any(of))
    }

    /// The same place, for claims of sockets bound to `device`, or to any device.
    fn with_device(self, device: Option<InterfaceId>) -> Self {
        let place = match self {
            Self::Port(at) => ClaimPlace::Port(at),
            Self::Address(at) => ClaimPlace::Address(at),
            Self::Device(place, _) => place,
        };
        Self::Device(place, device)
    }
}

/// The wildcard address with the same port.
fn any(of: SocketAddr) -> SocketAddr {
    SocketAddr::new(wildcard(of.ip()), of.port())
}

/// Where a claim is counted again because its socket is bound to a device.
fn device_keys(claim: &PortClaim, face: SocketAddr) -> impl Iterator<Item = ClaimKey> + use<> {
    let places = [ClaimKey::Address(face), ClaimKey::port(face)];
    let device = claim.device;
    device.into_iter().flat_map(move |_| {
        places.into_iter().flat_map(move |key| [key.with_device(None), key.with_device(device)])
    })
}

/// Largest distance from one port to the next while all are free.
const STEP: u32 = 8;

/// Ports about which one `connect` asks: so many in turn, then so many elsewhere.
const PROBES: u32 = 32;

/// Connections found on as many ports make a peer a crowded one.
const CROWDED: usize = 8;

/// The connections to a peer by one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PairState {
    /// None.
    Free,
    /// One in TIME-WAIT.
    Ending,
    /// One in TIME-WAIT that gives way if no other port is left: its owner is gone.
    Departed,
    /// One.
    Taken,
}

/// A search for a port to connect from: from where to where, and for whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortSearch {
    pub(crate) kind: SocketKind,
    /// This host's address; the port does not count.
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) owner: OwnerId,
    /// Not to be foreseen by others.
    pub(crate) random: u32,
}

/// How far the connections to each peer have come in the range of ports.
#[derive(Debug)]
struct PortOffsets {
    hash: KeyedHash,
    steps: Box<[u32; SLOTS]>,
}

impl PortOffsets {
    /// The start for a peer, and where its steps are counted.
    fn of(&self, local: IpAddr, remote: SocketAddr) -> (u32, u8) {
        let hash = self.hash.hash_one((local, remote));
        #[expect(clippy::cast_possible_truncation, reason = "two parts of the hash")]
        (hash as u32, (hash >> 32) as u8)
    }
}

/// All claims of one stack.
#[derive(Debug)]
pub(crate) struct Ports {
    holders: HashMap<(SocketKind, ClaimKey), PortHolders, KeyedHash>,
    range: RangeInclusive<u16>,
    offsets: PortOffsets,
    shares: PortShares,
    crowded: CrowdedPeers,
}

impl Ports {
    pub(crate) fn new(secret: &Secret, range: RangeInclusive<u16>) -> Self {
        let offsets = PortOffsets { hash: secret.ports(), steps: Box::new([0; SLOTS]) };
        let holders = HashMap::with_hasher(secret.tables());
        let shares = PortShares::new(length(&range));
        Self { holders, range, offsets, shares, crowded: CrowdedPeers::default() }
    }

    /// Number of ephemeral ports.
    pub(crate) fn ephemeral(&self) -> u32 {
        length(&self.range)
    }

    /// The number of an ephemeral port in its range.
    fn number(&self, port: u16) -> Option<u32> {
        self.range.contains(&port).then(|| u32::from(port - self.range.start()))
    }

    /// The port with a number in the range.
    fn port(&self, number: u32) -> Option<u16> {
        self.range.start().checked_add(u16::try_from(number).ok()?)
    }

    /// An owner is gone with all its claims.
    pub(crate) fn forget_owner(&mut self, owner: OwnerId) {
        self.shares.forget_owner(owner);
    }

    fn at(&self, kind: SocketKind, key: ClaimKey) -> PortHolders {
        self.holders.get(&(kind, key)).copied().unwrap_or_default()
    }

    /// Whether the claims at a place conflict with that of a socket bound to `device`. Those of
    /// sockets with other devices do not.
    fn has_conflict(
        &self,
        (kind, key): (SocketKind, ClaimKey),
        device: Option<InterfaceId>,
        reuse: Reuse,
    ) -> bool {
        let all = self.at(kind, key);
        if device.is_none() || all.all == 0 {
            return all.conflict(reuse);
        }
        let with_device = self.at(kind, key.with_device(None));
        all.without(with_device).conflict(reuse)
            || self.at(kind, key.with_device(device)).conflict(reuse)
    }

    /// Whether a socket may be bound to `local`, `dual` or not, and to `device`, beside the claims
    /// there are.
    pub(crate) fn may_bind(
        &self,
        kind: SocketKind,
        (local, dual): (SocketAddr, bool),
        device: Option<InterfaceId>,
        reuse: Reuse,
    ) -> bool {
        let conflict = |key| self.has_conflict((kind, key), device, reuse);
        receive_addresses(local, dual).all(|face| {
            if face.ip().is_unspecified() {
                return !conflict(ClaimKey::port(face));
            }
            !conflict(ClaimKey::Address(face)) && !conflict(ClaimKey::Address(any(face)))
        })
    }

    /// Whether an owner's share has the port of `local`, for a `bind` that names it.
    pub(crate) fn is_in_share(
        &self,
        kind: SocketKind,
        local: SocketAddr,
        dual: bool,
        owner: OwnerId,
    ) -> bool {
        self.number(local.port()).is_none_or(|number| {
            receive_addresses(local, dual)
                .all(|face| self.shares.may_bind(kind, face, number, owner))
        })
    }

    pub(crate) fn claim(&mut self, claim: &PortClaim, owner: OwnerId) {
        for face in claim.faces() {
            let at = self.holders.entry((claim.kind, ClaimKey::Address(face))).or_default();
            at.each(claim, |count| *count += 1);
            let port = self.holders.entry((claim.kind, ClaimKey::port(face))).or_default();
            port.each(claim, |count| *count += 1);
            let counts = (port.all, port.by_connect);
            self.claim_by_device(claim, face);
            if let Some(number) = self.number(face.port()) {
                self.shares.handle_claims(claim.kind, face, number, counts, owner);
                if let Some(slot) = claim.by_connect {
                    self.shares.handle_connect(claim.kind, number, slot, owner, true);
                }
            }
        }
    }

    /// Counts a claim again if its socket is bound to a device.
    fn claim_by_device(&mut self, claim: &PortClaim, face: SocketAddr) {
        for key in device_keys(claim, face) {
            let holders = self.holders.entry((claim.kind, key)).or_default();
            holders.each(claim, |count| *count += 1);
        }
    }

    /// Releases a [`claim`](Self::claim), given by the very same values.
    pub(crate) fn release(&mut self, claim: &PortClaim, owner: OwnerId) {
        for face in claim.faces() {
            self.release_at(claim, ClaimKey::Address(face));
            for key in device_keys(claim, face) {
                self.release_at(claim, key);
            }
            let counts = self.release_at(claim, ClaimKey::port(face));
            if let Some(number) = self.number(face.port()) {
                self.shares.handle_claims(claim.kind, face, number, counts, owner);
                if let Some(slot) = claim.by_connect {
                    self.shares.handle_connect(claim.kind, number, slot, owner, false);
                    self.crowded.forget(number);
                }
            }
        }
    }

    /// Gives the number of claims that are left, and of those that `connect` made.
    fn release_at(&mut self, claim: &PortClaim, key: ClaimKey) -> (u32, u32) {
        let key = (claim.kind, key);
        let Some(holders) = self.holders.get_mut(&key) else { return (0, 0) };
        holders.each(claim, |count| *count = count.saturating_sub(1));
        let counts = (holders.all, holders.by_connect);
        if holders.all == 0 {
            self.holders.remove(&key);
        }
        counts
    }

    /// The connection at this port is in TIME-WAIT: another one may replace it soon.
    #[inline]
    pub(crate) fn handle_time_wait(&mut self, port: u16) {
        if let Some(number) = self.number(port) {
            self.crowded.forget(number);
        }
    }

    /// A port for a `bind` to `local` that no socket holds; the search starts at `offset`.
    pub(crate) fn free(
        &self,
        kind: SocketKind,
        local: SocketAddr,
        dual: bool,
        owner: OwnerId,
        offset: u32,
    ) -> Result<u16, Error> {
        let mut faces = receive_addresses(local, dual);
        let faces = [faces.next(), faces.next()];
        let blocked = self.shares.blocked_for_bind(kind, faces, owner);
        let count = self.ephemeral();
        let number = next_clear(count, offset % count, blocked);
        number.and_then(|number| self.port(number)).ok_or(Error::AddrInUse)
    }

    /// A port for a `connect`, and the slot of the peer. Only other connecting sockets may hold the
    /// port, and `pair` must say that the connection is the only one. Connections take ports in
    /// sequence; the search for datagrams starts anywhere. Without such a port the connection takes
    /// the place of one in TIME-WAIT whose owner is gone.
    pub(crate) fn free_for_connect(
        &mut self,
        search: PortSearch,
        pair: impl Fn(u16) -> PairState,
    ) -> Result<(u16, u8), Error> {
        let PortSearch { kind, local, remote, random, .. } = search;
        let (start, slot) = self.offsets.of(local.ip(), remote);
        let offset = match kind {
            SocketKind::Stream => start.wrapping_add(self.offsets.steps[usize::from(slot)]),
            SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => random,
        };
        let (mut taken, departed) = (Vec::new(), Cell::new(None));
        let pair = |port| {
            let state = pair(port);
            if state == PairState::Departed {
                departed.set(departed.get().or(self.number(port)));
            }
            state
        };
        let found = self.probe(search, slot, offset, pair, &mut taken);
        // A port without any connection serves this one, too.
        let found = found.or_else(|| {
            let count = self.ephemeral();
            let blocked = self.shares.blocked_for_connect(kind, local, slot, search.owner, true);
            Some((0, next_clear(count, offset % count, blocked)?))
        });
        let found = found.or(departed.get().map(|number| (0, number)));
        if taken.len() >= CROWDED || self.crowded.has(&(kind, local.ip(), remote)) {
            taken.extend(found.map(|(_, number)| number));
            let count = self.ephemeral();
            self.crowded.mark((kind, local.ip(), remote), count, &taken);
        }
        let (passed, number) = found.ok_or(Error::AddrNotAvailable)?;
        if kind == SocketKind::Stream
            && let Some(steps) = self.offsets.steps.get_mut(usize::from(slot))
        {
            *steps = steps.wrapping_add(passed.max(random % STEP) + 1);
        }
        Ok((self.port(number).ok_or(Error::AddrNotAvailable)?, slot))
    }

    /// The first free port from `offset` in the range on, or elsewhere, out of those that a bounded
    /// number of questions can find. Gives its number, and that of the ports that were passed by in
    /// sequence. `taken` gets the numbers of ports with connections.
    fn probe(
        &self,
        search: PortSearch,
        slot: u8,
        offset: u32,
        pair: impl Fn(u16) -> PairState,
        taken: &mut Vec<u32>,
    ) -> Option<(u32, u32)> {
        let PortSearch { kind, local, remote, owner, random } = search;
        let count = self.ephemeral();
        let known = self.crowded.taken(&(kind, local.ip(), remote));
        let blocked = self.shares.blocked_for_connect(kind, local, slot, owner, false);
        let blocked = |at| blocked(at) | known.map_or(0, |known| known.word(at));
        let first = offset % count;
        let mut from = first;
        for probe in 0..2 * PROBES {
            if probe == PROBES {
                from = random.rotate_left(16) % count;
            }
            let number = next_clear(count, from, blocked)?;
            match pair(self.port(number)?) {
                PairState::Free if probe < PROBES => {
                    return Some(((number + count - first) % count, number));
                }
                PairState::Free => return Some((0, number)),
                PairState::Ending | PairState::Departed => {}
                PairState::Taken => taken.push(number),
            }
            from = (number + 1) % count;
        }
        None
    }
}

/// Number of ports in a range.
fn length(range: &RangeInclusive<u16>) -> u32 {
    u32::from(range.end().saturating_sub(*range.start())) + 1
}

#[cfg(test)]
mod tests;

//! The ephemeral ports in use, and each owner's share of them.
//!
//! Two sixteenths of the range are reserved. One is for `connect`, the other for `bind`. The rest
//! goes to the first that asks. A port of a reserve goes to an owner only while the owner has fewer
//! of that reserve than are left. So one owner gets half of a reserve, and several get equal parts.
//! Some ports are always left, so a newcomer finds one.
//!
//! `connect` reserves ports for each peer apart, since connections to different peers share a port.
//! Peers are counted by the slots of their offsets. A named `bind` may take a port of either
//! reserve, but at most half of the one for `connect`.
//!
//! All claims of a port count once, for the owner of the first.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::set::PortSet;
use crate::owner_id::OwnerId;
use crate::sockets::kinds::SocketKind;

/// Number of slots for peers; more peers share them by hash.
pub(super) const SLOTS: usize = 256;

/// One in so many ports is in a reserve.
const RESERVE: u32 = 16;
/// The ports of each reserve, in a word of 64.
const FOR_BIND: u64 = 0x8000_8000_8000_8000;
const FOR_CONNECT: u64 = 0x0080_0080_0080_0080;
/// A shorter range has no reserves.
const LEAST: u32 = 1024;

/// Number of socket kinds.
const KINDS: usize = 4;

fn kind_index(kind: SocketKind) -> usize {
    match kind {
        SocketKind::Stream => 0,
        SocketKind::Datagram => 1,
        SocketKind::UdpLite => 2,
        SocketKind::Echo => 3,
    }
}

/// The purpose of a reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reserve {
    Bind,
    Connect,
}

impl Reserve {
    /// The reserve of a port.
    fn of(number: u32) -> Option<Self> {
        match number % RESERVE {
            7 => Some(Self::Connect),
            15 => Some(Self::Bind),
            _ => None,
        }
    }
}

/// The ports of one kind of sockets and one family.
#[derive(Debug)]
struct PortSpace {
    /// Ports with a claim.
    held: PortSet,
    /// Ports with a claim that `connect` did not make.
    bound: PortSet,
    /// For each port of a reserve in `bound`: the owner that it counts for.
    takers: Vec<OwnerId>,
    /// Number of ports in `bound`, by reserve.
    totals: [u32; 2],
}

/// The ports of the reserves that one owner has.
#[derive(Debug)]
struct OwnerPorts {
    /// By kind, family and reserve.
    bound: [[[u32; 2]; 2]; KINDS],
    /// Of the reserve for `connect`, by kind and slot.
    connected: [[u32; SLOTS]; KINDS],
}

/// The ephemeral ports in use.
#[derive(Debug)]
pub(super) struct PortShares {
    count: u32,
    /// By kind and family.
    spaces: [[PortSpace; 2]; KINDS],
    /// Ports of the reserve for `connect` in use, by kind and slot.
    connected: Box<[[u32; SLOTS]; KINDS]>,
    owners: Vec<Option<Box<OwnerPorts>>>,
}

impl PortShares {
    pub(super) fn new(count: u32) -> Self {
        let reserved = if count < LEAST { 0 } else { count.div_ceil(RESERVE) as usize * 2 };
        let space = || PortSpace {
            held: PortSet::new(count),
            bound: PortSet::new(count),
            takers: (0..reserved).map(|_| OwnerId::default()).collect(),
            totals: [0; 2],
        };
        Self {
            count,
            spaces: [(); KINDS].map(|()| [space(), space()]),
            connected: Box::new([[0; SLOTS]; KINDS]),
            owners: Vec::new(),
        }
    }

    fn reserve(&self, number: u32) -> Option<Reserve> {
        Reserve::of(number).filter(|_| self.count >= LEAST)
    }

    fn space(&self, kind: SocketKind, face: SocketAddr) -> &PortSpace {
        &self.spaces[kind_index(kind)][usize::from(face.is_ipv6())]
    }

    /// Most ports of the reserve for `connect` that connections to the peers of one slot may have,
    /// and most that may be bound.
    fn half_reserve(&self) -> u32 {
        self.count / RESERVE / 2
    }

    fn owner(&mut self, owner: OwnerId) -> Option<&mut OwnerPorts> {
        let index = owner.index();
        if self.owners.len() <= index {
            self.owners.resize_with(index + 1, || None);
        }
        let none =
            || Box::new(OwnerPorts { bound: Default::default(), connected: [[0; SLOTS]; KINDS] });
        Some(self.owners.get_mut(index)?.get_or_insert_with(none))
    }

    /// An owner is gone with all its claims.
    pub(super) fn forget_owner(&mut self, owner: OwnerId) {
        if let Some(ports) = self.owners.get_mut(owner.index()) {
            *ports = None;
        }
    }

    /// The claims of a port at the addresses of one family have become `all`, `by_connect` of which
    /// `connect` made. The last change was `owner`'s.
    pub(super) fn handle_claims(
        &mut self,
        kind: SocketKind,
        face: SocketAddr,
        number: u32,
        (all, by_connect): (u32, u32),
        owner: OwnerId,
    ) {
        let (kind, family) = (kind_index(kind), usize::from(face.is_ipv6()));
        let (reserve, bound) = (self.reserve(number), all > by_connect);
        let space = &mut self.spaces[kind][family];
        space.held.set(number, all > 0);
        if !space.bound.set(number, bound) {
            return;
        }
        let Some(reserve) = reserve else { return };
        let taker = number / RESERVE * 2 + reserve as u32;
        let Some(taker) = space.takers.get_mut(taker as usize) else { return };
        if bound {
            *taker = owner;
        }
        let owner = *taker;
        let change = |count: &mut u32| {
            *count = if bound { *count + 1 } else { count.saturating_sub(1) };
        };
        change(&mut space.totals[reserve as usize]);
        if let Some(ports) = self.owner(owner) {
            change(&mut ports.bound[kind][family][reserve as usize]);
        }
    }

    /// A claim of `connect` to a peer of `slot` was made or released.
    pub(super) fn handle_connect(
        &mut self,
        kind: SocketKind,
        number: u32,
        slot: u8,
        owner: OwnerId,
        made: bool,
    ) {
        if self.reserve(number) != Some(Reserve::Connect) {
            return;
        }
        let (kind, slot) = (kind_index(kind), usize::from(slot));
        let change = |count: &mut u32| {
            *count = if made { *count + 1 } else { count.saturating_sub(1) };
        };
        change(&mut self.connected[kind][slot]);
        if let Some(ports) = self.owner(owner) {
            change(&mut ports.connected[kind][slot]);
        }
    }

    /// Whether an owner's share has one more port of a reserve for `bind` at `face`.
    fn may_bind_reserved(
        &self,
        kind: SocketKind,
        face: SocketAddr,
        owner: OwnerId,
        reserve: Reserve,
    ) -> bool {
        let limit = match reserve {
            Reserve::Bind => self.count / RESERVE,
            Reserve::Connect => self.half_reserve(),
        };
        let family = usize::from(face.is_ipv6());
        let own = self.owners.get(owner.index()).and_then(Option::as_ref);
        let own = own.map_or(0, |own| own.bound[kind_index(kind)][family][reserve as usize]);
        let total = self.space(kind, face).totals[reserve as usize];
        !owner.is_limited() || own < limit.saturating_sub(total)
    }

    /// Whether an owner's share has this port for a named `bind` at `face`.
    pub(super) fn may_bind(
        &self,
        kind: SocketKind,
        face: SocketAddr,
        number: u32,
        owner: OwnerId,
    ) -> bool {
        self.reserve(number).is_none_or(|reserve| {
            self.space(kind, face).bound.has(number)
                || self.may_bind_reserved(kind, face, owner, reserve)
        })
    }

    /// Ports, in words of 64, that an unnamed `bind` of an owner at `faces` may not choose.
    pub(super) fn blocked_for_bind(
        &self,
        kind: SocketKind,
        faces: [Option<SocketAddr>; 2],
        owner: OwnerId,
    ) -> impl Fn(usize) -> u64 {
        let mut faces = faces.into_iter().flatten();
        let may = faces.clone().all(|at| self.may_bind_reserved(kind, at, owner, Reserve::Bind));
        let reserved = match (self.count < LEAST, may) {
            (true, _) => 0,
            (false, true) => FOR_CONNECT,
            (false, false) => FOR_CONNECT | FOR_BIND,
        };
        let (one, other) = (faces.next(), faces.next());
        let space = move |face: Option<SocketAddr>| face.map(|face| &self.space(kind, face).held);
        let (one, other) = (space(one), space(other));
        let word = |set: Option<&PortSet>, at| set.map_or(0, |set| set.word(at));
        move |at| reserved | word(one, at) | word(other, at)
    }

    /// Ports, in words of 64, that a `connect` of an owner to a peer of `slot` may not choose. With
    /// `unheld`, also those that other connections have.
    pub(super) fn blocked_for_connect(
        &self,
        kind: SocketKind,
        face: SocketAddr,
        slot: u8,
        owner: OwnerId,
        unheld: bool,
    ) -> impl Fn(usize) -> u64 {
        let (index, at) = (kind_index(kind), usize::from(slot));
        let own = self.owners.get(owner.index()).and_then(Option::as_ref);
        let own = own.map_or(0, |own| own.connected[index][at]);
        let left = self.half_reserve().saturating_sub(self.connected[index][at]);
        let reserved = match (self.count < LEAST, !owner.is_limited() || own < left) {
            (true, _) => 0,
            (false, true) => FOR_BIND,
            (false, false) => FOR_CONNECT | FOR_BIND,
        };
        let space = self.space(kind, face);
        let used = if unheld { &space.held } else { &space.bound };
        move |at| reserved | used.word(at)
    }

    /// Does any owner have a port? For tests.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let none = |ports: &OwnerPorts| {
            ports.bound.as_flattened().as_flattened().iter().all(|count| *count == 0)
                && ports.connected.as_flattened().iter().all(|count| *count == 0)
        };
        self.owners.iter().flatten().all(|ports| none(ports))
            && self.connected.as_flattened().iter().all(|count| *count == 0)
            && self.spaces.as_flattened().iter().all(|space| space.totals == [0; 2])
    }
}

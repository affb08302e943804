//! The names of an interface, and of a neighbour on its link.

use core::net::IpAddr;

/// Names an interface of one stack, in the order of their adding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u16);

impl InterfaceId {
    /// The loopback interface, which every stack has.
    pub const LOOPBACK: Self = Self(u16::MAX);

    /// Its number in `sin6_scope_id` and as `if_nametoindex` gives it. As on Linux the loopback
    /// interface is 1; the others follow.
    pub fn scope_id(self) -> u32 {
        match self {
            Self::LOOPBACK => 1,
            Self(number) => u32::from(number) + 2,
        }
    }

    /// The interface of that number; `None` for 0, which means any.
    pub fn from_scope_id(scope: u32) -> Option<Self> {
        match scope {
            1 => Some(Self::LOOPBACK),
            _ => u16::try_from(scope.checked_sub(2)?).ok().map(Self),
        }
    }
}

/// A set of the first 16 interfaces, which are as many as a configuration may have. The loopback
/// interface is never in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterfaceSet(u16);

impl InterfaceSet {
    #[inline]
    fn bit(id: InterfaceId) -> u16 {
        1_u16.checked_shl(id.0.into()).unwrap_or(0)
    }

    /// The set of these bits: bit `n` is interface `n`.
    pub fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Its bits, as [`InterfaceSet::from_bits`] takes them.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Adds an interface.
    pub fn insert(&mut self, id: InterfaceId) {
        self.0 |= Self::bit(id);
    }

    /// Removes an interface.
    pub fn remove(&mut self, id: InterfaceId) {
        self.0 &= !Self::bit(id);
    }

    /// The interface with the lowest number.
    pub fn first(self) -> Option<InterfaceId> {
        u16::try_from(self.0.trailing_zeros()).ok().filter(|_| self.0 != 0).map(InterfaceId)
    }
}

/// Names a neighbour: an address on the link of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NeighbourKey {
    pub(crate) interface: InterfaceId,
    pub(crate) address: IpAddr,
}

//! The names of an interface, and of a neighbour on its link.

use core::net::IpAddr;

/// Names an interface of one stack, in the order of their adding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u16);

impl InterfaceId {
    /// The loopback interface, which every stack has.
    pub const LOOPBACK: Self = Self(u16::MAX);

    /// Its number in `sin6_scope_id` and as `if_nametoindex` gives it: 1 for the first.
    pub fn scope_id(self) -> u32 {
        u32::from(self.0) + 1
    }

    /// The interface of that number; `None` for 0, which means any.
    pub fn from_scope_id(scope: u32) -> Option<Self> {
        scope.checked_sub(1).and_then(|id| u16::try_from(id).ok()).map(Self)
    }
}

/// Names a neighbour: an address on the link of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NeighbourKey {
    pub(crate) interface: InterfaceId,
    pub(crate) address: IpAddr,
}

//! An address of an interface, with its state.

use crate::cidr::Cidr;
use crate::time::Instant;

/// Whether an address may be used (RFC 4862 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressState {
    /// In duplicate address detection, and not used yet.
    Tentative,
    /// Used.
    Preferred,
    /// Used on, but not for anything new if there is a better one.
    Deprecated,
    /// Another node on the link has it: not used.
    Duplicate,
}

/// Where an address comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressOrigin {
    /// The owner of the stack.
    Static,
    /// The interface itself (RFC 4862 5.3).
    LinkLocal,
    /// A router's prefix (RFC 4862 5.5).
    Slaac,
}

/// Tells a probe of this node from those of other nodes (RFC 7527 4).
pub(crate) type Nonce = [u8; 6];

/// How far duplicate address detection is for one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dad {
    /// Probes to be sent.
    pub(crate) left: u8,
    /// When the next step is due.
    pub(crate) at: Instant,
    /// Of the last probe.
    pub(crate) nonce: Option<Nonce>,
}

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address with its network.
    pub cidr: Cidr,
    /// Whether it may be used.
    pub state: AddressState,
    /// Where it comes from.
    pub origin: AddressOrigin,
    /// When it becomes deprecated; `None` for never.
    pub preferred_until: Option<Instant>,
    /// When the address is removed; `None` for never.
    pub valid_until: Option<Instant>,
    /// For a duplicate: the other node's hardware address, if its message carried it.
    pub owner: Option<[u8; 6]>,
    /// While it is tentative.
    pub(crate) dad: Option<Dad>,
    /// When the next unsolicited advertisement for it is due.
    pub(crate) advertise_at: Option<Instant>,
    /// How many identifiers were tried for it before (RFC 7217 5).
    pub(crate) attempt: u8,
}

impl Address {
    /// An address with an infinite lifetime.
    pub(crate) fn new(cidr: Cidr, origin: AddressOrigin) -> Self {
        Self {
            cidr,
            state: AddressState::Preferred,
            origin,
            preferred_until: None,
            valid_until: None,
            owner: None,
            dad: None,
            advertise_at: None,
            attempt: 0,
        }
    }

    /// Whether packets may be sent from it and received at it.
    pub(crate) fn is_usable(&self) -> bool {
        matches!(self.state, AddressState::Preferred | AddressState::Deprecated)
    }

    /// Whether another node has it.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.state == AddressState::Duplicate
    }

    /// Whether it is still to become deprecated.
    pub(crate) fn is_preferred(&self) -> bool {
        self.state == AddressState::Preferred
    }

    /// Makes an IPv6 address tentative, with the first of `probes` at `at`, if there are any.
    pub(crate) fn begin_dad(&mut self, at: Instant, probes: u8) {
        if probes > 0 && self.cidr.address.is_ipv6() {
            self.state = AddressState::Tentative;
            self.dad = Some(Dad { left: probes, at, nonce: None });
            (self.owner, self.advertise_at) = (None, None);
        }
    }
}

//! The link layer: Ethernet frames, interfaces and their addresses, neighbours, the loopback queue.
//!
//! [`LinkLayer`] owns the tables. It answers ARP and detects address conflicts. The modules above
//! send its Neighbour Solicitations, and give it the content of advertisements.

pub(crate) mod acd;
pub(crate) mod address;
pub(crate) mod arp;
mod conflicts;
pub(crate) mod ethernet;
pub(crate) mod interfaces;
mod layer;
mod loopback;
pub(crate) mod neighbour;

pub(crate) use conflicts::AddressConflict;
pub(crate) use layer::{
    Ipv6Target, LOOPBACK_MAC, LinkLayer, Resolution, ResolvedNeighbour, UnansweredNeighbour,
};
pub(crate) use loopback::MOST_FRAMES_AT_ONCE;

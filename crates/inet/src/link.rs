//! The link layer: Ethernet frames, interfaces and their addresses, neighbours, the loopback queue.
//!
//! [`LinkLayer`] owns the tables. ARP and address conflict detection are answered here; what Neighbour
//! Discovery learns and asks is told and fetched by the modules above.

pub(crate) mod acd;
pub(crate) mod address;
pub(crate) mod arp;
mod conflicts;
pub(crate) mod ethernet;
pub(crate) mod interfaces;
mod layer;
mod loopback;
pub(crate) mod neighbour;

pub(crate) use conflicts::AddressLost;
pub(crate) use layer::{
    Ipv6Target, LOOPBACK_MAC, LinkLayer, NeighbourSilent, Resolution, Resolved,
};
pub(crate) use loopback::MOST_FRAMES_AT_ONCE;

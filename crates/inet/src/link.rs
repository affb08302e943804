//! The link layer: Ethernet frames, and neighbours' hardware addresses.

pub(crate) mod acd;
pub(crate) mod arp;
pub(crate) mod ethernet;
pub(crate) mod neighbour;

//! The link layer: Ethernet frames, and neighbours' hardware addresses by ARP.

pub(crate) mod arp;
pub(crate) mod ethernet;

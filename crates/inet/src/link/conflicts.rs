//! The IPv4 addresses that are probed for, announced or defended (RFC 5227).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use super::acd::{Acd, AcdStep, AcdVerdict};
use super::arp::ArpPacket;
use super::ethernet::Mac;
use crate::config::AcdConfig;
use crate::interface_id::InterfaceId;
use crate::secret::Secret;
use crate::time::Instant;

/// An address under conflict detection.
#[derive(Debug)]
struct WatchedAddress {
    interface: InterfaceId,
    /// The address comes from DHCP.
    leased: bool,
    acd: Acd,
}

/// An ARP packet to be sent: a probe, or from `source` itself an announcement (2.1.1, 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArpProbe {
    pub(super) interface: InterfaceId,
    pub(super) source: Ipv4Addr,
    pub(super) target: Ipv4Addr,
}

/// The result of [`ConflictDetector::step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConflictStep {
    Send(ArpProbe),
    /// No other host has the address that was probed for on this interface. `leased`: DHCP asked.
    Free {
        interface: InterfaceId,
        leased: bool,
    },
}

/// Another host has an address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressConflict {
    pub(crate) interface: InterfaceId,
    /// The address was in use, not only probed for.
    pub(crate) was_used: bool,
}

/// All watched addresses of one stack.
#[derive(Debug, Default)]
pub(super) struct ConflictDetector {
    watched: Vec<WatchedAddress>,
}

impl ConflictDetector {
    pub(super) fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// When to call [`step`](Self::step) next.
    pub(super) fn poll_at(&self) -> Option<Instant> {
        self.watched.iter().filter_map(|one| one.acd.poll_at()).min()
    }

    /// Announces and defends a static address; false if that is done already.
    pub(super) fn announce(&mut self, now: Instant, interface: InterfaceId, ip: Ipv4Addr) -> bool {
        let mut all = self.watched.iter();
        if all.any(|one| one.interface == interface && one.acd.address() == ip) {
            return false;
        }
        self.watched.push(WatchedAddress { interface, leased: false, acd: Acd::announce(now, ip) });
        true
    }

    /// Probes for an address that DHCP offers.
    pub(super) fn probe(&mut self, interface: InterfaceId, acd: Acd) {
        self.watched.push(WatchedAddress { interface, leased: true, acd });
    }

    /// Announces the addresses of an interface once more.
    pub(super) fn announce_again(&mut self, now: Instant, interface: InterfaceId) {
        for one in self.watched.iter_mut().filter(|one| one.interface == interface) {
            one.acd.announce_again(now);
        }
    }

    /// An address was removed.
    pub(super) fn forget(&mut self, interface: InterfaceId, address: IpAddr) {
        self.watched
            .retain(|one| one.interface != interface || IpAddr::V4(one.acd.address()) != address);
    }

    /// The lease of an interface is over.
    pub(super) fn forget_leased(&mut self, interface: InterfaceId) {
        self.watched.retain(|one| one.interface != interface || !one.leased);
    }

    /// The next action due at `now`.
    pub(super) fn step(
        &mut self,
        now: Instant,
        config: &AcdConfig,
        random: &mut Secret,
    ) -> Option<ConflictStep> {
        for one in &mut self.watched {
            let (interface, target) = (one.interface, one.acd.address());
            let Some(step) = one.acd.step(now, config, random) else { continue };
            let send = |source| ConflictStep::Send(ArpProbe { interface, source, target });
            return Some(match step {
                AcdStep::Probe => send(Ipv4Addr::UNSPECIFIED),
                AcdStep::Announce => send(target),
                AcdStep::Free => ConflictStep::Free { interface, leased: one.leased },
            });
        }
        None
    }

    /// Handles an ARP packet received on an interface with the hardware address `ours`. Calls
    /// `announce` for each address to be announced. Gives the address that is lost.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        packet: &ArpPacket,
        ours: Mac,
        mut announce: impl FnMut(ArpProbe),
    ) -> Option<AddressConflict> {
        let mut lost = None;
        for one in self.watched.iter_mut().filter(|one| one.interface == interface) {
            let (address, was_used) = (one.acd.address(), one.acd.is_usable());
            match one.acd.handle(now, packet, ours) {
                AcdVerdict::Defend { announce: true } => {
                    announce(ArpProbe { interface, source: address, target: address });
                }
                AcdVerdict::Lost => lost = Some(AddressConflict { interface, was_used }),
                _ => {}
            }
        }
        lost
    }
}

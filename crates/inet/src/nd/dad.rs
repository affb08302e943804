//! Duplicate address detection (RFC 4862 5.4), enhanced against looped-back probes (RFC 7527), and
//! the interface identifiers of addresses.
//!
//! An identifier is made from the hardware address (RFC 4291 appendix A). If the configuration has
//! a secret, it is made as RFC 7217 says: stable on one network, without disclosing the hardware
//! address or linking one network to another. A duplicate of such an identifier leads to another
//! identifier, up to three times. A duplicate of the other kind means that the hardware address is
//! not unique. That ends autoconfiguration on the interface (RFC 4862 5.4.5).
//!
//! A duplicate of a configured or link-local address remains, unused, so that it can be seen. It is
//! probed again after the link was down. A duplicate made from a router's prefix is removed, as on
//! Linux.
//!
//! A node on the link that answers all probes can deny this host every address (RFC 3756 4.1.4).
//! The counter `nd.duplicates` shows it.

use core::hash::Hasher;
use core::net::{IpAddr, Ipv6Addr};

use siphasher::sip::SipHasher24;

use super::slaac::Lifetimes;
use super::state::NdLayer;
use crate::bytes::{Egress, TxBytes};
use crate::cidr::Cidr;
use crate::context::Context;
use crate::interface_id::InterfaceId;
use crate::ip::ndp::{self, OutgoingNdp};
use crate::ip::v6;
use crate::link::address::{Address, AddressOrigin, AddressState, Dad, Nonce};
use crate::link::ethernet::Mac;
use crate::time::Instant;

/// RFC 7217 6: identifiers tried for one prefix.
const IDGEN_RETRIES: u8 = 3;
/// fe80::/64, of which link-local addresses are (RFC 4291 2.5.6).
const LINK_LOCAL: Cidr =
    Cidr { address: IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), prefix: 64 };

impl NdLayer {
    /// Gives the interface its link-local address, probed from `at` on.
    pub(super) fn add_link_local(
        &mut self,
        cx: &mut Context,
        at: Instant,
        id: InterfaceId,
        attempt: u8,
    ) {
        let Some(cidr) = self.autoconfigured(cx, id, LINK_LOCAL, attempt) else { return };
        let mut address = Address { attempt, ..Address::new(cidr, AddressOrigin::LinkLocal) };
        address.begin_dad(at, self.dad_transmits(id));
        let is_ready = address.is_usable();
        if self.assign(cx, id, address, true).is_ok() && is_ready {
            self.begin_soliciting(cx, at, id);
        }
    }

    /// This interface's address in `prefix`, which has 64 bits.
    pub(super) fn autoconfigured(
        &self,
        cx: &Context,
        id: InterfaceId,
        prefix: Cidr,
        attempt: u8,
    ) -> Option<Cidr> {
        let IpAddr::V6(network) = prefix.network().address else { return None };
        let mac = cx.link.interface(id)?.mac().0;
        let identifier = match &self.config.stable_secret {
            None => eui64(mac),
            Some(secret) => stable(secret, network, mac, attempt),
        };
        Some(Cidr::new(Ipv6Addr::from_bits(network.to_bits() | u128::from(identifier)), 64))
    }

    /// Sends due probes. An address whose probes met no answer becomes usable.
    pub(super) fn send_due_probes<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        id: InterfaceId,
        out: &mut dyn Egress<T>,
    ) {
        let Some(interface) = cx.link.interface(id) else { return };
        let retrans = interface.parameters().times.retrans;
        let advertise_at = self.config.ndisc_notify.then_some(now);
        for index in 0..interface.addresses().len() {
            let interface = cx.link.interface(id);
            let address = interface.and_then(|interface| interface.addresses().get(index));
            let Some(address) = address.copied() else { return };
            let Some(dad) = address.dad.filter(|dad| dad.at <= now) else { continue };
            let IpAddr::V6(target) = address.cidr.address else { continue };
            let (next, state) = if dad.left == 0 {
                let deprecated = address.preferred_until.is_some_and(|until| until <= now);
                let state =
                    if deprecated { AddressState::Deprecated } else { AddressState::Preferred };
                (None, state)
            } else {
                let [a, b, c, d, e, f, ..] = self.random().to_be_bytes();
                let nonce = Some([a, b, c, d, e, f]);
                let group = v6::solicited_node(target);
                let message = OutgoingNdp::Solicit { target, mac: None, nonce };
                let source = Ipv6Addr::UNSPECIFIED;
                ndp::send_to_group(&mut cx.link, id, source, group, &message, out);
                let next = Dad { left: dad.left - 1, at: now + retrans, nonce };
                (Some(next), AddressState::Tentative)
            };
            let addresses = cx.link.interface_mut(id).map(|interface| interface.addresses_mut());
            if let Some(address) = addresses.and_then(|all| all.get_mut(index)) {
                (address.dad, address.state) = (next, state);
                address.advertise_at = advertise_at.filter(|_| next.is_none());
            }
            if next.is_none() && address.origin == AddressOrigin::LinkLocal {
                if let Some(interface) = self.interface_mut(id) {
                    // A former duplicate that is none any more.
                    interface.is_started = true;
                }
                self.begin_soliciting(cx, now, id);
            }
        }
    }

    /// Another node wants to have `target` (RFC 4862 5.4.3).
    pub(super) fn handle_probe<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (id, target): (InterfaceId, Ipv6Addr),
        nonce: Option<Nonce>,
        out: &mut dyn Egress<T>,
    ) {
        let Some(interface) = cx.link.interface(id) else { return };
        let Some(ours) = interface.address(target.into()) else { return };
        let mac = interface.mac();
        match ours.dad {
            // RFC 7527 4.2: it is our own, come back.
            Some(dad) if dad.nonce.is_some() && dad.nonce == nonce => {
                self.counters.nd_looped += 1;
            }
            Some(_) => self.handle_duplicate(cx, now, (id, target), None),
            None if ours.is_duplicate() => {}
            // RFC 4861 7.2.4: the answer goes to all nodes.
            None => {
                let message =
                    OutgoingNdp::Advert { target, solicited: false, overrides: true, mac };
                ndp::send_to_group(&mut cx.link, id, target, v6::ALL_NODES, &message, out);
            }
        }
    }

    /// Another node has a tentative address of this host (RFC 4862 5.4.5). `owner` is that node's
    /// hardware address, if its message carried it.
    pub(super) fn handle_duplicate(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (id, ip): (InterfaceId, Ipv6Addr),
        owner: Option<Mac>,
    ) {
        self.counters.nd_duplicates += 1;
        let Some(interface) = cx.link.interface(id) else { return };
        let Some(lost) = interface.address(ip.into()).copied() else { return };
        let again = self.config.stable_secret.is_some() && lost.attempt < IDGEN_RETRIES;
        match lost.origin {
            AddressOrigin::LinkLocal if again => {
                self.withdraw(cx, id, ip.into());
                self.add_link_local(cx, now, id, lost.attempt + 1);
            }
            AddressOrigin::Slaac => {
                self.withdraw(cx, id, ip.into());
                let lifetimes = Lifetimes {
                    preferred_until: lost.preferred_until,
                    valid_until: lost.valid_until,
                };
                if again {
                    self.add_slaac(cx, now, (id, lost.cidr), lifetimes, lost.attempt + 1);
                }
            }
            AddressOrigin::LinkLocal | AddressOrigin::Static => {
                self.mark_duplicate(cx, id, ip, owner);
            }
        }
        self.reschedule(cx, id);
    }

    /// Retains an address that belongs to another node, marked as a duplicate.
    fn mark_duplicate(
        &mut self,
        cx: &mut Context,
        id: InterfaceId,
        ip: Ipv6Addr,
        owner: Option<Mac>,
    ) {
        let Some(interface) = cx.link.interface_mut(id) else { return };
        let mut all = interface.addresses_mut().iter_mut();
        let Some(ours) = all.find(|ours| ours.cidr.address == ip) else { return };
        (ours.state, ours.dad) = (AddressState::Duplicate, None);
        ours.owner = owner.map(|mac| mac.0);
        if ours.origin == AddressOrigin::LinkLocal
            && let Some(link) = self.interface_mut(id)
        {
            link.is_started = false;
            link.solicitation = None;
        }
    }
}

/// RFC 4291 appendix A, RFC 2464 4.
fn eui64([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// RFC 7217 5, with the hardware address as Net_Iface, without a Network_ID, and SipHash for F.
/// Identifiers that are reserved (RFC 5453) are passed over.
fn stable(secret: &[u8; 16], network: Ipv6Addr, mac: [u8; 6], attempt: u8) -> u64 {
    let identifier = |round: u8| {
        let mut hash = SipHasher24::new_with_key(secret);
        hash.write(&network.octets());
        hash.write(&mac);
        hash.write(&[attempt, round]);
        hash.finish()
    };
    let mut candidates = (0..u8::MAX).map(identifier);
    candidates.find(|identifier| !is_reserved(*identifier)).unwrap_or(1)
}

/// RFC 5453 and RFC 2526: of subnets' routers, of Ethernet's proxies, and of anycast.
fn is_reserved(identifier: u64) -> bool {
    identifier == 0
        || (0x0200_5eff_fe00_0000..=0x0200_5eff_feff_ffff).contains(&identifier)
        || (0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff).contains(&identifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers() {
        // The example of RFC 4291, appendix A, and of RFC 2464 4.
        assert_eq!(eui64([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]), 0x3656_78ff_fe9a_bcde);
        let mac = [2, 0, 0, 0, 0, 1];
        let (one, two) = ("2001:db8:1::".parse().unwrap(), "2001:db8:2::".parse().unwrap());
        let of = |network, attempt| stable(&[7; 16], network, mac, attempt);
        assert_eq!(of(one, 0), of(one, 0), "stable");
        assert_ne!(of(one, 0), of(two, 0));
        assert_ne!(of(one, 0), of(one, 1));
        assert_ne!(of(one, 0), stable(&[8; 16], one, mac, 0));
        assert!(is_reserved(0) && is_reserved(0xfdff_ffff_ffff_ffff) && !is_reserved(1));
    }
}

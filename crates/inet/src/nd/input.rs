//! Messages of neighbours, and advertisements of this host's addresses.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use super::state::NdLayer;
use crate::bytes::{Egress, TxBytes};
use crate::context::Context;
use crate::interface_id::{InterfaceId, NeighbourKey};
use crate::ip::ndp::{self, NdpMessage, OutgoingNdp};
use crate::ip::{self, Packet, v6};
use crate::link::ResolvedNeighbour;
use crate::link::ethernet::Mac;
use crate::link::interfaces::Interface;
use crate::link::neighbour::Advert;
use crate::time::Instant;

impl NdLayer {
    /// Handles a message that passed its checks. Gives the neighbour whose hardware address it
    /// tells.
    pub(crate) fn handle<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        packet: &Packet,
        message: Option<NdpMessage<'_>>,
        out: &mut dyn Egress<T>,
    ) -> Option<ResolvedNeighbour> {
        let Some(message) = message else {
            self.counters.nd_malformed += 1;
            return None;
        };
        let IpAddr::V6(source) = packet.source else { return None };
        match message {
            NdpMessage::Solicit { target, nonce, .. } if source.is_unspecified() => {
                self.handle_probe(cx, now, (packet.interface, target), nonce, out);
                None
            }
            NdpMessage::Solicit { target, source_mac, .. } => {
                self.handle_solicit(cx, now, packet, target, source_mac, out)
            }
            NdpMessage::Advert { target, router, solicited, overrides, mac } => {
                let advert = Advert { mac, solicited, overrides };
                self.handle_advert(cx, now, (packet.interface, target), router, &advert, out)
            }
            NdpMessage::Router(advert) => {
                self.handle_router(cx, now, (packet.interface, source), &advert, out)
            }
            NdpMessage::IgnoreReason => {
                self.counters.nd_ignored += 1;
                None
            }
        }
    }

    /// A neighbour solicits an address of this host (RFC 4861 7.2.3, 7.2.4).
    fn handle_solicit<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        packet: &Packet,
        target: Ipv6Addr,
        source_mac: Option<Mac>,
        out: &mut dyn Egress<T>,
    ) -> Option<ResolvedNeighbour> {
        let id = packet.interface;
        let interface = cx.link.interface(id)?;
        // RFC 4862 5.4.3: a tentative address does not answer.
        if !interface.has(target.into()) {
            return None;
        }
        let mac = interface.mac();
        let answer = OutgoingNdp::Advert { target, solicited: true, overrides: true, mac };
        let IpAddr::V6(source) = packet.source else { return None };
        let Some(source_mac) = source_mac else {
            // Its hardware address may have to be asked for first.
            let mut bytes = [0; ndp::LONGEST];
            let len = ndp::seal(target, source, &answer, &mut bytes);
            let header = ndp::header(target, source, len);
            let to = ip::scoped(source.into(), 0, id);
            let fill = |payload: &mut [u8]| payload.copy_from_slice(&bytes[..len]);
            cx.answer(now, &to, &header, fill, out);
            return None;
        };
        let key = NeighbourKey { interface: id, address: packet.source };
        ndp::send(&mut cx.link, id, (target, source, source_mac), &answer, out);
        cx.link.observe(now, key, (source_mac, true), &mut cx.timers, out)
    }

    /// A neighbour advertises itself (RFC 4861 7.2.5).
    fn handle_advert<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (id, target): (InterfaceId, Ipv6Addr),
        router: bool,
        advert: &Advert,
        out: &mut dyn Egress<T>,
    ) -> Option<ResolvedNeighbour> {
        let interface = cx.link.interface(id)?;
        // A duplicate belongs to another node, which may be a neighbour to send to.
        if let Some(ours) = interface.address(target.into()).filter(|ours| !ours.is_duplicate()) {
            if ours.dad.is_some() {
                self.handle_duplicate(cx, now, (id, target), advert.mac);
            } else {
                self.counters.nd_conflicts += 1;
            }
            return None;
        }
        if !router {
            self.remove_router(cx, id, target);
        } else if advert.solicited {
            self.set_router_answers(cx, id, target, true);
        }
        let key = NeighbourKey { interface: id, address: target.into() };
        cx.link.handle_advert(now, key, advert, &mut cx.timers, out)
    }

    /// Advertises the usable IPv6 addresses of an interface again. If addresses are probed, all are
    /// probed anew, former duplicates too: other nodes may be on the link now (RFC 4862 5.3).
    pub(crate) fn announce(&mut self, cx: &mut Context, now: Instant, id: InterfaceId) {
        let (wanted, transmits) = (self.config.ndisc_notify, self.dad_transmits(id));
        let Some(interface) = cx.link.interface_mut(id) else { return };
        let all = interface.addresses_mut().iter_mut();
        for ours in all.filter(|ours| ours.cidr.address.is_ipv6()) {
            if transmits > 0 {
                ours.begin_dad(now, transmits);
            } else if wanted && ours.is_usable() {
                // With the next poll.
                ours.advertise_at = Some(Instant::ZERO);
            }
        }
        self.reschedule(cx, id);
    }

    /// Advertises addresses that have just become usable (RFC 4861 7.2.6). It corrects neighbours
    /// that have another hardware address for them.
    pub(super) fn send_due_adverts<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        id: InterfaceId,
        out: &mut dyn Egress<T>,
    ) {
        let Some(interface) = cx.link.interface_mut(id) else { return };
        let mac = Interface::mac(interface);
        let mut due = Vec::new();
        for ours in interface.addresses_mut() {
            if ours.advertise_at.take_if(|at| *at <= now).is_some()
                && let IpAddr::V6(target) = ours.cidr.address
            {
                due.push(target);
            }
        }
        for target in due {
            let message = OutgoingNdp::Advert { target, solicited: false, overrides: true, mac };
            ndp::send_to_group(&mut cx.link, id, target, v6::ALL_NODES, &message, out);
        }
    }
}

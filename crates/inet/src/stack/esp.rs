//! Security associations and policies; packets of ESP that come in.

use alloc::vec;
use core::net::IpAddr;

use smoltcp::wire::IpProtocol;

use super::state::Stack;
use crate::bytes::{Egress, Frame, ProcessingStage, RxBytes, TxBytes};
use crate::error::Error;
use crate::esp::{Admission, EspFlow, PROTOCOL, SecuredBy};
use crate::held::HoldPurpose;
use crate::icmp::{IcmpReport, ReportedError};
use crate::ip::{Arrival, Origin, Packet};
use crate::time::Instant;
use crate::{EspNotice, EspSelector, SaConfig, SaId, SaInfo, SpConfig, SpDirection};

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Adds a security association.
    ///
    /// # Errors
    /// `Invalid` for a number below 256, for addresses of two families, and for a bad replay
    /// window, selector or cipher. `AddrInUse` if there is one of that name, `NoBuffers` if there
    /// are too many.
    pub fn add_association(&mut self, now: Instant, config: SaConfig) -> Result<(), Error> {
        self.cx.esp.add_association(now, config, &mut self.cx.timers)
    }

    /// Removes a security association, with its key.
    ///
    /// # Errors
    /// `BadHandle` if there is none of that name.
    pub fn remove_association(&mut self, id: &SaId) -> Result<(), Error> {
        match self.cx.esp.remove_association(id, &mut self.cx.timers) {
            true => Ok(()),
            false => Err(Error::BadHandle),
        }
    }

    /// All security associations, in no order.
    pub fn associations(&self) -> impl Iterator<Item = SaInfo> {
        self.cx.esp.associations()
    }

    /// Adds a security policy. It holds for packets from now on; connections notice that their
    /// packets must be shorter when they send next.
    ///
    /// # Errors
    /// `Invalid` for a selector that can match nothing, and for a tunnel without its ends.
    /// `AddrInUse` if there is a policy for the same flows and direction, `NoBuffers` if there are
    /// too many.
    pub fn add_policy(&mut self, config: SpConfig) -> Result<(), Error> {
        self.cx.esp.add_policy(config)
    }

    /// Removes a security policy.
    ///
    /// # Errors
    /// `BadHandle` if there is none for these flows.
    pub fn remove_policy(
        &mut self,
        direction: SpDirection,
        selector: &EspSelector,
    ) -> Result<(), Error> {
        match self.cx.esp.remove_policy(direction, selector) {
            true => Ok(()),
            false => Err(Error::BadHandle),
        }
    }

    /// Removes all security policies.
    pub fn clear_policies(&mut self) {
        self.cx.esp.clear_policies();
    }

    /// The security policies, in the order of preference.
    pub fn policies(&self) -> impl Iterator<Item = &SpConfig> {
        self.cx.esp.policies()
    }

    /// The next thing that the owner should know about its security associations.
    pub fn poll_esp_notice(&mut self) -> Option<EspNotice> {
        self.cx.esp.poll_notice()
    }

    /// Handles a packet of ESP to this host: what is in it is a packet that has just come.
    #[cold]
    pub(super) fn handle_esp(
        &mut self,
        now: Instant,
        origin: Origin,
        (packet, arrival): (&Packet, Arrival),
        frame: Frame<R>,
        out: &mut dyn Egress<T>,
    ) {
        if !self.cx.esp.is_active() {
            return self.with_copy(frame, |stack, copy, _| {
                stack.handle_unknown(now, (packet, arrival), copy, out);
            });
        }
        if self.cx.esp.opening().is_some() || arrival != Arrival::ToUs {
            return self.cx.esp.count_nested();
        }
        let mut numbers = [0; 8];
        if packet.payload.len() >= numbers.len() {
            frame.read(packet.payload.start, &mut numbers);
        }
        let esp = numbers.get(..packet.payload.len().min(numbers.len())).unwrap_or_default();
        let Some(found) = self.cx.esp.find_association(now, packet.destination, esp) else {
            return;
        };
        let mut bytes = vec![0; packet.payload.end - packet.extent.start];
        frame.read(packet.extent.start, &mut bytes);
        drop(frame);
        self.cx.link.stage(ProcessingStage::EspOpen, out);
        let opened = self.cx.esp.open(now, found, packet, bytes, &mut self.cx.timers);
        let Some(opened) = opened else { return };
        let frame = Frame::Joined(opened.bytes);
        if !self.cx.held.has_room(&frame, HoldPurpose::InOrder) {
            return self.cx.esp.count_no_room();
        }
        self.cx.esp.begin_opened(opened.by);
        match opened.is_v4 {
            true => self.handle_own_ipv4(now, origin, (frame, 0), out),
            false => self.handle_own_ipv6(now, origin, (frame, 0), out),
        }
        self.cx.esp.end_opened();
    }

    /// Whether policies let a whole received packet through; `head` has the first bytes of its
    /// frame. Counts it if not.
    #[cold]
    #[inline(never)]
    pub(super) fn admits(&mut self, origin: Origin, packet: &Packet, head: &[u8]) -> bool {
        if origin.looped || packet.protocol == PROTOCOL || is_exempt(packet, head) {
            return true;
        }
        let flow = EspFlow::of_packet(packet, head);
        let by = self.cx.esp.opening().map(SecuredBy);
        // RFC 4301 8.2: routers report the length of packets of ESP without protection.
        let may_report = by.is_none() && quotes_esp(packet, head);
        may_report || self.cx.esp.admit(&flow, by) == Admission::Pass
    }

    /// Handles an ICMP error about a packet of ESP: only the path's MTU is learnt of it.
    pub(super) fn report_esp(&mut self, now: Instant, report: &IcmpReport, quoted: &[u8]) -> bool {
        let ReportedError::TooBig(mtu) = report.error else { return false };
        let Some(&[a, b, c, d, e, f, g, h]) = quoted.first_chunk() else { return false };
        let spi = u32::from_be_bytes([a, b, c, d]);
        let low = u32::from_be_bytes([e, f, g, h]);
        let ends = &report.quote.ends;
        let id = SaId { spi, destination: ends.remote.ip() };
        if !self.cx.esp.has_sent(ends.local.ip(), &id, low) {
            return false;
        }
        self.cx.ip.learn_path_mtu(now, id.destination, mtu);
        true
    }
}

/// Whether a packet belongs to the link rather than to a flow: Neighbour Discovery, IGMP, MLD.
fn is_exempt(packet: &Packet, head: &[u8]) -> bool {
    match packet.protocol {
        IpProtocol::Igmp => true,
        IpProtocol::Icmpv6 => {
            let kind = packet.payload_in(head).first();
            let is_ndp = packet.ttl == 255 && matches!(kind, Some(133..=137));
            is_ndp || matches!(kind, Some(130..=132 | 143))
        }
        _ => false,
    }
}

/// Whether a packet is an ICMP error that says that a packet of ESP was too long.
fn quotes_esp(packet: &Packet, head: &[u8]) -> bool {
    const ICMP_HEADER: usize = 8;
    let message = packet.payload_in(head);
    let kind = message.get(..2);
    let (right, protocol_at) = match (packet.source, packet.protocol) {
        (IpAddr::V4(_), IpProtocol::Icmp) => (kind == Some(&[3, 4]), 9),
        (IpAddr::V6(_), IpProtocol::Icmpv6) => (kind == Some(&[2, 0]), 6),
        _ => return false,
    };
    right && message.get(ICMP_HEADER + protocol_at) == Some(&u8::from(PROTOCOL))
}

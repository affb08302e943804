//! Frames in: from the link layer to the protocol that they are for.

use core::net::IpAddr;

use smoltcp::wire::{Icmpv6Message, IpProtocol};

use super::state::Stack;
use crate::bytes::{Egress, Frame, HEAD, ProcessingStage, RxBytes, TxBytes};
use crate::esp::PROTOCOL;
use crate::icmp::echo::EchoNumbers;
use crate::icmp::{IcmpError, IcmpReport, Icmpv4Input, Icmpv6Input};
use crate::interface_id::InterfaceId;
use crate::ip::v6::Content;
use crate::ip::{Arrival, Origin, Packet, ndp, v4, v6};
use crate::link::ethernet::{self, EtherPayload};
use crate::sockets::kinds::SocketKind;
use crate::time::Instant;
use crate::udp::lite;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Handles a frame received on `interface`. A malformed frame is dropped and counted, and has
    /// no other effect. Answers that need no socket leave at once if there is room.
    pub fn handle_frame(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        frame: R,
        out: &mut dyn Egress<T>,
    ) {
        self.cx.link.stage(ProcessingStage::EthernetInput, out);
        self.cx.clock = now;
        let (first, len) = (frame.head(), frame.frame_len());
        let head = first.get(..len.min(HEAD)).unwrap_or_default();
        let Some(received) = self.cx.link.handle_frame(interface, head, len) else { return };
        let origin = Origin { interface, to_group: received.to_group, looped: false };
        match received.carries {
            EtherPayload::Arp => {
                self.handle_arp(now, interface, head.get(ethernet::HEADER..), out);
            }
            EtherPayload::Ipv4 => {
                self.handle_ipv4(now, origin, head, (Frame::One(frame), ethernet::HEADER), out);
            }
            EtherPayload::Ipv6 => {
                self.handle_ipv6(now, origin, head, (Frame::One(frame), ethernet::HEADER), out);
            }
            EtherPayload::Priority => self.handle_tagged(now, origin, head, frame, out),
        }
    }

    /// Handles a frame with a priority tag, as one without.
    #[cold]
    fn handle_tagged(
        &mut self,
        now: Instant,
        origin: Origin,
        head: &[u8],
        frame: R,
        out: &mut dyn Egress<T>,
    ) {
        let at = ethernet::HEADER + ethernet::TAG;
        match ethernet::behind_tag(head) {
            Some(EtherPayload::Arp) => {
                self.handle_arp(now, origin.interface, head.get(at..), out);
            }
            Some(EtherPayload::Ipv4) => {
                self.handle_ipv4(now, origin, head, (Frame::One(frame), at), out);
            }
            Some(EtherPayload::Ipv6) => {
                self.handle_ipv6(now, origin, head, (Frame::One(frame), at), out);
            }
            Some(EtherPayload::Priority) | None => {}
        }
    }

    /// Does something with a frame of which it needs a whole private copy.
    #[cold]
    pub(super) fn with_copy<F: RxBytes>(
        &mut self,
        frame: F,
        step: impl FnOnce(&mut Self, &[u8], F),
    ) {
        let mut copy = core::mem::take(&mut self.copy);
        copy.resize(frame.frame_len(), 0);
        frame.read(0, &mut copy);
        step(self, &copy, frame);
        self.copy = copy;
    }

    /// Handles an ARP packet; `None` for none at all.
    fn handle_arp(
        &mut self,
        now: Instant,
        id: InterfaceId,
        packet: Option<&[u8]>,
        out: &mut dyn Egress<T>,
    ) {
        let packet = packet.unwrap_or_default();
        if let Some(lost) = self.cx.link.check_conflicts(now, id, packet, out) {
            self.handle_lost_address(now, lost, out);
        }
        let timers = &mut self.cx.timers;
        if let Some(resolved) = self.cx.link.handle_arp(now, id, packet, timers, out) {
            self.sockets.handle_resolved(&mut self.cx, resolved, out);
        }
    }

    /// Handles at most `most` frames of the loopback queue, and gives their number.
    pub(super) fn handle_loopback(
        &mut self,
        now: Instant,
        most: usize,
        out: &mut dyn Egress<T>,
    ) -> usize {
        let waiting = self.cx.link.loopback_len().min(most);
        for _ in 0..waiting {
            let Some((interface, frame, carries)) = self.cx.link.poll_loopback() else { break };
            let frame = Frame::Looped(frame);
            let at = ethernet::HEADER;
            let origin =
                Origin { interface, to_group: interface != InterfaceId::LOOPBACK, looped: true };
            // The source is our own hardware address; the destination is the loopback
            // interface's, or a group.
            match carries {
                EtherPayload::Ipv4 => self.handle_own_ipv4(now, origin, (frame, at), out),
                EtherPayload::Ipv6 => self.handle_own_ipv6(now, origin, (frame, at), out),
                EtherPayload::Arp | EtherPayload::Priority => {}
            }
        }
        waiting
    }

    /// Handles the IPv4 packet that starts at `at` in a frame of the core's own.
    pub(super) fn handle_own_ipv4(
        &mut self,
        now: Instant,
        origin: Origin,
        (frame, at): (Frame<R>, usize),
        out: &mut dyn Egress<T>,
    ) {
        let first = frame.head();
        let head = first.get(..frame.frame_len().min(HEAD)).unwrap_or_default();
        self.handle_ipv4(now, origin, head, (frame, at), out);
    }

    /// As [`handle_own_ipv4`](Self::handle_own_ipv4), for IPv6.
    pub(super) fn handle_own_ipv6(
        &mut self,
        now: Instant,
        origin: Origin,
        (frame, at): (Frame<R>, usize),
        out: &mut dyn Egress<T>,
    ) {
        let first = frame.head();
        let head = first.get(..frame.frame_len().min(HEAD)).unwrap_or_default();
        self.handle_ipv6(now, origin, head, (frame, at), out);
    }

    /// Handles the IPv4 packet that starts at `at` in `frame`, the first bytes of which are `head`.
    fn handle_ipv4(
        &mut self,
        now: Instant,
        origin: Origin,
        head: &[u8],
        (frame, at): (Frame<R>, usize),
        out: &mut dyn Egress<T>,
    ) {
        if head.len() < frame.frame_len() && !has_ports(head, at + v4::PROTOCOL_AT) {
            return self.with_copy(frame, |stack, copy, frame| {
                stack.handle_ipv4(now, origin, copy, (frame, at), out);
            });
        }
        self.cx.link.stage(ProcessingStage::IpInput, out);
        let len = frame.frame_len();
        let Some(packet) = self.cx.ip.parse4(head, len, at, origin.interface) else { return };
        if packet.protocol == IpProtocol::Udp
            && packet.fragment.is_none()
            && self.handle_dhcp(now, &packet, (head, &frame), out)
        {
            return;
        }
        let arrival = self.cx.ip.arrival4(self.cx.link.interfaces(), origin, &packet);
        let Some(arrival) = arrival else { return };
        if packet.fragment.is_some() {
            // A reassembled packet has another header, so it is parsed anew.
            if let Some(packet_bytes) = self.handle_fragment(now, &packet, frame) {
                self.handle_own_ipv4(now, origin, (packet_bytes, 0), out);
            }
            return;
        }
        if self.cx.esp.is_active() && !self.admits(origin, &packet, head) {
            return;
        }
        match (packet.protocol, arrival) {
            (IpProtocol::Icmp, _) => {
                let about = (&packet, arrival);
                match self.icmp.handle4(&mut self.cx, now, about, head, out) {
                    Icmpv4Input::Done => {}
                    Icmpv4Input::Report(report) => {
                        self.handle_report(now, about, &report, (head, frame));
                    }
                    Icmpv4Input::EchoReply(reply) => self.handle_echo_reply(about, reply, frame),
                }
            }
            (IpProtocol::Udp, _) => {
                self.handle_udp(now, SocketKind::Datagram, (&packet, arrival), (head, frame), out);
            }
            (lite::PROTOCOL, _) => {
                self.handle_udp(now, SocketKind::UdpLite, (&packet, arrival), (head, frame), out);
            }
            (IpProtocol::Igmp, _) => {
                let shared = (&mut self.cx.secret, &mut self.cx.timers);
                self.cx.ip.handle_igmp(now, &packet, head, shared);
            }
            (IpProtocol::Tcp, Arrival::ToUs) => {
                self.sockets.handle_tcp(&mut self.cx, now, &packet, (head, frame), out);
            }
            (PROTOCOL, arrival) => {
                self.handle_esp(now, origin, (&packet, arrival), frame, out);
            }
            (_, arrival) => self.handle_unknown(now, (&packet, arrival), head, out),
        }
    }

    /// Handles the IPv6 packet that starts at `at` in `frame`, the first bytes of which are `head`.
    fn handle_ipv6(
        &mut self,
        now: Instant,
        origin: Origin,
        head: &[u8],
        (frame, at): (Frame<R>, usize),
        out: &mut dyn Egress<T>,
    ) {
        if head.len() < frame.frame_len() && !has_ports(head, at + v6::NEXT_HEADER_AT) {
            return self.with_copy(frame, |stack, copy, frame| {
                stack.handle_ipv6(now, origin, copy, (frame, at), out);
            });
        }
        self.cx.link.stage(ProcessingStage::IpInput, out);
        let parsed = self.cx.ip.parse6(head, frame.frame_len(), at, origin.interface);
        let Some((packet, content)) = parsed else { return };
        let arrival = self.cx.ip.arrival6(self.cx.link.interfaces(), origin, &packet);
        let Some(arrival) = arrival else { return };
        match content {
            Content::Upper if packet.fragment.is_some() => {
                // A reassembled packet has another header, so it is parsed anew.
                if let Some(packet_bytes) = self.handle_fragment(now, &packet, frame) {
                    self.handle_own_ipv6(now, origin, (packet_bytes, 0), out);
                }
            }
            Content::Upper if self.cx.esp.is_active() && !self.admits(origin, &packet, head) => {}
            Content::Upper => {
                self.handle_upper6(now, origin, &packet, arrival, (head, frame), out);
            }
            Content::Nothing => self.cx.ip.count_nothing(),
            Content::Problem(problem) => {
                self.cx.ip.count_problem();
                if arrival == Arrival::ToUs || problem.to_groups {
                    let about = (&packet, head);
                    self.icmp.send_problem(&mut self.cx, now, about, &problem, out);
                }
            }
        }
    }

    fn handle_upper6(
        &mut self,
        now: Instant,
        origin: Origin,
        packet: &Packet,
        arrival: Arrival,
        (head, frame): (&[u8], Frame<R>),
        out: &mut dyn Egress<T>,
    ) {
        match (packet.protocol, arrival) {
            (IpProtocol::Icmpv6, _) => {
                match self.icmp.handle6(&mut self.cx, now, packet, head, out) {
                    Icmpv6Input::Done => {}
                    Icmpv6Input::Report(report) => {
                        self.handle_report(now, (packet, arrival), &report, (head, frame));
                    }
                    Icmpv6Input::EchoReply(reply) => {
                        self.handle_echo_reply((packet, arrival), reply, frame);
                    }
                    Icmpv6Input::Neighbour(kind) => {
                        self.handle_ndp(now, packet, kind, head, out);
                    }
                }
            }
            // RFC 4291 2.5.2: nothing else has a use for packets without a source.
            (_, _) if packet.source.is_unspecified() => self.cx.ip.count_martian6(),
            (IpProtocol::Udp, _) => {
                self.handle_udp(now, SocketKind::Datagram, (packet, arrival), (head, frame), out);
            }
            (lite::PROTOCOL, _) => {
                self.handle_udp(now, SocketKind::UdpLite, (packet, arrival), (head, frame), out);
            }
            (IpProtocol::Tcp, Arrival::ToUs) => {
                self.sockets.handle_tcp(&mut self.cx, now, packet, (head, frame), out);
            }
            (PROTOCOL, arrival) => {
                self.handle_esp(now, origin, (packet, arrival), frame, out);
            }
            (_, arrival) => self.handle_unknown(now, (packet, arrival), head, out),
        }
    }

    fn handle_udp(
        &mut self,
        now: Instant,
        kind: SocketKind,
        (packet, arrival): (&Packet, Arrival),
        frame: (&[u8], Frame<R>),
        out: &mut dyn Egress<T>,
    ) {
        // RFC 1122 4.1.3.1.
        let about = (packet, arrival);
        if let Some(frame) = self.sockets.handle_datagram(&mut self.cx, kind, about, frame) {
            let error = IcmpError::PortUnreachable;
            self.with_copy(frame, |stack, copy, _| {
                stack.icmp.send_error(&mut stack.cx, now, (packet, copy), error, out);
            });
        }
    }

    /// Handles a packet of an unknown protocol (RFC 1122 3.2.2.1).
    pub(super) fn handle_unknown(
        &mut self,
        now: Instant,
        (packet, arrival): (&Packet, Arrival),
        frame: &[u8],
        out: &mut dyn Egress<T>,
    ) {
        self.cx.ip.count_unknown(packet.source.is_ipv6());
        if arrival == Arrival::ToUs {
            let error = IcmpError::ProtocolUnreachable;
            self.icmp.send_error(&mut self.cx, now, (packet, frame), error, out);
        }
    }

    /// Handles a message of Neighbour Discovery.
    fn handle_ndp(
        &mut self,
        now: Instant,
        packet: &Packet,
        kind: Icmpv6Message,
        frame: &[u8],
        out: &mut dyn Egress<T>,
    ) {
        let bytes = frame.get(packet.payload.clone()).unwrap_or_default();
        let (IpAddr::V6(from), IpAddr::V6(to)) = (packet.source, packet.destination) else {
            return;
        };
        let message = ndp::parse(kind, bytes, from, to, packet.ttl);
        if let Some(resolved) = self.nd.handle(&mut self.cx, now, packet, message, out) {
            self.sockets.handle_resolved(&mut self.cx, resolved, out);
        }
    }

    /// Handles a fragment. If it completes the packet, gives that, from its IP header on.
    fn handle_fragment(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: Frame<R>,
    ) -> Option<Frame<R>> {
        let header = packet.fragment.as_ref()?;
        let secured = self.cx.esp.opening();
        let shared = (&mut self.cx.held, &mut self.cx.timers);
        self.fragments.handle_fragment(now, (packet, secured), header, frame, shared)
    }

    /// Handles an ICMP error, which came in `frame`, the first bytes of which are `head`. Counts
    /// whether it was accepted.
    #[cold]
    fn handle_report(
        &mut self,
        now: Instant,
        (packet, arrival): (&Packet, Arrival),
        report: &IcmpReport,
        (head, frame): (&[u8], Frame<R>),
    ) {
        let quoted = head.get(report.transport()).unwrap_or_default();
        let believed = arrival == Arrival::ToUs
            && match report.quote.protocol {
                IpProtocol::Tcp => self.sockets.report_segment(&mut self.cx, now, report, quoted),
                IpProtocol::Udp | lite::PROTOCOL => {
                    self.sockets.report_datagram(&mut self.cx, now, report, quoted)
                }
                IpProtocol::Icmp | IpProtocol::Icmpv6 => {
                    self.sockets.report_echo(&mut self.cx, now, packet, report, frame)
                }
                PROTOCOL if self.cx.esp.opening().is_none() => self.report_esp(now, report, quoted),
                _ => false,
            };
        self.icmp.count_report(believed);
    }

    /// Handles an echo reply. Replies that no socket waits for count as stray errors do.
    fn handle_echo_reply(
        &mut self,
        (packet, arrival): (&Packet, Arrival),
        reply: EchoNumbers,
        frame: Frame<R>,
    ) {
        let is_for_us = arrival == Arrival::ToUs;
        if !(is_for_us && self.sockets.handle_echo_reply(&mut self.cx, packet, reply, frame)) {
            self.icmp.count_stray();
        }
    }
}

/// Whether the byte at `at` announces TCP, UDP, UDP-Lite or ESP: then the head of a frame has all
/// headers of the packet.
#[inline]
fn has_ports(head: &[u8], at: usize) -> bool {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    const UDP_LITE: u8 = 136;
    const ESP: u8 = 50;
    matches!(head.get(at), Some(&(TCP | UDP | UDP_LITE | ESP)))
}

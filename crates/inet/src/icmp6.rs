//! ICMPv6 (RFC 4443): echoes answered, errors sent and believed, Neighbour Discovery handed on.
//!
//! What errors do is in `reports`. They are sent at the rate that both families share, about
//! packets to us alone: never about errors and redirects, about packets from somebody who cannot be
//! told, or about packets to groups, but for options that ask for it (2.4 (e)).

use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::{Icmpv6DstUnreachable, Icmpv6Message, IpProtocol, Ipv6Packet, checksum};

use crate::bytes::{Egress, Frame, RxBytes, Stage, TxBytes};
use crate::error::Error;
use crate::icmp::Complaint;
use crate::interface_id::InterfaceId;
use crate::ip::packet::Packet;
use crate::ip::v6::{self, Content, Problem, ProblemCode, Refused};
use crate::ip::{self, groups};
use crate::nd::wire;
use crate::reports::{Quote, Report};
use crate::stack::{Arrival, Origin, Stack};
use crate::time::Instant;

/// Length of the header of an error message, bytes.
const HEADER: usize = 8;
/// Place of the checksum.
const CHECKSUM: core::ops::Range<usize> = 2..4;

/// The meaning of an error (RFC 4443 3), and whether a datagram socket is told without having
/// asked: as Linux's `icmpv6_err_convert`.
fn meaning(kind: Icmpv6Message, code: u8) -> Option<(Error, bool)> {
    Some(match (kind, code) {
        (Icmpv6Message::DstUnreachable, 0) => (Error::NetUnreachable, false),
        (Icmpv6Message::DstUnreachable, 1 | 5 | 6) => (Error::Denied, true),
        (Icmpv6Message::DstUnreachable, 2 | 3) => (Error::HostUnreachable, false),
        (Icmpv6Message::DstUnreachable, 4) => (Error::Refused, true),
        (Icmpv6Message::TimeExceeded, _) => (Error::HostUnreachable, false),
        // Nobody there speaks the protocol, as "protocol unreachable" of IPv4.
        (Icmpv6Message::ParamProblem, 1) => (Error::Refused, true),
        _ => return None,
    })
}

/// Reads the quoted packet: its header, a fragment header if it was the first part of one, and at
/// least 8 bytes more.
fn parse_quote(bytes: &[u8], interface: InterfaceId) -> Option<Quote> {
    const FRAGMENT_HEADER: usize = 8;
    let (header, mut rest) = bytes.split_at_checked(v6::HEADER)?;
    let view = Ipv6Packet::new_unchecked(header);
    if view.version() != 6 {
        return None;
    }
    let mut protocol = view.next_header();
    if protocol == IpProtocol::Ipv6Frag {
        let (&[next, _, high, low, ..], after) = rest.split_first_chunk::<FRAGMENT_HEADER>()?;
        if u16::from_be_bytes([high, low]) >> 3 != 0 {
            return None;
        }
        (protocol, rest) = (IpProtocol::from(next), after);
    }
    let end = |ip, port| ip::scoped(ip, port, interface);
    let (source, destination) = (view.src_addr().into(), view.dst_addr().into());
    Quote::new(protocol, end, [source, destination], rest)
}

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Takes the packet that starts at `at` in `frame`.
    pub(crate) fn handle_ipv6(
        &mut self,
        now: Instant,
        origin: Origin,
        (frame, at): (Frame<R>, usize),
        out: &mut dyn Egress<T>,
    ) {
        self.net.stage(Stage::IpInput, out);
        let counters = &mut self.net.counters;
        let (packet, content) = match v6::parse(frame.bytes(), at, origin.interface) {
            Ok(found) => found,
            Err(Refused::Malformed) => return counters.ip6_malformed += 1,
            Err(Refused::Martian) => return counters.ip6_martians += 1,
            Err(Refused::Excessive) => return counters.ip6_excessive += 1,
        };
        let Some(arrival) = self.arrival6(origin, &packet) else { return };
        if let (Some(cut), Content::Upper) = (&packet.cut, content) {
            // What is whole is looked at anew: its header is another one.
            if let Some(whole) = self.handle_fragment(now, &packet, cut, frame) {
                self.handle_ipv6(now, origin, (whole, 0), out);
            }
            return;
        }
        match content {
            Content::Upper => self.handle_upper6(now, &packet, arrival, frame, out),
            Content::Nothing => self.net.counters.ip6_nothing += 1,
            Content::Problem(problem) => {
                self.net.counters.ip6_problems += 1;
                if arrival == Arrival::ToUs || problem.to_groups {
                    self.send_problem(now, &packet, frame.bytes(), &problem, out);
                }
            }
        }
    }

    fn handle_upper6(
        &mut self,
        now: Instant,
        packet: &Packet,
        arrival: Arrival,
        frame: Frame<R>,
        out: &mut dyn Egress<T>,
    ) {
        let is_nobodys = packet.source.is_unspecified();
        match (packet.protocol, arrival) {
            (IpProtocol::Icmpv6, _) => self.handle_icmp6(now, packet, arrival, frame.bytes(), out),
            // RFC 4291 2.5.2: nothing else has a use for packets without a source.
            (_, _) if is_nobodys => self.net.counters.ip6_martians += 1,
            (IpProtocol::Udp, _) => self.handle_udp(now, packet, arrival, frame, out),
            (IpProtocol::Tcp, Arrival::ToUs) => self.handle_tcp(now, packet, frame, out),
            (_, arrival) => {
                self.net.counters.ip6_unknown += 1;
                if arrival == Arrival::ToUs {
                    self.complain(now, packet, frame.bytes(), Complaint::Protocol, out);
                }
            }
        }
    }

    /// To whom the packet was sent; `None`, and counted, if that is not us or it cannot be true.
    fn arrival6(&mut self, origin: Origin, packet: &Packet) -> Option<Arrival> {
        let (source, destination) = (packet.source, packet.destination);
        if packet.interface == InterfaceId::LOOPBACK {
            // Nobody else puts anything there.
            return self.net.is_ours(destination).then_some(Arrival::ToUs);
        }
        let counters = &mut self.net.counters;
        let here = self.net.interfaces.get(usize::from(packet.interface.0))?;
        if here.has(source) && !origin.looped {
            counters.ip6_martians += 1;
            return None;
        }
        let arrival = match destination {
            IpAddr::V6(group) if group.is_multicast() => {
                let joined = self.net.groups.admits(packet.interface, destination, source);
                (here.listens(group) || joined).then_some(Arrival::ToAll)
            }
            // An address belongs to the node, one of the link to its interface.
            _ if ip::is_link_scope(destination) => here.has(destination).then_some(Arrival::ToUs),
            _ => self.net.is_ours(destination).then_some(Arrival::ToUs),
        };
        self.net.counters.ip6_not_ours += u64::from(arrival.is_none());
        arrival
    }

    fn handle_icmp6(
        &mut self,
        now: Instant,
        packet: &Packet,
        arrival: Arrival,
        frame: &[u8],
        out: &mut dyn Egress<T>,
    ) {
        let bytes = frame.get(packet.payload.clone()).unwrap_or_default();
        let Some(&[kind, code, ..]) = bytes.first_chunk::<HEADER>() else {
            return self.net.counters.icmp_malformed += 1;
        };
        let (from, to) = (packet.source, packet.destination);
        let pseudo = ip::pseudo_sum(from, to, IpProtocol::Icmpv6, bytes.len());
        if checksum::combine(&[pseudo, checksum::data(bytes)]) != 0xffff {
            return self.net.counters.icmp_bad_checksum += 1;
        }
        if groups::wire::is_mld(kind) {
            return self.handle_mld(now, packet, bytes);
        }
        let kind = Icmpv6Message::from(kind);
        match kind {
            kind if kind.is_ndisc() => {
                let (IpAddr::V6(from), IpAddr::V6(to)) = (from, to) else { return };
                let Some(message) = wire::parse(kind, bytes, from, to, packet.ttl) else {
                    return self.net.counters.nd_malformed += 1;
                };
                let found = self.net.handle_nd(now, packet, &message, out);
                if let Some((key, mac, waiters)) = found {
                    self.neighbour_found(key, mac, waiters, out);
                }
            }
            Icmpv6Message::EchoRequest if code == 0 && !from.is_unspecified() => {
                self.answer_echo6(now, packet, bytes, out);
            }
            kind if kind.is_error() => {
                self.handle_error6(now, packet, arrival, (kind, code), bytes);
            }
            _ => self.net.counters.icmp_stray += 1,
        }
    }

    /// RFC 4443 4.2; one to a group is answered from the address that we have for its sender.
    fn answer_echo6(
        &mut self,
        now: Instant,
        packet: &Packet,
        request: &[u8],
        out: &mut dyn Egress<T>,
    ) {
        let to = packet.from(0);
        let mut header = self.icmp6_header(packet, request.len());
        header.tos = packet.tos;
        if packet.destination.is_multicast() {
            let Ok(path) = self.net.find(&to) else { return };
            header.source = path.source;
        }
        self.net.counters.icmp_echoes += 1;
        let fill = |bytes: &mut [u8]| {
            bytes.copy_from_slice(request);
            if let Some(kind) = bytes.first_mut() {
                *kind = Icmpv6Message::EchoReply.into();
            }
            seal(&header, bytes);
        };
        self.net.answer(now, &to, &header, fill, out);
    }

    fn handle_error6(
        &mut self,
        now: Instant,
        packet: &Packet,
        arrival: Arrival,
        (kind, code): (Icmpv6Message, u8),
        bytes: &[u8],
    ) {
        let Some(quote) = bytes.get(HEADER..).and_then(|b| parse_quote(b, packet.interface)) else {
            return self.net.counters.icmp_malformed += 1;
        };
        let report = match (kind, meaning(kind, code)) {
            (Icmpv6Message::PktTooBig, _) => {
                let mtu = bytes.get(4..).and_then(<[u8]>::first_chunk);
                let mtu = mtu.map_or(0, |mtu| u32::from_be_bytes(*mtu));
                // RFC 8201 4: no link of IPv6 takes less; who says so is not believed.
                let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
                Some(Report::TooBig(mtu)).filter(|_| mtu >= v6::LEAST_MTU)
            }
            (_, Some((error, hard))) => Some(Report::Unreachable { error, hard }),
            (_, None) => None,
        };
        match report {
            Some(report) => self.take_report(now, arrival, report, &quote),
            None => self.net.counters.icmp_stray += 1,
        }
    }

    /// The header of a message of `len` bytes that answers `packet`.
    fn icmp6_header(&self, packet: &Packet, len: usize) -> ip::Header {
        ip::Header {
            source: packet.destination,
            destination: packet.source,
            protocol: IpProtocol::Icmpv6,
            ttl: self.net.hop_limit(packet.interface),
            tos: 0,
            flow: 0,
            payload_len: len,
        }
    }

    /// See [`complain`](Self::complain).
    pub(crate) fn complain6(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &[u8],
        complaint: Complaint,
        out: &mut dyn Egress<T>,
    ) {
        match complaint {
            Complaint::Port => {
                let code = Icmpv6DstUnreachable::PortUnreachable.into();
                self.send_error6(now, packet, frame, (Icmpv6Message::DstUnreachable, code, 0), out);
            }
            // RFC 8200 4: "Unrecognized Next Header type encountered".
            Complaint::Protocol => {
                let pointer = u32::try_from(packet.protocol_at).unwrap_or_default();
                let problem = Problem { code: ProblemCode::NextHeader, pointer, to_groups: false };
                self.send_problem(now, packet, frame, &problem, out);
            }
            Complaint::ReassemblyTime => {
                self.send_error6(now, packet, frame, (Icmpv6Message::TimeExceeded, 1, 0), out);
            }
        }
    }

    fn send_problem(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &[u8],
        problem: &Problem,
        out: &mut dyn Egress<T>,
    ) {
        let error = (Icmpv6Message::ParamProblem, problem.code as u8, problem.pointer);
        self.send_error6(now, packet, frame, error, out);
    }

    /// Sends an error of a type, with a code and the word behind its checksum, about `packet`,
    /// which came in `frame`.
    pub(crate) fn send_error6(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &[u8],
        (kind, code, word): (Icmpv6Message, u8, u32),
        out: &mut dyn Egress<T>,
    ) {
        if packet.source.is_unspecified() || is_untold(packet, frame) {
            return;
        }
        if !self.may_complain(now, packet) {
            return;
        }
        let original = frame.get(packet.whole.clone()).unwrap_or_default();
        // RFC 4443 2.4 (c): as much as fits the least MTU.
        let quoted = original.len().min(usize::from(v6::LEAST_MTU) - v6::HEADER - HEADER);
        let to: SocketAddr = packet.from(0);
        let mut header = self.icmp6_header(packet, HEADER + quoted);
        if packet.destination.is_multicast() {
            let Ok(path) = self.net.find(&to) else { return };
            header.source = path.source;
        }
        let fill = |bytes: &mut [u8]| {
            let [a, b, c, d] = word.to_be_bytes();
            let (head, rest) = bytes.split_at_mut(HEADER);
            head.copy_from_slice(&[kind.into(), code, 0, 0, a, b, c, d]);
            rest.copy_from_slice(&original[..quoted]);
            seal(&header, bytes);
        };
        self.net.answer(now, &to, &header, fill, out);
    }
}

/// Whether the packet is itself an error or a redirect (RFC 4443 2.4 (e.1), (e.2)).
fn is_untold(packet: &Packet, frame: &[u8]) -> bool {
    let kind = frame.get(packet.payload.start).filter(|_| !packet.payload.is_empty());
    packet.protocol == IpProtocol::Icmpv6
        && kind.is_none_or(|kind| {
            let kind = Icmpv6Message::from(*kind);
            kind.is_error() || kind == Icmpv6Message::Redirect
        })
}

/// Writes the checksum of a message.
fn seal(header: &ip::Header, bytes: &mut [u8]) {
    bytes[CHECKSUM].fill(0);
    let (from, to) = (header.source, header.destination);
    let pseudo = ip::pseudo_sum(from, to, IpProtocol::Icmpv6, bytes.len());
    let sum = !checksum::combine(&[pseudo, checksum::data(bytes)]);
    bytes[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
}

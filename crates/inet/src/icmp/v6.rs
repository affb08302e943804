//! ICMPv6 (RFC 4443). Neighbour Discovery and MLD are handed on.

use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::{Icmpv6DstUnreachable, Icmpv6Message, IpProtocol, Ipv6Packet, checksum};

use super::echo::EchoNumbers;
use super::error::{IcmpError, IcmpReport, QuotedPacket, ReportedError};
use super::layer::IcmpLayer;
use crate::bytes::{Egress, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::ip::v6::{self, Problem, ProblemCode};
use crate::ip::{self, Packet, groups};
use crate::time::Instant;

/// Length of the header of an error message, bytes.
const HEADER: usize = 8;
/// Position of the checksum.
const CHECKSUM: core::ops::Range<usize> = 2..4;

/// The meaning of an error (RFC 4443 3), as Linux's `icmpv6_err_convert`. True if a datagram socket
/// gets the error without having asked.
fn meaning(kind: Icmpv6Message, code: u8) -> Option<(Error, bool)> {
    Some(match (kind, code) {
        (Icmpv6Message::DstUnreachable, 7..) => (Error::Protocol, true),
        (Icmpv6Message::DstUnreachable, 0) => (Error::NetUnreachable, false),
        (Icmpv6Message::DstUnreachable, 1 | 5 | 6) => (Error::Denied, true),
        (Icmpv6Message::DstUnreachable, 2 | 3) => (Error::HostUnreachable, false),
        (Icmpv6Message::DstUnreachable, 4) => (Error::Refused, true),
        (Icmpv6Message::TimeExceeded, _) => (Error::HostUnreachable, false),
        (Icmpv6Message::ParamProblem, _) => (Error::Protocol, true),
        _ => return None,
    })
}

/// Reads the quoted packet: its header, a fragment header if it was a first fragment, and at least
/// 8 bytes more.
fn parse_quote(bytes: &[u8], interface: InterfaceId) -> Option<QuotedPacket> {
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
    QuotedPacket::new(protocol, end, [source, destination], rest)
}

/// The further handling of an ICMPv6 packet, by other layers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it lives for one call")]
pub(crate) enum Icmpv6Input {
    /// Nothing: it was answered, dropped, or about groups.
    Done,
    /// It reports an error.
    Report(IcmpReport),
    /// It is for a socket that has sent an echo request.
    EchoReply(EchoNumbers),
    /// It is a message of Neighbour Discovery.
    Neighbour(Icmpv6Message),
}

impl IcmpLayer {
    /// Handles an ICMPv6 packet.
    pub(crate) fn handle6<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        packet: &Packet,
        frame: &[u8],
        out: &mut dyn Egress<T>,
    ) -> Icmpv6Input {
        let bytes = frame.get(packet.payload.clone()).unwrap_or_default();
        let Some(first @ &[kind, code, ..]) = bytes.first_chunk::<HEADER>() else {
            self.counters.icmp_malformed += 1;
            return Icmpv6Input::Done;
        };
        let (from, to) = (packet.source, packet.destination);
        let pseudo = ip::pseudo_sum(from, to, IpProtocol::Icmpv6, bytes.len());
        if checksum::combine(&[pseudo, checksum::data(bytes)]) != 0xffff {
            self.counters.icmp_bad_checksum += 1;
            return Icmpv6Input::Done;
        }
        if groups::wire::is_mld(kind) {
            cx.ip.handle_mld(now, packet, bytes, (&mut cx.secret, &mut cx.timers));
            return Icmpv6Input::Done;
        }
        let kind = Icmpv6Message::from(kind);
        match kind {
            kind if kind.is_ndisc() => return Icmpv6Input::Neighbour(kind),
            Icmpv6Message::EchoRequest if code == 0 && !from.is_unspecified() => {
                self.answer_echo6(cx, now, packet, bytes, out);
            }
            Icmpv6Message::EchoReply if code == 0 => {
                return Icmpv6Input::EchoReply(EchoNumbers::of(first));
            }
            kind if kind.is_error() => {
                if let Some(report) = self.read_error6(packet, (kind, code), bytes) {
                    return Icmpv6Input::Report(report);
                }
            }
            _ => self.counters.icmp_stray += 1,
        }
        Icmpv6Input::Done
    }

    /// RFC 4443 4.2; one to a group is answered from the address that we have for its sender.
    fn answer_echo6<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        packet: &Packet,
        request: &[u8],
        out: &mut dyn Egress<T>,
    ) {
        let to = packet.from(0);
        let Some(header) = header(cx, packet, request.len()) else { return };
        let header = ip::Header { tos: packet.tos, ..header };
        self.counters.icmp_echoes += 1;
        let fill = |bytes: &mut [u8]| {
            bytes.copy_from_slice(request);
            if let Some(kind) = bytes.first_mut() {
                *kind = Icmpv6Message::EchoReply.into();
            }
            seal(&header, bytes);
        };
        cx.answer(now, &to, &header, fill, out);
    }

    /// Reads an error; `None`, and counted, if it says nothing of use.
    fn read_error6(
        &mut self,
        packet: &Packet,
        (kind, code): (Icmpv6Message, u8),
        bytes: &[u8],
    ) -> Option<IcmpReport> {
        let Some(quote) = bytes.get(HEADER..).and_then(|b| parse_quote(b, packet.interface)) else {
            self.counters.icmp_malformed += 1;
            return None;
        };
        let word = bytes.get(4..).and_then(<[u8]>::first_chunk);
        let info = word.map_or(0, |word| u32::from_be_bytes(*word));
        let error = match (kind, meaning(kind, code)) {
            (Icmpv6Message::PktTooBig, _) => {
                // RFC 8201 4: every IPv6 link takes packets of 1280 bytes, so a report of less is
                // ignored.
                let mtu = u16::try_from(info).unwrap_or(u16::MAX);
                Some(ReportedError::TooBig(mtu)).filter(|_| mtu >= v6::LEAST_MTU)
            }
            (_, Some((error, hard))) => Some(ReportedError::Unreachable { error, hard }),
            (_, None) => None,
        };
        self.counters.icmp_stray += u64::from(error.is_none());
        let (packet, kind) = (packet.clone(), (kind.into(), code));
        error.map(|error| IcmpReport { error, quote, packet, kind, info })
    }

    /// Sends an error to the sender of `packet`, which came in `frame`.
    pub(super) fn send_error6<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (packet, frame): (&Packet, &[u8]),
        error: IcmpError,
        out: &mut dyn Egress<T>,
    ) {
        let error = match error {
            IcmpError::PortUnreachable => {
                let code = Icmpv6DstUnreachable::PortUnreachable.into();
                (Icmpv6Message::DstUnreachable, code, 0)
            }
            // RFC 8200 4: "Unrecognized Next Header type encountered".
            IcmpError::ProtocolUnreachable => {
                let pointer = u32::try_from(packet.protocol_at).unwrap_or_default();
                (Icmpv6Message::ParamProblem, ProblemCode::NextHeader as u8, pointer)
            }
            IcmpError::ReassemblyTimeout => (Icmpv6Message::TimeExceeded, 1, 0),
        };
        self.send_message(cx, now, (packet, frame), error, out);
    }

    /// Sends the sender of `packet` a parameter problem.
    pub(crate) fn send_problem<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (packet, frame): (&Packet, &[u8]),
        problem: &Problem,
        out: &mut dyn Egress<T>,
    ) {
        let error = (Icmpv6Message::ParamProblem, problem.code as u8, problem.pointer);
        self.send_message(cx, now, (packet, frame), error, out);
    }

    /// Sends an error of a type about `packet`, which came in `frame`. It has a code, and a word
    /// behind its checksum.
    fn send_message<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (packet, frame): (&Packet, &[u8]),
        (kind, code, word): (Icmpv6Message, u8, u32),
        out: &mut dyn Egress<T>,
    ) {
        if packet.source.is_unspecified() || is_error(packet, frame) {
            return;
        }
        if !self.may_send_error(now, packet) {
            return;
        }
        let original = frame.get(packet.extent.clone()).unwrap_or_default();
        // RFC 4443 2.4 (c): as much as fits the least MTU.
        let quoted = original.len().min(usize::from(v6::LEAST_MTU) - v6::HEADER - HEADER);
        let to: SocketAddr = packet.from(0);
        let Some(header) = header(cx, packet, HEADER + quoted) else { return };
        let fill = |bytes: &mut [u8]| {
            let [a, b, c, d] = word.to_be_bytes();
            let (head, rest) = bytes.split_at_mut(HEADER);
            head.copy_from_slice(&[kind.into(), code, 0, 0, a, b, c, d]);
            rest.copy_from_slice(&original[..quoted]);
            seal(&header, bytes);
        };
        cx.answer(now, &to, &header, fill, out);
    }
}

/// The header of a message of `len` bytes that answers `packet`; `None` without a path to its
/// sender.
fn header(cx: &mut Context, packet: &Packet, len: usize) -> Option<ip::Header> {
    let source = match packet.destination {
        IpAddr::V6(group) if group.is_multicast() => cx.find(&packet.from(0), None).ok()?.source,
        ours => ours,
    };
    Some(ip::Header {
        source,
        destination: packet.source,
        protocol: IpProtocol::Icmpv6,
        ttl: cx.hop_limit(packet.interface),
        tos: 0,
        flow: 0,
        payload_len: len,
    })
}

/// Whether the packet is itself an error or a redirect (RFC 4443 2.4 (e.1), (e.2)).
fn is_error(packet: &Packet, frame: &[u8]) -> bool {
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

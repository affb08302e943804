//! ICMP (RFC 792, RFC 1122 3.2.2).

use core::net::SocketAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet,
};

use super::echo::EchoNumbers;
use super::error::{IcmpError, IcmpReport, QuotedPacket, ReportedError};
use super::layer::IcmpLayer;
use crate::bytes::{Egress, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::ip::pmtu::plateau;
use crate::ip::{self, Arrival, Packet, v4};
use crate::time::Instant;

/// Length of the header of an error message, bytes.
const HEADER: usize = 8;
/// Longest error message with its IPv4 header, bytes (RFC 1812 4.3.2.3).
const LONGEST_ERROR: usize = 576;

/// The type and code of an error.
fn code(error: IcmpError) -> (Icmpv4Message, u8) {
    match error {
        IcmpError::ProtocolUnreachable => {
            (Icmpv4Message::DstUnreachable, Icmpv4DstUnreachable::ProtoUnreachable.into())
        }
        IcmpError::PortUnreachable => {
            (Icmpv4Message::DstUnreachable, Icmpv4DstUnreachable::PortUnreachable.into())
        }
        IcmpError::ReassemblyTimeout => (Icmpv4Message::TimeExceeded, 1),
    }
}

/// The code of "fragmentation needed and DF set".
const FRAGMENTATION_NEEDED: u8 = 4;

/// The content of an ICMP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IcmpMessage<'a> {
    Echo {
        ident: u16,
        seq_no: u16,
        data: &'a [u8],
    },
    /// With the MTU, or the position of a bad byte.
    Error(ReportedError, QuotedPacket, u32),
    Reply(EchoNumbers),
    /// Of no interest here.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BadIcmp {
    Malformed,
    Checksum,
}

fn parse(bytes: &[u8]) -> Result<IcmpMessage<'_>, BadIcmp> {
    let view = Icmpv4Packet::new_checked(bytes).map_err(|_| BadIcmp::Malformed)?;
    if !view.verify_checksum() {
        return Err(BadIcmp::Checksum);
    }
    let mut info = 0;
    let (error, hard) = match (view.msg_type(), view.msg_code()) {
        (Icmpv4Message::EchoRequest, 0) => {
            let (ident, seq_no) = (view.echo_ident(), view.echo_seq_no());
            return Ok(IcmpMessage::Echo { ident, seq_no, data: view.data() });
        }
        (Icmpv4Message::EchoReply, 0) => {
            let (ident, seq) = (view.echo_ident(), view.echo_seq_no());
            return Ok(IcmpMessage::Reply(EchoNumbers { ident, seq }));
        }
        (Icmpv4Message::DstUnreachable, code) if code == FRAGMENTATION_NEEDED => {
            let quote = parse_quote(view.data()).ok_or(BadIcmp::Malformed)?;
            let word = |at: usize| match bytes.get(at..at + 2) {
                Some(&[a, b]) => u16::from_be_bytes([a, b]),
                _ => 0,
            };
            // RFC 1191 4: the MTU stands in the second half of a formerly unused word.
            let mtu = match word(6) {
                0 => plateau(word(HEADER + 2)),
                mtu => mtu,
            };
            return Ok(IcmpMessage::Error(ReportedError::TooBig(mtu), quote, mtu.into()));
        }
        (Icmpv4Message::DstUnreachable, code) => match unreachable(code) {
            Some(meaning) => meaning,
            None => return Ok(IcmpMessage::Other),
        },
        (Icmpv4Message::TimeExceeded, _) => (Error::HostUnreachable, false),
        (Icmpv4Message::ParamProblem, _) => {
            info = bytes.get(4).copied().unwrap_or_default().into();
            (Error::Protocol, true)
        }
        _ => return Ok(IcmpMessage::Other),
    };
    let quote = parse_quote(view.data()).ok_or(BadIcmp::Malformed)?;
    let error = ReportedError::Unreachable { error, hard };
    Ok(IcmpMessage::Error(error, quote, info))
}

/// The meaning of the codes of "destination unreachable", as Linux's `icmp_err_convert`. True if a
/// datagram socket gets the error without having asked. "Fragmentation needed" (4) is not among
/// them.
fn unreachable(code: u8) -> Option<(Error, bool)> {
    Some(match code {
        0 | 11 => (Error::NetUnreachable, false),
        1 | 12 => (Error::HostUnreachable, false),
        2 => (Error::ProtocolUnreachable, true),
        3 => (Error::Refused, true),
        5 => (Error::Unsupported, false),
        6 | 9 => (Error::NetUnreachable, true),
        7 => (Error::HostDown, true),
        8 => (Error::NotOnNetwork, true),
        10 | 13 | 14 | 15 => (Error::HostUnreachable, true),
        _ => return None,
    })
}

/// Reads the quoted packet: its header and at least 8 bytes more (RFC 792). Its total length
/// usually exceeds the quotation. The header is as this host sent it, so it has no options.
fn parse_quote(bytes: &[u8]) -> Option<QuotedPacket> {
    let (header, rest) = bytes.split_at_checked(v4::HEADER)?;
    let view = Ipv4Packet::new_unchecked(header);
    if view.version() != 4 || usize::from(view.header_len()) != v4::HEADER {
        return None;
    }
    let (source, destination) = (view.src_addr().into(), view.dst_addr().into());
    QuotedPacket::new(view.next_header(), SocketAddr::new, [source, destination], rest)
}

/// The further handling of an ICMP packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it lives for one call")]
pub(crate) enum Icmpv4Input {
    /// Nothing: it was answered or dropped.
    Done,
    /// It reports an error.
    Report(IcmpReport),
    /// It is for a socket that has sent an echo request.
    EchoReply(EchoNumbers),
}

impl IcmpLayer {
    /// Handles an ICMP packet.
    pub(crate) fn handle4<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (packet, arrival): (&Packet, Arrival),
        frame: &[u8],
        out: &mut dyn Egress<T>,
    ) -> Icmpv4Input {
        let bytes = frame.get(packet.payload.clone()).unwrap_or_default();
        match parse(bytes) {
            Err(BadIcmp::Malformed) => self.counters.icmp_malformed += 1,
            Err(BadIcmp::Checksum) => self.counters.icmp_bad_checksum += 1,
            Ok(IcmpMessage::Echo { ident, seq_no, data }) => {
                // RFC 1122 3.2.2.6: one to a group may be ignored.
                if arrival == Arrival::ToUs {
                    let reply = Icmpv4Repr::EchoReply { ident, seq_no, data };
                    self.send_echo_reply(cx, now, packet, &reply, out);
                }
            }
            Ok(IcmpMessage::Error(error, quote, info)) => {
                let kind = bytes.first_chunk().map_or((0, 0), |[kind, code]| (*kind, *code));
                let packet = packet.clone();
                return Icmpv4Input::Report(IcmpReport { error, quote, packet, kind, info });
            }
            Ok(IcmpMessage::Reply(numbers)) => return Icmpv4Input::EchoReply(numbers),
            Ok(IcmpMessage::Other) => self.counters.icmp_stray += 1,
        }
        Icmpv4Input::Done
    }

    fn send_echo_reply<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        packet: &Packet,
        reply: &Icmpv4Repr<'_>,
        out: &mut dyn Egress<T>,
    ) {
        let header = header(packet, cx.ip.ttl(), reply.buffer_len());
        let header = ip::Header { tos: packet.tos, ..header };
        let fill = |bytes: &mut [u8]| {
            let mut view = Icmpv4Packet::new_unchecked(bytes);
            reply.emit(&mut view, &ChecksumCapabilities::default());
        };
        self.counters.icmp_echoes += 1;
        cx.answer(now, &packet.from(0), &header, fill, out);
    }

    /// Sends an error to the sender of `packet`, which came in `frame`, by the ICMP of its family.
    pub(crate) fn send_error<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (packet, frame): (&Packet, &[u8]),
        error: IcmpError,
        out: &mut dyn Egress<T>,
    ) {
        if packet.source.is_ipv6() {
            return self.send_error6(cx, now, (packet, frame), error, out);
        }
        if !self.may_send_error(now, packet) {
            return;
        }
        let original = frame.get(packet.extent.clone()).unwrap_or_default();
        let quoted = original.len().min(LONGEST_ERROR - v4::HEADER - HEADER);
        let header = header(packet, cx.ip.ttl(), HEADER + quoted);
        let fill = |bytes: &mut [u8]| {
            let mut view = Icmpv4Packet::new_unchecked(bytes);
            let (kind, code) = code(error);
            view.set_msg_type(kind);
            view.set_msg_code(code);
            view.data_mut().copy_from_slice(&original[..quoted]);
            view.fill_checksum();
        };
        cx.answer(now, &packet.from(0), &header, fill, out);
    }
}

/// The header of an answer of `len` bytes to `packet`.
fn header(packet: &Packet, ttl: u8, len: usize) -> ip::Header {
    ip::Header {
        source: packet.destination,
        destination: packet.source,
        protocol: IpProtocol::Icmp,
        ttl,
        tos: 0,
        flow: 0,
        payload_len: len,
    }
}

//! ICMP (RFC 792, RFC 1122 3.2.2): echoes answered, errors sent and believed.
//!
//! What errors do is in `reports`, for both families. They are sent about well-formed packets to us
//! alone, never about ICMP errors or groups (RFC 1122 3.2.2), and at a bounded rate (RFC 1812
//! 4.3.2.8).

use core::net::SocketAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet,
};

use crate::bytes::{Egress, RxBytes, TxBytes};
use crate::error::Error;
use crate::ip::packet::Packet;
use crate::ip::pmtu::plateau;
use crate::ip::{self, v4};
use crate::reports::{Quote, Report};
use crate::stack::{Arrival, Stack};
use crate::time::Instant;

/// Length of the header of an error message, bytes.
const HEADER: usize = 8;
/// Longest error message with its IPv4 header, bytes (RFC 1812 4.3.2.3).
const LONGEST_ERROR: usize = 576;

/// What its sender is told about a packet to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Complaint {
    /// Nobody here speaks its protocol.
    Protocol,
    /// No socket has its port.
    Port,
    /// The rest of its fragments did not come in time.
    ReassemblyTime,
}

impl Complaint {
    fn v4_code(self) -> (Icmpv4Message, u8) {
        match self {
            Self::Protocol => {
                (Icmpv4Message::DstUnreachable, Icmpv4DstUnreachable::ProtoUnreachable.into())
            }
            Self::Port => {
                (Icmpv4Message::DstUnreachable, Icmpv4DstUnreachable::PortUnreachable.into())
            }
            Self::ReassemblyTime => (Icmpv4Message::TimeExceeded, 1),
        }
    }
}

/// The code of "fragmentation needed and DF set".
const FRAGMENTATION_NEEDED: u8 = 4;

/// What an ICMP message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message<'a> {
    Echo {
        ident: u16,
        seq_no: u16,
        data: &'a [u8],
    },
    Error {
        report: Report,
        quote: Quote,
    },
    /// Of no interest here.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bad {
    Malformed,
    Checksum,
}

fn parse(bytes: &[u8]) -> Result<Message<'_>, Bad> {
    let view = Icmpv4Packet::new_checked(bytes).map_err(|_| Bad::Malformed)?;
    if !view.verify_checksum() {
        return Err(Bad::Checksum);
    }
    let (error, hard) = match (view.msg_type(), view.msg_code()) {
        (Icmpv4Message::EchoRequest, 0) => {
            let (ident, seq_no) = (view.echo_ident(), view.echo_seq_no());
            return Ok(Message::Echo { ident, seq_no, data: view.data() });
        }
        (Icmpv4Message::DstUnreachable, code) if code == FRAGMENTATION_NEEDED => {
            let quote = parse_quote(view.data()).ok_or(Bad::Malformed)?;
            let word = |at: usize| match bytes.get(at..at + 2) {
                Some(&[a, b]) => u16::from_be_bytes([a, b]),
                _ => 0,
            };
            // RFC 1191 4: the MTU stands in the second half of a word that was unused before.
            let mtu = match word(6) {
                0 => plateau(word(HEADER + 2)),
                mtu => mtu,
            };
            return Ok(Message::Error { report: Report::TooBig(mtu), quote });
        }
        (Icmpv4Message::DstUnreachable, code) => match unreachable(code) {
            Some(meaning) => meaning,
            None => return Ok(Message::Other),
        },
        (Icmpv4Message::TimeExceeded, _) => (Error::HostUnreachable, false),
        _ => return Ok(Message::Other),
    };
    let quote = parse_quote(view.data()).ok_or(Bad::Malformed)?;
    Ok(Message::Error { report: Report::Unreachable { error, hard }, quote })
}

/// The meaning of the codes of "destination unreachable", and whether a datagram socket is told
/// without having asked: as Linux's `icmp_err_convert`. "Fragmentation needed" (4) is not among
/// them.
fn unreachable(code: u8) -> Option<(Error, bool)> {
    Some(match code {
        0 | 11 => (Error::NetUnreachable, false),
        1 | 5 | 12 => (Error::HostUnreachable, false),
        2 | 3 => (Error::Refused, true),
        6 | 9 => (Error::NetUnreachable, true),
        7 | 8 | 10 | 13 | 14 | 15 => (Error::HostUnreachable, true),
        _ => return None,
    })
}

/// Reads the quoted packet: its header, whose total length is longer than the quotation as a rule,
/// and at least 8 bytes more (RFC 792). The header is as we sent it, so it has no options.
fn parse_quote(bytes: &[u8]) -> Option<Quote> {
    let (header, rest) = bytes.split_at_checked(v4::HEADER)?;
    let view = Ipv4Packet::new_unchecked(header);
    if view.version() != 4 || usize::from(view.header_len()) != v4::HEADER {
        return None;
    }
    let (source, destination) = (view.src_addr().into(), view.dst_addr().into());
    Quote::new(view.next_header(), SocketAddr::new, [source, destination], rest)
}

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Takes an ICMP packet.
    pub(crate) fn handle_icmp(
        &mut self,
        now: Instant,
        packet: &Packet,
        arrival: Arrival,
        frame: &[u8],
        out: &mut dyn Egress<T>,
    ) {
        let bytes = frame.get(packet.payload.clone()).unwrap_or_default();
        match parse(bytes) {
            Err(Bad::Malformed) => self.net.counters.icmp_malformed += 1,
            Err(Bad::Checksum) => self.net.counters.icmp_bad_checksum += 1,
            Ok(Message::Echo { ident, seq_no, data }) => {
                // RFC 1122 3.2.2.6: one to a group may be ignored.
                if arrival == Arrival::ToUs {
                    let reply = Icmpv4Repr::EchoReply { ident, seq_no, data };
                    self.send_echo_reply(now, packet, &reply, out);
                }
            }
            Ok(Message::Error { report, quote }) => {
                self.take_report(now, arrival, report, &quote);
            }
            Ok(Message::Other) => self.net.counters.icmp_stray += 1,
        }
    }

    fn send_echo_reply(
        &mut self,
        now: Instant,
        packet: &Packet,
        reply: &Icmpv4Repr<'_>,
        out: &mut dyn Egress<T>,
    ) {
        let ip = self.icmp_header(packet, reply.buffer_len());
        let ip = ip::Header { tos: packet.tos, ..ip };
        let fill = |bytes: &mut [u8]| {
            let mut view = Icmpv4Packet::new_unchecked(bytes);
            reply.emit(&mut view, &ChecksumCapabilities::default());
        };
        self.net.counters.icmp_echoes += 1;
        self.net.answer(now, &packet.from(0), &ip, fill, out);
    }

    /// The header of an answer of `len` bytes to `packet`.
    fn icmp_header(&self, packet: &Packet, len: usize) -> ip::Header {
        ip::Header {
            source: packet.destination,
            destination: packet.source,
            protocol: IpProtocol::Icmp,
            ttl: self.net.ttl,
            tos: 0,
            flow: 0,
            payload_len: len,
        }
    }

    /// Tells the sender of `packet`, which was sent to us in `frame`, what is wrong with it.
    pub(crate) fn complain(
        &mut self,
        now: Instant,
        packet: &Packet,
        frame: &[u8],
        complaint: Complaint,
        out: &mut dyn Egress<T>,
    ) {
        if packet.source.is_ipv6() {
            return self.complain6(now, packet, frame, complaint, out);
        }
        if !self.may_complain(now, packet) {
            return;
        }
        let original = frame.get(packet.whole.clone()).unwrap_or_default();
        let quoted = original.len().min(LONGEST_ERROR - v4::HEADER - HEADER);
        let ip = self.icmp_header(packet, HEADER + quoted);
        let fill = |bytes: &mut [u8]| {
            let mut view = Icmpv4Packet::new_unchecked(bytes);
            let (kind, code) = complaint.v4_code();
            view.set_msg_type(kind);
            view.set_msg_code(code);
            view.data_mut().copy_from_slice(&original[..quoted]);
            view.fill_checksum();
        };
        self.net.answer(now, &packet.from(0), &ip, fill, out);
    }
}

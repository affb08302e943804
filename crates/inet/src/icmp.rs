//! ICMP (RFC 792, RFC 1122 3.2.2): echoes answered, errors sent and believed.
//!
//! An error is believed only if the packet that it quotes is one that a socket could have sent: our
//! source address, a known pair of ends, and for TCP a sequence number that is outstanding (RFC
//! 5927 4). Errors are sent about well-formed packets to us alone, never about ICMP errors or
//! groups (RFC 1122 3.2.2), and at a bounded rate (RFC 1812 4.3.2.8).

use core::net::SocketAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet,
};

use crate::bytes::{Egress, RxBytes, TxBytes};
use crate::error::Error;
use crate::interface::InterfaceId;
use crate::ip::pmtu::plateau;
use crate::ip::{self, Packet, v4};
use crate::sockets::demux::Target;
use crate::sockets::events::EventKind;
use crate::stack::{Arrival, Stack};
use crate::tcp::{Endpoints, Seq};
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
        error: Error,
        hard: bool,
        quote: Quote,
    },
    /// A packet was too big for a link on its way, which takes `mtu` bytes.
    TooBig {
        mtu: u16,
        quote: Quote,
    },
    /// Of no interest here.
    Other,
}

/// What an error message tells of the packet that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quote {
    pub(crate) protocol: IpProtocol,
    /// The packet's source is `local`.
    pub(crate) ends: Endpoints,
    /// The first sequence number if it was a TCP segment.
    pub(crate) seq: Seq,
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
            return Ok(Message::TooBig { mtu, quote });
        }
        (Icmpv4Message::DstUnreachable, code) => match unreachable(code) {
            Some(meaning) => meaning,
            None => return Ok(Message::Other),
        },
        (Icmpv4Message::TimeExceeded, _) => (Error::HostUnreachable, false),
        _ => return Ok(Message::Other),
    };
    let quote = parse_quote(view.data()).ok_or(Bad::Malformed)?;
    Ok(Message::Error { error, hard, quote })
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
    let [a, b, c, d, e, f, g, h] = *rest.first_chunk::<8>()?;
    let ends = Endpoints {
        local: SocketAddr::new(view.src_addr().into(), u16::from_be_bytes([a, b])),
        remote: SocketAddr::new(view.dst_addr().into(), u16::from_be_bytes([c, d])),
    };
    let seq = Seq::new(u32::from_be_bytes([e, f, g, h]));
    Some(Quote { protocol: view.next_header(), ends, seq })
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
            Ok(Message::Error { error, hard, quote }) => {
                let believed = arrival == Arrival::ToUs && self.deliver(now, error, hard, &quote);
                self.count_error(believed);
            }
            Ok(Message::TooBig { mtu, quote }) => {
                let believed = arrival == Arrival::ToUs && self.path_takes(now, mtu, &quote);
                self.count_error(believed);
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

    fn count_error(&mut self, believed: bool) {
        let counters = &mut self.net.counters;
        if believed {
            counters.icmp_in += 1;
        } else {
            counters.icmp_stray += 1;
        }
    }

    /// The path of the quoted segment takes packets of `mtu` bytes only; false if that is not
    /// believed: the segment is not on its way (RFC 5927 7.2).
    pub(crate) fn path_takes(&mut self, now: Instant, mtu: u16, quote: &Quote) -> bool {
        if quote.protocol != IpProtocol::Tcp {
            return false;
        }
        let Some(Target::Socket(handle)) = self.demux.target(&quote.ends) else { return false };
        let Some(stream) = self.sockets.get_mut(handle).and_then(|socket| socket.connection())
        else {
            return false;
        };
        if !stream.connection.is_outstanding(quote.seq) {
            return false;
        }
        let mtu = self.path_mtus.learn(now, quote.ends.remote.ip(), mtu);
        stream.connection.handle_too_big(mtu);
        self.mark_ready(handle);
        true
    }

    /// Gives an error to the socket that sent the quoted packet; false if there is none.
    pub(crate) fn deliver(
        &mut self,
        now: Instant,
        error: Error,
        hard: bool,
        quote: &Quote,
    ) -> bool {
        match quote.protocol {
            IpProtocol::Tcp => {
                let handle = match self.demux.target(&quote.ends) {
                    Some(Target::Socket(handle)) => handle,
                    Some(Target::Request(place)) => {
                        return self.request_unreachable(place, quote.seq);
                    }
                    None => return false,
                };
                let Some(stream) =
                    self.sockets.get_mut(handle).and_then(|socket| socket.connection())
                else {
                    return false;
                };
                if !stream.connection.is_outstanding(quote.seq) {
                    return false;
                }
                stream.connection.handle_unreachable(error);
                self.settle(now, handle);
                self.mark_ready(handle);
                true
            }
            IpProtocol::Udp => {
                let Some(handle) = self.demux.datagram(&quote.ends) else { return false };
                let Some(socket) = self.sockets.get_mut(handle) else { return false };
                // As Linux: only a connected socket is told, and only what is final.
                let connected =
                    socket.datagram().is_some_and(|d| d.peer == Some(quote.ends.remote));
                if connected && hard {
                    self.events.add(handle, socket, EventKind::Failed(error));
                }
                connected && hard
            }
            _ => false,
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
        // As Linux: what stays within the host is not limited.
        let inside = packet.interface == InterfaceId::LOOPBACK;
        if !inside && !self.net.icmp_limit.take(now) {
            self.net.counters.icmp_limited += 1;
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
        self.net.counters.icmp_out += 1;
        self.net.answer(now, &packet.from(0), &ip, fill, out);
    }
}

//! Errors sent, and errors received.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use smoltcp::wire::IpProtocol;

use super::echo::EchoNumbers;
use crate::error::Error;
use crate::ip::Packet;
use crate::tcp::Endpoints;

/// An ICMP error to be sent to the sender of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IcmpError {
    /// Its protocol is not spoken here.
    ProtocolUnreachable,
    /// No socket has its port.
    PortUnreachable,
    /// The rest of its fragments did not come in time.
    ReassemblyTimeout,
}

/// The content of a received ICMP error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportedError {
    /// The packet did not reach its host or socket. With `hard`, a datagram socket gets the error
    /// without having asked for it.
    Unreachable { error: Error, hard: bool },
    /// It was too big for a link on its way, which takes packets of so many bytes.
    TooBig(u16),
}

/// An ICMP error about a packet of this host, not yet verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IcmpReport {
    pub(crate) error: ReportedError,
    pub(crate) quote: QuotedPacket,
    /// The packet of the message.
    pub(crate) packet: Packet,
    /// Type and code of the message.
    pub(crate) kind: (u8, u8),
    /// The MTU, or the position of a bad byte of the quoted packet, or 0.
    pub(crate) info: u32,
}

impl IcmpReport {
    /// Range in the message's frame of the quoted packet's transport header and payload.
    pub(crate) fn transport(&self) -> Range<usize> {
        let end = self.packet.payload.end;
        end.saturating_sub(self.quote.transport_len)..end
    }
}

/// The packet that an ICMP error quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotedPacket {
    pub(crate) protocol: IpProtocol,
    /// The packet's source is `local`. Of an echo request, the ports are the identifier and the
    /// sequence number; of another ICMP message, 0.
    pub(crate) ends: Endpoints,
    /// The first sequence number if it was a TCP segment.
    pub(crate) seq: u32,
    /// Number of quoted bytes from the transport header on.
    pub(crate) transport_len: usize,
}

impl QuotedPacket {
    /// The quotation of a packet from `source` to `destination`, whose transport header starts with
    /// `bytes`: ports and, for TCP, the sequence number. `None` if there are less than 8 bytes (RFC
    /// 792).
    pub(super) fn new(
        protocol: IpProtocol,
        end: impl Fn(IpAddr, u16) -> SocketAddr,
        [source, destination]: [IpAddr; 2],
        bytes: &[u8],
    ) -> Option<Self> {
        let header = bytes.first_chunk::<8>()?;
        let [a, b, c, d, e, f, g, h] = *header;
        let (local, remote) = match protocol {
            IpProtocol::Icmp | IpProtocol::Icmpv6 => {
                let echo = EchoNumbers::of_request(protocol, header);
                echo.map_or((0, 0), |echo| (echo.ident, echo.seq))
            }
            _ => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        };
        let ends = Endpoints { local: end(source, local), remote: end(destination, remote) };
        let seq = u32::from_be_bytes([e, f, g, h]);
        Some(Self { protocol, ends, seq, transport_len: bytes.len() })
    }
}

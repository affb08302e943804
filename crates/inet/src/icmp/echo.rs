//! Echo messages of sockets (RFC 792, RFC 4443 4.1), as Linux's sockets of IPPROTO_ICMP.
//!
//! The header is as long as UDP's. The identifier stands for a port of this host, and the sequence
//! number for one of the peer. So an echo socket is a datagram socket with ports of its own.
//!
//! ```text
//!   sent       to (address, sequence number), from the socket's port: an echo request
//!   received   from (address, sequence number): the reply, from its ICMP header on
//!              from (address, 0): an ICMP error about a request, from its ICMP header on
//! ```

use core::net::IpAddr;

use smoltcp::wire::{Icmpv4Message, Icmpv6Message, IpProtocol, checksum};

use crate::ip;

/// Length of the header, bytes.
const HEADER: usize = 8;
/// Position of the checksum.
const CHECKSUM: core::ops::Range<usize> = 2..4;

/// Identifier and sequence number of an echo message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EchoNumbers {
    pub(crate) ident: u16,
    pub(crate) seq: u16,
}

impl EchoNumbers {
    /// Out of a message that begins with `header`.
    pub(crate) fn of(header: &[u8; HEADER]) -> Self {
        let [_, _, _, _, a, b, c, d] = *header;
        Self { ident: u16::from_be_bytes([a, b]), seq: u16::from_be_bytes([c, d]) }
    }

    /// Out of a quoted echo request; `None` for another message.
    pub(super) fn of_request(protocol: IpProtocol, header: &[u8; HEADER]) -> Option<Self> {
        let request: u8 = match protocol {
            IpProtocol::Icmp => Icmpv4Message::EchoRequest.into(),
            _ => Icmpv6Message::EchoRequest.into(),
        };
        (header.first() == Some(&request)).then(|| Self::of(header))
    }
}

/// ICMP of the family of an address.
pub(crate) fn protocol(address: IpAddr) -> IpProtocol {
    if address.is_ipv6() { IpProtocol::Icmpv6 } else { IpProtocol::Icmp }
}

/// Writes the header of an echo request into the first bytes of `out`. Its data has `len` bytes and
/// the sum `sum`.
pub(crate) fn emit(
    (source, destination): (IpAddr, IpAddr),
    numbers: EchoNumbers,
    (len, sum): (usize, u16),
    out: &mut [u8],
) {
    let Some(out) = out.get_mut(..HEADER) else { return };
    let (kind, pseudo) = match protocol(destination) {
        IpProtocol::Icmpv6 => {
            let len = HEADER + len;
            let pseudo = ip::pseudo_sum(source, destination, IpProtocol::Icmpv6, len);
            (Icmpv6Message::EchoRequest.into(), pseudo)
        }
        _ => (Icmpv4Message::EchoRequest.into(), 0),
    };
    let [a, b] = numbers.ident.to_be_bytes();
    let [c, d] = numbers.seq.to_be_bytes();
    out.copy_from_slice(&[kind, 0, 0, 0, a, b, c, d]);
    let sum = !checksum::combine(&[pseudo, checksum::data(out), sum]);
    out[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
}

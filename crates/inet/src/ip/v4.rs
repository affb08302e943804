//! IPv4 packets (RFC 791, RFC 1122 3.2).
//!
//! [`parse`] lets through whole, well-formed, correctly summed packets from a possible source, with
//! their options checked and otherwise ignored; everything else has a named reason. Nothing is
//! fragmented or reassembled: packets go out with DF set, and fragments are dropped.

use core::net::Ipv4Addr;
use core::ops::Range;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv4Repr};

/// Length of a header without options, bytes.
pub(crate) const HEADER: usize = smoltcp::wire::IPV4_HEADER_LEN;

/// A packet that has been let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    pub(crate) protocol: IpProtocol,
    /// Type of service byte.
    pub(crate) tos: u8,
    /// Where the packet is in the frame.
    pub(crate) whole: Range<usize>,
    /// Where its payload is in the frame.
    pub(crate) payload: Range<usize>,
}

/// Why a packet is not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Malformed,
    Checksum,
    Options,
    SourceRoute,
    Martian,
    Fragment,
}

/// Looks at the packet that starts at `at` in `frame`.
pub(crate) fn parse(frame: &[u8], at: usize) -> Result<Packet, Refused> {
    let bytes = frame.get(at..).ok_or(Refused::Malformed)?;
    let view = Ipv4Packet::new_checked(bytes).map_err(|_| Refused::Malformed)?;
    if view.version() != 4 {
        return Err(Refused::Malformed);
    }
    // RFC 1122 3.2.1.2: verify on every datagram, silently discard a bad one.
    if !view.verify_checksum() {
        return Err(Refused::Checksum);
    }
    let header = usize::from(view.header_len());
    check_options(bytes.get(HEADER..header).ok_or(Refused::Malformed)?)?;
    if view.more_frags() || view.frag_offset() != 0 {
        return Err(Refused::Fragment);
    }
    // RFC 1122 3.2.1.3: these are never the source of a packet from outside.
    let source = view.src_addr();
    if source.is_multicast()
        || source.is_loopback()
        || source.octets()[0] == 0
        || is_class_e(source)
    {
        return Err(Refused::Martian);
    }
    let whole = at..at + usize::from(view.total_len());
    Ok(Packet {
        source,
        destination: view.dst_addr(),
        protocol: view.next_header(),
        tos: view.dscp() << 2 | view.ecn(),
        payload: at + header..whole.end,
        whole,
    })
}

/// 240/4, the broadcast address included.
fn is_class_e(address: Ipv4Addr) -> bool {
    address.octets()[0] >= 240
}

/// Walks the options (RFC 791 3.1): lengths must fit, source routes are not followed (RFC 1122
/// 3.3.5 lets a host refuse), all others are skipped (RFC 1122 3.2.1.8).
fn check_options(mut options: &[u8]) -> Result<(), Refused> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    while let [kind, rest @ ..] = options {
        match *kind {
            END => break,
            NO_OPERATION => options = rest,
            LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => return Err(Refused::SourceRoute),
            _ => {
                let len = usize::from(*rest.first().ok_or(Refused::Options)?);
                if len < 2 {
                    return Err(Refused::Options);
                }
                options = options.get(len..).ok_or(Refused::Options)?;
            }
        }
    }
    Ok(())
}

/// The header of a packet to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    pub(crate) protocol: IpProtocol,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    /// Bytes after the header.
    pub(crate) payload_len: usize,
}

impl Header {
    /// Writes it into the first [`HEADER`] bytes of `out`. DF is set, so the identification means
    /// nothing and is 0 (RFC 6864 4.1).
    pub(crate) fn emit(&self, out: &mut [u8]) {
        let repr = Ipv4Repr {
            src_addr: self.source,
            dst_addr: self.destination,
            next_header: self.protocol,
            payload_len: self.payload_len,
            hop_limit: self.ttl,
        };
        let mut view = Ipv4Packet::new_unchecked(out);
        repr.emit(&mut view, &ChecksumCapabilities::ignored());
        view.set_dscp(self.tos >> 2);
        view.set_ecn(self.tos & 3);
        view.fill_checksum();
    }
}

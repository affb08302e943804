//! Messages of ICMP: the echo requests of programs, and what comes back about them.

use std::net::IpAddr;

use etherparse::checksum::Sum16BitWords;
use etherparse::{IpNumber, NetSlice, SlicedPacket};

use crate::header::{Manner, with_header};

/// Length of an ICMP header, and of a fragment header of IPv6, bytes.
const HEADER: usize = 8;
/// Lengths of the IP headers without options.
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Types of messages, of IPv4 and IPv6.
const REQUEST: [u8; 2] = [8, 128];
const REPLY: [u8; 2] = [0, 129];
/// The next header of a fragment.
const FRAGMENT: u8 = 44;

/// An echo request that a program has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EchoRequest<'a> {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) ident: u16,
    pub(crate) seq: u16,
    pub(crate) manner: Manner,
    pub(crate) data: &'a [u8],
}

/// The ends of a message for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EchoEnds {
    pub(crate) from: IpAddr,
    /// The address from which the program has sent.
    pub(crate) to: IpAddr,
    /// The identifier that the program has sent.
    pub(crate) ident: u16,
}

impl<'a> EchoRequest<'a> {
    /// Reads the ICMP message of a packet between these ends; `None` if it is no echo request.
    pub(crate) fn of(
        packet: &SlicedPacket<'a>,
        (from, to): (IpAddr, IpAddr),
        manner: Manner,
    ) -> Option<Self> {
        let payload = match packet.net.as_ref()? {
            NetSlice::Ipv4(ip) if ip.payload_ip_number() == IpNumber::ICMP => ip.payload(),
            NetSlice::Ipv6(ip) if ip.payload().ip_number == IpNumber::IPV6_ICMP => ip.payload(),
            _ => return None,
        };
        if payload.fragmented {
            return None;
        }
        let (&[kind, code, _, _, a, b, c, d], data) =
            payload.payload.split_first_chunk::<HEADER>()?;
        let is_request = kind == REQUEST[usize::from(to.is_ipv6())] && code == 0;
        let (ident, seq) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        is_request.then_some(Self { from, to, ident, seq, manner, data })
    }
}

/// The packet with which a message of the instance goes to a program: a reply, or an ICMP error
/// about a request. Identifiers and addresses become those that the program knows. `None` for any
/// other message.
pub(crate) fn answer(message: &mut [u8], ends: EchoEnds, manner: Manner) -> Option<Vec<u8>> {
    let v6 = ends.to.is_ipv6();
    let (&mut [kind, ..], quote) = message.split_first_chunk_mut::<HEADER>()?;
    if kind == REPLY[usize::from(v6)] {
        message.get_mut(4..6)?.copy_from_slice(&ends.ident.to_be_bytes());
    } else {
        correct_quote(quote, ends)?;
    }
    message.get_mut(2..4)?.fill(0);
    let sum = checksum(message, ends)?;
    message.get_mut(2..4)?.copy_from_slice(&sum.to_be_bytes());
    with_header((ends.from, ends.to), manner, message)
}

/// The quoted request is as the program has sent it.
fn correct_quote(quote: &mut [u8], ends: EchoEnds) -> Option<()> {
    let request = match ends.to {
        IpAddr::V4(own) => {
            quote.get_mut(12..16)?.copy_from_slice(&own.octets());
            quote.get_mut(10..12)?.fill(0);
            let sum = Sum16BitWords::new().add_slice(quote.get(..IPV4)?).ones_complement();
            quote.get_mut(10..12)?.copy_from_slice(&sum.to_ne_bytes());
            IPV4
        }
        IpAddr::V6(own) => {
            quote.get_mut(8..24)?.copy_from_slice(&own.octets());
            let fragment = *quote.get(6)? == FRAGMENT;
            IPV6 + if fragment { HEADER } else { 0 }
        }
    };
    let ident = quote.get_mut(request + 4..request + 6)?;
    ident.copy_from_slice(&ends.ident.to_be_bytes());
    Some(())
}

/// The checksum of a message whose field is zero; `None` for addresses of two families.
fn checksum(message: &[u8], EchoEnds { from, to, .. }: EchoEnds) -> Option<u16> {
    let mut sum = Sum16BitWords::new();
    let sum = match (from, to) {
        (IpAddr::V4(_), IpAddr::V4(_)) => sum,
        (IpAddr::V6(from), IpAddr::V6(to)) => sum
            .add_16bytes(from.octets())
            .add_16bytes(to.octets())
            .add_4bytes(u32::try_from(message.len()).ok()?.to_be_bytes())
            .add_2bytes([0, IpNumber::IPV6_ICMP.0]),
        _ => return None,
    };
    Some(u16::from_be(sum.add_slice(message).ones_complement()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Sent;

    const MANNER: Manner = Manner { hops: 7, class: 0x10 };

    fn packet(ends: (&str, &str), message: &[u8]) -> Vec<u8> {
        let ends = (ends.0.parse().unwrap(), ends.1.parse().unwrap());
        with_header(ends, MANNER, message).unwrap()
    }

    /// Of a packet: the message, if its sum is right.
    fn message(packet: &[u8], ends: EchoEnds) -> Vec<u8> {
        let start = if ends.to.is_ipv6() { IPV6 } else { IPV4 };
        let message = packet[start..].to_vec();
        assert_eq!(checksum(&message, ends), Some(0));
        message
    }

    #[test]
    fn requests_are_read_and_other_messages_are_not() {
        for (kind, ends) in [(8, ("10.0.0.1", "10.0.0.2")), (128, ("fd00::1", "fd00::2"))] {
            let bytes = packet(ends, &[kind, 0, 0, 0, 1, 2, 0, 3, b'x']);
            let Sent::Echo(read) = Sent::parse(&bytes) else { panic!("no request") };
            assert_eq!((read.ident, read.seq, read.data), (0x102, 3, &b"x"[..]));
            assert_eq!(read.manner, MANNER);
            assert_eq!(
                (read.from.to_string(), read.to.to_string()),
                (ends.0.into(), ends.1.into())
            );
            for other in
                [&[kind, 1, 0, 0, 1, 2, 0, 3][..], &[kind ^ 1, 0, 0, 0, 1, 2, 0, 3], &[kind, 0]]
            {
                let bytes = packet(ends, other);
                assert!(!matches!(Sent::parse(&bytes), Sent::Echo(_)), "{other:?}");
            }
        }
    }

    #[test]
    fn answers_have_the_numbers_of_the_program() {
        let ends = |from: &str, to: &str| EchoEnds {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            ident: 0x0909,
        };
        let four = ends("10.0.0.9", "10.0.0.1");
        let mut reply = [0, 0, 9, 9, 1, 1, 0, 3, b'x'];
        let made = message(&answer(&mut reply, four, MANNER).unwrap(), four);
        assert_eq!(&made[4..], &[9, 9, 0, 3, b'x']);
        for (v6, ends, kind, request) in
            [(false, four, 11, IPV4), (true, ends("fd00::9", "fd00::1"), 3, IPV6)]
        {
            let quoted = if v6 { ("fd00::7", "fd00::8") } else { ("10.0.0.7", "10.0.0.8") };
            let quote = packet(quoted, &[REQUEST[usize::from(v6)], 0, 5, 5, 1, 1, 0, 3]);
            let mut error = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &quote].concat();
            let made = message(&answer(&mut error, ends, MANNER).unwrap(), ends);
            let Sent::Echo(read) = Sent::parse(&made[HEADER..]) else { panic!("no quote") };
            assert_eq!((read.from, read.ident, read.seq), (ends.to, 0x0909, 3));
            assert_eq!(request, made.len() - 2 * HEADER);
            // Whatever its length, a message does no harm.
            for len in 0..error.len() {
                let _ = answer(&mut error[..len].to_vec(), ends, MANNER);
            }
        }
    }
}

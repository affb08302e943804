//! Packets as bytes.

use std::net::{IpAddr, SocketAddr};

use super::syntax::{Ecn, Packet, PacketBody, QuotedPacket, Segment, TcpOption};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
/// The most hops. A neighbour sends with as many.
const TTL: u8 = 255;

/// RFC 1071.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            let word = [pair[0], pair.get(1).copied().unwrap_or(0)];
            sum += u32::from(u16::from_be_bytes(word));
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
    let folded = !(((sum & 0xffff) + (sum >> 16)) as u16);
    folded
}

/// The pseudo-header of RFC 9293 3.1 or RFC 8200 8.1.
fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, len: usize) -> Vec<u8> {
    let mut bytes = octets(from);
    bytes.extend(octets(to));
    bytes.extend(u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn ip_header(from: IpAddr, to: IpAddr, protocol: u8, tos: u8, payload: usize) -> Vec<u8> {
    let mut header = Vec::new();
    let long = |value: usize| u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes();
    if from.is_ipv4() {
        header.extend([0x45, tos]);
        header.extend(long(20 + payload));
        header.extend([0, 0, 0, 0, TTL, protocol, 0, 0]);
        header.extend(octets(from));
        header.extend(octets(to));
        let sum = checksum(&[&header]).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
    } else {
        header.extend([0x60 | tos >> 4, tos << 4, 0, 0]);
        header.extend(long(payload));
        header.extend([protocol, TTL]);
        header.extend(octets(from));
        header.extend(octets(to));
    }
    header
}

/// A packet as it comes from `from` to `to`.
///
/// # Errors
/// Options that do not fill words of four bytes, or are too long.
pub(super) fn encode(packet: &Packet, from: SocketAddr, to: SocketAddr) -> Result<Vec<u8>, String> {
    let (mut payload, protocol, place) = match &packet.carries {
        PacketBody::Tcp(segment) => (tcp(segment, from.port(), to.port())?, TCP, 16),
        PacketBody::Udp { len } => (udp(*len, from.port(), to.port()), UDP, 6),
        PacketBody::Icmp { kind, code, mtu, echoed } => {
            if from.is_ipv4() {
                (icmp([*kind, *code], *mtu, *echoed, from, to), ICMP, 2)
            } else {
                (icmp(icmp6(*kind, *code), *mtu, *echoed, from, to), ICMP6, 2)
            }
        }
    };
    let pseudo = match protocol {
        ICMP => Vec::new(),
        _ => pseudo_header(from.ip(), to.ip(), protocol, payload.len()),
    };
    let sum = checksum(&[&pseudo, &payload]).to_be_bytes();
    payload[place..place + 2].copy_from_slice(&sum);
    let tos = packet.tos.unwrap_or(match packet.ecn {
        Some(Ecn::Exactly(bits)) => bits,
        Some(Ecn::Capable) => 2,
        None => 0,
    });
    let mut bytes = ip_header(from.ip(), to.ip(), protocol, tos, payload.len());
    bytes.extend(payload);
    Ok(bytes)
}

fn tcp(segment: &Segment, from: u16, to: u16) -> Result<Vec<u8>, String> {
    let options = encode_options(segment.options.as_deref().unwrap_or_default());
    if !options.len().is_multiple_of(4) || options.len() > 40 {
        return Err(format!("the options have {} bytes: pad them with nop", options.len()));
    }
    let words = u16::try_from(5 + options.len() / 4).unwrap_or(15);
    let mut bytes = Vec::new();
    bytes.extend(from.to_be_bytes());
    bytes.extend(to.to_be_bytes());
    bytes.extend(segment.seq.to_be_bytes());
    bytes.extend(segment.ack.to_be_bytes());
    bytes.extend((words << 12 | segment.flags).to_be_bytes());
    bytes.extend(segment.window.unwrap_or(0).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(segment.urgent.to_be_bytes());
    bytes.extend(options);
    bytes.resize(bytes.len() + segment.len, 0);
    Ok(bytes)
}

fn udp(len: usize, from: u16, to: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(from.to_be_bytes());
    bytes.extend(to.to_be_bytes());
    bytes.extend(u16::try_from(8 + len).unwrap_or(u16::MAX).to_be_bytes());
    bytes.resize(8 + len, 0);
    bytes
}

/// Type and code of ICMPv6 (RFC 4443 3) for those of ICMPv4 that mean the same, or are written so.
fn icmp6(kind: u8, code: u8) -> [u8; 2] {
    match (kind, code) {
        // Both call this "port unreachable".
        (3, 3) => [1, 4],
        (3, code) => [1, code],
        (11, code) => [3, code],
        (12, code) => [4, code],
        other => other.into(),
    }
}

/// An error about a packet that went from `to` to `from`.
fn icmp(
    [kind, code]: [u8; 2],
    mtu: u32,
    echoed: QuotedPacket,
    from: SocketAddr,
    to: SocketAddr,
) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(mtu.to_be_bytes());
    let (protocol, seq) = match echoed {
        QuotedPacket::Tcp { seq } => (TCP, seq),
        QuotedPacket::Udp => (UDP, 0),
    };
    // The header and the first 8 bytes behind it, of a packet that may have been longer.
    bytes.extend(ip_header(to.ip(), from.ip(), protocol, 0, 20));
    bytes.extend(to.port().to_be_bytes());
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(seq.to_be_bytes());
    bytes.resize(bytes.len() + 12, 0);
    bytes
}

fn encode_options(options: &[TcpOption]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for option in options {
        let (kind, value) = match option {
            TcpOption::Nop => {
                bytes.push(1);
                continue;
            }
            TcpOption::Eol => {
                bytes.push(0);
                continue;
            }
            TcpOption::Mss(mss) => (2, mss.to_be_bytes().to_vec()),
            TcpOption::WindowScale(shift) => (3, vec![*shift]),
            TcpOption::SackPermitted => (4, Vec::new()),
            TcpOption::Sack(blocks) => {
                let words = blocks.iter().flat_map(|(first, last)| [*first, *last]);
                (5, words.flat_map(u32::to_be_bytes).collect())
            }
            TcpOption::Timestamps { val, ecr } => {
                (8, [val.to_be_bytes(), ecr.to_be_bytes()].concat())
            }
            TcpOption::FastOpen(cookie) => (34, cookie.clone()),
            TcpOption::FastOpenExp(cookie) => (254, [&[0xf9, 0x89], &cookie[..]].concat()),
            TcpOption::Other(kind, value) => (*kind, value.clone()),
        };
        bytes.extend([kind, u8::try_from(value.len() + 2).unwrap_or(u8::MAX)]);
        bytes.extend(value);
    }
    bytes
}

/// A packet that has left.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) tos: u8,
    pub(super) carries: PacketBody,
}

/// Reads a packet, and checks its checksums.
///
/// # Errors
/// What is wrong with it.
pub(super) fn decode(bytes: &[u8]) -> Result<Seen, String> {
    read(bytes).ok_or_else(|| "a packet that is cut short".to_owned())?
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// `None` if the packet is too short.
fn read(bytes: &[u8]) -> Option<Result<Seen, String>> {
    let address = |at: usize, v4: bool| -> Option<IpAddr> {
        let rest = bytes.get(at..)?;
        Some(if v4 {
            IpAddr::from(*rest.first_chunk::<4>()?)
        } else {
            IpAddr::from(*rest.first_chunk::<16>()?)
        })
    };
    let v4 = bytes.first()? >> 4 == 4;
    let (protocol, tos, payload, from, to);
    if v4 {
        let header = usize::from(bytes[0] & 15) * 4;
        if checksum(&[bytes.get(..header)?]) != 0 {
            return Some(Err("the checksum of the IP header is wrong".to_owned()));
        }
        tos = *bytes.get(1)?;
        protocol = *bytes.get(9)?;
        payload = bytes.get(header..usize::from(word(bytes, 2)?))?;
        (from, to) = (address(12, true)?, address(16, true)?);
    } else {
        tos = bytes[0] << 4 | bytes.get(1)? >> 4;
        protocol = *bytes.get(6)?;
        payload = bytes.get(40..40 + usize::from(word(bytes, 4)?))?;
        (from, to) = (address(8, false)?, address(24, false)?);
    }
    let pseudo = match protocol {
        ICMP => Vec::new(),
        _ => pseudo_header(from, to, protocol, payload.len()),
    };
    if checksum(&[&pseudo, payload]) != 0 {
        return Some(Err("a checksum is wrong".to_owned()));
    }
    let (carries, ports) = match protocol {
        TCP => (PacketBody::Tcp(read_tcp(payload)?), (word(payload, 0)?, word(payload, 2)?)),
        UDP => {
            let len = payload.len().checked_sub(8)?;
            (PacketBody::Udp { len }, (word(payload, 0)?, word(payload, 2)?))
        }
        ICMP | ICMP6 => {
            let [kind, code] = *payload.first_chunk()?;
            let (mtu, echoed) = (long(payload, 4)?, QuotedPacket::Tcp { seq: 0 });
            (PacketBody::Icmp { kind, code, mtu, echoed }, (0, 0))
        }
        other => return Some(Err(format!("a packet of protocol {other}"))),
    };
    let (from, to) = (SocketAddr::new(from, ports.0), SocketAddr::new(to, ports.1));
    Some(Ok(Seen { from, to, tos, carries }))
}

fn read_tcp(bytes: &[u8]) -> Option<Segment> {
    let words = word(bytes, 12)?;
    let header = usize::from(words >> 12) * 4;
    Some(Segment {
        flags: words & 0x1ff,
        seq: long(bytes, 4)?,
        len: bytes.len().checked_sub(header)?,
        ack: long(bytes, 8)?,
        window: word(bytes, 14),
        urgent: word(bytes, 18)?,
        options: Some(read_options(bytes.get(20..header)?)?),
    })
}

fn read_options(mut bytes: &[u8]) -> Option<Vec<TcpOption>> {
    let mut options = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        if kind < 2 {
            options.push(if kind == 0 { TcpOption::Eol } else { TcpOption::Nop });
            bytes = rest;
            continue;
        }
        let len = usize::from(*rest.first()?);
        let value = bytes.get(2..len)?;
        bytes = bytes.get(len..)?;
        options.push(match (kind, value.len()) {
            (2, 2) => TcpOption::Mss(word(value, 0)?),
            (3, 1) => TcpOption::WindowScale(value[0]),
            (4, 0) => TcpOption::SackPermitted,
            (5, _) => TcpOption::Sack(
                value
                    .chunks(8)
                    .filter_map(|block| Some((long(block, 0)?, long(block, 4)?)))
                    .collect(),
            ),
            (8, 8) => TcpOption::Timestamps { val: long(value, 0)?, ecr: long(value, 4)? },
            (34, _) => TcpOption::FastOpen(value.to_vec()),
            (254, _) if value.starts_with(&[0xf9, 0x89]) => {
                TcpOption::FastOpenExp(value[2..].to_vec())
            }
            _ => TcpOption::Other(kind, value.to_vec()),
        });
    }
    Some(options)
}

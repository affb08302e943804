//! What the host at the other end of the link can do.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use anyhow::{Result, bail};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::client_kinds::FLOODED;
use super::kind::Kind;
use super::program::{WorstArgs, begun};

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The header of an IPv4 packet without options.
const IP: usize = 20;

pub(super) fn run(args: &WorstArgs) -> Result<()> {
    let (SocketAddr::V4(stack), SocketAddr::V4(host)) = (args.stack, args.connect) else {
        bail!("IPv4 addresses");
    };
    let (stack, host) = (*stack.ip(), *host.ip());
    if args.kind == Kind::ClosedPortFlood {
        let socket = UdpSocket::bind((host, 0))?;
        begun();
        for port in (6000..7000).cycle() {
            // Errors are answers to earlier ones.
            let _ = socket.send_to(&[0; 64], (stack, port));
        }
    }
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255)))?;
    socket.set_header_included_v4(true)?;
    let to = SockAddr::from(SocketAddr::from((stack, 0)));
    begun();
    let mut count = 0_u32;
    loop {
        count = count.wrapping_add(1);
        let packet = match args.kind {
            Kind::PingFlood => packet(host, stack, ICMP, 0, count, &echo_request(count)),
            Kind::FragmentFlood => packet(host, stack, UDP, 0x2000, count, &[7; 1400]),
            _ => {
                let source =
                    Ipv4Addr::from_bits(0xc633_6400 | count.wrapping_mul(2_654_435_761) >> 8);
                packet(source, stack, TCP, 0, count, &syn(source, stack, count))
            }
        };
        // A full device queue drops it.
        let _ = socket.send_to(&packet, &to);
    }
}

fn sum(bytes: &[u8], mut sum: u32) -> u16 {
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

pub(super) fn packet(
    from: Ipv4Addr,
    to: Ipv4Addr,
    protocol: u8,
    fragment: u16,
    id: u32,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![0; IP];
    bytes[0] = 0x45;
    let len = (IP + payload.len()) as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes[4..6].copy_from_slice(&(id as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
    (bytes[8], bytes[9]) = (64, protocol);
    bytes[12..16].copy_from_slice(&from.octets());
    bytes[16..20].copy_from_slice(&to.octets());
    let check = sum(&bytes, 0);
    bytes[10..12].copy_from_slice(&check.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn echo_request(count: u32) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[0] = 8;
    bytes[4..8].copy_from_slice(&count.to_be_bytes());
    let check = sum(&bytes, 0);
    bytes[2..4].copy_from_slice(&check.to_be_bytes());
    bytes
}

fn syn(from: Ipv4Addr, to: Ipv4Addr, count: u32) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes[..2].copy_from_slice(&(count as u16).to_be_bytes());
    bytes[2..4].copy_from_slice(&FLOODED.to_be_bytes());
    bytes[4..8].copy_from_slice(&count.to_be_bytes());
    (bytes[12], bytes[13]) = (0x50, 2);
    bytes[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
    let pseudo: u32 = from
        .octets()
        .chunks(2)
        .chain(to.octets().chunks(2))
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let check = sum(&bytes, pseudo + u32::from(TCP) + 20);
    bytes[16..18].copy_from_slice(&check.to_be_bytes());
    bytes
}

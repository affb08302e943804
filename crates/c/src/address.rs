//! `struct sockaddr_in` and `sockaddr_in6` as bytes.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use sockets::Errno;

/// Bytes of the longest address, a `sockaddr_in6`.
pub(crate) const MOST: usize = 28;
/// Bytes of a `sockaddr_in`.
const V4_LEN: usize = 16;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The address in a caller's bytes.
///
/// # Errors
/// EINVAL for fewer bytes than its family has, EAFNOSUPPORT for another family.
pub(crate) fn decode(bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let family = part(bytes, 0).map(u16::from_ne_bytes).ok_or(Errno::INVAL)?;
    let port = part(bytes, 2).map(u16::from_be_bytes).ok_or(Errno::INVAL)?;
    match family {
        AF_INET if bytes.len() >= V4_LEN => {
            let ip: [u8; 4] = part(bytes, 4).ok_or(Errno::INVAL)?;
            Ok(SocketAddrV4::new(Ipv4Addr::from(ip), port).into())
        }
        AF_INET6 => {
            let flow = part(bytes, 4).map(u32::from_be_bytes).ok_or(Errno::INVAL)?;
            let ip: [u8; 16] = part(bytes, 8).ok_or(Errno::INVAL)?;
            let scope = part(bytes, 24).map(u32::from_ne_bytes).ok_or(Errno::INVAL)?;
            Ok(SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope).into())
        }
        AF_INET => Err(Errno::INVAL),
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// An address as the caller has it, and its length.
pub(crate) fn encode(addr: SocketAddr) -> ([u8; MOST], usize) {
    let mut bytes = [0; MOST];
    bytes[2..4].copy_from_slice(&addr.port().to_be_bytes());
    match addr {
        SocketAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&AF_INET.to_ne_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            (bytes, V4_LEN)
        }
        SocketAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&AF_INET6.to_ne_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
            (bytes, MOST)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive() {
        for text in ["10.1.2.3:80", "0.0.0.0:0", "[fe80::1]:443", "[::]:65535"] {
            let addr: SocketAddr = text.parse().unwrap();
            let (bytes, len) = encode(addr);
            assert_eq!(decode(&bytes[..len]), Ok(addr));
            for short in 0..len {
                assert_eq!(decode(&bytes[..short]), Err(Errno::INVAL), "{text} {short}");
            }
        }
        let scoped = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 0, 3).into();
        assert_eq!(decode(&encode(scoped).0), Ok(scoped));
        let unix = [1_u16.to_ne_bytes(), [0, 0]].concat();
        assert_eq!(decode(&unix), Err(Errno::AFNOSUPPORT));
    }
}

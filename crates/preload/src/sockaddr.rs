//! `struct sockaddr_in` and `sockaddr_in6` in and out, by Linux's rules of length and truncation.
//!
//! The parsing works on copied bytes; only [`copy_in`] and [`copy_out`] touch the program's
//! pointers, and ask before whether there is memory ([`pointers`]).
//!
//! The socket and the call decide which family an address may have, see [`Name`]'s methods. An
//! address given to a program has its socket's family: an IPv4 address of an AF_INET6 socket is
//! written as `::ffff:a.b.c.d` (RFC 3493 3.7).

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::mem::size_of;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use rustix::io::Errno;
use sockets::{Family, SocketKind};

use crate::errno::Outcome;
use crate::pointers;

/// Bytes of a `struct sockaddr_in`.
const V4_LENGTH: usize = size_of::<sockaddr_in>();
/// Bytes of a `struct sockaddr_in6`.
const V6_LENGTH: usize = size_of::<sockaddr_in6>();
/// Bytes of one without a scope, as RFC 2133 has it.
const V6_LEAST: usize = 24;
/// Bytes of a `struct sockaddr_storage`: the kernel accepts no longer address.
pub(crate) const LONGEST: usize = 128;

/// An address as the program gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// AF_INET.
    V4(SocketAddrV4),
    /// AF_INET6.
    V6(SocketAddrV6),
    /// AF_INET6, but too short. The meaning depends on the socket.
    ShortV6,
    /// AF_UNSPEC; bytes after the family, as far as there are some, read as an AF_INET address.
    Unspecified(Option<SocketAddrV4>),
    /// Another family; at least as long as an AF_INET address.
    Other,
}

impl Name {
    /// Out of the bytes of a `struct sockaddr`.
    ///
    /// # Errors
    /// EINVAL when too short or too long.
    pub(crate) fn parse(bytes: &[u8]) -> Outcome<Self> {
        if bytes.len() > LONGEST {
            return Err(Errno::INVAL);
        }
        let family = bytes.first_chunk().ok_or(Errno::INVAL)?;
        let address = bytes.first_chunk().map(v4_from_bytes);
        match c_int::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET => address.map(Self::V4).ok_or(Errno::INVAL),
            libc::AF_INET6 => Ok(v6_from_bytes(bytes).map_or(Self::ShortV6, Self::V6)),
            libc::AF_UNSPEC => Ok(Self::Unspecified(address)),
            _ => address.map(|_| Self::Other).ok_or(Errno::INVAL),
        }
    }

    /// The address for bind(2). On an AF_INET socket, AF_UNSPEC with the address "any" stands for
    /// AF_INET, for the sake of old programs.
    ///
    /// # Errors
    /// EINVAL for an address that is too short for the socket's family, as it is `len` bytes long;
    /// EAFNOSUPPORT for another family.
    pub(crate) fn to_bind(self, family: Family, len: usize) -> Outcome<SocketAddr> {
        match (family, self) {
            (Family::V4, Self::V4(address)) => Ok(address.into()),
            (Family::V4, Self::Unspecified(Some(any))) if any.ip().is_unspecified() => {
                Ok(any.into())
            }
            (Family::V4, Self::Unspecified(None)) => Err(Errno::INVAL),
            (Family::V4, _) => Err(Errno::AFNOSUPPORT),
            (Family::V6, Self::V6(address)) => Ok(address.into()),
            (Family::V6, _) if len < V6_LEAST => Err(Errno::INVAL),
            (Family::V6, _) => Err(Errno::AFNOSUPPORT),
        }
    }

    /// The address for connect(2). `None`: the peer is to be removed.
    ///
    /// # Errors
    /// EAFNOSUPPORT for another family than the socket's; but a datagram socket of AF_INET6 can be
    /// connected to an AF_INET address. EINVAL for a short address.
    pub(crate) fn to_connect(
        self,
        family: Family,
        kind: SocketKind,
    ) -> Outcome<Option<SocketAddr>> {
        match (family, self) {
            (_, Self::Unspecified(_)) => Ok(None),
            (Family::V4, Self::V4(address)) => Ok(Some(address.into())),
            (Family::V6, Self::V6(address)) => Ok(Some(address.into())),
            (Family::V6, Self::V4(address)) if kind != SocketKind::Stream => {
                Ok(Some(mapped(address).into()))
            }
            (Family::V6, Self::ShortV6) => Err(Errno::INVAL),
            _ => Err(Errno::AFNOSUPPORT),
        }
    }

    /// The destination for sendto(2). AF_UNSPEC stands for AF_INET on an AF_INET socket, and for
    /// the connected peer (`None`) on an AF_INET6 socket. Port 0 is no destination.
    ///
    /// # Errors
    /// EAFNOSUPPORT for another family on an AF_INET socket, where an AF_INET6 one has EINVAL.
    /// EINVAL for a short address or port 0.
    pub(crate) fn to_send(self, family: Family) -> Outcome<Option<SocketAddr>> {
        let to: SocketAddr = match (family, self) {
            (Family::V4, Self::V4(address) | Self::Unspecified(Some(address))) => address.into(),
            (Family::V4, Self::V6(_) | Self::ShortV6 | Self::Other) => {
                return Err(Errno::AFNOSUPPORT);
            }
            (Family::V6, Self::V6(address)) => address.into(),
            (Family::V6, Self::V4(address)) => mapped(address).into(),
            (Family::V6, Self::Unspecified(_)) => return Ok(None),
            (Family::V4, Self::Unspecified(None)) | (Family::V6, Self::ShortV6 | Self::Other) => {
                return Err(Errno::INVAL);
            }
        };
        if to.port() == 0 { Err(Errno::INVAL) } else { Ok(Some(to)) }
    }
}

fn mapped(address: SocketAddrV4) -> SocketAddrV6 {
    SocketAddrV6::new(address.ip().to_ipv6_mapped(), address.port(), 0, 0)
}

fn v4_from_bytes(bytes: &[u8; V4_LENGTH]) -> SocketAddrV4 {
    let [_, _, p0, p1, a, b, c, d, ..] = *bytes;
    SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([p0, p1]))
}

/// Family, port, flow information (not used) and address, 24 bytes, then the scope if there is one
/// (RFC 2133 had none).
fn v6_from_bytes(bytes: &[u8]) -> Option<SocketAddrV6> {
    let (&[_, _, p0, p1, _, _, _, _], rest) = bytes.split_first_chunk()?;
    let (&address, rest) = rest.split_first_chunk::<16>()?;
    let scope = rest.first_chunk().map_or(0, |scope| u32::from_ne_bytes(*scope));
    let port = u16::from_be_bytes([p0, p1]);
    Some(SocketAddrV6::new(Ipv6Addr::from(address), port, 0, scope))
}

/// An address as the bytes that a socket of this family shows, and how many they are.
///
/// # Errors
/// EAFNOSUPPORT for an IPv6 address, which no AF_INET socket has.
pub(crate) fn to_bytes(address: SocketAddr, family: Family) -> Outcome<([u8; V6_LENGTH], usize)> {
    #[expect(clippy::cast_possible_truncation, reason = "AF_INET is 2 and AF_INET6 is 10")]
    let number = |family: c_int| (family as u16).to_ne_bytes();
    let mut bytes = [0; V6_LENGTH];
    let mut fill = |fields: &[&[u8]]| {
        bytes.iter_mut().zip(fields.iter().copied().flatten()).for_each(|(to, from)| *to = *from);
    };
    let port = address.port().to_be_bytes();
    let len = match (family, address) {
        (Family::V4, SocketAddr::V4(v4)) => {
            fill(&[&number(libc::AF_INET), &port, &v4.ip().octets()]);
            V4_LENGTH
        }
        (Family::V4, SocketAddr::V6(_)) => return Err(Errno::AFNOSUPPORT),
        (Family::V6, address) => {
            let v6 = match address {
                SocketAddr::V4(v4) => mapped(v4),
                SocketAddr::V6(v6) => v6,
            };
            let (flow, scope) = ([0; 4], v6.scope_id().to_ne_bytes());
            fill(&[&number(libc::AF_INET6), &port, &flow, &v6.ip().octets(), &scope]);
            V6_LENGTH
        }
    };
    Ok((bytes, len))
}

/// The address at `addr`.
///
/// # Errors
/// EINVAL for an impossible length, EFAULT for a null pointer, and those of [`Name::parse`].
///
/// # Safety
/// `addr` is null or points to `len` readable bytes.
pub(crate) unsafe fn copy_in(addr: *const sockaddr, len: socklen_t) -> Outcome<Name> {
    let len = usize::try_from(len).map_err(|_| Errno::INVAL)?;
    if len > LONGEST {
        return Err(Errno::INVAL);
    }
    if addr.is_null() {
        return Err(if len == 0 { Errno::INVAL } else { Errno::FAULT });
    }
    if !pointers::can_read(addr, len) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller says that `len` bytes are readable there.
    Name::parse(unsafe { core::slice::from_raw_parts(addr.cast(), len) })
}

/// Writes `address`, as a socket of this family shows it, to `addr`, cut to `*len` bytes, and its
/// full length to `*len`. A null `addr` means that the program does not want it.
///
/// # Errors
/// EFAULT for a null `len` with an `addr`, EINVAL for a negative length.
///
/// # Safety
/// `len` is null or valid; `addr` is null or points to `*len` writable bytes.
pub(crate) unsafe fn copy_out(
    address: SocketAddr,
    family: Family,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Outcome<()> {
    if addr.is_null() {
        return Ok(());
    }
    if !pointers::can_write(len) || !pointers::can_write(addr) {
        return Err(Errno::FAULT);
    }
    // SAFETY: not null, and the caller says that it is valid.
    let room = unsafe { *len };
    let (bytes, full) = to_bytes(address, family)?;
    let count = room_for(room, full)?;
    // SAFETY: `count` is at most `*len`, which the caller says is writable, and at most the length
    // of `bytes`.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast(), count) };
    #[expect(clippy::cast_possible_truncation, reason = "28 at most")]
    // SAFETY: as for the read above.
    unsafe {
        *len = full as socklen_t;
    }
    Ok(())
}

/// How many of `full` bytes fit into the announced `room`. A length with the sign bit is EINVAL,
/// because the kernel reads an `int`.
///
/// # Errors
/// EINVAL, see above.
pub(crate) fn room_for(room: socklen_t, full: usize) -> Outcome<usize> {
    let room = c_int::try_from(room).map_err(|_| Errno::INVAL)?;
    Ok(usize::try_from(room).map_err(|_| Errno::INVAL)?.min(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Family = Family::V4;
    const V6: Family = Family::V6;
    const STREAM: SocketKind = SocketKind::Stream;

    fn bytes(family: c_int, port: u16, ip: [u8; 4]) -> Vec<u8> {
        let mut bytes = u16::try_from(family).unwrap().to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend(ip);
        bytes.extend([0; 8]);
        bytes
    }

    fn v4(ip: [u8; 4], port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(ip.into(), port)
    }

    fn v6(text: &str) -> SocketAddrV6 {
        text.parse().unwrap()
    }

    #[test]
    fn parse_and_write_are_inverse() {
        let address = v4([10, 219, 0, 2], 8080);
        let (bytes, len) = to_bytes(address.into(), V4).unwrap();
        assert_eq!((Name::parse(&bytes[..len]), len), (Ok(Name::V4(address)), 16));
        let (bytes, len) = to_bytes(address.into(), V6).unwrap();
        let mapped = Name::V6(v6("[::ffff:10.219.0.2]:8080"));
        assert_eq!((Name::parse(&bytes[..len]), len), (Ok(mapped), 28));
        assert_eq!(to_bytes("[::1]:1".parse().unwrap(), V4), Err(Errno::AFNOSUPPORT));
        let scoped = v6("[fe80::1%3]:80");
        let (bytes, len) = to_bytes(scoped.into(), V6).unwrap();
        assert_eq!(Name::parse(&bytes[..len]), Ok(Name::V6(scoped)));
        assert_eq!(Name::parse(&bytes[..24]), Ok(Name::V6(v6("[fe80::1]:80"))));
        assert_eq!(Name::parse(&bytes[..23]), Ok(Name::ShortV6));
    }

    #[test]
    fn lengths_and_families() {
        let whole = bytes(libc::AF_INET, 80, [1, 2, 3, 4]);
        assert_eq!(Name::parse(&whole[..16]), Ok(Name::V4(v4([1, 2, 3, 4], 80))));
        // Linux wants all 16 bytes although the last eight mean nothing.
        assert_eq!(Name::parse(&whole[..15]), Err(Errno::INVAL));
        assert_eq!(Name::parse(&whole[..1]), Err(Errno::INVAL));
        assert_eq!(Name::parse(&[0; 129]), Err(Errno::INVAL));
        let storage = [whole.as_slice(), &[0; 112]].concat();
        assert_eq!(Name::parse(&storage), Ok(Name::V4(v4([1, 2, 3, 4], 80))));
        let other = bytes(libc::AF_UNIX, 80, [0; 4]);
        assert_eq!(Name::parse(&other), Ok(Name::Other));
        assert_eq!(Name::parse(&other[..15]), Err(Errno::INVAL));
        assert_eq!(Name::Other.to_bind(V4, 16), Err(Errno::AFNOSUPPORT));
        assert_eq!(Name::Other.to_bind(V6, 16), Err(Errno::INVAL));
        assert_eq!(Name::Other.to_bind(V6, 28), Err(Errno::AFNOSUPPORT));
        assert_eq!(Name::Other.to_connect(V4, STREAM), Err(Errno::AFNOSUPPORT));
        assert_eq!(Name::Other.to_send(V4), Err(Errno::AFNOSUPPORT));
        assert_eq!(Name::Other.to_send(V6), Err(Errno::INVAL));
        assert_eq!(Name::parse(&[0, 0]), Ok(Name::Unspecified(None)));
    }

    #[test]
    fn unspecified_family_by_call() {
        let any = Name::parse(&bytes(libc::AF_UNSPEC, 80, [0; 4])).unwrap();
        assert_eq!(any.to_bind(V4, 16), Ok(v4([0; 4], 80).into()));
        assert_eq!(any.to_bind(V6, 23), Err(Errno::INVAL));
        assert_eq!(any.to_bind(V6, 24), Err(Errno::AFNOSUPPORT));
        assert_eq!(any.to_connect(V4, STREAM), Ok(None));
        let one = Name::parse(&bytes(libc::AF_UNSPEC, 80, [1, 2, 3, 4])).unwrap();
        assert_eq!(one.to_bind(V4, 16), Err(Errno::AFNOSUPPORT));
        assert_eq!(one.to_send(V4), Ok(Some(v4([1, 2, 3, 4], 80).into())));
        assert_eq!(one.to_send(V6), Ok(None));
        assert_eq!(Name::Unspecified(None).to_send(V4), Err(Errno::INVAL));
        assert_eq!(Name::V4(v4([1, 2, 3, 4], 0)).to_send(V4), Err(Errno::INVAL));
    }

    #[test]
    fn families_by_socket_and_call() {
        let (four, six) = (Name::V4(v4([1, 2, 3, 4], 80)), Name::V6(v6("[2001:db8::1]:80")));
        let mapped = SocketAddr::from(v6("[::ffff:1.2.3.4]:80"));
        assert_eq!(six.to_bind(V6, 28), Ok(v6("[2001:db8::1]:80").into()));
        assert_eq!(four.to_bind(V6, 16), Err(Errno::INVAL));
        assert_eq!(four.to_bind(V6, 128), Err(Errno::AFNOSUPPORT));
        assert_eq!(Name::ShortV6.to_bind(V6, 23), Err(Errno::INVAL));
        assert_eq!(six.to_bind(V4, 28), Err(Errno::AFNOSUPPORT));
        assert_eq!(four.to_connect(V6, STREAM), Err(Errno::AFNOSUPPORT));
        assert_eq!(four.to_connect(V6, SocketKind::Datagram), Ok(Some(mapped)));
        assert_eq!(six.to_connect(V4, STREAM), Err(Errno::AFNOSUPPORT));
        assert_eq!(Name::ShortV6.to_connect(V6, STREAM), Err(Errno::INVAL));
        assert_eq!(Name::ShortV6.to_connect(V4, STREAM), Err(Errno::AFNOSUPPORT));
        assert_eq!(four.to_send(V6), Ok(Some(mapped)));
        assert_eq!(six.to_send(V4), Err(Errno::AFNOSUPPORT));
        assert_eq!(six.to_send(V6), Ok(Some(v6("[2001:db8::1]:80").into())));
    }

    #[test]
    fn copies_are_cut_to_the_room() {
        let address = SocketAddr::from(v4([10, 0, 0, 1], 443));
        let mut place = [0xAA_u8; 16];
        let mut len: socklen_t = 6;
        // SAFETY: both pointers are to live locals, and 6 bytes are writable at the first.
        unsafe { copy_out(address, V4, place.as_mut_ptr().cast(), &raw mut len) }.unwrap();
        assert_eq!(len, 16);
        assert_eq!(place[2..8], [1, 187, 10, 0, 0xAA, 0xAA]);
        // SAFETY: null pointers are allowed.
        let outcome =
            unsafe { copy_out(address, V4, place.as_mut_ptr().cast(), core::ptr::null_mut()) };
        assert_eq!(outcome, Err(Errno::FAULT));
        // SAFETY: as above.
        assert_eq!(unsafe { copy_in(core::ptr::null(), 16) }, Err(Errno::FAULT));
        // SAFETY: as above.
        assert_eq!(unsafe { copy_in(core::ptr::null(), 129) }, Err(Errno::INVAL));
        assert_eq!(room_for(u32::MAX, 16), Err(Errno::INVAL));
    }
}

//! `struct sockaddr_in` in and out, by Linux's rules of length and truncation.
//!
//! The parsing works on copied bytes; only [`copy_in`] and [`copy_out`] touch the program's
//! pointers. A null pointer is EFAULT; any other pointer is believed, since a process that passes
//! a bad one to an ordinary library function faults too.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::mem::size_of;
use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use libc::{sockaddr, sockaddr_in, socklen_t};
use rustix::io::Errno;

use crate::errno::Outcome;

/// Bytes of a `struct sockaddr_in`.
pub(crate) const LENGTH: usize = size_of::<sockaddr_in>();
/// Bytes of a `struct sockaddr_storage`: the kernel accepts no longer address.
const LONGEST: usize = 128;

/// An address as the program gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// AF_INET.
    V4(SocketAddrV4),
    /// AF_UNSPEC; bytes after the family, as far as there are some, read as an AF_INET address.
    Unspecified(Option<SocketAddrV4>),
}

impl Name {
    /// Out of the bytes of a `struct sockaddr`.
    ///
    /// # Errors
    /// EINVAL when too short or too long, EAFNOSUPPORT for another family.
    pub(crate) fn parse(bytes: &[u8]) -> Outcome<Self> {
        if bytes.len() > LONGEST {
            return Err(Errno::INVAL);
        }
        let family = bytes.first_chunk().ok_or(Errno::INVAL)?;
        let address = bytes.first_chunk().map(v4_from_bytes);
        match c_int::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET => address.map(Self::V4).ok_or(Errno::INVAL),
            libc::AF_UNSPEC => Ok(Self::Unspecified(address)),
            _ => Err(Errno::AFNOSUPPORT),
        }
    }

    /// The address for bind(2): AF_UNSPEC with the address "any" stands for AF_INET, for the sake
    /// of old programs.
    ///
    /// # Errors
    /// EAFNOSUPPORT for any other AF_UNSPEC address, EINVAL for a short one.
    pub(crate) fn to_bind(self) -> Outcome<SocketAddr> {
        match self {
            Self::V4(address) => Ok(address.into()),
            Self::Unspecified(Some(address)) if address.ip().is_unspecified() => Ok(address.into()),
            Self::Unspecified(Some(_)) => Err(Errno::AFNOSUPPORT),
            Self::Unspecified(None) => Err(Errno::INVAL),
        }
    }

    /// The destination for sendto(2): AF_UNSPEC stands for AF_INET, and port 0 is no destination.
    ///
    /// # Errors
    /// EINVAL for a short address or port 0.
    pub(crate) fn to_send(self) -> Outcome<SocketAddr> {
        match self {
            Self::V4(address) | Self::Unspecified(Some(address)) if address.port() != 0 => {
                Ok(address.into())
            }
            _ => Err(Errno::INVAL),
        }
    }
}

fn v4_from_bytes(bytes: &[u8; LENGTH]) -> SocketAddrV4 {
    let [_, _, p0, p1, a, b, c, d, ..] = *bytes;
    SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([p0, p1]))
}

/// A `struct sockaddr_in` as bytes.
///
/// # Errors
/// EAFNOSUPPORT for an IPv6 address, which no AF_INET socket has.
pub(crate) fn to_bytes(address: SocketAddr) -> Outcome<[u8; LENGTH]> {
    let SocketAddr::V4(address) = address else { return Err(Errno::AFNOSUPPORT) };
    let mut bytes = [0; LENGTH];
    #[expect(clippy::cast_possible_truncation, reason = "AF_INET is 2")]
    let family = (libc::AF_INET as u16).to_ne_bytes();
    let fields = family.into_iter().chain(address.port().to_be_bytes());
    for (to, from) in bytes.iter_mut().zip(fields.chain(address.ip().octets())) {
        *to = from;
    }
    Ok(bytes)
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
    // SAFETY: the caller says that `len` bytes are readable there.
    Name::parse(unsafe { core::slice::from_raw_parts(addr.cast(), len) })
}

/// Writes `address` to `addr`, cut to `*len` bytes, and its full length to `*len`. A null `addr`
/// means that the program does not want it.
///
/// # Errors
/// EFAULT for a null `len` with an `addr`, EINVAL for a negative length.
///
/// # Safety
/// `len` is null or valid; `addr` is null or points to `*len` writable bytes.
pub(crate) unsafe fn copy_out(
    address: SocketAddr,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Outcome<()> {
    if addr.is_null() {
        return Ok(());
    }
    if len.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: not null, and the caller says that it is valid.
    let room = unsafe { *len };
    let bytes = to_bytes(address)?;
    let count = room_for(room, LENGTH)?;
    // SAFETY: `count` is at most `*len`, which the caller says is writable, and at most LENGTH.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast(), count) };
    #[expect(clippy::cast_possible_truncation, reason = "16")]
    // SAFETY: as for the read above.
    unsafe {
        *len = LENGTH as socklen_t;
    }
    Ok(())
}

/// How many of `full` bytes go where `room` are announced; a length with the sign bit is EINVAL,
/// since the kernel reads an `int`.
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

    #[test]
    fn parse_and_write_are_inverse() {
        let address = v4([10, 219, 0, 2], 8080);
        assert_eq!(Name::parse(&to_bytes(address.into()).unwrap()), Ok(Name::V4(address)));
        assert_eq!(to_bytes("[::1]:1".parse().unwrap()), Err(Errno::AFNOSUPPORT));
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
        assert_eq!(Name::parse(&bytes(libc::AF_INET6, 80, [0; 4])), Err(Errno::AFNOSUPPORT));
        assert_eq!(Name::parse(&[0, 0]), Ok(Name::Unspecified(None)));
    }

    #[test]
    fn unspecified_family_by_call() {
        let any = Name::parse(&bytes(libc::AF_UNSPEC, 80, [0; 4])).unwrap();
        assert_eq!(any.to_bind(), Ok(v4([0; 4], 80).into()));
        let one = Name::parse(&bytes(libc::AF_UNSPEC, 80, [1, 2, 3, 4])).unwrap();
        assert_eq!(one.to_bind(), Err(Errno::AFNOSUPPORT));
        assert_eq!(one.to_send(), Ok(v4([1, 2, 3, 4], 80).into()));
        assert_eq!(Name::Unspecified(None).to_send(), Err(Errno::INVAL));
        assert_eq!(Name::V4(v4([1, 2, 3, 4], 0)).to_send(), Err(Errno::INVAL));
    }

    #[test]
    fn copies_are_cut_to_the_room() {
        let address = SocketAddr::from(v4([10, 0, 0, 1], 443));
        let mut place = [0xAA_u8; 16];
        let mut len: socklen_t = 6;
        // SAFETY: both pointers are to live locals, and 6 bytes are writable at the first.
        unsafe { copy_out(address, place.as_mut_ptr().cast(), &raw mut len) }.unwrap();
        assert_eq!(len, 16);
        assert_eq!(place[2..8], [1, 187, 10, 0, 0xAA, 0xAA]);
        // SAFETY: null pointers are allowed.
        let outcome =
            unsafe { copy_out(address, place.as_mut_ptr().cast(), core::ptr::null_mut()) };
        assert_eq!(outcome, Err(Errno::FAULT));
        // SAFETY: as above.
        assert_eq!(unsafe { copy_in(core::ptr::null(), 16) }, Err(Errno::FAULT));
        // SAFETY: as above.
        assert_eq!(unsafe { copy_in(core::ptr::null(), 129) }, Err(Errno::INVAL));
        assert_eq!(room_for(u32::MAX, 16), Err(Errno::INVAL));
    }
}

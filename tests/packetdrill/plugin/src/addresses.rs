//! Socket addresses of the C interface.

#![allow(unsafe_code)]

use core::mem::size_of;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::ptr;

use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::memory;

/// Reads an address.
///
/// # Errors
/// EFAULT, EINVAL, EAFNOSUPPORT (`AF_UNSPEC` included).
///
/// # Safety
/// `address` is null or `len` bytes can be read there.
pub(crate) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr, i32> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { memory::bytes(address.cast(), len as usize) };
    let family = bytes.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
    let port = bytes.get(2..).and_then(<[u8]>::first_chunk).map(|bytes| u16::from_be_bytes(*bytes));
    let (Some(family), Some(port)) = (family, port) else { return Err(libc::EINVAL) };
    match i32::from(family) {
        libc::AF_INET => {
            let ip: Option<&[u8; 4]> = bytes.get(4..).and_then(<[u8]>::first_chunk);
            let ip = Ipv4Addr::from(*ip.ok_or(libc::EINVAL)?);
            Ok(SocketAddrV4::new(ip, port).into())
        }
        libc::AF_INET6 => {
            let ip: Option<&[u8; 16]> = bytes.get(8..).and_then(<[u8]>::first_chunk);
            let ip = Ipv6Addr::from(*ip.ok_or(libc::EINVAL)?);
            Ok(SocketAddrV6::new(ip, port, 0, 0).into())
        }
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// Writes an address as far as there is room, and its length.
///
/// # Safety
/// `len` is null or can be read and written; if it is not null, `address` is null or that many
/// bytes can be written there.
pub(crate) unsafe fn write(from: SocketAddr, address: *mut sockaddr, len: *mut socklen_t) {
    if address.is_null() || len.is_null() {
        return;
    }
    let bytes = match from {
        SocketAddr::V4(v4) => {
            let head = (libc::AF_INET as u16).to_ne_bytes();
            let mut all = [&head[..], &v4.port().to_be_bytes(), &v4.ip().octets()].concat();
            all.resize(size_of::<sockaddr_in>(), 0);
            all
        }
        SocketAddr::V6(v6) => {
            let head = (libc::AF_INET6 as u16).to_ne_bytes();
            let flow = [0; 4];
            let mut all = [&head[..], &v6.port().to_be_bytes(), &flow, &v6.ip().octets()].concat();
            all.resize(size_of::<sockaddr_in6>(), 0);
            all
        }
    };
    // SAFETY: the caller's promise.
    let room = unsafe { ptr::read(len) } as usize;
    // SAFETY: the caller's promise.
    unsafe { memory::copy_out(&bytes, address.cast(), room) };
    // SAFETY: the caller's promise; an address is short.
    unsafe { ptr::write(len, bytes.len() as socklen_t) };
}

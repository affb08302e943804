//! Lists of a group's sources (RFC 3678): the C library sets them as options by calls of its own.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use libc::{in_addr, sockaddr, sockaddr_storage, socklen_t};
use rustix::io::Errno;

use crate::descriptors::is_socket;
use crate::errno::{self, Outcome};
use crate::interpose::interpose;

/// Linux's, which libc lacks.
const IP_MSFILTER: c_int = 41;
const MCAST_MSFILTER: c_int = 48;
/// Bytes of a `struct ip_msfilter` before its sources.
const V4_HEAD: usize = 16;
/// Bytes of a `struct group_filter` before its sources.
const HEAD: usize = 144;
const STORAGE: usize = size_of::<sockaddr_storage>();

/// The bytes of `count` values.
///
/// # Safety
/// They are there, unless there are none.
unsafe fn bytes_of<'a, T>(values: *const T, count: u32) -> Outcome<&'a [u8]> {
    let len = (count as usize).checked_mul(size_of::<T>()).ok_or(Errno::INVAL)?;
    match (len, values.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Errno::FAULT),
        // SAFETY: as the caller says.
        _ => Ok(unsafe { core::slice::from_raw_parts(values.cast(), len) }),
    }
}

/// The begin of an `ip_msfilter`.
fn v4_head(interface: u32, group: u32, mode: u32, count: u32) -> Vec<u8> {
    [group, interface, mode, count].iter().flat_map(|one| one.to_ne_bytes()).collect()
}

/// The begin of a `group_filter`, and the level of the option.
///
/// # Safety
/// `group` is null or has `len` bytes.
unsafe fn head(
    interface: u32,
    (group, len): (*const sockaddr, socklen_t),
    mode: u32,
    count: u32,
) -> Outcome<(Vec<u8>, c_int)> {
    // SAFETY: passed on from the caller.
    let address = unsafe { bytes_of(group.cast::<u8>(), len) }?;
    let family = address.first_chunk().map(|family| u16::from_ne_bytes(*family));
    let level = match family.map(c_int::from) {
        Some(libc::AF_INET) => libc::IPPROTO_IP,
        Some(libc::AF_INET6) => libc::IPPROTO_IPV6,
        _ => return Err(Errno::INVAL),
    };
    let mut all = vec![0; HEAD];
    all[..4].copy_from_slice(&interface.to_ne_bytes());
    let place = all[8..8 + STORAGE].get_mut(..address.len()).ok_or(Errno::INVAL)?;
    place.copy_from_slice(address);
    all[8 + STORAGE..][..4].copy_from_slice(&mode.to_ne_bytes());
    all[12 + STORAGE..][..4].copy_from_slice(&count.to_ne_bytes());
    Ok((all, level))
}

fn set(fd: c_int, (level, name): (c_int, c_int), value: &[u8]) -> Outcome<c_int> {
    let len = socklen_t::try_from(value.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the value is a live slice of this length.
    errno::check(unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), len) })
}

/// Asks for the list. Copies mode, count and as many sources as there was room for.
///
/// # Safety
/// The pointers are the program's, with room for `*count` sources of `size` bytes.
unsafe fn get(
    fd: c_int,
    (level, name): (c_int, c_int),
    (mut value, head): (Vec<u8>, usize),
    (mode, count, sources, size): (*mut u32, *mut u32, *mut c_void, usize),
) -> Outcome<c_int> {
    // SAFETY: as the caller says.
    let room = unsafe { *count } as usize;
    value.resize(head + room.checked_mul(size).ok_or(Errno::INVAL)?, 0);
    let mut len = socklen_t::try_from(value.len()).map_err(|_| Errno::INVAL)?;
    let place: *mut c_void = value.as_mut_ptr().cast();
    // SAFETY: the value has so many bytes.
    errno::check(unsafe { libc::getsockopt(fd, level, name, place, &raw mut len) })?;
    let word = |at: usize| value.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
    let (at_mode, at_count) = if head == V4_HEAD { (8, 12) } else { (8 + STORAGE, 12 + STORAGE) };
    let (Some(found_mode), Some(found)) = (word(at_mode), word(at_count)) else {
        return Err(Errno::IO);
    };
    // SAFETY: as the caller says.
    unsafe { mode.write(found_mode) };
    // SAFETY: as above.
    unsafe { count.write(found) };
    let copied = value.get(head..).unwrap_or_default();
    let copied = copied.get(..(found as usize).min(room) * size).unwrap_or_default();
    if !copied.is_empty() {
        // SAFETY: as the caller says, and there is room for at least so many.
        unsafe { core::ptr::copy_nonoverlapping(copied.as_ptr(), sources.cast(), copied.len()) };
    }
    Ok(0)
}

interpose! {
    fn setipv4sourcefilter(
        fd: c_int, interface: u32, group: u32, mode: u32, count: u32,
        sources: *const in_addr,
    ) -> c_int {
        is_socket(fd) => {
            let value = [&v4_head(interface, group, mode, count), bytes_of(sources, count)?];
            set(fd, (libc::IPPROTO_IP, IP_MSFILTER), &value.concat())
        }
    }
    fn getipv4sourcefilter(
        fd: c_int, interface: u32, group: u32, mode: *mut u32, count: *mut u32,
        sources: *mut in_addr,
    ) -> c_int {
        is_socket(fd) => {
            let value = (v4_head(interface, group, 0, *count), V4_HEAD);
            let places = (mode, count, sources.cast(), size_of::<in_addr>());
            get(fd, (libc::IPPROTO_IP, IP_MSFILTER), value, places)
        }
    }
    fn setsourcefilter(
        fd: c_int, interface: u32, group: *const sockaddr, len: socklen_t, mode: u32, count: u32,
        sources: *const sockaddr_storage,
    ) -> c_int {
        is_socket(fd) => {
            let (head, level) = head(interface, (group, len), mode, count)?;
            set(fd, (level, MCAST_MSFILTER), &[&head, bytes_of(sources, count)?].concat())
        }
    }
    fn getsourcefilter(
        fd: c_int, interface: u32, group: *const sockaddr, len: socklen_t, mode: *mut u32,
        count: *mut u32, sources: *mut sockaddr_storage,
    ) -> c_int {
        is_socket(fd) => {
            let (value, level) = head(interface, (group, len), 0, *count)?;
            let places = (mode, count, sources.cast(), STORAGE);
            get(fd, (level, MCAST_MSFILTER), (value, HEAD), places)
        }
    }
}

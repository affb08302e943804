//! Links in addresses as text: `fe80::1%eth0` in getaddrinfo(3) and getnameinfo(3).
//!
//! The C library turns the name after `%` into a number by a call of its own, on a Unix socket,
//! which would give the host's. So numbers are passed to it, and names are put in here.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};
use core::net::Ipv6Addr;
use std::ffi::CString;

use libc::{addrinfo, sockaddr, sockaddr_in6, socklen_t};

use crate::calls::interfaces::interfaces;
use crate::errno::Outcome;
use crate::instance;
use crate::interpose::interpose;

/// Does a host's name have a link?
unsafe fn has_link(node: *const c_char) -> bool {
    // SAFETY: a string of the program's, or null.
    !node.is_null() && unsafe { CStr::from_ptr(node) }.to_bytes().contains(&b'%')
}

/// The name with the number of its link; `None` if there is no such interface.
fn numbered(node: &CStr) -> Option<CString> {
    let text = node.to_str().ok()?;
    let (address, link) = text.rsplit_once('%')?;
    if link.bytes().all(|byte| byte.is_ascii_digit()) {
        return CString::new(text).ok();
    }
    let found = interfaces().ok()?.into_iter().find(|interface| interface.name == link)?;
    CString::new(format!("{address}%{}", found.index)).ok()
}

unsafe fn address_info(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    found: *mut *mut addrinfo,
) -> Outcome<c_int> {
    // SAFETY: it was looked at before.
    let Some(name) = numbered(unsafe { CStr::from_ptr(node) }) else {
        return Ok(libc::EAI_NONAME);
    };
    // SAFETY: passed on from the program.
    Ok(unsafe { crate::real::getaddrinfo(name.as_ptr(), service, hints, found) })
}

/// The address, if its text would have the name of a link.
unsafe fn on_link(address: *const sockaddr, len: socklen_t) -> Option<sockaddr_in6> {
    let long = usize::try_from(len).is_ok_and(|len| len >= size_of::<sockaddr_in6>());
    if !long || address.is_null() {
        return None;
    }
    // SAFETY: the program says that so many bytes are readable; they may be unaligned.
    let six: sockaddr_in6 = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
    let ip = Ipv6Addr::from(six.sin6_addr.s6_addr);
    let linked = ip.is_unicast_link_local() || ip.octets()[..2] == [0xff, 0x02];
    let is_six = c_int::from(six.sin6_family) == libc::AF_INET6;
    Some(six).filter(|_| is_six && linked && six.sin6_scope_id != 0)
}

/// The name of the interface with a number, or the number.
fn link_name(index: u32) -> String {
    let found = interfaces().ok().and_then(|all| all.into_iter().find(|one| one.index == index));
    found.map_or_else(|| index.to_string(), |interface| interface.name)
}

unsafe fn name_info(
    (address, len): (*const sockaddr, socklen_t),
    (host, room): (*mut c_char, socklen_t),
    (service, service_room): (*mut c_char, socklen_t),
    flags: c_int,
) -> Outcome<c_int> {
    // SAFETY: passed on from the program.
    let Some(linked) = (unsafe { on_link(address, len) }) else { return Ok(libc::EAI_FAMILY) };
    let plain = sockaddr_in6 { sin6_scope_id: 0, ..linked };
    #[expect(clippy::cast_possible_truncation, reason = "28 bytes")]
    let plain_len = size_of::<sockaddr_in6>() as socklen_t;
    // SAFETY: an address of that length; the rest is passed on from the program.
    let done = unsafe {
        let plain = (&raw const plain).cast();
        crate::real::getnameinfo(plain, plain_len, host, room, service, service_room, flags)
    };
    if done != 0 {
        return Ok(done);
    }
    // SAFETY: the call has put a string there.
    let text = unsafe { CStr::from_ptr(host) }.to_bytes();
    // A name that the address has stays.
    if !text.contains(&b':') {
        return Ok(0);
    }
    let link = format!("%{}\0", link_name(linked.sin6_scope_id));
    if text.len() + link.len() > usize::try_from(room).unwrap_or(0) {
        return Ok(libc::EAI_OVERFLOW);
    }
    let end = host.wrapping_add(text.len());
    // SAFETY: the program says that `room` bytes are writable at `host`, and the text and the link
    // are no more.
    unsafe { core::ptr::copy_nonoverlapping(link.as_ptr().cast(), end, link.len()) };
    Ok(0)
}

interpose! {
    fn getaddrinfo(
        node: *const c_char, service: *const c_char, hints: *const addrinfo,
        found: *mut *mut addrinfo,
    ) -> c_int {
        has_link(node) && instance::is_wanted() => address_info(node, service, hints, found)
    }
    fn getnameinfo(
        address: *const sockaddr, len: socklen_t, host: *mut c_char, room: socklen_t,
        service: *mut c_char, service_room: socklen_t, flags: c_int,
    ) -> c_int {
        !host.is_null() && on_link(address, len).is_some() && instance::is_wanted() => name_info(
            (address, len), (host, room), (service, service_room), flags,
        )
    }
}

//! The functions of the table that send and receive.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr;

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use packetdrill::host::{Message, Progress};

use crate::addresses;
use crate::instance::Instance;
use crate::memory::{self, result};
use crate::userdata::of_userdata;

pub(crate) unsafe extern "C" fn read(
    userdata: *mut c_void,
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
) -> ssize_t {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    let mut progress = Progress::default();
    if !instance.look(|host| host.has(fd)) {
        // SAFETY: a descriptor of the kernel's, with read(2)'s contract.
        return unsafe { libc::read(fd, buffer, count) };
    }
    if buffer.is_null() && count > 0 {
        return result::<usize>(Err(libc::EFAULT));
    }
    let outcome = instance.call(|host| host.read(fd, count, &mut progress));
    if let Ok(bytes) = &outcome {
        // SAFETY: read(2)'s contract.
        unsafe { memory::copy_out(bytes, buffer, count) };
    }
    result(outcome.map(|bytes| bytes.len()))
}

pub(crate) unsafe extern "C" fn readv(
    userdata: *mut c_void,
    fd: c_int,
    iov: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // SAFETY: readv(2)'s contract.
    let pieces = unsafe { memory::pieces(iov, usize::try_from(count).unwrap_or(0)) };
    let mut progress = Progress::default();
    let outcome = instance.call(|host| host.read(fd, memory::room(pieces), &mut progress));
    if let Ok(bytes) = &outcome {
        // SAFETY: readv(2)'s contract.
        unsafe { memory::scatter(bytes, pieces) };
    }
    result(outcome.map(|bytes| bytes.len()))
}

/// A received message.
fn receive(instance: &Instance, fd: c_int, most: usize, flags: c_int) -> Result<Message, i32> {
    let mut progress = Progress::default();
    instance.call(|host| host.recv(fd, most, flags, &mut progress))
}

pub(crate) unsafe extern "C" fn recv(
    userdata: *mut c_void,
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: recv(2) is recvfrom(2) without an address.
    unsafe { recvfrom(userdata, fd, buffer, count, flags, ptr::null_mut(), ptr::null_mut()) }
}

pub(crate) unsafe extern "C" fn recvfrom(
    userdata: *mut c_void,
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    flags: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // Without a place to put them the bytes stay where they are.
    let peek = if buffer.is_null() && count > 0 { libc::MSG_PEEK } else { 0 };
    let outcome = receive(instance, fd, count, flags | peek);
    let outcome = if peek == 0 { outcome } else { outcome.and(Err(libc::EFAULT)) };
    if let Ok(message) = &outcome {
        // SAFETY: recvfrom(2)'s contract.
        unsafe { memory::copy_out(&message.bytes, buffer, count) };
        if let Some(from) = message.from {
            // SAFETY: recvfrom(2)'s contract.
            unsafe { addresses::write(from, address, len) };
        }
    }
    result(outcome.map(|message| message.length))
}

pub(crate) unsafe extern "C" fn recvmsg(
    userdata: *mut c_void,
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // SAFETY: recvmsg(2)'s contract.
    let header = unsafe { &mut *message };
    // SAFETY: recvmsg(2)'s contract.
    let pieces = unsafe { memory::pieces(header.msg_iov, header.msg_iovlen) };
    let (most, mut progress) = (memory::room(pieces), Progress::default());
    let outcome = instance.call(|host| host.recvmsg(fd, most, flags, &mut progress));
    if let Ok(received) = &outcome {
        // SAFETY: recvmsg(2)'s contract.
        unsafe { memory::scatter(&received.bytes, pieces) };
        let room = header.msg_controllen.min(received.control.len());
        // SAFETY: recvmsg(2)'s contract.
        unsafe { memory::copy_out(&received.control, header.msg_control, room) };
        header.msg_controllen = room;
        header.msg_flags = received.flags;
        if let Some(from) = received.from {
            let len = &raw mut header.msg_namelen;
            // SAFETY: recvmsg(2)'s contract.
            unsafe { addresses::write(from, header.msg_name.cast(), len) };
        }
    }
    result(outcome.map(|message| message.length))
}

pub(crate) unsafe extern "C" fn write(
    userdata: *mut c_void,
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
) -> ssize_t {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // SAFETY: write(2)'s contract.
    let bytes = unsafe { memory::given(buffer, count) };
    let mut progress = Progress::default();
    result(bytes.and_then(|bytes| instance.call(|host| host.write(fd, bytes, &mut progress))))
}

pub(crate) unsafe extern "C" fn writev(
    userdata: *mut c_void,
    fd: c_int,
    iov: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // SAFETY: writev(2)'s contract.
    let pieces = unsafe { memory::pieces(iov, usize::try_from(count).unwrap_or(0)) };
    // SAFETY: writev(2)'s contract.
    let bytes = unsafe { memory::gather(pieces) };
    let mut progress = Progress::default();
    result(instance.call(|host| host.write(fd, &bytes, &mut progress)))
}

pub(crate) unsafe extern "C" fn send(
    userdata: *mut c_void,
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: send(2) is sendto(2) without an address.
    unsafe { sendto(userdata, fd, buffer, count, flags, ptr::null(), 0) }
}

pub(crate) unsafe extern "C" fn sendto(
    userdata: *mut c_void,
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    flags: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> ssize_t {
    // SAFETY: packetdrill passes the pointer that it got.
    let instance = unsafe { of_userdata(userdata) };
    // SAFETY: sendto(2)'s contract.
    let bytes = unsafe { memory::given(buffer, count) };
    let to = match address.is_null() {
        true => Ok(None),
        // SAFETY: sendto(2)'s contract.
        false => match unsafe { addresses::read(address, len) } {
            // There is no dissolving of an association and Fast Open in one.
            Err(libc::EAFNOSUPPORT) if flags & libc::MSG_FASTOPEN != 0 => Err(libc::EOPNOTSUPP),
            read => read.map(Some),
        },
    };
    let mut progress = Progress::default();
    result(bytes.and_then(|bytes| {
        to.and_then(|to| instance.call(|host| host.send(fd, bytes, to, flags, &mut progress)))
    }))
}

pub(crate) unsafe extern "C" fn sendmsg(
    userdata: *mut c_void,
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: sendmsg(2)'s contract.
    let header = unsafe { &*message };
    // SAFETY: sendmsg(2)'s contract.
    let pieces = unsafe { memory::pieces(header.msg_iov, header.msg_iovlen) };
    // SAFETY: sendmsg(2)'s contract.
    let bytes = unsafe { memory::gather(pieces) };
    let (name, len) = (header.msg_name.cast_const().cast(), header.msg_namelen);
    // SAFETY: the bytes are ours, the address is sendmsg(2)'s.
    unsafe { sendto(userdata, fd, bytes.as_ptr().cast(), bytes.len(), flags, name, len) }
}

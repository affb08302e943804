//! fcntl and ioctl: most of what they do with a socket the kernel does with the placeholder.

#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_ulong};

use rustix::io::Errno;
use sockets::SocketKind;

use super::interfaces;
use super::last_received;
use super::lifecycle::duplicate;
use crate::descriptors::{TABLE, is_socket, socket};
use crate::edge::Return;
use crate::errno::{self, Outcome};
use crate::interpose::{interpose, trace};
use crate::pointers::can_write;
use crate::retaking::repeated;
use crate::table::Kind;
use crate::{readiness_signals, real};

// asm-generic/ioctls.h and linux/sockios.h.
const FIONREAD: c_ulong = 0x541B;
const FIONBIO: c_ulong = 0x5421;
/// TIOCOUTQ is the same number.
const SIOCOUTQ: c_ulong = 0x5411;
const SIOCATMARK: c_ulong = 0x8905;
/// Bytes that were not sent at all.
const SIOCOUTQNSD: c_ulong = 0x894B;

const FIOASYNC: c_ulong = 0x5452;
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;
// asm-generic/fcntl.h.
const F_SETOWN: c_int = 8;
const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;

type Fcntl = unsafe fn(c_int, c_int, c_ulong) -> c_int;

unsafe fn control_file(real: Fcntl, fd: c_int, command: c_int, arg: c_ulong) -> Outcome<c_int> {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            // SAFETY: these commands take an int.
            duplicate(fd, || unsafe { real(fd, command, arg) })
        }
        libc::F_SETFL if is_socket(fd) => {
            // SAFETY: the command takes an int.
            let done = errno::check(unsafe { real(fd, command, arg) })?;
            if let Ok(entry) = socket(fd) {
                entry.set_nonblocking(arg & c_ulong::from(libc::O_NONBLOCK.cast_unsigned()) != 0);
                if arg & c_ulong::from(libc::O_ASYNC.cast_unsigned()) != 0 || entry.has_owner() {
                    readiness_signals::changed(fd, &entry)?;
                }
            }
            Ok(done)
        }
        F_SETOWN | F_SETOWN_EX | F_SETSIG if is_socket(fd) => {
            // SAFETY: passed on from the program.
            let done = errno::check(unsafe { real(fd, command, arg) })?;
            if let Ok(entry) = socket(fd) {
                readiness_signals::changed(fd, &entry)?;
            }
            Ok(done)
        }
        // SAFETY: passed on from the program.
        _ => errno::check(unsafe { real(fd, command, arg) }),
    }
}

unsafe fn control_device(fd: c_int, request: c_ulong, arg: *mut c_char) -> Outcome<c_int> {
    let answer = match request {
        FIONREAD => Some(repeated(|| readable(fd))?),
        SIOCOUTQ | SIOCOUTQNSD => Some(repeated(|| unsent(fd, request))?),
        SIOCATMARK => Some(at_mark(fd)?),
        _ => None,
    };
    if let Some(answer) = answer {
        let place: *mut c_int = arg.cast();
        // SAFETY: the program says that it points to an int, or it is null.
        *unsafe { place.as_mut() }.filter(|place| can_write(*place)).ok_or(Errno::FAULT)? = answer;
        return Ok(0);
    }
    // SAFETY: passed on from the program.
    if let Some(told) = unsafe { last_received::control(&*socket(fd)?, request, arg) } {
        return told.map(|()| 0);
    }
    // SAFETY: passed on from the program.
    if let Some(outcome) = unsafe { interfaces::control(request, arg) } {
        return outcome;
    }
    // SAFETY: passed on from the program.
    let done = errno::check(unsafe { real::ioctl(fd, request, arg) })?;
    if request == FIONBIO {
        let place: *const c_int = arg.cast_const().cast();
        // SAFETY: the kernel has read it, so it points to an int.
        let on = unsafe { *place } != 0;
        socket(fd)?.set_nonblocking(on);
    }
    if matches!(request, FIOASYNC | FIOSETOWN | SIOCSPGRP) {
        readiness_signals::changed(fd, &socket(fd)?)?;
    }
    Ok(done)
}

/// Is the urgent mark next to be read?
fn at_mark(fd: c_int) -> Outcome<c_int> {
    let entry = socket(fd)?;
    if entry.socket.kind() != SocketKind::Stream {
        return Err(Errno::NOTTY);
    }
    Ok(entry.socket.is_at_mark().into())
}

fn readable(fd: c_int) -> Outcome<c_int> {
    let entry = socket(fd)?;
    if entry.socket.kind() == SocketKind::Stream && entry.socket.is_listening() {
        return Err(Errno::INVAL);
    }
    // Those of a full queue are not all: the rest waits in the stack. A connection that another
    // process has had before counts otherwise.
    if entry.socket.has_full_queue() && !entry.is_shared() {
        return Ok(count(entry.socket.unread_len()?));
    }
    Ok(count(entry.socket.readable_len()))
}

/// Bytes of a stream that were not acknowledged, or that were not sent. A FIN counts one. Datagrams
/// that the device does not have yet.
fn unsent(fd: c_int, request: c_ulong) -> Outcome<c_int> {
    let entry = socket(fd)?;
    match entry.socket.kind() {
        SocketKind::Stream if entry.socket.is_listening() => Err(Errno::INVAL),
        SocketKind::Stream => {
            let queue = entry.socket.output_queue()?;
            Ok(count(if request == SIOCOUTQ { queue.unacknowledged } else { queue.unsent }))
        }
        _ if request == SIOCOUTQNSD => Err(Errno::NOTTY),
        _ => Ok(count(entry.socket.unsent_len())),
    }
}

fn count(bytes: usize) -> c_int {
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}

interpose! {
    fn sockatmark(fd: c_int) -> c_int {
        is_socket(fd) => at_mark(fd)
    }
}

unsafe fn any_fcntl(real: Fcntl, fd: c_int, command: c_int, arg: c_ulong) -> c_int {
    if matches!(TABLE.kind(fd), Kind::Kernel) {
        // SAFETY: passed on from the program.
        return unsafe { real(fd, command, arg) };
    }
    trace!(fcntl(fd, command, arg));
    // SAFETY: passed on from the program.
    Return::of(|| unsafe { control_file(real, fd, command, arg) })
}

// In C these two and ioctl are variadic. Their third argument comes in the same register in
// either case, on every architecture that Linux's 64-bit C calling conventions describe here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("check that variadic integer arguments are passed like named ones");

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, arg: c_ulong) -> c_int {
    // SAFETY: passed on from the program.
    unsafe { any_fcntl(real::fcntl, fd, command, arg) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, arg: c_ulong) -> c_int {
    // SAFETY: passed on from the program.
    unsafe { any_fcntl(real::fcntl64, fd, command, arg) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __fcntl(fd: c_int, command: c_int, arg: c_ulong) -> c_int {
    // SAFETY: passed on from the program.
    unsafe { any_fcntl(real::fcntl, fd, command, arg) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, arg: *mut c_char) -> c_int {
    if !is_socket(fd) {
        // SAFETY: passed on from the program.
        return unsafe { real::ioctl(fd, request, arg) };
    }
    trace!(ioctl(fd, request, arg));
    // SAFETY: passed on from the program.
    Return::of(|| unsafe { control_device(fd, request, arg) })
}

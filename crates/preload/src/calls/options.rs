//! getsockopt and setsockopt.
//!
//! Options about the descriptor or the waiting are answered here. Values of all others pass through
//! as bytes to the server, which answers ENOPROTOOPT to an option that it does not know. Here an
//! answer is truncated to the program's room for it.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::mem::size_of;
use core::time::Duration;
use std::sync::OnceLock;

use abi::option::{GET_MOST, LONG_MOST, OptionKey};
use libc::{SOL_SOCKET, socklen_t, timeval};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use sockets::{Family, SocketKind};

use crate::cmsg::StampForm;
use crate::descriptors::{is_socket, socket};
use crate::errno::Outcome;
use crate::interpose::interpose;
use crate::open_socket::{OpenSocket, Timeout};
use crate::pointers::{can_read, can_write};
use crate::retaking::repeated;
use crate::sockaddr::{room_for, to_bytes};
use crate::time;

const INT: usize = size_of::<c_int>();
/// tcp(7)'s, which libc lacks.
const TCP_CC_INFO: c_int = 26;
const TCP_INQ: c_int = 36;
// Linux's, which libc lacks.
const SO_COOKIE: c_int = 57;
const SO_BINDTOIFINDEX: c_int = 62;
const SO_PREFER_BUSY_POLL: c_int = 69;
const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPNS_NEW: c_int = 64;
const IPPROTO_UDPLITE: c_int = 136;
/// Rights of the program's user.
const NET_ADMIN: CapabilitySet = CapabilitySet::NET_ADMIN;
const NET_RAW: CapabilitySet = CapabilitySet::NET_RAW;
const TIMEVAL: usize = size_of::<timeval>();
/// No option's value is longer. Bytes beyond are ignored.
const SET_LONGEST: usize = LONG_MOST;

/// An option's value as bytes: an `int`, a `struct timeval`, ...
type Bytes = Vec<u8>;

fn int(value: c_int) -> Bytes {
    value.to_ne_bytes().to_vec()
}

/// The value of an option; at most `room` bytes are wanted, but for an `int`.
pub(super) fn get(entry: &OpenSocket, level: c_int, name: c_int, room: usize) -> Outcome<Bytes> {
    let socket = &entry.socket;
    let stream = socket.kind() == SocketKind::Stream;
    if level == SOL_SOCKET {
        match name {
            libc::SO_ERROR => {
                return Ok(int(socket.take_error().map_or(0, rustix::io::Errno::raw_os_error)));
            }
            libc::SO_TYPE => {
                return Ok(int(if stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM }));
            }
            libc::SO_PEERNAME => return peer_name(entry),
            libc::SO_ACCEPTCONN => return Ok(int(socket.is_listening().into())),
            _ => {}
        }
        if let Some(timeout) = timeout(entry, name) {
            return Ok(timeval_bytes(timeout.get()));
        }
    }
    match name {
        TCP_INQ if stream && level == libc::IPPROTO_TCP => {
            return Ok(int(entry.tells_unread().into()));
        }
        // As Linux for CUBIC and Reno, of which there is nothing to tell.
        TCP_CC_INFO if stream && level == libc::IPPROTO_TCP => return Ok(Bytes::new()),
        _ => {}
    }
    let mut bytes = vec![0; room.clamp(INT, GET_MOST)];
    let len = socket.option(level, name, &mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

/// Sets an option from `bytes`.
fn set(entry: &OpenSocket, level: c_int, name: c_int, bytes: &[u8]) -> Outcome<()> {
    let stream = entry.socket.kind() == SocketKind::Stream;
    if stream && (level, name) == (libc::IPPROTO_TCP, TCP_INQ) {
        let value: &[u8; INT] = bytes.first_chunk().ok_or(Errno::INVAL)?;
        let on = match c_int::from_ne_bytes(*value) {
            0 => false,
            1 => true,
            _ => return Err(Errno::INVAL),
        };
        entry.set_tells_unread(on);
        return Ok(());
    }
    match timeout(entry, name).filter(|_| level == SOL_SOCKET) {
        Some(timeout) => {
            timeout.set(timeout_of_bytes(bytes)?);
            Ok(())
        }
        None => {
            entry.socket.set_option(level, name, bytes)?;
            // SO_RCVLOWAT and the like change what it is ready for, and the server has no news.
            entry.touch();
            if level == SOL_SOCKET {
                note(entry, name, bytes);
            }
            Ok(())
        }
    }
}

/// Notes an option of SOL_SOCKET that this process needs to know; it has been set.
fn note(entry: &OpenSocket, name: c_int, bytes: &[u8]) {
    let form = match name {
        libc::SO_LINGER => return entry.linger.set(linger_of_bytes(bytes)),
        libc::SO_TIMESTAMP | SO_TIMESTAMP_NEW => StampForm::Micros,
        libc::SO_TIMESTAMPNS | SO_TIMESTAMPNS_NEW => StampForm::Nanos,
        _ => return,
    };
    entry.set_stamps(if int_of_bytes(bytes) == 0 { StampForm::None } else { form });
}

/// How long a close waits. Zero seconds reset, which is the server's business.
fn linger_of_bytes(bytes: &[u8]) -> Option<Duration> {
    let (on, seconds) = (bytes.get(..INT)?, bytes.get(INT..2 * INT)?);
    let seconds = u64::try_from(int_of_bytes(seconds)).ok()?;
    (int_of_bytes(on) != 0 && seconds > 0).then(|| Duration::from_secs(seconds))
}

/// The timeout that an option of SOL_SOCKET names. The `_NEW` ones have the same form where
/// `time_t` has 64 bits.
fn timeout(entry: &OpenSocket, name: c_int) -> Option<&Timeout> {
    const SO_RCVTIMEO_NEW: c_int = 66;
    const SO_SNDTIMEO_NEW: c_int = 67;
    match name {
        libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW => Some(&entry.receive_timeout),
        libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW => Some(&entry.send_timeout),
        _ => None,
    }
}

fn timeval_bytes(timeout: Option<Duration>) -> Bytes {
    let time = time::to_timeval(timeout.unwrap_or_default());
    [time.tv_sec.to_ne_bytes(), time.tv_usec.to_ne_bytes()].concat()
}

/// A timeout as Linux reads it. Zero is none; negative seconds mean no waiting at all.
///
/// # Errors
/// EINVAL for fewer bytes than a `struct timeval` has, EDOM for microseconds outside of 0..10^6.
fn timeout_of_bytes(bytes: &[u8]) -> Outcome<Option<Duration>> {
    let timeval: &[u8; TIMEVAL] = bytes.first_chunk().ok_or(Errno::INVAL)?;
    let [s0, s1, s2, s3, s4, s5, s6, s7, micros @ ..] = *timeval;
    let seconds = i64::from_ne_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    let micros = i64::from_ne_bytes(micros);
    if !(0..1_000_000).contains(&micros) {
        return Err(Errno::DOM);
    }
    Ok(match u64::try_from(seconds) {
        Ok(0) if micros == 0 => None,
        Ok(seconds) => {
            Some(Duration::from_secs(seconds) + Duration::from_micros(micros.unsigned_abs()))
        }
        Err(_) => Some(Duration::from_nanos(1)),
    })
}

/// The part of `value` that fits into `room` bytes. As on Linux, an IPPROTO_IP option with a value
/// below 256 comes as a byte if there is less room than for an `int`.
fn fitted(level: c_int, value: &[u8], room: usize) -> &[u8] {
    #[cfg(target_endian = "little")]
    let low = value.get(..1);
    #[cfg(target_endian = "big")]
    let low = value.get(INT - 1..INT);
    let small = value.len() == INT && (0..256).contains(&int_of_bytes(value));
    match low {
        Some(low) if level == libc::IPPROTO_IP && (1..INT).contains(&room) && small => low,
        _ => value.get(..room).unwrap_or(value),
    }
}

fn int_of_bytes(bytes: &[u8]) -> c_int {
    bytes.first_chunk().map_or(-1, |int| c_int::from_ne_bytes(*int))
}

/// Does the socket have options of this level? As on Linux, of others nothing else is looked at.
fn has_level(entry: &OpenSocket, level: c_int) -> bool {
    let kind = entry.socket.kind();
    match level {
        SOL_SOCKET | libc::IPPROTO_IP => true,
        libc::IPPROTO_IPV6 => entry.socket.family() == Family::V6,
        libc::IPPROTO_TCP => kind == SocketKind::Stream,
        // Which of both it is, the server knows of a socket that another process has made.
        libc::IPPROTO_UDP | IPPROTO_UDPLITE => kind != SocketKind::Stream,
        _ => false,
    }
}

/// The errors of getsockopt that depend on the room for the value, beside those for all options.
fn check_room(key: (c_int, c_int), value: &[u8], room: usize) -> Outcome<()> {
    let least = match key {
        (SOL_SOCKET, SO_COOKIE) => size_of::<u64>(),
        (SOL_SOCKET, libc::SO_BINDTODEVICE) if !value.is_empty() => libc::IFNAMSIZ,
        // Linux fails where there is more room than the address needs.
        (SOL_SOCKET, libc::SO_PEERNAME) if room > value.len() => return Err(Errno::INVAL),
        _ => 0,
    };
    if room < least { Err(Errno::INVAL) } else { Ok(()) }
}

/// The peer's address, as SO_PEERNAME gives it.
fn peer_name(entry: &OpenSocket) -> Outcome<Bytes> {
    let address = entry.socket.peer_addr().map_err(|_| Errno::NOTCONN)?;
    let (bytes, len) = to_bytes(address, entry.socket.family())?;
    Ok(bytes.get(..len).unwrap_or_default().to_vec())
}

/// Whether the program has the right to set an option to this value.
///
/// # Errors
/// Linux's where it has not.
fn check_right(entry: &OpenSocket, name: c_int, bytes: &[u8]) -> Outcome<()> {
    let Some(value) = bytes.first_chunk().map(|int| c_int::from_ne_bytes(*int)) else {
        return Ok(());
    };
    let (needed, refusal) = match name {
        libc::SO_SNDBUFFORCE | libc::SO_RCVBUFFORCE => (NET_ADMIN, Errno::PERM),
        libc::SO_MARK => (NET_ADMIN.union(NET_RAW), Errno::PERM),
        libc::SO_PRIORITY if !(0..=6).contains(&value) => (NET_ADMIN.union(NET_RAW), Errno::PERM),
        libc::SO_BUSY_POLL if value > int_option(entry, name) => (NET_ADMIN, Errno::PERM),
        SO_PREFER_BUSY_POLL if value != 0 => (NET_ADMIN, Errno::PERM),
        libc::SO_DEBUG if value != 0 => (NET_ADMIN, Errno::ACCESS),
        libc::SO_BINDTODEVICE | SO_BINDTOIFINDEX if int_option(entry, SO_BINDTOIFINDEX) != 0 => {
            (NET_RAW, Errno::PERM)
        }
        _ => return Ok(()),
    };
    let effective = rustix::thread::capabilities(None)?.effective;
    if is_in_first_namespace() && effective.intersects(needed) { Ok(()) } else { Err(refusal) }
}

/// Is the process in the user namespace in which it was asked first? The rights that it gives
/// itself in a new one are none over the instance. Without /proc it is.
fn is_in_first_namespace() -> bool {
    static FIRST: OnceLock<Option<u64>> = OnceLock::new();
    let now = rustix::fs::stat(c"/proc/self/ns/user").ok().map(|namespace| namespace.st_ino);
    *FIRST.get_or_init(|| now) == now
}

/// The value of an option of SOL_SOCKET, 0 if there is none.
fn int_option(entry: &OpenSocket, name: c_int) -> c_int {
    let mut bytes = [0; INT];
    let got = entry.socket.option(SOL_SOCKET, name, &mut bytes);
    if got.is_ok() { c_int::from_ne_bytes(bytes) } else { 0 }
}

unsafe fn get_option(
    fd: c_int,
    (level, name): (c_int, c_int),
    value: *mut c_void,
    len: *mut socklen_t,
) -> Outcome<c_int> {
    let entry = socket(fd)?;
    if !has_level(&entry, level) {
        return Err(match entry.socket.family() {
            Family::V4 => Errno::OPNOTSUPP,
            Family::V6 => Errno::NOPROTOOPT,
        });
    }
    // SAFETY: the program says that it is null or valid.
    let len = unsafe { len.as_mut() }.filter(|len| can_write(*len)).ok_or(Errno::FAULT)?;
    if (OptionKey { level, name }).is_question() {
        // SAFETY: passed on from the program.
        return unsafe { ask_option(&entry, (level, name), value, len) };
    }
    let room = room_for(*len, GET_MOST)?;
    let bytes = get(&entry, level, name, room)?;
    check_room((level, name), &bytes, room)?;
    let bytes = fitted(level, &bytes, room);
    if !bytes.is_empty() && !can_write(value) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the program says that `*len` bytes are writable at `value`, and at most that many are
    // copied.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), bytes.len()) };
    *len = socklen_t::try_from(bytes.len()).unwrap_or(0);
    Ok(0)
}

/// An option whose value begins with what the program asks about: the filter of a membership.
unsafe fn ask_option(
    entry: &OpenSocket,
    (level, name): (c_int, c_int),
    value: *mut c_void,
    len: &mut socklen_t,
) -> Outcome<c_int> {
    let room = room_for(*len, LONG_MOST)?;
    if !can_write(value) || !can_read(value, room) {
        return Err(Errno::FAULT);
    }
    // SAFETY: not null, and the program says that `*len` bytes are readable and writable there.
    let place = unsafe { core::slice::from_raw_parts_mut(value.cast::<u8>(), room) };
    let mut bytes = place.to_vec();
    let full = entry.socket.option(level, name, &mut bytes)?;
    // As Linux: a value that does not fit is EINVAL for the header, and cut off in its sources,
    // which the program has counted.
    let kept = full.min(room);
    place[..kept].copy_from_slice(&bytes[..kept]);
    *len = socklen_t::try_from(kept).unwrap_or(0);
    Ok(0)
}

unsafe fn set_option(
    fd: c_int,
    (level, name): (c_int, c_int),
    value: *const c_void,
    len: socklen_t,
) -> Outcome<c_int> {
    let entry = socket(fd)?;
    let len = room_for(len, SET_LONGEST)?;
    if !has_level(&entry, level) {
        return Err(Errno::NOPROTOOPT);
    }
    if !can_read(value, len) {
        return Err(Errno::FAULT);
    }
    let bytes = match len {
        0 => &[],
        // SAFETY: not null, and the program says that so many bytes are readable.
        len => unsafe { core::slice::from_raw_parts(value.cast::<u8>(), len) },
    };
    if level == SOL_SOCKET {
        check_right(&entry, name, bytes)?;
    }
    set(&entry, level, name, bytes)?;
    Ok(0)
}

interpose! {
    fn getsockopt(
        fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t,
    ) -> c_int {
        is_socket(fd) => repeated(|| get_option(fd, (level, name), value, len))
    }
    fn setsockopt(
        fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t,
    ) -> c_int {
        is_socket(fd) => repeated(|| set_option(fd, (level, name), value, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_to_the_room() {
        assert_eq!(fitted(SOL_SOCKET, &int(1), 16), int(1));
        assert_eq!(fitted(SOL_SOCKET, &int(0x0102_0304), 2), &int(0x0102_0304)[..2]);
        assert_eq!(fitted(libc::IPPROTO_IP, &int(64), 1), [64]);
        assert!(fitted(libc::IPPROTO_IP, &int(64), 0).is_empty());
        assert_eq!(fitted(libc::IPPROTO_IP, &int(-1), 1), [255]);
    }

    #[test]
    fn lingering() {
        let read = |on: c_int, seconds: c_int| {
            linger_of_bytes(&[on.to_ne_bytes(), seconds.to_ne_bytes()].concat())
        };
        assert_eq!(read(1, 5), Some(Duration::from_secs(5)));
        assert_eq!([read(0, 5), read(1, 0), read(1, -1), linger_of_bytes(&[1; 7])], [None; 4]);
    }

    #[test]
    fn timeouts_as_linux_reads_them() {
        let read = |seconds: i64, micros: i64| {
            timeout_of_bytes(&[seconds.to_ne_bytes(), micros.to_ne_bytes()].concat())
        };
        assert_eq!(read(0, 0), Ok(None));
        assert_eq!(read(1, 500_000), Ok(Some(Duration::from_millis(1500))));
        assert_eq!(read(-1, 0), Ok(Some(Duration::from_nanos(1))));
        assert_eq!(read(0, 1_000_000), Err(Errno::DOM));
        assert_eq!(read(0, -1), Err(Errno::DOM));
        assert_eq!(timeout_of_bytes(&[0; 15]), Err(Errno::INVAL));
        assert_eq!(timeout_of_bytes(&timeval_bytes(Some(Duration::from_secs(2)))), read(2, 0));
    }
}

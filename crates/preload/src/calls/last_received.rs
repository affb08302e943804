//! SIOCGSTAMP and SIOCGSTAMPNS: when the last datagram came that the program has received.
//!
//! Linux notes the time of each datagram only once a program has asked for it; for the datagram
//! before that it gives the time of the question. Here it is always the time of the first question
//! about a datagram. With SO_TIMESTAMP on, the messages have the times, and the request keeps what
//! it has told before.

#![allow(unsafe_code)]

use core::ffi::{c_char, c_long, c_ulong};
use std::time::SystemTime;

use libc::SOL_SOCKET;
use rustix::io::Errno;
use sockets::SocketKind;

use crate::errno::Outcome;
use crate::open_socket::OpenSocket;

// asm-generic/sockios.h; the second of each pair has 64 bits for the time everywhere.
const SIOCGSTAMP: [c_ulong; 2] = [0x8906, 0x8010_8906];
const SIOCGSTAMPNS: [c_ulong; 2] = [0x8907, 0x8010_8907];
const SO_TIMESTAMP: i32 = libc::SO_TIMESTAMP;
const SO_TIMESTAMPNS: i32 = libc::SO_TIMESTAMPNS;

/// The answer to such a request; `None` to any other.
///
/// # Safety
/// `arg` is null or points to a `struct timeval` or `struct timespec`.
pub(super) unsafe fn control(
    entry: &OpenSocket,
    request: c_ulong,
    arg: *mut c_char,
) -> Option<Outcome<()>> {
    let in_nanos = match request {
        _ if SIOCGSTAMP.contains(&request) => false,
        _ if SIOCGSTAMPNS.contains(&request) => true,
        _ => return None,
    };
    Some(time(entry).and_then(|(seconds, nanos)| {
        let fraction = if in_nanos { nanos } else { nanos / 1000 };
        let place: *mut [c_long; 2] = arg.cast();
        if place.is_null() {
            return Err(Errno::FAULT);
        }
        // SAFETY: not null; both structures are two longs, and the caller says that one is there.
        unsafe { place.write_unaligned([seconds, fraction]) };
        Ok(())
    }))
}

/// Seconds since 1970 and nanoseconds.
fn time(entry: &OpenSocket) -> Outcome<(c_long, c_long)> {
    let received = match entry.socket.kind() {
        SocketKind::Stream => 0,
        _ => entry.socket.received_count(),
    };
    if received == 0 {
        return Err(Errno::NOENT);
    }
    let mut last = entry.last_received();
    let told = last.filter(|(count, _)| *count == received || by_message(entry));
    let at = match told {
        Some((_, at)) => at,
        None if by_message(entry) => return Err(Errno::NOENT),
        None => SystemTime::now(),
    };
    *last = Some((received, at));
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = c_long::try_from(since.as_secs()).unwrap_or(c_long::MAX);
    Ok((seconds, since.subsec_nanos().into()))
}

/// Do messages tell the time of each datagram?
fn by_message(entry: &OpenSocket) -> bool {
    [SO_TIMESTAMP, SO_TIMESTAMPNS].into_iter().any(|name| {
        let mut bytes = [0; 4];
        let got = entry.socket.option(SOL_SOCKET, name, &mut bytes);
        got.is_ok() && bytes != [0; 4]
    })
}

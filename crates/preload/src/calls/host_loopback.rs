//! Connections to the host's own loopback (`tasuki run --host-loopback`).
//!
//! No stack leads there: the relay does. So the socket of such a connection is exchanged for one of
//! the relay's, under the same number, right before it connects. It is a kernel socket from then
//! on, which the library does not see.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_int};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use sockets::{Family, SocketKind};

use super::{lifecycle, options};
use crate::errno::{self, Outcome};
use crate::open_socket::OpenSocket;
use crate::real;

const NAME: &CStr = c"TASUKI_HOST_LOOPBACK";
/// Nobody has looked yet.
const UNKNOWN: u64 = u64::MAX;
/// The environment names no address.
const NONE: u64 = u64::MAX - 1;

/// The address, or one of the two above.
static ADDRESS: AtomicU64 = AtomicU64::new(UNKNOWN);

/// Does a stream to this address lead to the host?
pub(super) fn leads_to(address: SocketAddr) -> bool {
    let known = match ADDRESS.load(Ordering::Relaxed) {
        NONE => return false,
        UNKNOWN => look(),
        known => known,
    };
    let IpAddr::V4(to) = address.ip().to_canonical() else { return false };
    u64::from(to.to_bits()) == known
}

#[cold]
fn look() -> u64 {
    // SAFETY: the name is a C string; the program's own changes of its environment race with this
    // as with any getenv(3).
    let value = unsafe { libc::getenv(NAME.as_ptr()) };
    let known = if value.is_null() {
        None
    } else {
        // SAFETY: a value of the environment is a C string.
        let value = unsafe { CStr::from_ptr(value) };
        value.to_str().ok().and_then(|text| text.parse::<Ipv4Addr>().ok())
    };
    let known = known.map_or(NONE, |address| address.to_bits().into());
    ADDRESS.store(known, Ordering::Relaxed);
    known
}

/// Makes `fd`, which stands for `open`, a socket of the relay's with the same options.
///
/// # Errors
/// EISCONN for a socket in use; socket(2)'s, ENETDOWN where the relay cannot make any.
#[cold]
#[inline(never)]
pub(super) fn exchange(fd: c_int, open: &OpenSocket) -> Outcome<()> {
    if open.socket.kind() != SocketKind::Stream || open.socket.is_in_use() {
        return Err(Errno::ISCONN);
    }
    let domain = if open.socket.family() == Family::V6 { libc::AF_INET6 } else { libc::AF_INET };
    let nonblocking = if open.is_nonblocking() { libc::SOCK_NONBLOCK } else { 0 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | nonblocking;
    // SAFETY: no pointers. This call passes by the library: the relay answers it.
    let new = errno::check(unsafe { real::socket(domain, kind, 0) })?;
    let done = copy_options(open, new).and_then(|()| {
        // SAFETY: no pointers.
        let close_on_exec = unsafe { real::fcntl(fd, libc::F_GETFD, 0) } & libc::FD_CLOEXEC != 0;
        let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
        // SAFETY: no pointers; the library forgets what the number stood for.
        lifecycle::duplicate_onto(new, fd, || unsafe { real::dup3(new, fd, flags) })
    });
    // SAFETY: made above, and known to no other code.
    unsafe { real::close(new) };
    done.map(drop)
}

/// Options that programs set before they connect.
fn copy_options(from: &OpenSocket, to: c_int) -> Outcome<()> {
    const COPIED: [(c_int, c_int); 5] = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
        (libc::SOL_SOCKET, libc::SO_LINGER),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    ];
    for (level, name) in COPIED {
        let value = options::get(from, level, name, 16)?;
        let len = value.len() as libc::socklen_t;
        // SAFETY: the call reads `len` bytes.
        errno::check(unsafe { real::setsockopt(to, level, name, value.as_ptr().cast(), len) })?;
    }
    Ok(())
}

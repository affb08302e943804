//! Connections and datagrams to the host's own loopback (`tasuki run --host-loopback`).
//!
//! No stack leads there: the relay does. So the socket of such a connection is exchanged for one of
//! the relay's, under the same number, right before it connects. A socket for datagrams is also
//! exchanged before it sends its first one there. It is a kernel socket from then on, which the
//! library does not see. By the relay it reaches all others as well.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_int};
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};

use libc::sockaddr_storage;
use rustix::io::Errno;
use sockets::{Family, SocketKind};

use super::{lifecycle, options};
use crate::errno::{self, Outcome};
use crate::open_socket::OpenSocket;
use crate::real;
use crate::sockaddr;

const NAME: &CStr = c"TASUKI_HOST_LOOPBACK";
/// Nobody has looked yet.
const UNKNOWN: u64 = u64::MAX;
/// The environment names no address.
const NONE: u64 = u64::MAX - 1;
/// It names none of IPv4.
const ONLY_V6: u64 = u64::MAX - 2;

/// The IPv4 address, or one of the three above.
static ADDRESS: AtomicU64 = AtomicU64::new(UNKNOWN);
/// Both halves of the IPv6 address; zero: there is none.
static ADDRESS6: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Does a connection or datagram of `open` to this address lead to the host?
pub(super) fn leads_to(open: &OpenSocket, address: SocketAddr) -> bool {
    let known = match ADDRESS.load(Ordering::Acquire) {
        NONE => return false,
        UNKNOWN => look(),
        known => known,
    };
    let leads = match address.ip().to_canonical() {
        IpAddr::V4(to) => u64::from(to.to_bits()) == known,
        IpAddr::V6(to) => {
            let known = ADDRESS6.each_ref().map(|half| half.load(Ordering::Relaxed));
            known != [0, 0] && halves(to.to_bits()) == known
        }
    };
    leads && matches!(open.socket.kind(), SocketKind::Stream | SocketKind::Datagram)
}

fn halves(bits: u128) -> [u64; 2] {
    [(bits >> 64) as u64, bits as u64]
}

#[cold]
fn look() -> u64 {
    // SAFETY: the name is a C string; the program's own changes of its environment race with this
    // as with any getenv(3).
    let value = unsafe { libc::getenv(NAME.as_ptr()) };
    let text = match value.is_null() {
        true => "",
        // SAFETY: a value of the environment is a C string.
        false => unsafe { CStr::from_ptr(value) }.to_str().unwrap_or_default(),
    };
    let mut known = NONE;
    for address in text.split(',').filter_map(|one| one.parse::<IpAddr>().ok()) {
        match address {
            IpAddr::V4(address) => known = address.to_bits().into(),
            IpAddr::V6(address) => {
                for (place, half) in ADDRESS6.iter().zip(halves(address.to_bits())) {
                    place.store(half, Ordering::Relaxed);
                }
                known = if known == NONE { ONLY_V6 } else { known };
            }
        }
    }
    ADDRESS.store(known, Ordering::Release);
    known
}

/// Makes `fd`, which stands for `open`, a socket of the relay's with the same options.
///
/// # Errors
/// EISCONN for a socket in use; socket(2)'s, ENETDOWN where the relay cannot make any.
#[cold]
#[inline(never)]
pub(super) fn exchange(fd: c_int, open: &OpenSocket) -> Outcome<()> {
    if open.socket.is_in_use() {
        return Err(Errno::ISCONN);
    }
    let stream = open.socket.kind() == SocketKind::Stream;
    let domain = if open.socket.family() == Family::V6 { libc::AF_INET6 } else { libc::AF_INET };
    let nonblocking = if open.is_nonblocking() { libc::SOCK_NONBLOCK } else { 0 };
    let kind = if stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM };
    let kind = kind | libc::SOCK_CLOEXEC | nonblocking;
    let bound = open.socket.local_addr().ok().filter(|bound| !stream && bound.port() != 0);
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
    if let (Ok(_), Some(bound)) = (&done, bound) {
        bind(fd, bound, open.socket.family());
    }
    done.map(drop)
}

/// The socket for datagrams has its port again. Without it, it can still send and get answers.
fn bind(fd: c_int, to: SocketAddr, family: Family) {
    // SAFETY: an address of any family is bytes and numbers, for which zero is a value.
    let mut name: sockaddr_storage = unsafe { core::mem::zeroed() };
    let mut len = size_of_val(&name) as libc::socklen_t;
    let name = (&raw mut name).cast();
    // SAFETY: both are ours, and `len` is the length of `name`.
    if unsafe { sockaddr::copy_out(to, family, name, &raw mut len) }.is_ok() {
        // SAFETY: as above; the call reads `len` bytes.
        unsafe { real::bind(fd, name, len) };
    }
}

/// Options that programs set before they connect.
fn copy_options(from: &OpenSocket, to: c_int) -> Outcome<()> {
    const OF_BOTH: [(c_int, c_int); 2] =
        [(libc::SOL_SOCKET, libc::SO_RCVTIMEO), (libc::SOL_SOCKET, libc::SO_SNDTIMEO)];
    const OF_STREAMS: [(c_int, c_int); 3] = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
        (libc::SOL_SOCKET, libc::SO_LINGER),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    ];
    const OF_DATAGRAMS: [(c_int, c_int); 1] = [(libc::IPPROTO_IP, libc::IP_RECVERR)];
    let of_kind = match from.socket.kind() {
        SocketKind::Stream => &OF_STREAMS[..],
        _ => &OF_DATAGRAMS,
    };
    for &(level, name) in OF_BOTH.iter().chain(of_kind) {
        let value = options::get(from, level, name, 16)?;
        let len = value.len() as libc::socklen_t;
        // SAFETY: the call reads `len` bytes.
        errno::check(unsafe { real::setsockopt(to, level, name, value.as_ptr().cast(), len) })?;
    }
    Ok(())
}

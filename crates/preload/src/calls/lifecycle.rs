//! How descriptors come and go: socket, accept, dup, close, the end of the process.
//!
//! A Tasuki socket is two things: a placeholder in the kernel and a socket of the instance. The
//! placeholder is made first and closed again when the rest fails, so that nothing leaks. Calls
//! that change the table ask whether this is a vfork child ([`process`]): its descriptors are the
//! kernel's only.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint};

use abi::control::RELAYED;
use libc::{sockaddr, socklen_t};
use rustix::io::Errno;
use sockets::{Family, Socket, SocketKind, Wait};

use super::stdio;
use crate::descriptors::{self, Descriptor, TABLE, install, is_socket, release};
use crate::errno::{self, Outcome};
use crate::interpose::{alias, interpose};
use crate::open_socket::OpenSocket;
use crate::placeholder::{self, Placeholder};
use crate::retaking::repeated;
use crate::sockaddr::copy_out;
use crate::table::Kind;
use crate::{
    departure, fork, host, instance, own_calls, process, real, sanitizers, sharing, trace,
};

/// SOCK_NONBLOCK and SOCK_CLOEXEC.
const FLAGS: c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;

/// The last kind of socket that Linux has.
const SOCK_PACKET: c_int = 10;
/// The relay's, of SOCK_DGRAM and SOCK_RAW.
const RELAYED_DATAGRAM: u32 = RELAYED[0].0;
const RELAYED_RAW: u32 = RELAYED[1].0;
/// Linux's: the number after IPPROTO_MPTCP.
const IPPROTO_MAX: c_int = 263;

/// The maker of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    Kernel,
    Tasuki(Family, SocketKind),
    /// The relay, as a socket of this kind. Without one the program gets this error number.
    Relay(u32, Errno),
    /// None: the program gets this error number.
    None(Errno),
}

/// The maker of sockets of this kind in a program that runs on Tasuki.
///
/// Protocols of AF_INET and AF_INET6 that the stack does not have give no kernel socket instead,
/// which would silently use the host's network. Raw sockets, and those of ICMP, are the relay's.
fn maker(domain: c_int, kind: c_int, protocol: c_int) -> Maker {
    let kind = match kind & !FLAGS {
        libc::SOCK_STREAM => SocketKind::Stream,
        libc::SOCK_DGRAM => SocketKind::Datagram,
        _ if ![libc::AF_INET, libc::AF_INET6].contains(&domain) => return Maker::Kernel,
        libc::SOCK_RAW => return Maker::Relay(RELAYED_RAW, Errno::PERM),
        SOCK_PACKET => return Maker::None(Errno::PERM),
        0..SOCK_PACKET => return Maker::None(Errno::SOCKTNOSUPPORT),
        _ => return Maker::None(Errno::INVAL),
    };
    let family = match domain {
        libc::AF_INET => Family::V4,
        libc::AF_INET6 => Family::V6,
        _ => return Maker::Kernel,
    };
    match (kind, protocol) {
        (_, ..0 | IPPROTO_MAX..) => Maker::None(Errno::INVAL),
        (SocketKind::Stream, 0 | libc::IPPROTO_TCP)
        | (SocketKind::Datagram, 0 | libc::IPPROTO_UDP) => Maker::Tasuki(family, kind),
        (SocketKind::Datagram, libc::IPPROTO_UDPLITE) => Maker::Tasuki(family, SocketKind::UdpLite),
        (SocketKind::Datagram, libc::IPPROTO_ICMP) if family == Family::V4 => {
            Maker::Relay(RELAYED_DATAGRAM, Errno::PROTONOSUPPORT)
        }
        (SocketKind::Datagram, libc::IPPROTO_ICMPV6) if family == Family::V6 => {
            Maker::Relay(RELAYED_DATAGRAM, Errno::PROTONOSUPPORT)
        }
        _ => Maker::None(Errno::PROTONOSUPPORT),
    }
}

/// A socket that the relay makes. Linux knows no such `relayed` type.
#[cold]
fn relayed_socket(
    domain: c_int,
    relayed: u32,
    (flags, protocol): (c_int, c_int),
    without: Errno,
) -> Outcome<c_int> {
    let kind = relayed.cast_signed() | flags;
    // SAFETY: no pointers.
    let made = errno::check(unsafe { real::socket(domain, kind, protocol) });
    // Without a relay the kernel refuses the type, or the filter of mode `library` the call.
    made.map_err(|errno| match errno {
        Errno::INVAL | Errno::NETDOWN => without,
        other => other,
    })
}

fn kernel_socket(domain: c_int, kind: c_int, protocol: c_int) -> Outcome<c_int> {
    // SAFETY: no pointers.
    errno::check(unsafe { real::socket(domain, kind, protocol) })
}

fn new_socket(domain: c_int, kind: c_int, protocol: c_int) -> Outcome<c_int> {
    if departure::has_left() {
        return kernel_socket(domain, kind, protocol);
    }
    match made(domain, kind, protocol) {
        // The process has left for a network of its own before it was this program.
        Err(Errno::NONET) => {
            departure::note();
            kernel_socket(domain, kind, protocol)
        }
        made => made,
    }
}

fn made(domain: c_int, kind: c_int, protocol: c_int) -> Outcome<c_int> {
    match maker(domain, kind, protocol) {
        Maker::Kernel => kernel_socket(domain, kind, protocol),
        Maker::None(errno) => Err(errno),
        Maker::Relay(relayed, without) => {
            relayed_socket(domain, relayed, (kind & FLAGS, protocol), without)
        }
        Maker::Tasuki(..) if own_calls::need_relay() => kernel_socket(domain, kind, protocol),
        Maker::Tasuki(family, socket_kind) => {
            let placeholder = Placeholder::new(socket_kind, kind & FLAGS)?;
            let socket = instance::client()?.socket(family, socket_kind)?;
            placeholder.stand_for(OpenSocket::new(socket, kind & libc::SOCK_NONBLOCK != 0))
        }
    }
}

unsafe fn accept_one(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Outcome<c_int> {
    if flags & !FLAGS != 0 {
        return Err(Errno::INVAL);
    }
    let listener = descriptors::socket(fd)?;
    if listener.socket.kind() != SocketKind::Stream {
        return Err(Errno::OPNOTSUPP);
    }
    let wait = listener.receive_wait(false);
    if wait == Wait::No && nothing_to_accept(&listener.socket) {
        // The usual end of a loop of accepts; worth not making a placeholder for.
        return Err(Errno::AGAIN);
    }
    let placeholder = Placeholder::new(SocketKind::Stream, flags)?;
    let (socket, peer) = listener.socket.accept(wait)?;
    // SAFETY: passed on from the program.
    unsafe { copy_out(peer, socket.family(), addr, len) }?;
    placeholder.stand_for(listener.accepted(socket, flags & libc::SOCK_NONBLOCK != 0))
}

fn nothing_to_accept(listener: &Socket) -> bool {
    let events = listener.readiness().events;
    listener.is_listening() && events & (sockets::poll::IN | sockets::poll::ERR) == 0
}

/// Is `fd` one that close and dup must look at?
fn is_special(fd: c_int) -> bool {
    TABLE.kind(fd) != Kind::Kernel || instance::is_internal(fd)
}

/// The runtime's and the shim's own descriptors.
fn is_own(fd: c_int) -> bool {
    TABLE.kind(fd) == Kind::Internal || instance::is_internal(fd)
}

fn close_one(fd: c_int) -> Outcome<c_int> {
    // SAFETY: no pointers.
    let close = || errno::check(unsafe { real::close(fd) });
    if host::is_closing(fd) {
        return close();
    }
    if is_own(fd) {
        // A vfork child, too, needs them until it executes.
        return Err(Errno::BADF);
    }
    if process::in_vfork_child() {
        return close();
    }
    let held = TABLE.take(fd);
    if let Some(Descriptor::Socket(entry)) = &held {
        placeholder::cache(fd, entry);
    }
    let outcome = close();
    release(held);
    outcome
}

/// Makes a duplicate of `old` with `dup`, which says under which number.
pub(super) fn duplicate(old: c_int, dup: impl FnOnce() -> c_int) -> Outcome<c_int> {
    if process::in_vfork_child() {
        sharing::share_duplicated_in_child(old);
        return errno::check(dup());
    }
    let inherited = TABLE.kind(old) == Kind::Inherited;
    let held = TABLE.get(old);
    if held.as_ref().is_some_and(|held| !held.share()) {
        return Err(Errno::BADF);
    }
    let new = match errno::check(dup()) {
        Ok(new) => new,
        Err(errno) => {
            release(held);
            return Err(errno);
        }
    };
    // The socket or file that `new` stood for before (dup2) is closed now.
    match held {
        Some(held) => install(new, held)?,
        None => release(TABLE.take(new)),
    }
    if inherited {
        TABLE.put_inherited(new);
    }
    if is_socket(new) {
        stdio::stand_in(new);
    }
    Ok(new)
}

pub(super) fn duplicate_onto(
    old: c_int,
    new: c_int,
    dup: impl FnOnce() -> c_int,
) -> Outcome<c_int> {
    if old == new {
        return errno::check(dup());
    }
    if is_own(new) && !process::in_vfork_child() {
        return Err(Errno::BUSY);
    }
    duplicate(old, dup)
}

/// `first..=last` without the numbers in `spared`, which ascend.
fn gaps(first: c_uint, last: c_uint, spared: &[c_uint]) -> Vec<(c_uint, c_uint)> {
    let mut gaps = Vec::new();
    let mut from = Some(first);
    for &fd in spared.iter().filter(|fd| (first..=last).contains(*fd)) {
        if let Some(begin) = from.filter(|begin| *begin < fd) {
            gaps.push((begin, fd - 1));
        }
        from = fd.checked_add(1);
    }
    if let Some(begin) = from.filter(|begin| *begin <= last) {
        gaps.push((begin, last));
    }
    gaps
}

fn close_many(first: c_uint, last: c_uint, flags: c_int) -> Outcome<c_int> {
    let closes = flags & libc::CLOSE_RANGE_CLOEXEC.cast_signed() == 0;
    if first > last || !closes {
        // SAFETY: no pointers.
        return errno::check(unsafe { real::close_range(first, last, flags) });
    }
    let known = TABLE.range(first, last);
    let own = known.iter().filter(|(_, kind)| *kind == Kind::Internal).map(|(fd, _)| *fd);
    let mut spared: Vec<_> =
        own.chain(instance::internal_fds()).map(c_int::cast_unsigned).collect();
    spared.sort_unstable();
    // The table of a vfork child is its parent's.
    let is_held = |kind: Kind| kind != Kind::Internal && !process::in_vfork_child();
    let others = known.iter().filter(|(_, kind)| is_held(*kind));
    let held: Vec<_> = others.filter_map(|(fd, _)| TABLE.take(*fd)).collect();
    for (first, last) in gaps(first, last, &spared) {
        // SAFETY: no pointers.
        errno::check(unsafe { real::close_range(first, last, flags) })?;
    }
    held.into_iter().for_each(|held| release(Some(held)));
    Ok(0)
}

interpose! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        matches!(domain, libc::AF_INET | libc::AF_INET6) && instance::is_wanted() => {
            new_socket(domain, kind, protocol)
        }
    }
    fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        is_socket(fd) => repeated(|| accept_one(fd, addr, len, 0))
    }
    fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        is_socket(fd) => repeated(|| accept_one(fd, addr, len, flags))
    }
    fn close(fd: c_int) -> c_int {
        is_special(fd) => close_one(fd)
    }
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        instance::is_wanted() => close_many(first, last, flags)
    }
    fn closefrom(first: c_int) -> () {
        instance::is_wanted() => {
            close_many(first.max(0).cast_unsigned(), c_uint::MAX, 0).map(drop)
        }
    }
    fn dup(fd: c_int) -> c_int {
        is_special(fd) => duplicate(fd, || real::dup(fd))
    }
    fn dup2(old: c_int, new: c_int) -> c_int {
        is_special(old) || is_special(new) => {
            duplicate_onto(old, new, || real::dup2(old, new))
        }
    }
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
        is_special(old) || is_special(new) => {
            duplicate_onto(old, new, || real::dup3(old, new, flags))
        }
    }
}

alias! {
    fn __close(fd: c_int) -> c_int = close;
    fn __dup2(old: c_int, new: c_int) -> c_int = dup2;
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn _exit(status: c_int) -> ! {
    end();
    // SAFETY: no pointers.
    unsafe { real::_exit(status) };
    // The C library's does not come back, but Rust cannot know.
    std::process::abort()
}

#[allow(non_snake_case, reason = "the C library's name")]
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn _Exit(status: c_int) -> ! {
    // SAFETY: passed on from the program.
    unsafe { _exit(status) }
}

/// Says goodbye to the instance; a panic in it must not keep the process from its end.
extern "C" fn end() {
    let _ = std::panic::catch_unwind(instance::goodbye);
}

/// At exit(3), which flushes standard output after this.
extern "C" fn finish() {
    stdio::flush();
    end();
}

/// Before the program's own code, in a process that runs on Tasuki.
extern "C" fn begin() {
    real::resolve_all();
    if instance::is_wanted() {
        trace::begin();
        sanitizers::begin();
        fork::watch();
        // Without /proc there is nothing to find.
        let _ = sharing::find_inherited();
        (0..=2).filter(|fd| is_socket(*fd)).for_each(stdio::stand_in);
    }
}

// SAFETY: the dynamic linker calls every function that `.init_array` lists, with arguments that
// this one ignores.
#[cfg(not(test))]
#[unsafe(link_section = ".init_array")]
#[used]
static BEGIN: extern "C" fn() = begin;

// SAFETY: and every function that `.fini_array` lists, at exit.
#[cfg(not(test))]
#[unsafe(link_section = ".fini_array")]
#[used]
static END: extern "C" fn() = finish;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_makes_sockets() {
        use libc::{AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM};
        let stream = Maker::Tasuki(Family::V4, SocketKind::Stream);
        assert_eq!(maker(AF_INET, SOCK_STREAM | FLAGS, 0), stream);
        assert_eq!(maker(AF_INET, SOCK_STREAM, libc::IPPROTO_TCP), stream);
        assert_eq!(maker(AF_INET, SOCK_DGRAM, 17), Maker::Tasuki(Family::V4, SocketKind::Datagram));
        let lite = Maker::Tasuki(Family::V6, SocketKind::UdpLite);
        assert_eq!(maker(AF_INET6, SOCK_DGRAM, libc::IPPROTO_UDPLITE), lite);
        let unknown = Maker::None(Errno::PROTONOSUPPORT);
        assert_eq!(maker(AF_INET, SOCK_STREAM, libc::IPPROTO_UDPLITE), unknown);
        assert_eq!(maker(AF_INET, SOCK_STREAM, libc::IPPROTO_UDP), unknown);
        assert_eq!(maker(AF_INET, SOCK_STREAM, libc::IPPROTO_MPTCP), unknown);
        assert_eq!(maker(AF_INET6, SOCK_DGRAM, 0), Maker::Tasuki(Family::V6, SocketKind::Datagram));
        for domain in [AF_INET, AF_INET6] {
            assert_eq!(maker(domain, SOCK_RAW, 1), Maker::Relay(RELAYED_RAW, Errno::PERM));
        }
        let ping = Maker::Relay(RELAYED_DATAGRAM, Errno::PROTONOSUPPORT);
        assert_eq!(maker(AF_INET, SOCK_DGRAM, libc::IPPROTO_ICMP), ping);
        assert_eq!(maker(AF_INET6, SOCK_DGRAM, libc::IPPROTO_ICMPV6), ping);
        assert_eq!(maker(AF_INET6, SOCK_DGRAM, libc::IPPROTO_ICMP), unknown);
        for (domain, kind) in [(AF_UNIX, SOCK_STREAM), (AF_NETLINK, SOCK_DGRAM)] {
            assert_eq!(maker(domain, kind, 0), Maker::Kernel);
        }
    }

    #[test]
    fn gaps_spare_what_is_ours() {
        assert_eq!(gaps(3, 10, &[]), [(3, 10)]);
        assert_eq!(gaps(3, 10, &[3, 5, 6, 10, 11]), [(4, 4), (7, 9)]);
        assert_eq!(gaps(0, u32::MAX, &[u32::MAX]), [(0, u32::MAX - 1)]);
        assert_eq!(gaps(5, 5, &[5]), []);
        assert_eq!(gaps(5, 5, &[4, 6]), [(5, 5)]);
    }

    #[test]
    fn duplicates_of_kernel_descriptors_are_kernel_descriptors() {
        fork::watch();
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let old = std::os::fd::AsRawFd::as_raw_fd(&reader);
        // SAFETY: no pointers.
        let new = duplicate(old, || unsafe { real::dup(old) }).unwrap();
        assert_eq!(TABLE.kind(new), Kind::Kernel);
        TABLE.put_inherited(new);
        // SAFETY: no pointers.
        let again = duplicate(new, || unsafe { real::dup(new) }).unwrap();
        assert_eq!(TABLE.kind(again), Kind::Inherited);
        assert_eq!(close_one(again), Ok(0));
        assert_eq!(TABLE.kind(again), Kind::Kernel);
        assert_eq!(close_many(new.cast_unsigned(), new.cast_unsigned(), 0), Ok(0));
        assert_eq!(TABLE.kind(new), Kind::Kernel);
        assert_eq!(close_one(new), Err(Errno::BADF));
    }
}

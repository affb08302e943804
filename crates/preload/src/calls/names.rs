//! Addresses and connections: bind, listen, connect, shutdown, getsockname, getpeername.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::{sockaddr, socklen_t};
use rustix::io::Errno;
use sockets::{Family, ShutdownHow, SocketKind, Wait};

use super::host_loopback;
use crate::descriptors::{is_socket, socket};
use crate::errno::{self, Outcome};
use crate::interpose::{alias, interpose};
use crate::open_socket::{ConnectPhase, OpenSocket};
use crate::real;
use crate::retaking::repeated;
use crate::sockaddr::{copy_in, copy_out};

unsafe fn bind_to(fd: c_int, addr: *const sockaddr, len: socklen_t) -> Outcome<c_int> {
    let entry = socket(fd)?;
    // SAFETY: passed on from the program.
    let name = unsafe { copy_in(addr, len) }?;
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    entry.socket.bind(name.to_bind(entry.socket.family(), len)?)?;
    Ok(0)
}

fn listen_on(fd: c_int, backlog: c_int) -> Outcome<c_int> {
    let entry = socket(fd)?;
    if entry.connect_phase() != ConnectPhase::Unconnected {
        return Err(Errno::INVAL);
    }
    // Linux reads the number as unsigned: a negative one asks for the longest queue.
    entry.socket.listen(backlog.cast_unsigned())?;
    Ok(0)
}

/// Connects a stream, after Linux's `inet_stream_connect`: a call that meets the end of an earlier
/// attempt tells how that came out, once. What is known of a failed attempt ends with the call that
/// tells of it.
fn connect_stream(entry: &OpenSocket, address: SocketAddr) -> Outcome<()> {
    let socket = &entry.socket;
    let outcome = match entry.connect_phase() {
        ConnectPhase::Connected => return Err(Errno::ISCONN),
        ConnectPhase::Attempting if socket.is_connecting() => {
            socket.connect(address, connect_wait(entry))
        }
        ConnectPhase::Attempting if socket.is_in_use() => Ok(()),
        ConnectPhase::Attempting => Err(socket.take_error().unwrap_or(Errno::CONNABORTED)),
        ConnectPhase::Unconnected => socket.connect(address, connect_wait(entry)),
    };
    match outcome {
        Ok(()) => entry.set_connect_phase(ConnectPhase::Connected),
        // A signal, or SO_SNDTIMEO: the attempt goes on.
        Err(_) if socket.is_connecting() => entry.set_connect_phase(ConnectPhase::Attempting),
        Err(Errno::INPROGRESS) => entry.set_connect_phase(ConnectPhase::Attempting),
        Err(_) => {
            entry.set_connect_phase(ConnectPhase::Unconnected);
            if socket.is_over() {
                socket.disconnect()?;
                entry.touch();
            }
        }
    }
    outcome
}

/// Does connect tell of the connection that there is, or was, or of an attempt that is over?
fn tells_outcome(entry: &OpenSocket) -> bool {
    match entry.connect_phase() {
        ConnectPhase::Connected => true,
        ConnectPhase::Attempting => !entry.socket.is_connecting(),
        ConnectPhase::Unconnected => false,
    }
}

/// A wildcard address, which stands for one that nothing looks at.
fn any_of(family: Family) -> SocketAddr {
    match family {
        Family::V4 => (Ipv4Addr::UNSPECIFIED, 0).into(),
        Family::V6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

unsafe fn connect_to(fd: c_int, addr: *const sockaddr, len: socklen_t) -> Outcome<c_int> {
    let entry = socket(fd)?;
    let (family, kind) = (entry.socket.family(), entry.socket.kind());
    // SAFETY: passed on from the program.
    let name = unsafe { copy_in(addr, len) }.and_then(|name| name.to_connect(family, kind));
    // As Linux: of a stream that is in use, or that has an outcome to tell, the address is hardly
    // looked at.
    let has_length = (2..=128).contains(&len);
    let address = match name {
        Err(Errno::INVAL | Errno::AFNOSUPPORT) if has_length && tells_outcome(&entry) => {
            Some(any_of(family))
        }
        Err(Errno::INVAL | Errno::AFNOSUPPORT) if has_length && entry.socket.is_in_use() => {
            return Err(Errno::ISCONN);
        }
        other => other?,
    };
    match address {
        Some(address) if host_loopback::leads_to(&entry, address) => {
            host_loopback::exchange(fd, &entry)?;
            // SAFETY: passed on from the program.
            return errno::check(unsafe { real::connect(fd, addr, len) });
        }
        Some(address) if kind == SocketKind::Stream => connect_stream(&entry, address)?,
        Some(address) => entry.socket.connect(address, connect_wait(&entry))?,
        None => {
            entry.socket.disconnect()?;
            entry.set_connect_phase(ConnectPhase::Unconnected);
            entry.touch();
        }
    }
    Ok(0)
}

/// SO_SNDTIMEO limits connect too.
fn connect_wait(entry: &OpenSocket) -> Wait {
    entry.send_wait(false)
}

fn shutdown_one(fd: c_int, how: c_int) -> Outcome<c_int> {
    let entry = socket(fd)?;
    let how = u64::try_from(how).ok().and_then(ShutdownHow::from_word).ok_or(Errno::INVAL)?;
    let ends_attempt = entry.socket.is_connecting();
    entry.socket.shutdown(how)?;
    if ends_attempt {
        entry.set_connect_phase(ConnectPhase::Unconnected);
    }
    Ok(0)
}

unsafe fn own_name(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> Outcome<c_int> {
    let entry = socket(fd)?;
    let name = entry.socket.local_addr()?;
    // SAFETY: passed on from the program.
    unsafe { copy_out_wanted(name, entry.socket.family(), addr, len) }
}

unsafe fn peer_name(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> Outcome<c_int> {
    let entry = socket(fd)?;
    let name = entry.socket.peer_addr()?;
    // SAFETY: passed on from the program.
    unsafe { copy_out_wanted(name, entry.socket.family(), addr, len) }
}

/// For calls whose only purpose is the address: a null pointer is an error there.
unsafe fn copy_out_wanted(
    name: core::net::SocketAddr,
    family: Family,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Outcome<c_int> {
    if addr.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: passed on from the program.
    unsafe { copy_out(name, family, addr, len) }?;
    Ok(0)
}

interpose! {
    fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        is_socket(fd) => repeated(|| bind_to(fd, addr, len))
    }
    fn listen(fd: c_int, backlog: c_int) -> c_int {
        is_socket(fd) => repeated(|| listen_on(fd, backlog))
    }
    fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        is_socket(fd) => connect_to(fd, addr, len)
    }
    fn shutdown(fd: c_int, how: c_int) -> c_int {
        is_socket(fd) => repeated(|| shutdown_one(fd, how))
    }
    fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        is_socket(fd) => repeated(|| own_name(fd, addr, len))
    }
    fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        is_socket(fd) => repeated(|| peer_name(fd, addr, len))
    }
}

alias! {
    fn __connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int = connect;
}

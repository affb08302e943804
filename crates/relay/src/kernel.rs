//! Kernel sockets of the relay's namespace: the programs', and the relay's own ends of them.

#![allow(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use tokio::net::{TcpSocket, TcpStream};

use crate::namespace::{MARK, RAW_MARK};
use crate::system::check;

/// A socket for a program, as socket(2) makes it.
///
/// # Errors
/// socket(2)'s.
pub(crate) fn socket(family: u64, kind: u64, protocol: u64) -> io::Result<OwnedFd> {
    let number = |value: u64| (value & u64::from(u32::MAX)) as libc::c_int;
    // SAFETY: no pointers.
    let fd = check(unsafe {
        libc::socket(number(family), number(kind) | libc::SOCK_CLOEXEC, number(protocol))
    })?;
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Connects from an address of the world outside to a program's socket: one that listens, or that
/// connects to this address itself.
pub(crate) async fn connect_as(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let stream = own(from)?.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A socket of the relay's own, with any address.
fn own(address: SocketAddr) -> io::Result<TcpSocket> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
        set_int(&socket, libc::SOL_IPV6, libc::IPV6_TRANSPARENT, 1)?;
    } else {
        set_int(&socket, libc::SOL_IP, libc::IP_TRANSPARENT, 1)?;
    }
    set_int(&socket, libc::SOL_SOCKET, libc::SO_MARK, MARK.cast_signed())?;
    bind_beside_all(&socket, address)?;
    Ok(TcpSocket::from_std_stream(socket.into()))
}

/// Binds, although a program may listen at the same port of all addresses. Later such programs are
/// not kept from their port, as long as they say SO_REUSEADDR.
fn bind_beside_all(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    // TCP_REPAIR_ON, TCP_REPAIR_OFF_NO_WP. While it is on, bind(2) looks for no conflicts. Off, the
    // socket is as any other, but for SO_REUSEADDR.
    const ON: libc::c_int = 1;
    const OFF: libc::c_int = -1;
    set_int(socket, libc::SOL_TCP, libc::TCP_REPAIR, ON)?;
    rustix::net::bind(socket, &address)?;
    set_int(socket, libc::SOL_TCP, libc::TCP_REPAIR, OFF)?;
    Ok(sockopt::set_socket_reuseaddr(socket, true)?)
}

/// Gives a program's raw socket its mark.
pub(crate) fn mark_raw(socket: &OwnedFd) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_MARK, RAW_MARK.cast_signed())
}

fn set_int(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the call reads four bytes.
    check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), 4)
    })
    .map(drop)
}

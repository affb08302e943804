//! Packet sockets and their options, for the back ends that use them.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// A packet socket that receives nothing, but has the interface take frames for all addresses as
/// long as it is open.
pub(crate) fn promiscuous(interface: u32) -> Result<OwnedFd, Errno> {
    let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    join_promiscuous(&socket, interface.cast_signed()).map(|()| socket)
}

pub(crate) fn join_promiscuous(socket: &OwnedFd, index: libc::c_int) -> Result<(), Errno> {
    let kind = libc::PACKET_MR_PROMISC as libc::c_ushort;
    let promiscuous = Membership { index, kind, len: 0, address: [0; 8] };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)
}

/// `struct packet_mreq`
#[repr(C)]
struct Membership {
    index: libc::c_int,
    kind: libc::c_ushort,
    len: libc::c_ushort,
    address: [u8; 8],
}

pub(crate) fn set_option<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    let len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads the `len` bytes of `value`, which is borrowed meanwhile. The caller
    // keeps the memory alive that pointers in it (to a filter's program) lead to.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), len)
    };
    if done < 0 { Err(last_errno()) } else { Ok(()) }
}

/// Binds again: a socket that was given a ring while its interface came up may have missed that.
pub(crate) fn bind_again(socket: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: `sockaddr_ll` is plain old data: all zero bytes are a value of it.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let mut len = mem::size_of_val(&address) as libc::socklen_t;
    let to = (&raw mut address).cast();
    // SAFETY: the kernel writes at most `len` bytes to `address`, which has so many.
    if unsafe { libc::getsockname(socket.as_raw_fd(), to, &raw mut len) } < 0 {
        return Err(last_errno());
    }
    // Only another protocol makes the kernel look again.
    bind(socket, address.sll_ifindex, libc::ETH_P_LOOPBACK)?;
    bind(socket, address.sll_ifindex, libc::ETH_P_ALL)
}

pub(crate) fn bind(
    socket: &OwnedFd,
    index: libc::c_int,
    protocol: libc::c_int,
) -> Result<(), Errno> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: (protocol as u16).to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads the `len` bytes of `address`.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if done < 0 { Err(last_errno()) } else { Ok(()) }
}

/// Asks a packet socket for an option of its own level, of which any bytes are a value.
pub(crate) fn get_option<T: Copy>(
    socket: &OwnedFd,
    option: libc::c_int,
    value: &mut T,
) -> Result<(), Errno> {
    let mut len = mem::size_of::<T>() as libc::socklen_t;
    let (fd, level, to) = (socket.as_raw_fd(), libc::SOL_PACKET, (&raw mut *value).cast());
    // SAFETY: the kernel writes at most `len` bytes to `value`, which has so many.
    let done = unsafe { libc::getsockopt(fd, level, option, to, &raw mut len) };
    if done < 0 { Err(last_errno()) } else { Ok(()) }
}

pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

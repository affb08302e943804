//! The addresses that sockets may be bound to: this host's, and those of groups and broadcasts, at
//! which a socket receives only.

use crate::context::Context;
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::sockaddr::{is_link_scope, link_of, scoped};
use crate::sockets::kinds::SocketKind;
use crate::sockets::options::SocketOptions;
use core::net::SocketAddr;

/// The address that a socket is to be bound to, with its link. As on Linux, a link that the address
/// names is from then on the only one of the socket.
///
/// # Errors
/// `Invalid` without a link where one is needed, and for a stream at a group of IPv6; `NoDevice`
/// for one that is not there.
pub(crate) fn with_link(
    cx: &Context,
    kind: SocketKind,
    address: SocketAddr,
    options: &mut SocketOptions,
) -> Result<SocketAddr, Error> {
    let ip = address.ip();
    if kind == SocketKind::Stream && ip.is_ipv6() && ip.is_multicast() {
        return Err(Error::Invalid);
    }
    if !is_link_scope(ip) {
        return Ok(address);
    }
    let link = link_of(&address).or(options.device).ok_or(Error::Invalid)?;
    if link != InterfaceId::LOOPBACK && cx.link.interface(link).is_none() {
        return Err(Error::NoDevice);
    }
    options.device = Some(link);
    Ok(scoped(ip, address.port(), link))
}

/// Whether an address is one to receive at only: that of a group, or a broadcast address.
///
/// # Errors
/// `AddrNotAvailable` for another one that is not this host's.
pub(crate) fn receives_only(
    cx: &Context,
    kind: SocketKind,
    address: &SocketAddr,
) -> Result<bool, Error> {
    let (ip, interfaces) = (address.ip(), cx.link.interfaces());
    if ip.is_unspecified() || interfaces.is_ours_at(address) {
        return Ok(false);
    }
    let is_for_many = ip.is_multicast() || interfaces.is_broadcast(ip);
    if is_for_many && kind != SocketKind::Echo { Ok(true) } else { Err(Error::AddrNotAvailable) }
}

//! Multicast options of datagram sockets: the interface of sent datagrams, and group membership.
//!
//! A program names an interface by its index, or over IPv4 by an address of the stack on it. With 0
//! the socket's IP_MULTICAST_IF chooses, and then the routing table.
//!
//! There is no choice of sources: the structures of the MCAST_ options are longer than a call has
//! room for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use abi::Errno;
use abi::option::OptionKey;
use inet::{Error, InterfaceId, OptionName, SockOption};

use super::core::value_of;
use super::numbers::*;
use super::value::{OptionBytes, SetValue};
use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::socket::Socket;

/// RFC 1112 6.1, RFC 3493 5.2: the default of the options that take -1.
const ONE_HOP: u8 = 1;

/// A change of group membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MembershipChange {
    Join,
    Leave,
}

/// The core's name of an option that the core keeps.
fn option_name(key: OptionKey) -> Option<OptionName> {
    Some(match (key.level, key.name) {
        (IPPROTO_IP, IP_MULTICAST_TTL) | (IPPROTO_IPV6, IPV6_MULTICAST_HOPS) => {
            OptionName::MulticastTtl
        }
        (IPPROTO_IP, IP_MULTICAST_LOOP) | (IPPROTO_IPV6, IPV6_MULTICAST_LOOP) => {
            OptionName::MulticastLoop
        }
        (IPPROTO_IP, IP_MULTICAST_ALL) | (IPPROTO_IPV6, IPV6_MULTICAST_ALL) => {
            OptionName::MulticastAll
        }
        (IPPROTO_IP, IP_MULTICAST_IF) | (IPPROTO_IPV6, IPV6_MULTICAST_IF) => {
            OptionName::MulticastIf
        }
        _ => return None,
    })
}

/// getsockopt; `None` if it is no such option.
pub(super) fn get(
    engine: &mut Engine,
    socket: &Socket,
    key: OptionKey,
) -> Result<Option<OptionBytes>, Refusal> {
    let Some(name) = option_name(key) else { return Ok(None) };
    if (key.level, name) == (IPPROTO_IP, OptionName::MulticastIf) {
        // As Linux: the address by which the program named the interface; 0.0.0.0 for an index.
        let set = socket.hints.iter().find(|(hint, _)| *hint == key);
        return Ok(Some(OptionBytes::int(set.map_or(0, |(_, address)| *address))));
    }
    Ok(Some(value_of(engine.stack.option(socket.handle, name)?)))
}

/// setsockopt; false if it is no such option.
pub(super) fn set(
    engine: &mut Engine,
    socket: &mut Socket,
    key: OptionKey,
    given: SetValue<'_>,
) -> Result<bool, Refusal> {
    match (key.level, key.name) {
        (IPPROTO_IP, IP_ADD_MEMBERSHIP) => {
            member_v4(engine, socket, given, MembershipChange::Join)?;
        }
        (IPPROTO_IP, IP_DROP_MEMBERSHIP) => {
            member_v4(engine, socket, given, MembershipChange::Leave)?;
        }
        (IPPROTO_IPV6, IPV6_JOIN_GROUP) => {
            member_v6(engine, socket, given, MembershipChange::Join)?;
        }
        (IPPROTO_IPV6, IPV6_LEAVE_GROUP) => {
            member_v6(engine, socket, given, MembershipChange::Leave)?;
        }
        _ => {
            let Some(name) = option_name(key) else { return Ok(false) };
            let option = option_of(engine, socket, (key, name), given)?;
            engine.stack.set_option(engine.now, socket.handle, option)?;
        }
    }
    Ok(true)
}

/// An option of the core out of a value in Linux's form.
fn option_of(
    engine: &Engine,
    socket: &mut Socket,
    (key, name): (OptionKey, OptionName),
    given: SetValue<'_>,
) -> Result<SockOption, Errno> {
    let v6 = key.level == IPPROTO_IPV6;
    // As Linux: a stream socket has neither hops nor an interface for groups.
    if socket.is_stream() && matches!(name, OptionName::MulticastTtl | OptionName::MulticastIf) {
        return Err(if v6 { Errno::NOPROTOOPT } else { Errno::INVAL });
    }
    Ok(match name {
        OptionName::MulticastTtl => SockOption::MulticastTtl(match given.int(key.level)? {
            -1 => ONE_HOP,
            hops => u8::try_from(hops).map_err(|_| Errno::INVAL)?,
        }),
        OptionName::MulticastIf if v6 => {
            let index = given.int(key.level)?.cast_unsigned();
            SockOption::MulticastIf(by_index(engine, index).ok_or(Errno::NODEV)?)
        }
        OptionName::MulticastIf => {
            // A struct in_addr, ip_mreq or ip_mreqn. The first has the address alone.
            given.int(key.level)?;
            let (address, index) = match given.len {
                ..8 => (address_at(given, 0)?, 0),
                _ => (address_at(given, 4)?, index_at(given, 8)),
            };
            let interface = named_v4(engine, address, index).ok_or(Errno::ADDRNOTAVAIL)?;
            socket.hints.retain(|(hint, _)| *hint != key);
            socket.hints.push((key, i32::from_ne_bytes(address.octets())));
            SockOption::MulticastIf(interface)
        }
        // As Linux: IP_MULTICAST_LOOP alone takes any number.
        _ => {
            let on = match given.int(key.level)? {
                0 => false,
                1 => true,
                _ if !v6 && name == OptionName::MulticastLoop => true,
                _ => return Err(Errno::INVAL),
            };
            match name {
                OptionName::MulticastLoop => SockOption::MulticastLoop(on),
                _ => SockOption::MulticastAll(on),
            }
        }
    })
}

/// With a `struct ip_mreq` or `ip_mreqn`.
fn member_v4(
    engine: &mut Engine,
    socket: &Socket,
    given: SetValue<'_>,
    change: MembershipChange,
) -> Result<(), Refusal> {
    refuse_stream(socket)?;
    let (group, address) = (address_at(given, 0)?, address_at(given, 4)?);
    let interface = named_v4(engine, address, index_at(given, 8)).ok_or(Errno::NODEV)?;
    member(engine, socket, group.into(), interface, change)
}

/// With a `struct ipv6_mreq`.
fn member_v6(
    engine: &mut Engine,
    socket: &Socket,
    given: SetValue<'_>,
    change: MembershipChange,
) -> Result<(), Refusal> {
    /// Bytes of the structure.
    const MREQ: u32 = 20;
    if given.len < MREQ {
        return Err(Errno::INVAL.into());
    }
    refuse_stream(socket)?;
    let group: &[u8; 16] = given.bytes.first_chunk().ok_or(Errno::INVAL)?;
    let interface = by_index(engine, index_at(given, 16)).ok_or(Errno::NODEV)?;
    let group = Ipv6Addr::from(*group);
    if !group.is_multicast() {
        return Err(Errno::INVAL.into());
    }
    member(engine, socket, group.into(), interface, change)
}

/// As Linux: EPROTO on a stream socket.
fn refuse_stream(socket: &Socket) -> Result<(), Errno> {
    if socket.is_stream() { Err(Errno::PROTO) } else { Ok(()) }
}

fn member(
    engine: &mut Engine,
    socket: &Socket,
    group: IpAddr,
    interface: Option<InterfaceId>,
    change: MembershipChange,
) -> Result<(), Refusal> {
    let now = engine.now;
    match change {
        MembershipChange::Join => {
            match engine.stack.join_group(now, socket.handle, group, interface) {
                // The core's error for a group without an interface.
                Err(Error::AddrNotAvailable) => Err(Errno::NODEV.into()),
                done => Ok(done?),
            }
        }
        MembershipChange::Leave => {
            Ok(engine.stack.leave_group(now, socket.handle, group, interface)?)
        }
    }
}

/// The address at an offset of the value.
fn address_at(given: SetValue<'_>, at: usize) -> Result<Ipv4Addr, Errno> {
    let bytes = given.bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
    bytes.copied().map(Ipv4Addr::from).ok_or(Errno::INVAL)
}

/// The index at an offset of the value; 0 if the value ends before it.
fn index_at(given: SetValue<'_>, at: usize) -> u32 {
    let bytes = given.bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
    bytes.copied().map_or(0, u32::from_ne_bytes)
}

/// The interface with an index; `Some(None)` for 0, `None` if there is no such interface.
fn by_index(engine: &Engine, index: u32) -> Option<Option<InterfaceId>> {
    if index == 0 {
        return Some(None);
    }
    engine.stack.interfaces().find(|id| id.scope_id() == index).map(Some)
}

/// The interface with an index, or if that is 0 the interface with an address. `Some(None)` if both
/// are left out, `None` if there is no such interface.
fn named_v4(engine: &Engine, address: Ipv4Addr, index: u32) -> Option<Option<InterfaceId>> {
    if index != 0 || address.is_unspecified() {
        return by_index(engine, index);
    }
    let has = |id: &InterfaceId| {
        engine.stack.addresses(*id).any(|one| one.cidr.address == IpAddr::V4(address))
    };
    engine.stack.interfaces().find(has).map(Some)
}

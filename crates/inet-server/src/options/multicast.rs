//! Multicast options of datagram sockets: how datagrams to groups are sent, and which are received.
//! Memberships have a [module](super::membership) of their own.
//!
//! A program names an interface by its index, or over IPv4 by an address of the stack on it.

use std::net::Ipv4Addr;

use abi::Errno;
use abi::option::OptionKey;
use inet::{OptionName, SockOption};

use super::core::value_of;
use super::interfaces::{by_index, named_v4};
use super::numbers::*;
use super::value::{OptionBytes, SetValue};
use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::socket::Socket;

/// RFC 1112 6.1, RFC 3493 5.2: the default of the options that take -1.
const ONE_HOP: u8 = 1;

/// The core's name of an option that the core keeps.
fn option_name(key: OptionKey) -> Option<OptionName> {
    Some(match (key.level, key.name) {
        (IPPROTO_IP, IP_MULTICAST_TTL) | (IPPROTO_IPV6, IPV6_MULTICAST_HOPS) => {
            OptionName::MulticastTtl
        }
        (IPPROTO_IP, IP_MULTICAST_LOOP) | (IPPROTO_IPV6, IPV6_MULTICAST_LOOP) => {
            OptionName::MulticastLoop
        }
        (IPPROTO_IP, IP_MULTICAST_ALL) => OptionName::MulticastAll4,
        (IPPROTO_IPV6, IPV6_MULTICAST_ALL) => OptionName::MulticastAll6,
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
    let Some(name) = option_name(key) else { return Ok(false) };
    let option = option_of(engine, socket, (key, name), given)?;
    engine.stack.set_option(engine.now, socket.handle, option)?;
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
    if given.len == 0 {
        return Err(Errno::INVAL);
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
        // As Linux: IP_MULTICAST_LOOP and IPV6_MULTICAST_ALL alone take any number.
        _ => {
            let on = match given.int(key.level)? {
                0 => false,
                1 => true,
                _ if v6 && name == OptionName::MulticastAll6 => true,
                _ if !v6 && name == OptionName::MulticastLoop => true,
                _ => return Err(Errno::INVAL),
            };
            match name {
                OptionName::MulticastLoop => SockOption::MulticastLoop(on),
                OptionName::MulticastAll6 => SockOption::MulticastAll6(on),
                _ => SockOption::MulticastAll4(on),
            }
        }
    })
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

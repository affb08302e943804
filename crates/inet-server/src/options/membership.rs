//! Memberships of multicast groups (ip(7), ipv6(7), RFC 3678): of a group, of a group and sources,
//! and the whole filter of one.
//!
//! Each option has a structure of its own; [`Wanted`] is what all of them say. A program names an
//! interface by its index, or over IPv4 by an address of the stack on it. With neither the routing
//! table chooses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use abi::Errno;
use abi::option::OptionKey;
use inet::{Error, FilterMode, InterfaceId};

use super::interfaces::{by_index, named_v4};
use super::numbers::*;
use super::value::{OptionBytes, SetValue};
use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::socket::Socket;

/// Bytes of a `struct sockaddr_storage`.
const ADDRESS: usize = 128;
/// Where the group is in a `struct group_req`, and its length.
const GROUP_AT: usize = 8;
const GROUP_REQ: usize = GROUP_AT + ADDRESS;
/// The mode and the number of sources follow it in a `struct group_filter`.
const GROUP_FILTER: usize = GROUP_REQ + 8;
/// A `struct ip_msfilter` before its sources.
const IP_FILTER: usize = 16;
/// Most sources of a filter, as Linux's igmp_max_msf and mld_max_msf.
const MOST_V4: usize = 10;
const MOST_V6: usize = 64;

/// What is to happen to a membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Join,
    Leave,
    /// One source more or less, in a filter of this mode.
    Source {
        mode: FilterMode,
        add: bool,
        source: IpAddr,
    },
}

/// A group, and where.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    group: IpAddr,
    /// `None` to choose by route. The error is that of an interface that is not there.
    interface: Result<Option<InterfaceId>, Errno>,
}

/// getsockopt with what the program passed in; `None` if it is no such option.
pub(super) fn get(
    engine: &mut Engine,
    socket: &Socket,
    key: OptionKey,
    given: &[u8],
) -> Result<Option<OptionBytes>, Refusal> {
    let given = SetValue::whole(given);
    Ok(match (key.level, key.name) {
        (IPPROTO_IP, IP_MSFILTER) => Some(read_ip_filter(engine, socket, given)?),
        (IPPROTO_IP | IPPROTO_IPV6, MCAST_MSFILTER) => {
            Some(read_group_filter(engine, socket, key.level, given)?)
        }
        _ => None,
    })
}

/// setsockopt; false if it is no such option.
pub(super) fn set(
    engine: &mut Engine,
    socket: &Socket,
    key: OptionKey,
    given: SetValue<'_>,
) -> Result<bool, Refusal> {
    let v6 = key.level == IPPROTO_IPV6;
    // As Linux: before the structure is looked at.
    if socket.is_stream()
        && matches!((key.level, key.name), (IPPROTO_IP, IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP))
    {
        return Err(Errno::PROTO.into());
    }
    let (wanted, change) = match (key.level, key.name) {
        (IPPROTO_IP, IP_ADD_MEMBERSHIP) => (ip_mreq(engine, given)?, Change::Join),
        (IPPROTO_IP, IP_DROP_MEMBERSHIP) => (ip_mreq(engine, given)?, Change::Leave),
        (IPPROTO_IPV6, IPV6_JOIN_GROUP) => (ipv6_mreq(engine, given)?, Change::Join),
        (IPPROTO_IPV6, IPV6_LEAVE_GROUP) => (ipv6_mreq(engine, given)?, Change::Leave),
        (IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP..=IP_DROP_SOURCE_MEMBERSHIP)
        | (IPPROTO_IP, IP_UNBLOCK_SOURCE | IP_BLOCK_SOURCE) => ip_mreq_source(engine, key, given)?,
        (IPPROTO_IP | IPPROTO_IPV6, MCAST_JOIN_GROUP) => {
            (group_req(engine, v6, given)?, Change::Join)
        }
        (IPPROTO_IP | IPPROTO_IPV6, MCAST_LEAVE_GROUP) => {
            (group_req(engine, v6, given)?, Change::Leave)
        }
        (
            IPPROTO_IP | IPPROTO_IPV6,
            MCAST_BLOCK_SOURCE
            | MCAST_UNBLOCK_SOURCE
            | MCAST_JOIN_SOURCE_GROUP
            | MCAST_LEAVE_SOURCE_GROUP,
        ) => group_source_req(engine, key, given)?,
        (IPPROTO_IP, IP_MSFILTER) => {
            set_ip_filter(engine, socket, given)?;
            return Ok(true);
        }
        (IPPROTO_IP | IPPROTO_IPV6, MCAST_MSFILTER) => {
            set_group_filter(engine, socket, v6, given)?;
            return Ok(true);
        }
        _ => return Ok(false),
    };
    // As Linux.
    if socket.is_stream() {
        return Err(Errno::PROTO.into());
    }
    apply(engine, socket, wanted, change)?;
    Ok(true)
}

fn apply(
    engine: &mut Engine,
    socket: &Socket,
    wanted: Wanted,
    change: Change,
) -> Result<(), Refusal> {
    let (now, group) = (engine.now, wanted.group);
    match change {
        Change::Join => join(engine, socket, wanted),
        Change::Leave => {
            // As Linux: no socket is a member where there is no interface, or of what is no group.
            if group.is_ipv6() && !group.is_multicast() {
                return Err(Errno::INVAL.into());
            }
            let interface = wanted.interface.map_err(|_| Errno::ADDRNOTAVAIL)?;
            Ok(engine.stack.leave_group(now, socket.handle, group, interface)?)
        }
        Change::Source { mode, add, source } => {
            let is_join = (mode, add) == (FilterMode::Include, true);
            change_source(engine, socket, wanted, (mode, add, source), is_join)
        }
    }
}

fn join(engine: &mut Engine, socket: &Socket, wanted: Wanted) -> Result<(), Refusal> {
    if !wanted.group.is_multicast() {
        return Err(Errno::INVAL.into());
    }
    let interface = wanted.interface?;
    match engine.stack.join_group(engine.now, socket.handle, wanted.group, interface) {
        // The core's error for a group without an interface.
        Err(Error::AddrNotAvailable) => Err(Errno::NODEV.into()),
        done => Ok(done?),
    }
}

/// One source more or less. As Linux: a filter keeps its mode while it has sources, only a join
/// makes a membership, and the last source that leaves ends it.
fn change_source(
    engine: &mut Engine,
    socket: &Socket,
    wanted: Wanted,
    (mode, add, source): (FilterMode, bool, IpAddr),
    is_join: bool,
) -> Result<(), Refusal> {
    let group = wanted.group;
    if !group.is_multicast() {
        return Err(Errno::INVAL.into());
    }
    let interface = wanted.interface?;
    let handle = socket.handle;
    let (before, mut sources) = match engine.stack.group_filter(handle, group, interface) {
        Some(found) => found,
        None if is_join => (FilterMode::Include, Vec::new()),
        None => return Err(Errno::INVAL.into()),
    };
    if before != mode && !sources.is_empty() {
        return Err(Errno::INVAL.into());
    }
    let found = sources.iter().position(|one| *one == source);
    match (add, found) {
        (true, None) if sources.len() >= most_sources(group) => return Err(Errno::NOBUFS.into()),
        (true, None) => sources.push(source),
        (false, Some(at)) => drop(sources.remove(at)),
        _ => return Err(Errno::ADDRNOTAVAIL.into()),
    }
    set_filter(engine, socket, (group, interface), (mode, &sources))
}

/// Sets the whole filter of a membership.
fn set_filter(
    engine: &mut Engine,
    socket: &Socket,
    (group, interface): (IpAddr, Option<InterfaceId>),
    (mode, sources): (FilterMode, &[IpAddr]),
) -> Result<(), Refusal> {
    let (now, handle) = (engine.now, socket.handle);
    match engine.stack.set_group_filter(now, handle, group, interface, mode, sources) {
        Err(Error::AddrNotAvailable) => Err(Errno::NODEV.into()),
        done => Ok(done?),
    }
}

fn most_sources(group: IpAddr) -> usize {
    if group.is_ipv4() { MOST_V4 } else { MOST_V6 }
}

/// A `struct ip_mreq` or `ip_mreqn`.
fn ip_mreq(engine: &Engine, given: SetValue<'_>) -> Result<Wanted, Errno> {
    let (group, address) = (given.v4_at(0)?, given.v4_at(4)?);
    let interface = named_v4(engine, address, given.u32_at(8).unwrap_or(0)).ok_or(Errno::NODEV);
    Ok(Wanted { group: group.into(), interface })
}

/// A `struct ipv6_mreq`.
fn ipv6_mreq(engine: &Engine, given: SetValue<'_>) -> Result<Wanted, Errno> {
    let (group, index) = (given.v6_at(0)?, given.u32_at(16)?);
    Ok(Wanted { group: group.into(), interface: by_index(engine, index).ok_or(Errno::NODEV) })
}

/// A `struct ip_mreq_source`.
fn ip_mreq_source(
    engine: &Engine,
    key: OptionKey,
    given: SetValue<'_>,
) -> Result<(Wanted, Change), Errno> {
    if given.len != 12 {
        return Err(Errno::INVAL);
    }
    let (group, address, source) = (given.v4_at(0)?, given.v4_at(4)?, given.v4_at(8)?);
    let interface = named_v4(engine, address, 0).ok_or(Errno::NODEV);
    let mode = match key.name {
        IP_BLOCK_SOURCE | IP_UNBLOCK_SOURCE => FilterMode::Exclude,
        _ => FilterMode::Include,
    };
    let add = matches!(key.name, IP_BLOCK_SOURCE | IP_ADD_SOURCE_MEMBERSHIP);
    let change = Change::Source { mode, add, source: source.into() };
    Ok((Wanted { group: group.into(), interface }, change))
}

/// A `struct group_req`.
fn group_req(engine: &Engine, v6: bool, given: SetValue<'_>) -> Result<Wanted, Errno> {
    if given.bytes.len() < GROUP_REQ {
        return Err(Errno::INVAL);
    }
    let group = address_at(given, GROUP_AT, v6)?;
    let interface = by_index(engine, given.u32_at(0)?).ok_or(Errno::NODEV);
    Ok(Wanted { group, interface })
}

/// A `struct group_source_req`.
fn group_source_req(
    engine: &Engine,
    key: OptionKey,
    given: SetValue<'_>,
) -> Result<(Wanted, Change), Errno> {
    if given.bytes.len() < GROUP_REQ + ADDRESS {
        return Err(Errno::INVAL);
    }
    let v6 = key.level == IPPROTO_IPV6;
    // As Linux: here it is EADDRNOTAVAIL in both families.
    let address = |at| address_at(given, at, v6).map_err(|_| Errno::ADDRNOTAVAIL);
    let (group, source) = (address(GROUP_AT)?, address(GROUP_REQ)?);
    let interface = by_index(engine, given.u32_at(0)?).ok_or(Errno::NODEV);
    let mode = match key.name {
        MCAST_BLOCK_SOURCE | MCAST_UNBLOCK_SOURCE => FilterMode::Exclude,
        _ => FilterMode::Include,
    };
    let add = matches!(key.name, MCAST_BLOCK_SOURCE | MCAST_JOIN_SOURCE_GROUP);
    Ok((Wanted { group, interface }, Change::Source { mode, add, source }))
}

/// The address in a `struct sockaddr_storage`. As Linux, one of another family is EINVAL for IPv4,
/// and EADDRNOTAVAIL for IPv6.
fn address_at(given: SetValue<'_>, at: usize, v6: bool) -> Result<IpAddr, Errno> {
    let family = given.bytes.get(at..).and_then(<[u8]>::first_chunk::<2>).ok_or(Errno::INVAL)?;
    match (i32::from(u16::from_ne_bytes(*family)), v6) {
        (AF_INET, false) => Ok(given.v4_at(at + 4)?.into()),
        (AF_INET6, true) => Ok(given.v6_at(at + 8)?.into()),
        (_, false) => Err(Errno::INVAL),
        (_, true) => Err(Errno::ADDRNOTAVAIL),
    }
}

/// The mode of a filter by its number.
fn filter_mode(number: u32) -> Result<FilterMode, Errno> {
    match number {
        0 => Ok(FilterMode::Exclude),
        1 => Ok(FilterMode::Include),
        _ => Err(Errno::INVAL),
    }
}

fn mode_number(mode: FilterMode) -> u32 {
    match mode {
        FilterMode::Exclude => 0,
        FilterMode::Include => 1,
    }
}

/// The number of sources that a structure announces, each of `size` bytes behind `head` bytes.
fn announced(given: SetValue<'_>, at: usize, (head, size): (usize, usize)) -> Result<usize, Errno> {
    let count = usize::try_from(given.u32_at(at)?).map_err(|_| Errno::NOBUFS)?;
    // As Linux: before anything is read.
    if count > MOST_V6 {
        return Err(Errno::NOBUFS);
    }
    if given.bytes.len() < head + count * size { Err(Errno::INVAL) } else { Ok(count) }
}

/// IP_MSFILTER, with a `struct ip_msfilter`.
fn set_ip_filter(engine: &mut Engine, socket: &Socket, given: SetValue<'_>) -> Result<(), Refusal> {
    let group = given.v4_at(0)?;
    let count = announced(given, 12, (IP_FILTER, 4))?;
    let interface = named_v4(engine, given.v4_at(4)?, 0).ok_or(Errno::NODEV);
    let sources = (0..count).map(|n| Ok(given.v4_at(IP_FILTER + 4 * n)?.into()));
    let sources = sources.collect::<Result<Vec<IpAddr>, Errno>>()?;
    let wanted = Wanted { group: group.into(), interface };
    replace(engine, socket, wanted, (given.u32_at(8)?, sources))
}

/// MCAST_MSFILTER, with a `struct group_filter`.
fn set_group_filter(
    engine: &mut Engine,
    socket: &Socket,
    v6: bool,
    given: SetValue<'_>,
) -> Result<(), Refusal> {
    let wanted = group_req(engine, v6, given)?;
    let count = announced(given, GROUP_REQ + 4, (GROUP_FILTER, ADDRESS))?;
    let sources = (0..count).map(|n| address_at(given, GROUP_FILTER + ADDRESS * n, v6));
    let sources = sources.collect::<Result<Vec<IpAddr>, Errno>>()?;
    replace(engine, socket, wanted, (given.u32_at(GROUP_REQ)?, sources))
}

/// Replaces the filter of a membership that is there.
fn replace(
    engine: &mut Engine,
    socket: &Socket,
    wanted: Wanted,
    (mode, sources): (u32, Vec<IpAddr>),
) -> Result<(), Refusal> {
    let group = wanted.group;
    if sources.len() > most_sources(group) {
        return Err(Errno::NOBUFS.into());
    }
    if !group.is_multicast() {
        return Err(Errno::INVAL.into());
    }
    let (mode, interface) = (filter_mode(mode)?, wanted.interface?);
    let is_member = engine.stack.group_filter(socket.handle, group, interface).is_some();
    match (mode, sources.is_empty()) {
        // Nothing from nobody ends the membership.
        (FilterMode::Include, true) => {
            Ok(engine.stack.leave_group(engine.now, socket.handle, group, interface)?)
        }
        _ if !is_member => Err(Errno::INVAL.into()),
        _ => set_filter(engine, socket, (group, interface), (mode, &sources)),
    }
}

/// The filter of a membership.
fn read(
    engine: &mut Engine,
    socket: &Socket,
    wanted: Wanted,
) -> Result<(FilterMode, Vec<IpAddr>), Refusal> {
    if !wanted.group.is_multicast() {
        return Err(Errno::INVAL.into());
    }
    let found = engine.stack.group_filter(socket.handle, wanted.group, wanted.interface?);
    Ok(found.ok_or(Errno::ADDRNOTAVAIL)?)
}

fn read_ip_filter(
    engine: &mut Engine,
    socket: &Socket,
    given: SetValue<'_>,
) -> Result<OptionBytes, Refusal> {
    let head = given.bytes.get(..8).ok_or(Errno::INVAL)?;
    let room = usize::try_from(given.u32_at(12)?).unwrap_or(usize::MAX);
    let interface = named_v4(engine, given.v4_at(4)?, 0).ok_or(Errno::NODEV);
    let wanted = Wanted { group: given.v4_at(0)?.into(), interface };
    let (mode, sources) = read(engine, socket, wanted)?;
    let mut value = head.to_vec();
    put_counts(&mut value, mode, sources.len());
    for source in sources.iter().take(room) {
        if let IpAddr::V4(source) = source {
            value.extend(source.octets());
        }
    }
    Ok(OptionBytes::long(value))
}

fn read_group_filter(
    engine: &mut Engine,
    socket: &Socket,
    level: i32,
    given: SetValue<'_>,
) -> Result<OptionBytes, Refusal> {
    let wanted = group_req(engine, level == IPPROTO_IPV6, given)?;
    let room = usize::try_from(given.u32_at(GROUP_REQ + 4)?).unwrap_or(usize::MAX);
    let (mode, sources) = read(engine, socket, wanted)?;
    let mut value = given.bytes.get(..GROUP_REQ).ok_or(Errno::INVAL)?.to_vec();
    put_counts(&mut value, mode, sources.len());
    for source in sources.iter().take(room) {
        let start = value.len();
        match source {
            IpAddr::V4(source) => {
                value.extend([2_u16.to_ne_bytes(), [0; 2]].as_flattened());
                value.extend(source.octets());
            }
            IpAddr::V6(source) => {
                value.extend([10_u16.to_ne_bytes(), [0; 2], [0; 2], [0; 2]].as_flattened());
                value.extend(source.octets());
            }
        }
        value.resize(start + ADDRESS, 0);
    }
    Ok(OptionBytes::long(value))
}

/// The mode and the number of sources.
fn put_counts(value: &mut Vec<u8>, mode: FilterMode, count: usize) {
    value.extend(mode_number(mode).to_ne_bytes());
    value.extend(u32::try_from(count).unwrap_or(u32::MAX).to_ne_bytes());
}

impl SetValue<'_> {
    fn v4_at(&self, at: usize) -> Result<Ipv4Addr, Errno> {
        let bytes = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
        bytes.copied().map(Ipv4Addr::from).ok_or(Errno::INVAL)
    }

    fn v6_at(&self, at: usize) -> Result<Ipv6Addr, Errno> {
        let bytes = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<16>);
        bytes.copied().map(Ipv6Addr::from).ok_or(Errno::INVAL)
    }

    fn u32_at(&self, at: usize) -> Result<u32, Errno> {
        let bytes = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
        bytes.copied().map(u32::from_ne_bytes).ok_or(Errno::INVAL)
    }
}

//! Options by which a socket asks for ancillary data of each datagram ([`AncillarySet`]).
//!
//! As on Linux, every socket keeps them. Only datagrams have ancillary data.

use abi::Errno;
use abi::ancillary::AncillarySet;
use abi::option::OptionKey;

use super::numbers::*;
use super::value::{OptionBytes, SetValue};
use crate::socket::Socket;

/// The kind of ancillary data that an option asks for.
fn kind(key: OptionKey) -> Option<AncillarySet> {
    Some(match (key.level, key.name) {
        (IPPROTO_IP, IP_PKTINFO) => AncillarySet::PKTINFO,
        (IPPROTO_IP, IP_RECVTTL) => AncillarySet::TTL,
        (IPPROTO_IP, IP_RECVTOS) => AncillarySet::TOS,
        (IPPROTO_IP, IP_RECVORIGDSTADDR) => AncillarySet::ORIGDSTADDR,
        (IPPROTO_IPV6, IPV6_RECVPKTINFO) => AncillarySet::PKTINFO6,
        (IPPROTO_IPV6, IPV6_RECVHOPLIMIT) => AncillarySet::HOPLIMIT,
        (IPPROTO_IPV6, IPV6_2292PKTINFO) => AncillarySet::PKTINFO2292,
        (IPPROTO_IPV6, IPV6_2292HOPLIMIT) => AncillarySet::HOPLIMIT2292,
        (IPPROTO_IPV6, IPV6_RECVTCLASS) => AncillarySet::TCLASS,
        (IPPROTO_IPV6, IPV6_RECVORIGDSTADDR) => AncillarySet::ORIGDSTADDR6,
        (SOL_SOCKET, SO_TIMESTAMP | SO_TIMESTAMP_NEW) => AncillarySet::TIMESTAMP,
        (SOL_SOCKET, SO_TIMESTAMPNS | SO_TIMESTAMPNS_NEW) => AncillarySet::TIMESTAMPNS,
        (IPPROTO_UDP, UDP_GRO) => AncillarySet::GRO,
        _ => return None,
    })
}

/// getsockopt; `None` if it is no such option.
pub(super) fn get(socket: &Socket, key: OptionKey) -> Option<OptionBytes> {
    kind(key).map(|kind| OptionBytes::int(socket.asked.has(kind).into()))
}

/// setsockopt; false if it is no such option.
pub(super) fn set(socket: &mut Socket, key: OptionKey, given: SetValue<'_>) -> Result<bool, Errno> {
    let Some(kind) = kind(key) else { return Ok(false) };
    let on = given.int(key.level)? != 0;
    // As Linux: a datagram carries its time in one form, and switching off either option switches
    // off both.
    const TIMES: AncillarySet = AncillarySet::TIMESTAMP.with(AncillarySet::TIMESTAMPNS);
    let cleared = if kind.has_any(TIMES) { TIMES } else { kind };
    socket.asked = socket.asked.without(cleared) | kind.when(on);
    Ok(true)
}

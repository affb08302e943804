//! Options by which a socket asks what it is told of each datagram, see [`abi::ancillary::asked`].
//!
//! They are kept on any socket, as on Linux; only datagrams have something to tell.

use abi::Errno;
use abi::ancillary::asked;
use abi::option::OptionKey;

use super::numbers::*;
use super::{Given, Value};
use crate::socket::Socket;

/// What an option asks for.
fn bit(key: OptionKey) -> Option<u16> {
    Some(match (key.level, key.name) {
        (IPPROTO_IP, IP_PKTINFO) => asked::PKTINFO,
        (IPPROTO_IP, IP_RECVTTL) => asked::TTL,
        (IPPROTO_IP, IP_RECVTOS) => asked::TOS,
        (IPPROTO_IP, IP_RECVORIGDSTADDR) => asked::ORIGDSTADDR,
        (IPPROTO_IPV6, IPV6_RECVPKTINFO) => asked::PKTINFO6,
        (IPPROTO_IPV6, IPV6_RECVHOPLIMIT) => asked::HOPLIMIT,
        (IPPROTO_IPV6, IPV6_RECVTCLASS) => asked::TCLASS,
        (IPPROTO_IPV6, IPV6_RECVORIGDSTADDR) => asked::ORIGDSTADDR6,
        (SOL_SOCKET, SO_TIMESTAMP | SO_TIMESTAMP_NEW) => asked::TIMESTAMP,
        (SOL_SOCKET, SO_TIMESTAMPNS | SO_TIMESTAMPNS_NEW) => asked::TIMESTAMPNS,
        (IPPROTO_UDP, UDP_GRO) => asked::GRO,
        _ => return None,
    })
}

/// getsockopt; `None` if it is no such option.
pub(super) fn get(socket: &Socket, key: OptionKey) -> Option<Value> {
    bit(key).map(|bit| Value::int((socket.asked & bit != 0).into()))
}

/// setsockopt; false if it is no such option.
pub(super) fn set(socket: &mut Socket, key: OptionKey, given: Given<'_>) -> Result<bool, Errno> {
    let Some(bit) = bit(key) else { return Ok(false) };
    let on = given.int(key.level)? != 0;
    // As Linux: a time is told in one way, and switching off either switches off both.
    const TIMES: u16 = asked::TIMESTAMP | asked::TIMESTAMPNS;
    let cleared = if bit & TIMES != 0 { TIMES } else { bit };
    socket.asked = socket.asked & !cleared | if on { bit } else { 0 };
    Ok(true)
}

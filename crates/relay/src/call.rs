//! A call that a program makes, as the filter tells of it.

use std::time::Instant;

use abi::control::{INTRODUCTION, RELAYED};

/// A call that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notification {
    pub(crate) id: u64,
    /// When the relay got it.
    pub(crate) begun: Instant,
    /// The thread that made it.
    pub(crate) thread: u32,
    /// It has left for a network namespace of its own.
    pub(crate) left: bool,
    /// The call's number.
    pub(crate) call: i64,
    /// Its arguments; pointers are never followed.
    pub(crate) arguments: [u64; 6],
}

/// Does the library ask for a connection to the instance, by this call of socket(2)?
pub(crate) fn is_introduction(call: &Notification) -> bool {
    let [_, kind, protocol, ..] = call.arguments;
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    (kind as u32 & !flags.cast_unsigned(), protocol as u32) == INTRODUCTION
}

/// The kind of socket that a call of socket(2) means, with its flags. The library asks for the
/// relay's sockets by kinds of their own.
pub(crate) fn plain_kind(kind: u64) -> u64 {
    let flags = u64::from((libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC).cast_unsigned());
    let found = RELAYED.into_iter().find(|(relayed, _)| kind & !flags == u64::from(*relayed));
    found.map_or(kind, |(_, plain)| kind & flags | u64::from(plain))
}

/// Is this call of socket(2) one that only the library makes?
pub(crate) fn is_of_library(call: &Notification) -> bool {
    is_introduction(call) || plain_kind(call.arguments[1]) != call.arguments[1]
}

/// The protocol, if a call of socket(2) asks for a netlink socket.
pub(crate) fn netlink_protocol(call: &Notification) -> Option<libc::c_int> {
    let [family, _, protocol, ..] = call.arguments.map(|one| one as libc::c_int);
    (call.call == libc::SYS_socket && family == libc::AF_NETLINK).then_some(protocol)
}

/// Does it ask for a family that only a network namespace of the caller's own has?
pub(crate) fn is_of_packets(call: &Notification) -> bool {
    let family = call.arguments[0] as libc::c_int;
    call.call == libc::SYS_socket && [libc::AF_PACKET, libc::AF_KEY].contains(&family)
}

#[cfg(test)]
impl Notification {
    /// A call of thread 7.
    pub(crate) fn example(call: i64, arguments: [u64; 6]) -> Self {
        Self { id: 1, begun: Instant::now(), thread: 7, left: false, call, arguments }
    }
}

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

/// Does a call of socket(2) ask for a netlink socket?
pub(crate) fn is_netlink(call: &Notification) -> bool {
    call.call == libc::SYS_socket && call.arguments[0] as libc::c_int == libc::AF_NETLINK
}

/// And for one of rtnetlink?
pub(crate) fn is_routing(call: &Notification) -> bool {
    is_netlink(call) && call.arguments[2] as libc::c_int == libc::NETLINK_ROUTE
}

#[cfg(test)]
impl Notification {
    /// A call of thread 7.
    pub(crate) fn example(call: i64, arguments: [u64; 6]) -> Self {
        Self { id: 1, begun: Instant::now(), thread: 7, call, arguments }
    }
}

//! Calls whose answer needs neither the relay's network nor the instance.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

use crate::call::{Notification, is_of_library, is_of_packets, netlink_protocol};
use crate::notification::NotificationSocket;

/// Said once.
const NO_FILTERS: &str = "a program asks for nftables or IPsec of the kernel, which an instance \
                          does not use: `tasuki xfrm` protects its packets";
static FILTERS_TOLD: AtomicBool = AtomicBool::new(false);

/// Said once.
const SOCKETS_SHOWN: &str = "a program lists the kernel's sockets: `tasuki ss` shows those of the \
                             instance";
static SOCKETS_TOLD: AtomicBool = AtomicBool::new(false);

/// Names the command that lists the instance's sockets, to a program that asks for the kernel's.
pub(crate) fn tell_of_lists(call: &Notification) {
    let lists = netlink_protocol(call) == Some(libc::NETLINK_SOCK_DIAG);
    if lists && !SOCKETS_TOLD.swap(true, Ordering::Relaxed) {
        tracing::warn!("{SOCKETS_SHOWN}");
    }
}

/// Does it ask for rules about packets? Those of our namespace would filter nothing.
fn filters_packets(call: &Notification) -> bool {
    matches!(netlink_protocol(call), Some(libc::NETLINK_NETFILTER | libc::NETLINK_XFRM))
}

/// Answers such a call. False: it is none.
///
/// A caller that has left for a network namespace of its own makes its calls there, as without
/// Tasuki. The library learns by ENONET that this has happened.
pub(crate) fn answer(calls: &NotificationSocket, call: &Notification) -> bool {
    match call.call {
        libc::SYS_socket if call.left && is_of_library(call) => {
            calls.answer(call, Err(Errno::NONET));
        }
        _ if call.left => calls.let_through(call),
        libc::SYS_socket if is_of_packets(call) => calls.answer(call, Err(Errno::AFNOSUPPORT)),
        libc::SYS_socket if filters_packets(call) => {
            calls.answer(call, Err(Errno::PROTONOSUPPORT));
            if !FILTERS_TOLD.swap(true, Ordering::Relaxed) {
                tracing::warn!("{NO_FILTERS}");
            }
        }
        libc::SYS_socket | libc::SYS_bind | libc::SYS_listen => return false,
        // Changes of an interface, by ioctl or an option of a socket.
        _ => calls.answer(call, Err(Errno::PERM)),
    }
    true
}

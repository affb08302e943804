//! The urgent mark of a stream as Linux's sockets show it (tcp(7), RFC 6093 3).
//!
//! The server says where the newest urgent byte is; the byte comes with the others. A receive ends
//! before it, and the next one starts after it. Between the two the byte can be had on its own
//! (MSG_OOB). With SO_OOBINLINE it is received in its place, and a receive ends before it all the
//! same. So the count of received bytes tells what is left of a mark, but for one fact: whether the
//! byte was taken out of band.

use std::sync::atomic::Ordering;

use abi::SocketFlags;

use super::core::SocketCore;

/// The urgent marks known from a position of a stream on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrgentAhead {
    Nothing,
    /// An urgent byte after so many others; at 0 it is to be received in its place.
    Mark(u64),
    /// The next byte is urgent, and not received with the others.
    Hidden,
}

/// The position of the newest urgent byte, if it is not before `from`.
pub(super) fn urgent_mark(core: &SocketCore, from: u64) -> Option<u64> {
    let mark = core.words.urgent.load(Ordering::Acquire).checked_sub(1);
    mark.filter(|at| *at >= from)
}

pub(super) fn is_inline(core: &SocketCore) -> bool {
    core.flags().has(SocketFlags::URGENT_INLINE)
}

pub(super) fn urgent_ahead(core: &SocketCore, from: u64) -> UrgentAhead {
    match urgent_mark(core, from) {
        None => UrgentAhead::Nothing,
        Some(at) if at == from && !is_inline(core) => UrgentAhead::Hidden,
        Some(at) => UrgentAhead::Mark(at - from),
    }
}

/// Bytes from `from` to a mark that hides its byte, as SIOCINQ counts.
pub(super) fn until_urgent(core: &SocketCore, from: u64) -> Option<u64> {
    urgent_mark(core, from).filter(|_| !is_inline(core)).map(|at| at - from)
}

//! Descriptors: how many each process may have open, and what clients may have of them.
//!
//! A server without a free descriptor cannot serve what it has promised. So the supervisor counts
//! what each client may cost in each process, and refuses a client or a thread beyond the limit
//! (RLIMIT_NOFILE, which servers inherit and raise to the hard limit).
//!
//! ```text
//! inet server   1 for each client's bell, 1 for its process, 1 for each of its threads (at least
//!               one thread), 1 for each shared socket
//! supervisor    connection, process, memory, bell; and 2 while a request is being answered;
//!               the ends of a bounded number of sockets that become shared;
//!               before Linux 6.16 connections that are being closed
//! driver        nothing: it maps the memory and closes the descriptor
//! ```
//!
//! Threads after a client's first one, and shared sockets, get three quarters of the room: a
//! program with fewer thread slots than threads shares them, but without one it cannot be a client.
//! In mode `library` the servers are in the program, with the program's own limit.

use abi::control::Audience;
use rustix::process::{Resource, getrlimit};
use shm::passing::takes_descriptors;

use super::instance::Instance;
use crate::config::Mode;
use crate::device::Kind;

/// Descriptors of a process that are for no client: rings, bells, control connections, the log, and
/// those that a request brings.
const BASE: u64 = 64;
/// Of an inet server for each interface.
const OF_INTERFACE: u64 = 4;
/// Of a driver: device and readers of captures. In mode `fused` it shares the inet server's limit.
const OF_DRIVER: u64 = 64;
/// Of a driver whose other end may send it descriptors ([`shm::closer`]).
const OF_WIRE: u64 = (shm::closer::MOST_WAITING + 2 * shm::closer::MOST_PASSED) as u64;
/// Of the supervisor for each client.
const OF_CLIENT: u64 = 6;
/// Most requests for shared sockets that the inet server has at a time; the others wait. So few
/// descriptors are on their way.
pub(super) const SHARING_REQUESTS: usize = 2;
/// Of the supervisor for sockets that become shared: both ends of each.
const SHARING: u64 = (2 * abi::shared::MOST_SHARED * SHARING_REQUESTS) as u64;
/// Connections that are being closed, where programs may have put descriptors into them.
const CLOSING: u64 = shm::closer::MOST_WAITING as u64 + 64;
/// Connections of operators.
const OPERATORS: u64 = 64;
/// Connections that are no client's have at most this part of the supervisor's descriptors, and at
/// most so many.
const UNADMITTED: u64 = 8;
const MOST_UNADMITTED: usize = 1024;

/// Why there is no room for one more client than there are, as a sentence.
fn refusal(process: &str, limit: u64, clients: usize) -> String {
    let why = if clients == 0 { "too few for a program" } else { "and clients have all of them" };
    format!(
        "the {process} may have {limit} open files, {why}: raise the hard limit of the instance \
         (`ulimit -Hn`, or LimitNOFILE= of its unit)"
    )
}

/// The most descriptors of each process of an instance: the hard limit, as servers raise theirs.
fn limit() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// The most connections that are no client's: enough for all programs of a full instance to start
/// at once, where the limit allows.
pub(super) fn most_unadmitted() -> usize {
    let share = limit().saturating_sub(BASE) / UNADMITTED;
    usize::try_from(share).unwrap_or(usize::MAX).min(MOST_UNADMITTED)
}

/// The descriptors that an inet server has for clients. In mode `library` it is in a program.
fn room_of_inet(instance: &Instance, limit: u64) -> u64 {
    let driver = match (instance.settings.mode, instance.links.first()) {
        (Mode::Library, _) => return u64::MAX,
        (Mode::Split, _) | (Mode::Fused, None) => 0,
        (Mode::Fused, Some(link)) if link.device.device.kind() == Kind::Wire => OF_DRIVER + OF_WIRE,
        (Mode::Fused, Some(_)) => OF_DRIVER,
    };
    limit.saturating_sub(BASE + OF_INTERFACE * instance.links.len() as u64 + driver)
}

/// Has each process descriptors for one more client and its first thread? The inet server has
/// `promised` ones for the `clients` that there are. The error is a sentence.
pub(super) fn check_client(
    instance: &Instance,
    promised: u64,
    clients: usize,
) -> Result<(), String> {
    let limit = limit();
    if promised + 2 > room_of_inet(instance, limit) {
        return Err(refusal("inet server", limit, clients));
    }
    let listener = instance.sockets.of(Audience::Programs).listener();
    let closing = if takes_descriptors(listener) { CLOSING } else { 0 };
    let others = BASE + OPERATORS + SHARING + closing + most_unadmitted() as u64;
    if others + (clients as u64 + 1) * OF_CLIENT > limit {
        return Err(refusal("supervisor", limit, clients));
    }
    Ok(())
}

/// Has the inet server descriptors for so many more threads or shared sockets of clients? The error
/// is a sentence.
pub(super) fn check_more(instance: &Instance, promised: u64, more: u64) -> Result<(), String> {
    let limit = limit();
    if promised + more > room_of_inet(instance, limit) / 4 * 3 {
        return Err(refusal("inet server", limit, 1));
    }
    Ok(())
}

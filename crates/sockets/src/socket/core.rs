//! The core of a socket: membership, name at the server, words.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abi::call::{Op, addr_to_words};
use abi::client::SocketWords;
use abi::{Errno, Family, SocketFlags, SocketId, SocketKind};

use crate::membership::{Membership, NewCall, RawBatch, wait_until};
use crate::wait::Wait;

/// See the module's head.
pub(super) struct SocketCore {
    pub(super) membership: Arc<Membership>,
    pub(super) id: SocketId,
    pub(super) family: Family,
    pub(super) kind: SocketKind,
    pub(super) words: SocketWords,
    /// The words may be another socket's by now.
    closed: AtomicBool,
}

impl SocketCore {
    /// The socket that the server has just made and named by `id`.
    pub(super) fn new(
        membership: &Arc<Membership>,
        id: SocketId,
        family: Family,
        kind: SocketKind,
    ) -> Result<Self, shm::OutOfRange> {
        let server = &membership.server;
        Ok(Self {
            membership: Arc::clone(membership),
            id,
            family,
            kind,
            words: server.layout().socket_words(server.region(), id.index)?,
            closed: AtomicBool::new(false),
        })
    }

    pub(super) fn is_stream(&self) -> bool {
        self.kind == SocketKind::Stream
    }

    pub(super) fn flags(&self) -> SocketFlags {
        SocketFlags::from_bits_retain(self.words.flags.load(Ordering::Acquire))
    }

    pub(super) fn version(&self) -> u32 {
        self.words.version.load(Ordering::SeqCst)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn set_closed(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// May the words and queues be used? The data path's check.
    ///
    /// # Errors
    /// ENOTCONN in a forked child, ENETDOWN when the instance is gone, EBADF after close.
    pub(super) fn check(&self) -> Result<(), Errno> {
        self.membership.server.check()?;
        if self.is_closed() { Err(Errno::BADF) } else { Ok(()) }
    }

    /// Asks the server to ring the thread with that bit at the socket's next change.
    pub(super) fn wait_for_change(&self, bit: u64) {
        self.words.waiters.add(bit);
    }

    /// Is an error pending?
    pub(super) fn has_error(&self) -> bool {
        self.words.error.load(Ordering::Acquire) != 0
    }

    /// Takes the pending error, if there is one: SO_ERROR.
    pub(super) fn take_error(&self) -> Option<Errno> {
        match self.check() {
            Err(Errno::NETDOWN) => return Some(Errno::NETDOWN),
            Err(_) => return None,
            Ok(()) => {}
        }
        // Mostly there is none, and looking is cheaper than swapping.
        if !self.has_error() {
            return None;
        }
        match i32::try_from(self.words.error.swap(0, Ordering::AcqRel)) {
            Ok(0) => None,
            Ok(raw) if raw < 4096 => Some(Errno::from_raw_os_error(raw)),
            Ok(_) | Err(_) => Some(Errno::IO),
        }
    }

    /// Repeats `attempt` until it gives something; see [`wait_until`].
    pub(super) fn wait_until<T>(
        &self,
        wait: Wait,
        attempt: impl FnMut() -> Result<Option<T>, Errno>,
        ripe: impl Fn() -> bool,
    ) -> Result<T, Errno> {
        wait_until(&self.membership, &self.words, || wait, attempt, ripe)
    }

    /// A call about this socket.
    pub(super) fn new_call(&self, op: Op, flags: u8, args: [u64; 5]) -> NewCall {
        let [a, b, c, d, e] = args;
        NewCall::new(op, flags, [self.id.to_word(), a, b, c, d, e])
    }

    /// Makes a call about this socket and waits for its result.
    pub(super) fn call(&self, op: Op, flags: u8, args: [u64; 5]) -> Result<[u64; 6], Errno> {
        self.membership.server.check_memory()?;
        self.check()?;
        RawBatch::call(&self.membership, &self.new_call(op, flags, args))
    }

    /// [`SocketCore::call`] with an address.
    pub(super) fn call_with_address(
        &self,
        op: Op,
        flags: u8,
        addr: SocketAddr,
    ) -> Result<[u64; 6], Errno> {
        let [a, b, c] = self.address_words(addr)?;
        self.call(op, flags, [a, b, c, 0, 0])
    }

    /// An address as a call's arguments, if it is of the socket's family.
    pub(super) fn address_words(&self, addr: SocketAddr) -> Result<[u64; 3], Errno> {
        if self.family == Family::V4 && addr.is_ipv6() {
            return Err(Errno::AFNOSUPPORT);
        }
        Ok(addr_to_words(addr))
    }

    /// Waits until the server has taken what is queued; its error is that of a datagram.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        self.call(Op::Flush, 0, [0; 5]).map(drop)
    }
}

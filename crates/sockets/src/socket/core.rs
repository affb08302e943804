//! The core of a socket: membership, name at the server, words.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use abi::call::{CallFlags, Op, Reply, ReplyWords, Request};
use abi::client::SocketWords;
use abi::{Errno, Family, SocketFlags, SocketId, SocketKind};

use crate::membership::{Membership, NewCall, RawBatch, wait_until};
use crate::wait::Wait;

/// Between two looks at a socket that the server is about to move.
const MOVE_PAUSE: Duration = Duration::from_micros(20);
/// The server moves a socket within microseconds, unless it is stopped.
const MOVE_LIMIT: Duration = Duration::from_secs(5);

/// How much of a program's work at a socket the server took into account before the socket moved to
/// another process. Work beyond that does not count. The units are those of [`SocketWords`].
#[derive(Debug, Clone, Copy)]
pub(super) struct MoveCounts {
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// See the module's head.
pub(super) struct SocketCore {
    pub(super) membership: Arc<Membership>,
    pub(super) id: SocketId,
    pub(super) family: Family,
    pub(super) kind: SocketKind,
    pub(super) words: SocketWords,
    /// The words may be another socket's by now.
    closed: AtomicBool,
    /// The program knows that the instance is gone: a call on this socket has said so.
    down_said: AtomicBool,
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
        // Only the server tells the kinds of datagrams apart.
        let kind = match kind {
            SocketKind::UdpLite | SocketKind::Echo => SocketKind::Datagram,
            kind => kind,
        };
        Ok(Self {
            membership: Arc::clone(membership),
            id,
            family,
            kind,
            words: server.layout().socket_words(server.region(), id.index)?,
            closed: AtomicBool::new(false),
            down_said: AtomicBool::new(false),
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

    /// Called after something was published: has the socket moved to another process meanwhile?
    ///
    /// # Errors
    /// As [`SocketCore::check`]. EIO when the server has begun to move it and does not go on.
    #[inline]
    pub(super) fn move_counts(&self) -> Result<Option<MoveCounts>, Errno> {
        // A socket is shared long before it can move, by a call of this process.
        match self.flags().has_any(SocketFlags::SHARED | SocketFlags::MOVED) {
            false => Ok(None),
            true => self.look_for_move(),
        }
    }

    #[cold]
    fn look_for_move(&self) -> Result<Option<MoveCounts>, Errno> {
        // Pairs with the server's: either it sees what was published, or its flag is seen here.
        fence(Ordering::SeqCst);
        let give_up = Instant::now() + MOVE_LIMIT;
        loop {
            let flags = self.flags();
            self.check()?;
            if flags.has(SocketFlags::MOVED) {
                let sent = self.words.moved_sent.load(Ordering::Relaxed);
                let received = self.words.moved_received.load(Ordering::Relaxed);
                return Ok(Some(MoveCounts { sent, received }));
            }
            if !flags.has(SocketFlags::MOVING) {
                return Ok(None);
            }
            self.membership.server.look()?;
            if Instant::now() > give_up {
                return Err(Errno::IO);
            }
            thread::sleep(MOVE_PAUSE);
        }
    }

    /// ESTALE if another process uses the socket now, else `errno`.
    #[cold]
    pub(super) fn stale_or(&self, errno: Errno) -> Errno {
        if self.flags().has(SocketFlags::MOVED) { Errno::STALE } else { errno }
    }

    /// The outcome of accepting or of receiving a datagram. A program keeps the socket when that
    /// fails, and its event loop calls again as long as the socket is ready. So ENETDOWN comes once
    /// to calls that do not wait, and EAGAIN afterwards, as on a network that brings nothing.
    #[inline]
    pub(super) fn say_down_once<T>(&self, wait: Wait, out: Result<T, Errno>) -> Result<T, Errno> {
        match out {
            Err(Errno::NETDOWN) => match self.down_said.swap(true, Ordering::AcqRel) {
                true if wait == Wait::No => Err(Errno::AGAIN),
                _ => Err(Errno::NETDOWN),
            },
            out => out,
        }
    }

    /// Is the instance gone, and the program knows it, and has a listener or datagram socket?
    pub(super) fn is_quiet(&self) -> bool {
        let keeps = !self.is_stream() || self.flags().has(SocketFlags::LISTENING);
        keeps && self.down_said.load(Ordering::Acquire)
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
        is_ready: impl Fn() -> bool,
    ) -> Result<T, Errno> {
        wait_until(&self.membership, &self.words, || wait, attempt, is_ready)
    }

    /// Makes a call about this socket and waits for its result.
    pub(super) fn call(&self, call: &NewCall) -> Result<ReplyWords, Errno> {
        self.membership.server.check_memory()?;
        self.check()?;
        RawBatch::call(&self.membership, call)
    }

    /// [`SocketCore::call`] of a request that gives nothing.
    #[inline]
    pub(super) fn request(&self, request: Request) -> Result<(), Errno> {
        self.call(&NewCall::new(request)).map(drop)
    }

    /// Is the address of the socket's family?
    ///
    /// # Errors
    /// EAFNOSUPPORT if not.
    pub(super) fn check_family(&self, addr: SocketAddr) -> Result<(), Errno> {
        let other = self.family == Family::V4 && addr.is_ipv6();
        if other { Err(Errno::AFNOSUPPORT) } else { Ok(()) }
    }

    /// Connects; how many bytes the SYN takes, if it waits for them, else 0.
    pub(super) fn connect(&self, addr: SocketAddr, flags: CallFlags) -> Result<u64, Errno> {
        self.check_family(addr)?;
        let request = Request::Connect { socket: self.id, addr };
        let words = self.call(&NewCall::with_flags(request, flags))?;
        Ok(syn_room(&words))
    }

    /// Waits until the server has taken all queued bytes. The error is that of a datagram that
    /// could not be sent.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        self.request(Request::Flush { socket: self.id })
    }
}

/// The room in the SYN, from a connect's reply.
pub(super) fn syn_room(words: &ReplyWords) -> u64 {
    match Reply::decode(Op::Connect, words) {
        Ok(Reply::Connecting { syn_room }) => syn_room,
        _ => 0,
    }
}

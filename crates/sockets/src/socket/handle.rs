//! The socket as a value of the program: its core, its halves, control operations, close.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use abi::ancillary::SendAncillary;
use abi::call::{CallFlags, Op, Reply, ReplyWords, Request};
use abi::{Errno, Family, ShutdownHow, SocketFlags, SocketId, SocketKind};

use super::connect::connect_waiting;
use super::core::{SocketCore, syn_room};
use super::datagram::Addressed;
use super::recv::{RecvFlags, RecvHalf};
use super::recv_queue::{Received, RecvBuffers};
use super::send::{SendFlags, SendHalf};
use crate::lock::lock;
use crate::membership::{Membership, NewCall, RawBatch};
use crate::memory::SendBuffers;
use crate::wait::Wait;

struct Inner {
    core: SocketCore,
    send: SendHalf,
    recv: RecvHalf,
    /// The program gave it an address, or made it a listener. After the close the program may want
    /// that address again.
    named: AtomicBool,
}

/// A socket of a client. Clones are the same socket. It is closed explicitly or with its last
/// clone.
#[derive(Clone)]
pub struct Socket(Arc<Inner>);

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SocketCore { id, kind, .. } = &self.0.core;
        f.debug_struct("Socket").field("id", id).field("kind", kind).finish()
    }
}

impl Socket {
    /// Takes up the socket that the server has just made and named by `id`.
    pub(crate) fn admit(
        membership: &Arc<Membership>,
        id: SocketId,
        family: Family,
        kind: SocketKind,
    ) -> Result<Self, Errno> {
        let server = &membership.server;
        if id.index >= server.layout().params.sockets {
            return Err(server.fault());
        }
        membership.end_closed(id.index);
        let made = (|| {
            let core = SocketCore::new(membership, id, family, kind)?;
            let (send, recv) = (SendHalf::attach(&core)?, RecvHalf::attach(&core)?);
            Ok::<_, shm::OutOfRange>(Inner { core, send, recv, named: AtomicBool::new(false) })
        })();
        made.map(|inner| Self(Arc::new(inner))).map_err(|_| server.fault())
    }

    pub(super) fn core(&self) -> &SocketCore {
        &self.0.core
    }

    pub(super) fn send_half(&self) -> &SendHalf {
        &self.0.send
    }

    pub(super) fn recv_half(&self) -> &RecvHalf {
        &self.0.recv
    }

    pub(super) fn membership(&self) -> &Membership {
        &self.0.core.membership
    }

    /// Stream or datagram; `Datagram` for UDP-Lite, too.
    #[must_use]
    pub fn kind(&self) -> SocketKind {
        self.0.core.kind
    }

    /// The family of its addresses.
    #[must_use]
    pub fn family(&self) -> Family {
        self.0.core.family
    }

    /// Does another process use the socket now? Then every operation fails, but for the close.
    #[must_use]
    #[inline]
    pub fn is_moved(&self) -> bool {
        self.0.core.flags().has(SocketFlags::MOVED)
    }

    /// Is it a listener?
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.0.core.flags().has(SocketFlags::LISTENING)
    }

    pub(crate) fn id(&self) -> SocketId {
        self.0.core.id
    }

    /// Its index in the client's region.
    pub(crate) fn index(&self) -> u16 {
        self.0.core.id.index
    }

    pub(crate) fn version(&self) -> u32 {
        self.0.core.version()
    }

    /// Asks the server to ring the thread with that bit at the socket's next change.
    pub(crate) fn wait_for_change(&self, bit: u64) {
        self.0.core.wait_for_change(bit);
    }

    /// Notes that the program names the socket's port.
    pub(crate) fn set_named(&self) {
        self.0.named.store(true, Ordering::Relaxed);
    }

    /// A connection attempt has begun; its reply says whether it waits for its first bytes.
    pub(crate) fn note_connect(&self, words: &ReplyWords) {
        self.0.send.set_syn_room(syn_room(words));
    }

    /// The server's answers about destinations may be true no longer.
    pub(crate) fn forget_destinations(&self) {
        lock(&self.0.send.destinations).clear();
    }

    /// The sender of a received datagram can be answered.
    pub(super) fn note_sender(&self, from: Option<SocketAddr>) {
        lock(&self.0.send.destinations).note(from, usize::MAX);
    }

    /// Gives the socket a local address; port 0 lets the stack choose.
    ///
    /// # Errors
    /// EADDRINUSE, EADDRNOTAVAIL, EINVAL (has one already), EAFNOSUPPORT (the other family's),
    /// EBADF after close, ENETDOWN, ENOTCONN in a forked child.
    pub fn bind(&self, addr: SocketAddr) -> Result<(), Errno> {
        self.forget_destinations();
        self.set_named();
        self.0.core.check_family(addr)?;
        self.0.core.request(Request::Bind { socket: self.id(), addr })
    }

    /// Makes the socket a listener with room for `backlog` connections that are not yet accepted.
    ///
    /// # Errors
    /// EOPNOTSUPP for datagrams; EINVAL when connected; EADDRINUSE; otherwise as [`Socket::bind`].
    pub fn listen(&self, backlog: u32) -> Result<(), Errno> {
        self.set_named();
        self.0.core.request(Request::Listen { socket: self.id(), backlog })
    }

    /// Connects a stream, or sets the peer of a datagram socket ([`abi::data::ANY`] takes it away
    /// again).
    ///
    /// Also waits for an attempt that is already under way.
    ///
    /// # Errors
    /// EINPROGRESS when the attempt goes on in the background because `wait` is over (EALREADY if
    /// it was under way before this call); EINTR, and it goes on in the background; ECONNREFUSED,
    /// EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, EISCONN, EADDRNOTAVAIL (no port is free); otherwise as
    /// [`Socket::bind`].
    pub fn connect(&self, addr: SocketAddr, wait: Wait) -> Result<(), Errno> {
        let Inner { core, send, .. } = &*self.0;
        self.forget_destinations();
        if wait != Wait::No && core.is_stream() {
            return connect_waiting(core, send, addr, wait);
        }
        send.set_syn_room(core.connect(addr, CallFlags::NONBLOCK)?);
        Ok(())
    }

    /// Connects a stream for a send with MSG_FASTOPEN. If the peer's cookie is known, the SYN will
    /// take the first bytes sent. If not, the attempt is an ordinary one and asks for a cookie for
    /// the next time. Nothing happens if the stream is connected, or waits for its first bytes
    /// already.
    ///
    /// # Errors
    /// EINPROGRESS when the cookie is not known and `wait` is over; EALREADY while an attempt is
    /// under way; EOPNOTSUPP if the instance's `fastopen` does not allow it for clients; otherwise
    /// as [`Socket::connect`].
    pub fn connect_fast(&self, addr: SocketAddr, wait: Wait) -> Result<(), Errno> {
        self.0.send.connect_fast(&self.0.core, addr, wait)
    }

    /// The next connection of a listener, and its peer.
    ///
    /// # Errors
    /// EAGAIN when there is none and no time; EINTR; EINVAL when it does not listen; EOPNOTSUPP for
    /// datagrams; EMFILE without a free socket place; otherwise as [`Socket::bind`].
    pub fn accept(&self, wait: Wait) -> Result<(Socket, SocketAddr), Errno> {
        let core = &self.0.core;
        let ready = || {
            core.check().is_err()
                || !self.is_listening()
                || core.words.accept_ready.load(Ordering::Acquire) > 0
        };
        let request = Request::Accept { socket: core.id };
        let accept = NewCall::with_flags(request, CallFlags::NONBLOCK);
        let attempt = || {
            core.check()?;
            if !ready() {
                return Ok(None);
            }
            match core.call(&accept) {
                // Another thread was faster.
                Err(Errno::AGAIN) => Ok(None),
                Err(errno) => Err(errno),
                Ok(words) => self.accepted(&words).map(Some),
            }
        };
        core.say_down_once(wait, core.wait_until(wait, attempt, ready))
    }

    /// The connection that an accept's reply names.
    pub(crate) fn accepted(&self, words: &ReplyWords) -> Result<(Socket, SocketAddr), Errno> {
        let core = &self.0.core;
        let Ok(Reply::Accepted { socket, peer }) = Reply::decode(Op::Accept, words) else {
            return Err(core.membership.server.fault());
        };
        let socket = Socket::admit(&core.membership, socket, core.family, SocketKind::Stream)?;
        // Options of the listener hold for its connections.
        let threshold = self.0.recv.bell_threshold.load(Ordering::Relaxed);
        socket.0.recv.bell_threshold.store(threshold, Ordering::Relaxed);
        let lowat = self.0.recv.lowat.load(Ordering::Relaxed);
        socket.0.recv.lowat.store(lowat, Ordering::Relaxed);
        Ok((socket, peer))
    }

    /// Ends one or both directions.
    ///
    /// # Errors
    /// ENOTCONN when not connected; otherwise as [`Socket::bind`].
    pub fn shutdown(&self, how: ShutdownHow) -> Result<(), Errno> {
        self.0.core.request(Request::Shutdown { socket: self.id(), how })
    }

    /// The socket's own address, or the unspecified address before it has one.
    ///
    /// # Errors
    /// As [`Socket::bind`].
    pub fn local_addr(&self) -> Result<SocketAddr, Errno> {
        let words = self.0.core.call(&NewCall::new(Request::GetSockName { socket: self.id() }))?;
        self.address(Op::GetSockName, &words)
    }

    /// The peer's address.
    ///
    /// # Errors
    /// ENOTCONN without a peer; otherwise as [`Socket::bind`].
    pub fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        let words = self.0.core.call(&NewCall::new(Request::GetPeerName { socket: self.id() }))?;
        self.address(Op::GetPeerName, &words)
    }

    /// The address that a reply names; the unspecified one if it names none.
    pub(crate) fn address(&self, op: Op, words: &ReplyWords) -> Result<SocketAddr, Errno> {
        match Reply::decode(op, words) {
            Ok(Reply::Address(addr)) => Ok(addr.unwrap_or(self.family().unspecified())),
            _ => Err(self.membership().server.fault()),
        }
    }

    /// Takes the pending error, if there is one: SO_ERROR.
    #[must_use]
    pub fn take_error(&self) -> Option<Errno> {
        self.0.core.take_error()
    }

    /// Sends the bytes of `bufs` in order, as a stream's next bytes or as one datagram to `to` or
    /// the connected peer. `to` is ignored on a stream, as on Linux.
    ///
    /// Returns how many bytes were queued. A waiting send on a stream queues all bytes. After the
    /// first bytes it ends early, with the count so far, if its time is over, a signal comes or the
    /// connection ends. As on Linux, the signal's SA_RESTART does not matter then. [`Wait::No`]
    /// queues as many bytes as there is room for.
    ///
    /// # Errors
    /// Only before the first byte: EAGAIN when there is no room and no time; EINTR; EPIPE when
    /// sending is shut down, the connection is over or there never was one (no SIGPIPE is raised);
    /// a pending error of the socket, such as ECONNRESET, once; those of [`Socket::send_message`]
    /// for datagrams; EBADF after close; ENETDOWN when the instance is gone; ENOTCONN in a forked
    /// child.
    pub fn send(
        &self,
        bufs: &[IoSlice<'_>],
        flags: SendFlags,
        to: Option<SocketAddr>,
        wait: Wait,
    ) -> Result<usize, Errno> {
        let Inner { core, send, .. } = &*self.0;
        let mut from = SendBuffers::new(bufs);
        match core.kind {
            SocketKind::Stream => match send.take_syn_room() {
                Some(room) => send.send_first(core, &mut from, flags, wait, room),
                None => send.send_stream(core, &mut from, flags, wait),
            },
            SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => {
                let ancillary = &SendAncillary::default();
                let datagram = Addressed { len: from.left, more: flags.more, to, ancillary };
                send.send_datagram(core, &mut from, &datagram, wait)
            }
        }
    }

    /// Sends the bytes of `bufs` in order, as one datagram to `to` or the connected peer, as
    /// `ancillary` says. With `flags.more` or UDP_CORK they are a part of a datagram.
    ///
    /// The first datagram to a destination, or with other ancillary values, waits for the server,
    /// even with [`Wait::No`]. Later ones are only queued.
    ///
    /// # Errors
    /// EOPNOTSUPP on a stream; EAGAIN when there is no room and no time; EINTR; EPIPE when sending
    /// is shut down; a pending error of the socket, such as ECONNREFUSED, once; EDESTADDRREQ;
    /// EAFNOSUPPORT; EMSGSIZE above 65,507 bytes (IPv6: 65,527), above the room of a region of few
    /// pages, or above the path MTU if fragmentation is forbidden; EINVAL for a source that is not
    /// ours, 0 hops, or a datagram that cannot be fragmented; ENODEV; EACCES (broadcast);
    /// ENETUNREACH; EBADF after close; ENETDOWN when the instance is gone; ENOTCONN in a forked
    /// child.
    pub fn send_message(
        &self,
        bufs: &[IoSlice<'_>],
        flags: SendFlags,
        to: Option<SocketAddr>,
        ancillary: &SendAncillary,
        wait: Wait,
    ) -> Result<usize, Errno> {
        if self.0.core.is_stream() {
            return Err(Errno::OPNOTSUPP);
        }
        let mut from = SendBuffers::new(bufs);
        let datagram = Addressed { len: from.left, more: flags.more, to, ancillary };
        self.0.send.send_datagram(&self.0.core, &mut from, &datagram, wait)
    }

    /// Bytes sent and not yet released by the server: SIOCOUTQ. 0 after close.
    #[must_use]
    pub fn unsent_len(&self) -> usize {
        self.0.send.unsent_len(&self.0.core)
    }

    /// Receives into `bufs`, in order: the bytes that a stream has now, or one datagram.
    ///
    /// # Errors
    /// EAGAIN when nothing is there and no time; EINTR; a pending error of the socket, such as
    /// ECONNRESET, once; ENOTCONN on a stream that is not connected, and in a forked child; EIO
    /// when the server named bytes that do not exist; EBADF after close; ENETDOWN when the instance
    /// is gone.
    pub fn recv(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
        wait: Wait,
    ) -> Result<Received, Errno> {
        let mut into = RecvBuffers::new(bufs);
        let core = &self.0.core;
        let mut received = self.0.recv.recv(core, &mut into, flags.peek, wait);
        if !core.is_stream() {
            received = core.say_down_once(wait, received);
        }
        let received = received?;
        if received.from.is_some() {
            self.note_sender(received.from);
        }
        Ok(received)
    }

    /// Bytes that can be received now (FIONREAD). For datagrams, the length of the next. 0 after
    /// close.
    #[must_use]
    pub fn readable_len(&self) -> usize {
        self.0.recv.readable_len(&self.0.core)
    }

    /// Bytes of a stream, or datagrams, that the program has received.
    #[must_use]
    pub fn received_count(&self) -> u64 {
        self.0.recv.received_count()
    }

    /// Is the next byte to be received the urgent one: sockatmark(3), SIOCATMARK?
    #[must_use]
    pub fn is_at_mark(&self) -> bool {
        self.0.recv.is_at_mark(&self.0.core)
    }

    /// Receives the urgent byte on its own (MSG_OOB), or looks at it; never waits. `None` at the
    /// end of the stream.
    ///
    /// # Errors
    /// EINVAL when there is none, when it was received already, or when SO_OOBINLINE puts it into
    /// the stream; EAGAIN when its mark has come and the byte has not; EIO when the server named
    /// bytes that do not exist; EBADF after close; ENETDOWN when the instance is gone; ENOTCONN in
    /// a forked child.
    pub fn recv_urgent(&self, peek: bool) -> Result<Option<u8>, Errno> {
        self.0.recv.recv_urgent(&self.0.core, peek)
    }

    /// Closes the socket. Queued bytes are still sent; every later operation on any clone gives
    /// EBADF. The second time, and in a forked child, nothing happens. If the program holds
    /// [`RxArea`](crate::RxArea)s of the socket, the peer learns of the end only when the last one
    /// is dropped.
    pub fn close(&self) {
        self.0.close();
    }

    /// [`Socket::close`] that does not wait for the server, unless the socket was bound to a port
    /// that another socket may now want. Memory of sent bytes is free some time later.
    pub fn close_soon(&self) {
        self.0.close_soon();
    }

    /// All of [`Socket::close`] but the call; false if there is none to be made.
    pub(crate) fn begin_close(&self) -> bool {
        self.0.begin_close()
    }

    /// The program gives back a received part that it held.
    pub(super) fn end_held(&self, number: u64) {
        // In a forked child the queues are the parent's, and its lock may be held for ever.
        if self.membership().server.is_forked() {
            return;
        }
        if self.0.recv.end_held(&self.0.core, number) && self.0.core.is_closed() {
            self.close();
        }
    }
}

impl Inner {
    fn close(&self) {
        if self.begin_close() {
            // Waited for, since a bind to the same port may follow in another thread.
            let close = Request::Close { socket: self.core.id };
            let _ = RawBatch::call(&self.core.membership, &NewCall::new(close));
            self.core.membership.reap();
        }
    }

    fn close_soon(&self) {
        if !self.core.is_stream() || self.named.load(Ordering::Relaxed) {
            return self.close();
        }
        if self.begin_close() {
            let membership = &self.core.membership;
            let close = Request::Close { socket: self.core.id };
            let no_reply = NewCall::with_flags(close, CallFlags::QUIET);
            if RawBatch::call_no_reply(membership, &no_reply, true) != Ok(true) {
                let _ = RawBatch::call(membership, &NewCall::new(close));
            }
            membership.reap();
        }
    }

    fn begin_close(&self) -> bool {
        let (core, membership) = (&self.core, &self.core.membership);
        if membership.server.check_memory().is_err() {
            return false;
        }
        core.set_closed();
        // Parts that the program reads in place must stay until they are given back, and so must
        // the socket. Dropping the last part closes it.
        if lock(&self.recv.queue).as_ref().is_some_and(|queue| !queue.held.is_empty()) {
            return false;
        }
        let Some(queue) = lock(&self.send.queue).take() else {
            return false;
        };
        if let Some(recv) = lock(&self.recv.queue).take() {
            // Linux resets a connection that is closed over unread bytes. So the server must learn
            // which bytes were read.
            core.words.rx_consumed.set(recv.consumed());
            membership.server.mark_dirty(core.id.index);
        }
        if queue.holds_memory() {
            membership.closed().add(core.id.index, core.words.clone(), queue);
        }
        true
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
        // The queue is still here in a forked child, or without an instance. In a forked child its
        // areas are leaked: a dropped area writes into the owner table, and that table is the
        // parent's.
        if self.core.membership.server.is_forked() {
            let queue = self.send.queue.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(queue.take());
        }
    }
}

//! A socket: its name at the server, its words, its two halves, and the control operations.
//!
//! Each half is behind its own lock, taken for as long as bytes are copied and never while
//! sleeping, so threads may send and receive at the same time, and poll looks at both. Closing
//! takes the halves out: an operation that comes later finds EBADF, whatever the server has put
//! into the place by then.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use abi::call::{Call, Op, addr_from_words, addr_to_words};
use abi::client::SocketWords;
use abi::option::{GET_MOST, GET_PART, OptionKey, bytes_to_words, words_to_bytes};
use abi::{Errno, Family, How, SocketFlags, SocketId, SocketKind};

use crate::batch::CallBatch;
use crate::client::{Client, lock};
use crate::confirmed::Confirmed;
use crate::recv::{RecvSide, SELDOM};
use crate::send::{Grave, SendSide};
use crate::wait::{Wait, until};

/// SOL_SOCKET and those of its options that are known here.
const SOL_SOCKET: i32 = 1;
const SO_REUSEADDR: i32 = 2;
const SO_ERROR: i32 = 4;
const SO_RCVBUF: i32 = 8;
const SO_KEEPALIVE: i32 = 9;
const IPPROTO_TCP: i32 = 6;
const TCP_NODELAY: i32 = 1;
/// What decides whether datagrams may be cut; its values 2 and 3 forbid it.
const IPPROTO_IP: i32 = 0;
const IP_MTU_DISCOVER: i32 = 10;
const IPPROTO_IPV6: i32 = 41;
const IPV6_MTU_DISCOVER: i32 = 23;

struct Inner {
    client: Arc<Client>,
    id: SocketId,
    family: Family,
    kind: SocketKind,
    words: SocketWords,
    send: Mutex<Option<SendSide>>,
    recv: Mutex<Option<RecvSide>>,
    /// The words may be another socket's by now.
    closed: AtomicBool,
    /// Destinations of datagrams that the server has taken.
    confirmed: Mutex<Confirmed>,
    /// A datagram may not be cut on its way: how long one may be depends on the path.
    whole: AtomicBool,
    /// Taken bytes below which the server is not woken ([`SELDOM`], less for a small SO_RCVBUF).
    seldom: AtomicU32,
    /// Bytes or datagrams that the program has received.
    rx_taken: AtomicU64,
    /// The mark whose byte was received out of band, as `SocketWords::urgent` has it.
    urgent_taken: AtomicU64,
    /// How many bytes the SYN takes, while it waits for them; else 0.
    syn_room: AtomicU32,
    /// The program gave it an address, or made it a listener: who closes it may want that again.
    named: AtomicBool,
}

/// A socket of a client. Clones are the same socket; it is closed explicitly or with its last
/// clone.
#[derive(Clone)]
pub struct Socket(Arc<Inner>);

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket").field("id", &self.0.id).field("kind", &self.0.kind).finish()
    }
}

impl Socket {
    /// Takes up the socket that the server has just made and named by `id`.
    pub(crate) fn admit(
        client: &Arc<Client>,
        id: u64,
        family: Family,
        kind: SocketKind,
    ) -> Result<Self, Errno> {
        let id = SocketId::from_word(id);
        if id.index >= client.layout().params.sockets {
            return Err(client.fault());
        }
        client.unbury(id.index);
        let (region, layout) = (client.region(), client.layout());
        let made = (|| {
            Ok::<_, shm::OutOfRange>(Inner {
                client: Arc::clone(client),
                id,
                family,
                kind,
                words: layout.socket_words(region, id.index)?,
                send: Mutex::new(Some(SendSide::attach(region, layout.tx_queue(id.index))?)),
                recv: Mutex::new(Some(RecvSide::attach(region, layout.rx_queue(id.index))?)),
                closed: AtomicBool::new(false),
                confirmed: Mutex::default(),
                whole: AtomicBool::new(false),
                seldom: AtomicU32::new(SELDOM),
                urgent_taken: AtomicU64::new(0),
                rx_taken: AtomicU64::new(0),
                syn_room: AtomicU32::new(0),
                named: AtomicBool::new(false),
            })
        })();
        made.map(|inner| Self(Arc::new(inner))).map_err(|_| client.fault())
    }

    /// The client whose socket this is.
    #[must_use]
    pub fn client(&self) -> &Arc<Client> {
        &self.0.client
    }

    /// What it speaks.
    #[must_use]
    pub fn kind(&self) -> SocketKind {
        self.0.kind
    }

    /// Whose addresses it speaks of.
    #[must_use]
    pub fn family(&self) -> Family {
        self.0.family
    }

    /// Is it a listener?
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.flags().has(SocketFlags::LISTENING)
    }

    pub(crate) fn id(&self) -> SocketId {
        self.0.id
    }

    pub(crate) fn index(&self) -> u16 {
        self.0.id.index
    }

    pub(crate) fn words(&self) -> &SocketWords {
        &self.0.words
    }

    pub(crate) fn flags(&self) -> SocketFlags {
        SocketFlags(self.0.words.flags.load(Ordering::Acquire))
    }

    pub(crate) fn version(&self) -> u32 {
        self.0.words.version.load(Ordering::SeqCst)
    }

    pub(crate) fn send_side(&self) -> &Mutex<Option<SendSide>> {
        &self.0.send
    }

    pub(crate) fn recv_side(&self) -> &Mutex<Option<RecvSide>> {
        &self.0.recv
    }

    pub(crate) fn urgent_taken(&self) -> &AtomicU64 {
        &self.0.urgent_taken
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    pub(crate) fn rx_taken(&self) -> &AtomicU64 {
        &self.0.rx_taken
    }

    pub(crate) fn syn_room(&self) -> &AtomicU32 {
        &self.0.syn_room
    }

    pub(crate) fn confirmed(&self) -> &Mutex<Confirmed> {
        &self.0.confirmed
    }

    /// May datagrams be cut on their way?
    pub(crate) fn is_whole(&self) -> bool {
        self.0.whole.load(Ordering::Relaxed)
    }

    /// Has the server take what is queued, and tell what it says of it.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        self.call(Op::Flush, 0, [0; 5]).map(drop)
    }

    pub(crate) fn seldom(&self) -> u32 {
        self.0.seldom.load(Ordering::Relaxed)
    }

    /// Asks the server to ring the thread with that bit at the socket's next change.
    pub(crate) fn wait_for_change(&self, bit: u64) {
        self.0.words.waiters.add(bit);
    }

    /// May the words and queues be used? The data path's check.
    ///
    /// # Errors
    /// As [`Client::check`], and EBADF after close.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        self.0.client.check()?;
        if self.0.closed.load(Ordering::Acquire) { Err(Errno::BADF) } else { Ok(()) }
    }

    fn call(&self, op: Op, flags: u8, args: [u64; 5]) -> Result<[u64; 6], Errno> {
        self.client().check_memory()?;
        self.check()?;
        let [a, b, c, d, e] = args;
        CallBatch::call(self.client(), op, flags, [self.0.id.to_word(), a, b, c, d, e])
    }

    pub(crate) fn call_with_address(
        &self,
        op: Op,
        flags: u8,
        addr: SocketAddr,
    ) -> Result<[u64; 6], Errno> {
        let [a, b, c] = self.address_words(addr)?;
        self.call(op, flags, [a, b, c, 0, 0])
    }

    /// An address as a call's arguments, if it is of the socket's family.
    pub(crate) fn address_words(&self, addr: SocketAddr) -> Result<[u64; 3], Errno> {
        if self.family() == Family::V4 && addr.is_ipv6() {
            return Err(Errno::AFNOSUPPORT);
        }
        Ok(addr_to_words(addr))
    }

    /// A call that names the socket's port is made, or a listener of it.
    pub(crate) fn set_named(&self) {
        self.0.named.store(true, Ordering::Relaxed);
    }

    /// Gives the socket a local address; port 0 lets the stack choose.
    ///
    /// # Errors
    /// EADDRINUSE, EADDRNOTAVAIL, EINVAL (has one already), EAFNOSUPPORT (the other family's),
    /// EBADF after close, ENETDOWN, ENOTCONN in a forked child.
    pub fn bind(&self, addr: SocketAddr) -> Result<(), Errno> {
        self.forget_confirmed();
        self.set_named();
        self.call_with_address(Op::Bind, 0, addr).map(drop)
    }

    /// Makes the socket a listener with room for `backlog` connections that are not yet accepted.
    ///
    /// # Errors
    /// EOPNOTSUPP for datagrams; EINVAL when connected; EADDRINUSE; otherwise as [`Socket::bind`].
    pub fn listen(&self, backlog: u32) -> Result<(), Errno> {
        self.set_named();
        self.call(Op::Listen, 0, [backlog.into(), 0, 0, 0, 0]).map(drop)
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
        self.forget_confirmed();
        if wait != Wait::No && self.kind() == SocketKind::Stream {
            return self.connect_waiting(addr, wait);
        }
        let [room, ..] = self.call_with_address(Op::Connect, Call::NONBLOCK, addr)?;
        self.wait_for_data(room);
        Ok(())
    }

    pub(crate) fn connecting(&self) -> Result<bool, Errno> {
        self.check()?;
        Ok(self.flags().has(SocketFlags::CONNECTING))
    }

    /// How a connection attempt came out; `None` while it goes on.
    pub(crate) fn connected(&self) -> Result<Option<()>, Errno> {
        if self.connecting()? {
            return Ok(None);
        }
        match self.take_error() {
            Some(errno) => Err(errno),
            None if self.flags().has(SocketFlags::CONNECTED) => Ok(Some(())),
            // Over already, and another thread has taken the reason.
            None => Err(Errno::CONNABORTED),
        }
    }

    /// The next connection of a listener, and its peer.
    ///
    /// # Errors
    /// EAGAIN when there is none and no time; EINTR; EINVAL when it does not listen; EOPNOTSUPP for
    /// datagrams; EMFILE without a free socket place; otherwise as [`Socket::bind`].
    pub fn accept(&self, wait: Wait) -> Result<(Socket, SocketAddr), Errno> {
        let ready = || {
            self.check().is_err()
                || !self.is_listening()
                || self.words().accept_ready.load(Ordering::Acquire) > 0
        };
        let attempt = || {
            self.check()?;
            if !ready() {
                return Ok(None);
            }
            match self.call(Op::Accept, Call::NONBLOCK, [0; 5]) {
                // Another thread was faster.
                Err(Errno::AGAIN) => Ok(None),
                Err(errno) => Err(errno),
                Ok(values) => self.accepted(values).map(Some),
            }
        };
        until(self, wait, attempt, ready)
    }

    pub(crate) fn accepted(&self, values: [u64; 6]) -> Result<(Socket, SocketAddr), Errno> {
        let [id, a, b, c, ..] = values;
        let socket = Socket::admit(self.client(), id, self.family(), SocketKind::Stream)?;
        // Options of the listener hold for its connections.
        socket.0.seldom.store(self.seldom(), Ordering::Relaxed);
        let peer = addr_from_words([a, b, c]).map_err(|_| self.client().fault())?;
        Ok((socket, peer))
    }

    /// Ends one or both directions.
    ///
    /// # Errors
    /// ENOTCONN when not connected; otherwise as [`Socket::bind`].
    pub fn shutdown(&self, how: How) -> Result<(), Errno> {
        self.call(Op::Shutdown, 0, [how.to_word(), 0, 0, 0, 0]).map(drop)
    }

    /// Closes the socket: what is queued is still sent; every later operation on any clone gives
    /// EBADF. The second time, and in a forked child, nothing happens. While the program holds
    /// [`RxArea`](crate::RxArea)s of it, the peer learns of the end when the last one is dropped.
    pub fn close(&self) {
        self.0.close();
    }

    /// [`Socket::close`] that does not wait for the server, unless the socket was bound to a port
    /// that somebody else may now want. Memory of what was sent is free some time later.
    pub fn close_soon(&self) {
        self.0.close_soon();
    }

    /// All of [`Socket::close`] but the call; false if there is none to be made.
    pub(crate) fn begin_close(&self) -> bool {
        self.0.begin_close()
    }

    /// Sets an option by Linux's numbers from the bytes of its value, such as those of an `int`.
    ///
    /// # Errors
    /// ENOPROTOOPT for an unknown option, EINVAL for a bad or short value; others by option, as
    /// Linux has them; otherwise as [`Socket::bind`].
    pub fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
        let [a, b, c] = bytes_to_words(value);
        let key = OptionKey { level, name }.to_word();
        let args = [key, value.len() as u64, a, b, c];
        if !(self.may_set_unheard(level, name, value) && self.set_unheard(args)?) {
            self.call(Op::SetSockOpt, 0, args)?;
        }
        self.note_option(level, name, value);
        Ok(())
    }

    /// Is it an option that cannot fail, and that changes nothing before the next call or send?
    fn may_set_unheard(&self, level: i32, name: i32, value: &[u8]) -> bool {
        if self.kind() != SocketKind::Stream || value.len() < size_of::<i32>() {
            return false;
        }
        match (level, name) {
            (IPPROTO_TCP, TCP_NODELAY) => {
                lock(&self.0.send).as_ref().is_some_and(|side| side.sent == 0)
            }
            (SOL_SOCKET, SO_REUSEADDR | SO_KEEPALIVE) => self.flags().0 == SocketFlags::OPEN,
            _ => false,
        }
    }

    /// Sets an option without waiting, or waking the server; false if there is no room.
    fn set_unheard(&self, [a, b, c, d, e]: [u64; 5]) -> Result<bool, Errno> {
        self.check()?;
        let args = [self.0.id.to_word(), a, b, c, d, e];
        CallBatch::call_unheard(self.client(), Op::SetSockOpt, args, false)
    }

    /// Remembers what of an option concerns this side.
    pub(crate) fn note_option(&self, level: i32, name: i32, value: &[u8]) {
        // Any may decide about where datagrams can go.
        self.forget_confirmed();
        if matches!(
            (level, name),
            (IPPROTO_IP, IP_MTU_DISCOVER) | (IPPROTO_IPV6, IPV6_MTU_DISCOVER)
        ) {
            self.0.whole.store(matches!(value, [2 | 3, ..]), Ordering::Relaxed);
        }
        if (level, name) == (SOL_SOCKET, SO_RCVBUF)
            && let Some(&bytes) = value.first_chunk()
        {
            let quarter = u32::from_ne_bytes(bytes) / 4;
            self.0.seldom.store(quarter.clamp(1, SELDOM), Ordering::Relaxed);
        }
    }

    /// What was confirmed of destinations may be true no longer.
    pub(crate) fn forget_confirmed(&self) {
        lock(&self.0.confirmed).clear();
    }

    /// The bytes of an option's value, as far as `into` has room; how long the value is. SO_ERROR
    /// is [`Socket::take_error`]. All parts of a long value are of one moment, or nearly so.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn option(&self, level: i32, name: i32, into: &mut [u8]) -> Result<usize, Errno> {
        if (level, name) == (SOL_SOCKET, SO_ERROR) {
            let pending = self.take_error().map_or(0, Errno::raw_os_error).to_ne_bytes();
            into.iter_mut().zip(pending).for_each(|(to, from)| *to = from);
            return Ok(pending.len());
        }
        self.client().check_memory()?;
        self.check()?;
        let most = into.len().clamp(1, GET_MOST);
        let (id, key) = (self.0.id.to_word(), OptionKey { level, name }.to_word());
        let parts = (0..most).step_by(GET_PART).map(|at| [id, key, at as u64, 0, 0, 0]);
        let results = CallBatch::call_all(self.client(), Op::GetSockOpt, parts)?;
        for ([_, words @ ..], room) in results.iter().zip(into.chunks_mut(GET_PART)) {
            room.iter_mut().zip(words_to_bytes(words)).for_each(|(to, from)| *to = from);
        }
        let whole = results.first().map_or(0, |values| values[0]);
        Ok(usize::try_from(whole).unwrap_or(GET_MOST).min(GET_MOST))
    }

    /// Sets an option whose value is an `int`.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn set_int(&self, level: i32, name: i32, value: i32) -> Result<(), Errno> {
        self.set_option(level, name, &value.to_ne_bytes())
    }

    /// An option's value that is an `int`.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn int(&self, level: i32, name: i32) -> Result<i32, Errno> {
        let mut value = [0; 4];
        self.option(level, name, &mut value)?;
        Ok(i32::from_ne_bytes(value))
    }

    /// The socket's own address; the unspecified one before it has any.
    ///
    /// # Errors
    /// As [`Socket::bind`].
    pub fn local_addr(&self) -> Result<SocketAddr, Errno> {
        self.address(Op::GetSockName)
    }

    /// The peer's address.
    ///
    /// # Errors
    /// ENOTCONN without a peer; otherwise as [`Socket::bind`].
    pub fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        self.address(Op::GetPeerName)
    }

    fn address(&self, op: Op) -> Result<SocketAddr, Errno> {
        match self.call(op, 0, [0; 5])? {
            [0, ..] => Ok(self.family().unspecified()),
            [a, b, c, ..] => addr_from_words([a, b, c]).map_err(|_| self.client().fault()),
        }
    }

    /// Takes the pending error, if there is one: SO_ERROR.
    #[must_use]
    pub fn take_error(&self) -> Option<Errno> {
        match self.check() {
            Err(Errno::NETDOWN) => return Some(Errno::NETDOWN),
            Err(_) => return None,
            Ok(()) => {}
        }
        let word = &self.0.words.error;
        // Mostly there is none, and looking is cheaper than swapping.
        if word.load(Ordering::Acquire) == 0 {
            return None;
        }
        match i32::try_from(word.swap(0, Ordering::AcqRel)) {
            Ok(0) => None,
            Ok(raw) if raw < 4096 => Some(Errno::from_raw_os_error(raw)),
            Ok(_) | Err(_) => Some(Errno::IO),
        }
    }
}

impl Inner {
    fn close(&self) {
        if self.begin_close() {
            // Waited for, since a bind to the same port may follow in another thread.
            let _ = CallBatch::call(&self.client, Op::Close, 0, self.named_alone());
            self.client.reap();
        }
    }

    /// The arguments of a call about the socket that has no others.
    fn named_alone(&self) -> [u64; 6] {
        [self.id.to_word(), 0, 0, 0, 0, 0]
    }

    fn close_soon(&self) {
        let waits = self.kind != SocketKind::Stream || self.named.load(Ordering::Relaxed);
        if waits {
            return self.close();
        }
        if self.begin_close() {
            let args = self.named_alone();
            if CallBatch::call_unheard(&self.client, Op::Close, args, true) != Ok(true) {
                let _ = CallBatch::call(&self.client, Op::Close, 0, args);
            }
            self.client.reap();
        }
    }

    fn begin_close(&self) -> bool {
        if self.client.check_memory().is_err() {
            return false;
        }
        self.closed.store(true, Ordering::Release);
        // What the program reads in place must stay until it is given back, and so the socket: the
        // last of it closes it.
        if lock(&self.recv).as_ref().is_some_and(|side| !side.kept.is_empty()) {
            return false;
        }
        let Some(side) = lock(&self.send).take() else {
            return false;
        };
        if let Some(recv) = lock(&self.recv).take() {
            // Linux resets a connection that is closed over unread bytes; the server must know of
            // none that were read.
            self.words.rx_consumed.set(recv.consumed());
            self.client.mark_dirty(self.id.index);
        }
        if side.holds_memory() {
            self.client.bury(Grave::new(self.id.index, self.words.clone(), side));
        }
        true
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
        // Left over in a forked child, or without an instance: areas write into the owner table
        // when they are dropped, and that table is the parent's.
        if self.client.is_stranger() {
            let side = self.send.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(side.take());
        }
    }
}

//! One socket of one client: the server's state of it, and its words in the client's region.
//!
//! The server writes its words from this state and never reads them back. A client that overwrites
//! them harms only itself. [`Socket::publish`] writes them in the order that the program relies on:
//! descriptors, `rx_bytes`, `tx_released`, error, flags, and then `version`. The server rings the
//! waiting threads only afterwards.

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};

use abi::ancillary::AncillarySet;
use abi::call::ReturnPath;
use abi::client::{NO_BOUND, SocketWords};
use abi::option::OptionKey;
use abi::{Errno, Family, SocketFlags, SocketId, SocketKind};
use inet::Handle;

use crate::fault::ClientFault;
use crate::nic::frame::FramePiece;
use crate::rx::Rx;
use crate::tx::{Tx, roomy};

pub(crate) mod table;

/// The state of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketState {
    /// Not connected. A datagram socket works nevertheless.
    Idle,
    /// A connection attempt is under way.
    Connecting,
    /// Connected; a datagram socket has a default peer.
    Connected,
    /// A listener.
    Listening,
    /// The connection failed, broke, or is over after a close.
    Dead,
}

/// Calls that wait on a socket, oldest first.
#[derive(Debug, Default)]
pub(crate) struct WaitingCalls {
    pub(crate) connect: Option<ReturnPath>,
    pub(crate) accept: VecDeque<ReturnPath>,
    pub(crate) recv: VecDeque<ReturnPath>,
}

impl WaitingCalls {
    /// Takes out the call with this return path; false if it is not here.
    pub(crate) fn remove(&mut self, path: ReturnPath) -> bool {
        if self.connect == Some(path) {
            self.connect = None;
            return true;
        }
        for queue in [&mut self.accept, &mut self.recv] {
            if let Some(at) = queue.iter().position(|&waits| waits == path) {
                queue.remove(at);
                return true;
            }
        }
        false
    }
}

/// The content of the server's words, to find out whether something has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PublishedWords {
    flags: SocketFlags,
    accept_ready: u32,
    rx_bytes: u64,
    tx_released: u64,
    tx_limit: u64,
    urgent: u64,
}

/// The effect of [`Socket::publish`].
#[derive(Debug, Default)]
pub(crate) struct PublishSummary {
    /// Payload bytes that new descriptors name.
    pub(crate) bytes: u64,
    /// Threads to ring.
    pub(crate) waiters: u64,
}

/// A socket.
pub(crate) struct Socket {
    pub(crate) id: SocketId,
    /// Tells the socket apart from all others in the server's life. It is in the core's tag.
    pub(crate) serial: u32,
    pub(crate) family: Family,
    pub(crate) kind: SocketKind,
    pub(crate) handle: Handle,
    words: SocketWords,
    shown: PublishedWords,
    version: u32,
    pub(crate) tx: Tx,
    pub(crate) rx: Rx,
    /// Received pieces of the stream that the program does not have yet, each in one area.
    pub(crate) pending_pieces: VecDeque<FramePiece>,
    pub(crate) state: SocketState,
    /// Fast Open: it looks connected to the program. The SYN waits for the program's first bytes,
    /// or carries them.
    pub(crate) fast_open: bool,
    /// The peer's FIN has arrived, and the server has copied everything before it.
    pub(crate) eof: bool,
    pub(crate) read_shut: bool,
    pub(crate) write_shut: bool,
    /// Closed by a call. The socket lives on until the core and the drivers do not need its sent
    /// bytes any more.
    pub(crate) closed: bool,
    pub(crate) accept_ready: u32,
    /// Position after the newest urgent byte, 0 for none.
    pub(crate) urgent: u64,
    /// SO_OOBINLINE.
    pub(crate) urgent_inline: bool,
    /// Something happened that counts as a change, although no word shows it.
    pub(crate) news: bool,
    /// The error queue has an entry.
    pub(crate) errors_queued: bool,
    /// An error for the error word.
    pub(crate) error: Option<Errno>,
    /// The last error about a datagram that the core did not take.
    pub(crate) refusal: Option<Errno>,
    pub(crate) waiting: WaitingCalls,
    /// The ancillary data that its options ask for.
    pub(crate) asked: AncillarySet,
    /// Options kept without effect, each at most once.
    pub(crate) hints: Vec<(OptionKey, i32)>,
    /// SO_RCVBUF, once the program has set it, bytes.
    pub(crate) asked_recv: Option<u32>,
    /// Areas beyond its floor that it may use.
    pub(crate) extra_areas: u32,
    /// Closed, and without sent bytes that the core or a driver needs. The end of the step frees
    /// its place.
    pub(crate) over: bool,
    /// In the client's list of sockets to publish.
    pub(crate) touched: bool,
    /// The number of the shared socket that it is, if it is one.
    pub(crate) shared: Option<u32>,
    /// Its home is in another place now, and it counts as closed here. Here only the release of its
    /// sent bytes goes on. Until the program closes it too, its place stays in use.
    pub(crate) moved: bool,
    /// The program has closed a socket that had moved.
    pub(crate) let_go: bool,
    /// Bytes of the stream that programs consumed at earlier homes, less the bytes of earlier
    /// connections of this socket; it wraps around 0.
    pub(crate) rx_skip: u64,
}

/// The parts of a new socket.
pub(crate) struct SocketParts {
    pub(crate) id: SocketId,
    pub(crate) serial: u32,
    pub(crate) family: Family,
    pub(crate) kind: SocketKind,
    pub(crate) handle: Handle,
    pub(crate) words: SocketWords,
    pub(crate) tx: Tx,
    pub(crate) rx: Rx,
}

impl Socket {
    /// A new socket; resets all its words.
    pub(crate) fn new(parts: SocketParts) -> Self {
        let SocketParts { id, serial, family, kind, handle, words, tx, rx } = parts;
        words.error.store(0, Ordering::Relaxed);
        words.waiters.reset();
        words.tx_bytes.store(0, Ordering::Relaxed);
        words.rx_consumed.set(0);
        words.tx_until.store(NO_BOUND, Ordering::Relaxed);
        words.tx_lowat.store(0, Ordering::Relaxed);
        let socket = Self {
            id,
            serial,
            family,
            kind,
            handle,
            shown: PublishedWords {
                tx_limit: tx.limit,
                flags: SocketFlags::OPEN,
                ..PublishedWords::default()
            },
            words,
            version: 0,
            tx,
            rx,
            pending_pieces: VecDeque::new(),
            state: SocketState::Idle,
            fast_open: false,
            eof: false,
            read_shut: false,
            write_shut: false,
            closed: false,
            accept_ready: 0,
            urgent: 0,
            urgent_inline: false,
            news: false,
            errors_queued: false,
            error: None,
            refusal: None,
            waiting: WaitingCalls::default(),
            asked: AncillarySet::NONE,
            hints: Vec::new(),
            asked_recv: None,
            extra_areas: 0,
            over: false,
            touched: false,
            shared: None,
            moved: false,
            let_go: false,
            rx_skip: 0,
        };
        socket.show();
        socket
    }

    /// Is it a stream? Streams count bytes, datagram sockets count datagrams.
    pub(crate) fn is_stream(&self) -> bool {
        self.kind == SocketKind::Stream
    }

    /// Is it closed, and for good?
    #[inline]
    pub(crate) fn is_left(&self) -> bool {
        self.closed && (!self.moved || self.let_go)
    }

    /// Notes the position after the newest urgent byte, which the core counts from the beginning of
    /// the connection on.
    pub(crate) fn set_urgent(&mut self, mark: Option<u64>) {
        self.urgent = mark.map_or(0, |at| self.position(at + 1));
    }

    /// The program's position for a position of the core; 0 for one before the program's first.
    pub(crate) fn position(&self, of_core: u64) -> u64 {
        let position = of_core.wrapping_sub(self.rx_skip);
        if i64::try_from(position).is_ok() { position } else { 0 }
    }

    /// The core will send nothing more for this socket, and receive nothing.
    pub(crate) fn is_dead(&self) -> bool {
        self.state == SocketState::Dead
    }

    fn flags(&self) -> SocketFlags {
        let mut flags = SocketFlags::OPEN | SocketFlags::SHARED.when(self.shared.is_some());
        if self.moved && !self.let_go {
            return flags | SocketFlags::MOVED;
        }
        flags |= match self.state {
            SocketState::Idle | SocketState::Dead => SocketFlags::NONE,
            SocketState::Connecting => SocketFlags::CONNECTING,
            SocketState::Connected => SocketFlags::CONNECTED,
            SocketState::Listening => SocketFlags::LISTENING,
        };
        if self.urgent_inline {
            flags |= SocketFlags::URGENT_INLINE;
        }
        if self.errors_queued {
            flags |= SocketFlags::ERROR_QUEUED;
        }
        // The end of the stream is visible only after all bytes before it.
        let all_read = self.rx.is_published() && !self.rx.stalled;
        let read_over = (self.eof || self.read_shut || self.is_dead()) && all_read;
        let write_over = self.write_shut || self.is_dead();
        if read_over {
            flags |= SocketFlags::READ_CLOSED | SocketFlags::PEER_ENDED.when(self.eof);
        }
        if write_over {
            flags |= SocketFlags::WRITE_CLOSED;
        }
        if read_over && write_over {
            flags |= SocketFlags::HANGUP;
        }
        flags
    }

    /// Other processes may take the socket up from now on.
    pub(crate) fn set_shared(&mut self, number: u32) {
        self.shared = Some(number);
        self.shown.flags |= SocketFlags::SHARED;
        self.words.flags.store(self.shown.flags.bits(), Ordering::Release);
    }

    /// The server is about to look at the program's words for the last time. The program, which
    /// may be at work on them, learns it before: what it publishes later does not count.
    pub(crate) fn begin_move(&mut self) {
        let flags = self.shown.flags | SocketFlags::MOVING;
        self.words.flags.store(flags.bits(), Ordering::Relaxed);
        // Pairs with the program's fence between its words and its look at the flags.
        fence(Ordering::SeqCst);
    }

    /// The socket has moved. `received` is how far the program had come in the receiving queue, as
    /// [`SocketWords::moved_received`] counts.
    pub(crate) fn end_move(&mut self, received: u64) {
        self.words.moved_sent.store(self.tx.taken(), Ordering::Relaxed);
        self.words.moved_received.store(received, Ordering::Relaxed);
        self.moved = true;
    }

    /// The program's count of consumed bytes, unchecked.
    pub(crate) fn alleged_consumed(&self) -> u64 {
        self.words.rx_consumed.get()
    }

    /// Takes the pending error, as SO_ERROR does.
    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        let word = self.words.error.swap(0, Ordering::AcqRel);
        let shown = i32::try_from(word).ok().filter(|raw| (1..4096).contains(raw));
        self.error.take().or(shown.map(Errno::from_raw_os_error))
    }

    /// Takes the pending error, if it is about a datagram that the core did not take. An error of a
    /// datagram that was sent is for the next call.
    pub(crate) fn take_refusal(&mut self) -> Option<Errno> {
        let refusal = self.refusal.take()?;
        let word = i32::try_from(self.words.error.load(Ordering::Acquire)).ok();
        let pending = self.error.map(Errno::raw_os_error).or(word);
        // Otherwise the program has taken it already.
        if pending == Some(refusal.raw_os_error()) { self.take_error() } else { None }
    }

    /// Brings the words up to date.
    pub(crate) fn publish(&mut self) -> Result<PublishSummary, ClientFault> {
        self.touched = false;
        // Before the byte itself: a program that sees the byte sees that it is urgent.
        self.words.urgent.store(self.urgent, Ordering::Release);
        let bytes = self.rx.publish(self.is_stream())?;
        let now = PublishedWords {
            flags: self.flags(),
            accept_ready: self.accept_ready,
            rx_bytes: self.rx.published(),
            tx_released: self.tx.released,
            tx_limit: self.tx.limit,
            urgent: self.urgent,
        };
        let error = self.error.take();
        // A program that sends several slots at once may have lacked room in a queue that was not
        // full.
        let room = std::mem::take(&mut self.tx.took) && self.words.waiters.await_room();
        let news = std::mem::take(&mut self.news) | std::mem::take(&mut self.tx.was_full) | room;
        if now == self.shown && error.is_none() && !news {
            return Ok(PublishSummary::default());
        }
        let only_room = error.is_none()
            && !news
            && PublishedWords { tx_released: self.shown.tx_released, ..now } == self.shown;
        // The caller knows that its attempt has begun, and the change makes nothing possible.
        let begun = error.is_none()
            && !news
            && now.flags == self.shown.flags | SocketFlags::CONNECTING
            && PublishedWords { flags: self.shown.flags, ..now } == self.shown;
        let before = std::mem::replace(&mut self.shown, now).tx_released;
        if let Some(errno) = error {
            self.words.error.store(errno.raw_os_error().unsigned_abs(), Ordering::Release);
        }
        self.version = self.version.wrapping_add(1);
        self.show();
        let silent = begun || only_room && !self.is_worth_ringing(before);
        let waiters = if silent { 0 } else { self.words.waiters.take() };
        Ok(PublishSummary { bytes, waiters })
    }

    /// Is the release of bytes after the first `before` worth a bell? A thread that waits for room
    /// sleeps on until there is enough. If there was enough before, threads wait for something
    /// else. A release that reaches the position a thread waits for is always worth a bell.
    fn is_worth_ringing(&self, before: u64) -> bool {
        let Self { words, shown, tx, .. } = self;
        if words.waiters.reached(before, shown.tx_released) {
            return true;
        }
        // Behind the memory fence of `reached`: a thread that waits for room has counted its sent
        // bytes before it set its bit.
        let unreleased = words.tx_bytes.load(Ordering::Relaxed).saturating_sub(before);
        tx.roomy() && unreleased > roomy(tx.limit)
    }

    /// Sets TCP_NOTSENT_LOWAT, in bytes, 0 for none.
    #[cold]
    pub(crate) fn set_lowat(&mut self, bytes: u32) {
        self.tx.lowat = bytes;
        self.words.tx_lowat.store(bytes, Ordering::Release);
        if bytes == 0 {
            self.words.tx_until.store(NO_BOUND, Ordering::Release);
        }
        self.news = true;
    }

    /// Shows how far a send may begin by TCP_NOTSENT_LOWAT, while the core has `unsent` bytes that
    /// never left, those of earlier homes among them. It is news if there is room again for a
    /// thread that waits: as on Linux half of what may be unsent.
    #[cold]
    pub(crate) fn show_bound(&mut self, unsent: usize) {
        let Self { words, tx, news, .. } = self;
        let lowat = u64::from(tx.lowat);
        let until = (tx.taken() + lowat).saturating_sub(unsent as u64);
        let before = words.tx_until.load(Ordering::Relaxed);
        if until == before {
            return;
        }
        words.tx_until.store(until, Ordering::Release);
        // A thread that waits for room has counted its sent bytes before it looked at the bound for
        // the last time.
        fence(Ordering::SeqCst);
        let sent = words.tx_bytes.load(Ordering::Relaxed);
        let leaves_half = |until: u64| until.saturating_sub(sent) > lowat / 2;
        *news |= leaves_half(until) && !leaves_half(before);
    }

    /// Does a program, or a closed socket, wait for the release of sent bytes? Of datagrams it does
    /// only without room, or if a thread has announced a position. A program that has room looks
    /// when it sends the next datagram.
    pub(crate) fn awaits_release(&self) -> bool {
        let Self { tx, words, .. } = self;
        self.is_stream()
            || self.closed
            || tx.blocked
            || !tx.roomy()
            || words.waiters.position.load(Ordering::Relaxed) > tx.released
    }

    /// Writes the words for the last time: the place is free. Returns the threads to ring.
    pub(crate) fn retire(&mut self) -> u64 {
        self.shown = PublishedWords {
            flags: SocketFlags::NONE,
            tx_released: self.tx.released,
            ..self.shown
        };
        self.version = self.version.wrapping_add(1);
        self.show();
        self.words.waiters.take()
    }

    fn show(&self) {
        let PublishedWords { flags, accept_ready, rx_bytes, tx_released, tx_limit, urgent } =
            self.shown;
        self.words.urgent.store(urgent, Ordering::Release);
        self.words.rx_bytes.set(rx_bytes);
        self.words.tx_released.set(tx_released);
        self.words.tx_limit.store(tx_limit, Ordering::Release);
        self.words.accept_ready.store(accept_ready, Ordering::Release);
        self.words.flags.store(flags.bits(), Ordering::Release);
        self.words.version.store(self.version, Ordering::Release);
    }
}

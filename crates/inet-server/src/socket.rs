//! One socket of one client: its state here, and what the words in the client's region say of it.
//!
//! The server's words are written from this state and never read back: what a client scribbles over
//! them is its own loss. They are written in one place, [`Socket::publish`], in the order that the
//! program relies on: descriptors, `rx_bytes`, `tx_released`, error, flags, and then `version`;
//! only after that are the waiters rung.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use abi::ancillary::AncillarySet;
use abi::call::ReturnPath;
use abi::client::SocketWords;
use abi::option::OptionKey;
use abi::{Errno, Family, SocketFlags, SocketId, SocketKind};
use inet::Handle;

use crate::fault::ClientFault;
use crate::nic::frame::FramePiece;
use crate::rx::Rx;
use crate::tx::{Tx, roomy};

pub(crate) mod table;

/// How far a socket has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketState {
    /// Not connected; a datagram socket works nevertheless.
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

/// What the words say, so that only a change counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PublishedWords {
    flags: SocketFlags,
    accept_ready: u32,
    rx_bytes: u64,
    tx_released: u64,
    tx_limit: u64,
    urgent: u64,
}

/// What publishing did.
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
    /// Told apart from all other sockets of the server's life; in the core's tag.
    pub(crate) serial: u32,
    pub(crate) family: Family,
    pub(crate) kind: SocketKind,
    pub(crate) handle: Handle,
    words: SocketWords,
    shown: PublishedWords,
    version: u32,
    pub(crate) tx: Tx,
    pub(crate) rx: Rx,
    /// Pieces of the stream that are still to be handed over, each in one area.
    pub(crate) left: VecDeque<FramePiece>,
    pub(crate) state: SocketState,
    /// It looks connected to the program, whose first bytes the SYN waits for, or has taken.
    pub(crate) opens_fast: bool,
    /// The peer's FIN has come, and everything before it has been copied.
    pub(crate) eof: bool,
    pub(crate) read_shut: bool,
    pub(crate) write_shut: bool,
    /// Closed by call; it lives on until its sent bytes are not needed any more.
    pub(crate) closed: bool,
    pub(crate) accept_ready: u32,
    /// One more than the place of the newest urgent byte, 0 for none.
    pub(crate) urgent: u64,
    /// SO_OOBINLINE.
    pub(crate) urgent_inline: bool,
    /// Something happened that counts as a change although no word shows it.
    pub(crate) news: bool,
    /// To be put into the error word.
    pub(crate) error: Option<Errno>,
    /// The last error of it that is about a datagram which the core did not take.
    pub(crate) refusal: Option<Errno>,
    pub(crate) waiting: WaitingCalls,
    /// What received datagrams are told with, as its options ask.
    pub(crate) asked: AncillarySet,
    /// Options that are kept without effect: each at most once.
    pub(crate) hints: Vec<(OptionKey, i32)>,
    /// SO_RCVBUF, once the program has set it, bytes.
    pub(crate) asked_recv: Option<u32>,
    /// Areas beyond its floor that it may use.
    pub(crate) extra_areas: u32,
    /// Closed, and nothing of it is needed any more: its place is freed at the end of the step.
    pub(crate) over: bool,
    /// In the client's list of sockets to publish.
    pub(crate) touched: bool,
}

/// What a new socket is made from.
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
            left: VecDeque::new(),
            state: SocketState::Idle,
            opens_fast: false,
            eof: false,
            read_shut: false,
            write_shut: false,
            closed: false,
            accept_ready: 0,
            urgent: 0,
            urgent_inline: false,
            news: false,
            error: None,
            refusal: None,
            waiting: WaitingCalls::default(),
            asked: AncillarySet::NONE,
            hints: Vec::new(),
            asked_recv: None,
            extra_areas: 0,
            over: false,
            touched: false,
        };
        socket.show();
        socket
    }

    /// Streams count bytes, datagram sockets datagrams.
    pub(crate) fn is_stream(&self) -> bool {
        self.kind == SocketKind::Stream
    }

    /// The core will send nothing more for this socket, and receive nothing.
    pub(crate) fn is_dead(&self) -> bool {
        self.state == SocketState::Dead
    }

    fn flags(&self) -> SocketFlags {
        let mut flags = SocketFlags::OPEN;
        flags |= match self.state {
            SocketState::Idle | SocketState::Dead => SocketFlags::NONE,
            SocketState::Connecting => SocketFlags::CONNECTING,
            SocketState::Connected => SocketFlags::CONNECTED,
            SocketState::Listening => SocketFlags::LISTENING,
        };
        if self.urgent_inline {
            flags |= SocketFlags::URGENT_INLINE;
        }
        // The end of the stream comes after all that lies before it.
        let all_read = self.rx.is_published() && !self.rx.stalled;
        let read_over = (self.eof || self.read_shut || self.is_dead()) && all_read;
        let write_over = self.write_shut || self.is_dead();
        if read_over {
            flags |= SocketFlags::READ_CLOSED;
        }
        if write_over {
            flags |= SocketFlags::WRITE_CLOSED;
        }
        if read_over && write_over {
            flags |= SocketFlags::HANGUP;
        }
        flags
    }

    /// What the program says that it has consumed, unchecked.
    pub(crate) fn alleged_consumed(&self) -> u64 {
        self.words.rx_consumed.get()
    }

    /// Takes the pending error, as SO_ERROR does.
    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        let word = self.words.error.swap(0, Ordering::AcqRel);
        let shown = i32::try_from(word).ok().filter(|raw| (1..4096).contains(raw));
        self.error.take().or(shown.map(Errno::from_raw_os_error))
    }

    /// Takes the pending error if it is the core's word about a datagram that it did not take, and
    /// not what came of one that was sent: that is for the next call.
    pub(crate) fn take_refusal(&mut self) -> Option<Errno> {
        let refusal = self.refusal.take()?;
        let word = i32::try_from(self.words.error.load(Ordering::Acquire)).ok();
        let pending = self.error.map(Errno::raw_os_error).or(word);
        // Else the program has it already.
        if pending == Some(refusal.raw_os_error()) { self.take_error() } else { None }
    }

    /// Brings the words up to date.
    pub(crate) fn publish(&mut self) -> Result<PublishSummary, ClientFault> {
        self.touched = false;
        // Before the byte itself: who sees it sees that it is urgent.
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
        // Who sends several slots at once may have lacked room in a queue that was not full.
        let room = std::mem::take(&mut self.tx.took) && self.words.waiters.await_room();
        let news = std::mem::take(&mut self.news) | std::mem::take(&mut self.tx.was_full) | room;
        if now == self.shown && error.is_none() && !news {
            return Ok(PublishSummary::default());
        }
        let only_room = error.is_none()
            && !news
            && PublishedWords { tx_released: self.shown.tx_released, ..now } == self.shown;
        // That an attempt has begun its caller knows, and there is less to do than before.
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
        let untold = begun || only_room && !self.is_worth_telling(before);
        let waiters = if untold { 0 } else { self.words.waiters.take() };
        Ok(PublishSummary { bytes, waiters })
    }

    /// Whether somebody may wait for what was released after the first `before` bytes. Who waits
    /// for room is left asleep until there is enough to go on with, and who had enough waits for
    /// something else; unless the bytes that somebody waits for are over.
    fn is_worth_telling(&self, before: u64) -> bool {
        let Self { words, shown, tx, .. } = self;
        if words.waiters.reached(before, shown.tx_released) {
            return true;
        }
        // Behind the fence of `reached`: who waits for room has counted what it sent before.
        let unreleased = words.tx_bytes.load(Ordering::Relaxed).saturating_sub(before);
        tx.roomy() && unreleased > roomy(tx.limit)
    }

    /// Does anybody wait for the release of sent bytes? Of datagrams only who lacks room, or has
    /// said so and rung: a program that has room looks when it sends the next one.
    pub(crate) fn awaits_release(&self) -> bool {
        let Self { tx, words, .. } = self;
        self.is_stream()
            || self.closed
            || tx.blocked
            || !tx.roomy()
            || words.waiters.position.load(Ordering::Relaxed) > tx.released
    }

    /// The last words: the place is free. Returns the threads to ring.
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

//! Descriptors and the objects behind them.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use inet::{Handle, ReceivedPayload, SocketKind};

use super::call::{Outcome, Stop};
use crate::bytes::Frame;

/// The object that a descriptor names.
#[derive(Debug)]
pub(super) enum Descriptor {
    Socket(Box<Socket>),
    Epoll(Epoll),
    /// The reading end of the pipe that has this number.
    PipeReader(usize),
    PipeWriter(usize),
}

/// A socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) handle: Option<Handle>,
    pub(super) kind: SocketKind,
    pub(super) domain: i32,
    pub(super) nonblocking: bool,
    pub(super) listening: bool,
    /// `connect` was called and its outcome has not been reported.
    pub(super) connecting: bool,
    pub(super) connected: bool,
    /// There may be connections to accept.
    pub(super) acceptable: bool,
    pub(super) received: ReceiveQueue,
    pub(super) eof: bool,
    /// To be reported once.
    pub(super) error: Option<i32>,
    /// The connection is over by an error.
    pub(super) failed: bool,
    pub(super) shut_read: bool,
    pub(super) shut_write: bool,
    /// Payload bytes given to the stack, and those that it is done with.
    pub(super) queued: u64,
    pub(super) acked: u64,
    /// recvmsg(2) returns the number of bytes left (TCP_INQ).
    pub(super) tells_queue: bool,
    /// Bytes given to the application so far.
    pub(super) read: u64,
    /// A writer has found no room: the next that there is wakes it.
    pub(super) no_space: bool,
    pub(super) send_buffer: Option<i32>,
    pub(super) recv_buffer: Option<i32>,
    /// Counts the events that wake waiting calls.
    pub(super) activity: u64,
}

impl Socket {
    pub(super) fn new(kind: SocketKind, domain: i32, nonblocking: bool) -> Self {
        Self {
            handle: None,
            kind,
            domain,
            nonblocking,
            listening: false,
            connecting: false,
            connected: false,
            acceptable: false,
            received: ReceiveQueue::default(),
            eof: false,
            error: None,
            failed: false,
            shut_read: false,
            shut_write: false,
            queued: 0,
            acked: 0,
            tells_queue: false,
            read: 0,
            no_space: false,
            send_buffer: None,
            recv_buffer: None,
            activity: 0,
        }
    }
}

/// ReceivedPayload bytes that the application has not read.
#[derive(Debug, Default)]
pub(super) struct ReceiveQueue {
    pieces: VecDeque<ReceivedPayload<Frame>>,
    /// Bytes of the first piece that are read already.
    taken: usize,
    len: usize,
}

impl ReceiveQueue {
    pub(super) fn push(&mut self, received: ReceivedPayload<Frame>) {
        self.len += received.piece.range.len();
        self.pieces.push_back(received);
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The first `most` bytes, which stay.
    pub(super) fn peek(&self, most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut skip = self.taken;
        for received in &self.pieces {
            let piece = received.piece.bytes().get(skip..).unwrap_or_default();
            skip = 0;
            let room = most - bytes.len();
            bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
            if bytes.len() == most {
                break;
            }
        }
        bytes
    }

    /// Forgets the first `bytes` bytes.
    pub(super) fn take(&mut self, bytes: usize) {
        self.len = self.len.saturating_sub(bytes);
        self.taken += bytes;
        while let Some(first) = self.pieces.front()
            && self.taken >= first.piece.range.len()
        {
            self.taken -= first.piece.range.len();
            self.pieces.pop_front();
        }
    }

    /// The first datagram, whole.
    pub(super) fn take_datagram(&mut self) -> Option<(Vec<u8>, Option<SocketAddr>)> {
        let received = self.pieces.pop_front()?;
        self.len = self.len.saturating_sub(received.piece.range.len());
        Some((received.piece.bytes().to_vec(), received.from))
    }
}

/// One `struct pollfd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollFd {
    /// Descriptor; negative ones are passed over.
    pub fd: i32,
    /// The events that the caller waits for.
    pub events: i16,
    /// The events that are there.
    pub revents: i16,
}

/// One `struct epoll_event`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpollEvent {
    /// Which events.
    pub events: u32,
    /// The owner's.
    pub data: u64,
}

/// The files that an epoll descriptor watches.
#[derive(Debug, Default)]
pub(super) struct Epoll {
    pub(super) interests: BTreeMap<i32, Interest>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Interest {
    pub(super) event: EpollEvent,
    /// The socket's activity when its readiness was last given out.
    pub(super) seen: Option<u64>,
    /// EPOLLONESHOT has fired.
    pub(super) spent: bool,
}

/// Bytes between two descriptors.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    pub(super) bytes: VecDeque<u8>,
    pub(super) reader_closed: bool,
    pub(super) writer_closed: bool,
}

/// The descriptors. A number is given only once, so that a late event of a closed descriptor
/// reaches no other.
#[derive(Debug)]
pub(super) struct DescriptorTable {
    entries: BTreeMap<i32, Descriptor>,
    next: i32,
    /// Pipes, by number.
    pub(super) pipes: Vec<Pipe>,
}

impl DescriptorTable {
    pub(super) fn new(first: i32) -> Self {
        Self { entries: BTreeMap::new(), next: first, pipes: Vec::new() }
    }

    pub(super) fn add(&mut self, entry: Descriptor) -> i32 {
        let fd = self.next;
        self.next += 1;
        self.entries.insert(fd, entry);
        fd
    }

    /// The number that the next entry will have.
    pub(super) fn next(&self) -> i32 {
        self.next
    }

    pub(super) fn get(&self, fd: i32) -> Option<&Descriptor> {
        self.entries.get(&fd)
    }

    pub(super) fn get_mut(&mut self, fd: i32) -> Option<&mut Descriptor> {
        self.entries.get_mut(&fd)
    }

    pub(super) fn remove(&mut self, fd: i32) -> Option<Descriptor> {
        self.entries.remove(&fd)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Descriptor> {
        self.entries.values_mut()
    }

    /// Wakes a writer that has found no room: there is room again.
    pub(super) fn wake_writer(&mut self, fd: i32) {
        if let Some(Descriptor::Socket(socket)) = self.entries.get_mut(&fd)
            && std::mem::take(&mut socket.no_space)
        {
            socket.activity += 1;
        }
    }

    /// # Errors
    /// EBADF, ENOTSOCK.
    pub(super) fn socket(&mut self, fd: i32) -> Outcome<&mut Socket> {
        match self.entries.get_mut(&fd) {
            None => Err(Stop::Errno(libc::EBADF)),
            Some(Descriptor::Socket(socket)) => Ok(socket),
            Some(_) => Err(Stop::Errno(libc::ENOTSOCK)),
        }
    }
}

//! A shared socket without a home: everything of it that is not in the core.

use std::collections::VecDeque;
use std::net::SocketAddr;

use abi::ancillary::{AncillarySet, RecvAncillary};
use abi::option::OptionKey;
use abi::{Errno, Family, SocketKind};
use inet::{EventKind, Handle};

use crate::nic::frame::FramePiece;
use crate::socket::{Socket, SocketState};

/// A datagram that its program has not received.
pub(crate) struct ParkedDatagram {
    pub(crate) bytes: Vec<u8>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) ancillary: Option<RecvAncillary>,
}

/// See the module's head. Unread bytes are bounded by the receive buffer of the last home.
pub(crate) struct ParkedSocket {
    pub(crate) handle: Handle,
    pub(crate) family: Family,
    pub(crate) kind: SocketKind,
    /// The client of the last home.
    pub(crate) client: u16,
    pub(crate) state: SocketState,
    /// An error of the socket, as the core's event tells it.
    pub(crate) failure: Option<inet::Error>,
    eof: bool,
    read_shut: bool,
    write_shut: bool,
    /// Position after the newest urgent byte, counted from the connection's beginning.
    urgent: u64,
    urgent_inline: bool,
    error: Option<Errno>,
    refusal: Option<Errno>,
    asked: AncillarySet,
    hints: Vec<(OptionKey, i32)>,
    asked_recv: Option<u32>,
    tx_limit: u64,
    tx_limited: bool,
    tx_lowat: u32,
    tx_skip: u64,
    rx_skip: u64,
    /// Bytes that could be unread at the last home.
    pub(crate) capacity: usize,
    /// Received pieces of the stream that no program has read.
    pub(crate) pieces: VecDeque<FramePiece>,
    pub(crate) datagrams: Vec<ParkedDatagram>,
}

impl ParkedSocket {
    /// The state and the settings of a socket, without what was received.
    pub(crate) fn of(socket: &mut Socket, client: u16) -> Self {
        let consumed = if socket.is_stream() { socket.rx.consumed() } else { 0 };
        let rx_skip = socket.rx_skip.wrapping_add(consumed);
        Self {
            handle: socket.handle,
            family: socket.family,
            kind: socket.kind,
            client,
            state: socket.state,
            failure: None,
            eof: socket.eof,
            read_shut: socket.read_shut,
            write_shut: socket.write_shut,
            urgent: if socket.urgent > 0 { socket.urgent.wrapping_add(socket.rx_skip) } else { 0 },
            urgent_inline: socket.urgent_inline,
            error: socket.take_error(),
            refusal: socket.refusal,
            asked: socket.asked,
            hints: socket.hints.clone(),
            asked_recv: socket.asked_recv,
            tx_limit: socket.tx.limit,
            tx_limited: socket.tx.limited,
            tx_lowat: socket.tx.lowat,
            tx_skip: socket.tx.core_taken(),
            rx_skip,
            capacity: socket.rx.capacity(),
            pieces: VecDeque::new(),
            datagrams: Vec::new(),
        }
    }

    /// Gives state and settings to the socket's new home.
    pub(crate) fn restore(&mut self, socket: &mut Socket) {
        socket.state = self.state;
        socket.eof = self.eof;
        socket.read_shut = self.read_shut;
        socket.write_shut = self.write_shut;
        socket.rx_skip = self.rx_skip;
        socket.urgent = if self.urgent > 0 { socket.position(self.urgent) } else { 0 };
        socket.urgent_inline = self.urgent_inline;
        socket.error = self.error;
        socket.refusal = self.refusal;
        socket.asked = self.asked;
        socket.hints = std::mem::take(&mut self.hints);
        socket.asked_recv = self.asked_recv;
        socket.tx.limit = self.tx_limit;
        socket.tx.limited = self.tx_limited;
        socket.set_lowat(self.tx_lowat);
        socket.tx.skip = self.tx_skip;
        socket.pending_pieces = std::mem::take(&mut self.pieces);
        socket.accept_ready = u32::from(self.state == SocketState::Listening);
        socket.news = true;
    }

    /// Takes note of an event of the core. What can be received stays in the core.
    pub(crate) fn note(&mut self, kind: EventKind) {
        match kind {
            EventKind::Connected => self.state = SocketState::Connected,
            EventKind::Eof => self.eof = true,
            EventKind::Failed(error) => self.failure = Some(error),
            EventKind::Closed => self.state = SocketState::Dead,
            EventKind::Acceptable
            | EventKind::Urgent
            | EventKind::ErrorQueued
            | EventKind::Readable
            | EventKind::Acked => {}
        }
    }
}

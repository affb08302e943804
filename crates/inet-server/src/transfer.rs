//! Data between a client's queues and the protocol core, socket by socket.
//!
//! The server looks at a socket for three reasons:
//!
//! * The program published descriptors or consumed bytes, and set the dirty bit.
//! * Sent bytes were released that had held up the socket's queue.
//! * The core has an event of the socket.
//!
//! Each look does a bounded amount of work. Each iteration of the event loop looks at a bounded
//! number of sockets, in rounds. So no client and no socket waits for long behind a busy one.

use abi::client::QUEUE;
use abi::data::DataFlags;
use abi::stages::TraceStage;
use inet::{SendOptions, SockOption};
use shm::Pool;

use crate::client::Client;
use crate::engine::{Engine, PendingRelease, SocketOwner};
use crate::fault::ClientFault;
use crate::nic::frame::{self, FramePiece};
use crate::rx::sharing::FrameQuota;
use crate::socket::Socket;
use crate::tx::QueuedSend;
use crate::tx::chunk::ClientChunk;

mod datagrams;

pub(crate) use datagrams::ancillary;

/// Sockets of one client looked at in one iteration.
const SOCKETS_PER_ITERATION: usize = 64;
/// Descriptors to send of one client taken in one iteration while several clients are active: the
/// others wait that long.
const SENDS_PER_ITERATION: u32 = 32;
/// Closed sockets of one client looked at in one iteration.
const CLOSING_PER_ITERATION: usize = 64;

impl Client {
    /// Looks at sockets with news. Returns whether there was any.
    pub(crate) fn serve_sockets(
        &mut self,
        engine: &mut Engine,
        shared: bool,
    ) -> Result<bool, ClientFault> {
        self.take_dirty();
        let mut sends = if shared { SENDS_PER_ITERATION } else { u32::MAX };
        for done in 0..SOCKETS_PER_ITERATION {
            if sends == 0 {
                break;
            }
            let Some(index) = self.dirty.take() else { return Ok(done > 0) };
            sends -= self.look(engine, index, sends)?;
        }
        Ok(true)
    }

    /// Takes the program's count of consumed bytes, and at most `most` of its descriptors to send.
    /// Returns their number.
    fn look(&mut self, engine: &mut Engine, index: u16, most: u32) -> Result<u32, ClientFault> {
        // The bit of a place without a socket may be late or wrong; both are harmless.
        let step = |client: &mut Self, socket: &mut Socket| {
            if socket.closed {
                return Ok(0);
            }
            client.take_consumed(engine, socket)?;
            client.take_sends(engine, socket, Some(most.min(QUEUE)))
        };
        self.with_socket(index, step).unwrap_or(Ok(0))
    }

    /// Takes the program's count of consumed bytes. The core's window may open.
    pub(crate) fn take_consumed(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
    ) -> Result<(), ClientFault> {
        let more = socket.rx.consume(socket.id.index, socket.alleged_consumed())?;
        if more == 0 {
            return Ok(());
        }
        if socket.is_stream() {
            let bytes = usize::try_from(more).unwrap_or(usize::MAX);
            engine.stack.consumed(engine.now, socket.handle, bytes);
            self.grant_recv_buffer(engine, socket);
        }
        if socket.rx.stalled {
            self.receive(engine, socket);
        }
        // This publishes something only if the queue was full, or there is news for the program.
        self.sockets.touch(socket);
        Ok(())
    }

    /// Gives the core the program's descriptors to send: all of the queue, or with `bound` at most
    /// so many, and only as many bytes as may be in flight. Returns their number.
    pub(crate) fn take_sends(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
        bound: Option<u32>,
    ) -> Result<u32, ClientFault> {
        let index = socket.id.index;
        socket.tx.look()?;
        let mut some = 0;
        let most = bound.unwrap_or(QUEUE);
        while some < most {
            let taken = socket.tx.take(index, &self.tx_pool, &self.memory, bound.is_some())?;
            let Some(taken) = taken else { break };
            submit(engine, socket, taken);
            some += 1;
        }
        engine.batches.sends.add(some as usize);
        if some > 0 {
            self.settle(engine, socket);
        }
        if most < QUEUE && some == most {
            socket.tx.stop_early()?;
            self.mark_dirty(index);
        }
        Ok(some)
    }

    /// Moves the core's received data to the client: copies it to areas, or lends the frames.
    pub(crate) fn receive(&mut self, engine: &mut Engine, socket: &mut Socket) {
        if socket.closed {
            return;
        }
        engine.nics.trace.mark(TraceStage::Deliver);
        let mut copied = 0;
        if socket.is_stream() && engine.frame_quota.is_some() {
            copied = lend(engine, socket, &self.rx_pool, &self.frame_quota);
        } else if socket.is_stream() {
            while socket.rx.reserve(&self.rx_pool) {
                let Some(piece) = next_piece(engine, socket) else { break };
                copied += copy(socket, piece);
            }
        } else {
            copied = datagrams::receive(engine, socket, &self.rx_pool);
        }
        engine.nics.trace.mark(TraceStage::InetRest);
        engine.counters.copied_rx += copied as u64;
        self.sockets.touch(socket);
    }

    /// Follows up on sent bytes that the core does not need any more. It notes a pending release,
    /// or releases them at once when no driver holds a frame. A closed socket without such bytes is
    /// over.
    pub(crate) fn settle(&mut self, engine: &mut Engine, socket: &mut Socket) {
        let index = socket.id.index;
        if socket.tx.has_releasable() {
            socket.tx.note_release();
            let awaited_frame = engine.nics.emitted();
            // Of a socket that the core has forgotten, only the client's interfaces are known.
            // Those of a socket that has moved are its new home's to take.
            let handle = Some(socket.handle).filter(|_| !socket.moved);
            let exits = handle.and_then(|handle| engine.stack.take_exits(handle));
            let exits = exits.unwrap_or_else(|| self.memory.exits());
            match engine.nics.awaited(exits, awaited_frame) {
                None => socket.tx.release(),
                Some(interface) => {
                    let owner = SocketOwner { client: self.number, index, serial: socket.serial };
                    let release = PendingRelease { awaited_frame, exits, owner };
                    engine.releases.add(interface, release);
                }
            }
        }
        if socket.is_left() && socket.tx.is_drained() {
            socket.over = true;
            return;
        }
        if socket.tx.blocked {
            self.mark_dirty(index);
        }
        self.sockets.touch(socket);
    }

    /// Looks after sockets that were closed with unreleased bytes, a bounded number in turn. The
    /// core reports nothing about them before the connection is over. That may be long after the
    /// peer has acknowledged their last byte. `anew`: something has happened, so all of them are to
    /// be looked at. Returns whether some are left.
    pub(crate) fn serve_closing(&mut self, engine: &mut Engine, anew: bool) -> bool {
        let most = self.closing.len().min(CLOSING_PER_ITERATION);
        if anew {
            self.closing_left = self.closing.len();
        }
        self.closing_left = self.closing_left.saturating_sub(most);
        for _ in 0..most {
            let at = if self.closing_at < self.closing.len() { self.closing_at } else { 0 };
            let waits = self.with_socket(self.closing[at], |client, socket| {
                if socket.closed {
                    match engine.stack.acked_if_needed(socket.handle) {
                        None if socket.moved => socket.tx.abandon(),
                        acked => socket.tx.acked(acked.unwrap_or(0)),
                    }
                    if socket.tx.has_releasable() {
                        client.settle(engine, socket);
                    }
                }
                socket.closed && !(socket.moved && socket.tx.is_drained())
            });
            self.closing_at = at;
            if waits == Some(true) {
                self.closing_at += 1;
            } else {
                self.closing.swap_remove(at);
            }
        }
        self.closing_left > 0
    }

    /// The drivers have passed the awaited frame of a release.
    pub(crate) fn released(&mut self, engine: &mut Engine, owner: SocketOwner) {
        self.with_socket(owner.index, |client, socket| {
            if socket.serial == owner.serial {
                socket.tx.release();
                client.settle(engine, socket);
            }
        });
    }
}

/// Lends a stream's received frames to the program. Copies pieces that are too small to lend, or
/// that cannot be lent. Returns the number of copied bytes.
fn lend(engine: &mut Engine, socket: &mut Socket, pool: &Pool, frame_quota: &FrameQuota) -> usize {
    let mut copied = 0;
    socket.rx.stalled = false;
    loop {
        let Some(piece) = next_piece(engine, socket) else { return copied };
        let piece = match socket.rx.lend(piece, frame_quota) {
            Ok(lent) => {
                engine.counters.lent_rx += lent as u64;
                continue;
            }
            Err(piece) => piece,
        };
        if !socket.rx.reserve(pool) {
            socket.pending_pieces.push_front(piece);
            return copied;
        }
        copied += copy(socket, piece);
    }
}

/// The next piece of a stream, in one area.
fn next_piece(engine: &mut Engine, socket: &mut Socket) -> Option<FramePiece> {
    if socket.pending_pieces.is_empty() {
        frame::take_apart(engine.stack.recv(socket.handle)?.piece, &mut socket.pending_pieces);
    }
    socket.pending_pieces.pop_front()
}

/// Copies as much of a piece as there is room for, and keeps the rest. Returns the number of copied
/// bytes.
fn copy(socket: &mut Socket, mut piece: FramePiece) -> usize {
    let written = socket.rx.write(&piece);
    piece.range.start += written;
    if !piece.range.is_empty() {
        socket.pending_pieces.push_front(piece);
    }
    written
}

/// Gives one descriptor's bytes to the core. Bytes that the core refuses are dropped. The program
/// learns it from the flags of a stream, or from the error word of a datagram socket.
pub(crate) fn submit(engine: &mut Engine, socket: &mut Socket, taken: QueuedSend) {
    let QueuedSend { descriptor, ancillary, chunk } = taken;
    let len = descriptor.len;
    if socket.is_dead() {
        engine.counters.sends_dropped += 1;
        socket.tx.abandon();
        return;
    }
    let accepted = if !socket.is_stream() {
        datagrams::submit(engine, socket, (&descriptor, &ancillary), chunk)
    } else if len == 0 {
        return cork(engine, socket, descriptor.flags);
    } else {
        submit_to_stream(engine, socket, descriptor.flags, chunk)
    };
    if accepted {
        engine.counters.payload_tx += u64::from(len);
        socket.tx.accepted(len);
    } else {
        engine.counters.sends_dropped += 1;
        socket.tx.refuse(len, engine.stack.acked(socket.handle));
    }
}

/// Carries out what a stream's descriptor without bytes says.
#[cold]
#[inline(never)]
fn cork(engine: &mut Engine, socket: &Socket, flags: DataFlags) {
    if flags.has_any(DataFlags::CORK | DataFlags::UNCORK) {
        let option = SockOption::Cork(flags.has(DataFlags::CORK));
        // It fails only for a socket that the core has forgotten.
        let _ = engine.stack.set_option(engine.now, socket.handle, option);
    }
}

/// False if the core refuses the bytes.
fn submit_to_stream(
    engine: &mut Engine,
    socket: &Socket,
    flags: DataFlags,
    chunk: ClientChunk,
) -> bool {
    engine.nics.trace.mark(TraceStage::Tcp);
    let options = SendOptions {
        more: flags.has(DataFlags::MORE),
        eor: flags.has(DataFlags::RECORD),
        ..SendOptions::default()
    };
    let accepted = engine.stack.send_with(engine.now, socket.handle, chunk, &options).is_ok();
    if accepted && flags.has(DataFlags::URGENT) {
        engine.stack.mark_urgent(engine.now, socket.handle);
    }
    accepted
}

//! Data between a client's queues and the protocol core, socket by socket.
//!
//! The server looks at a socket for three reasons: the program published descriptors or consumed
//! bytes, and set the dirty bit; sent bytes were released that had held up its queue; or the core
//! has news of it. Each look does a bounded amount of work. Each iteration of the event loop looks
//! at a bounded number of sockets and goes round, so no client and no socket waits for long behind
//! a busy one.

use abi::client::QUEUE;
use abi::data::DataFlags;
use abi::stages::TraceStage;
use inet::SendOptions;
use shm::Pool;

use crate::client::Client;
use crate::engine::{Engine, PendingRelease, SocketOwner};
use crate::fault::ClientFault;
use crate::nic::frame::{self, FramePiece};
use crate::rx::sharing::FrameQuota;
use crate::socket::Socket;
use crate::tx::QueuedSend;

mod datagrams;

/// Sockets of one client looked at in one iteration.
const SOCKETS_PER_ITERATION: usize = 64;

impl Client {
    /// Looks at sockets that have news. Was there any?
    pub(crate) fn serve_sockets(&mut self, engine: &mut Engine) -> Result<bool, ClientFault> {
        self.take_dirty();
        for done in 0..SOCKETS_PER_ITERATION {
            let Some(index) = self.dirty.take() else { return Ok(done > 0) };
            self.look(engine, index)?;
        }
        Ok(true)
    }

    /// Takes what the program has consumed and what it wants to send.
    fn look(&mut self, engine: &mut Engine, index: u16) -> Result<(), ClientFault> {
        // The bit of a place without a socket may be late, or nonsense; both are harmless.
        let step = |client: &mut Self, socket: &mut Socket| {
            if socket.closed {
                return Ok(());
            }
            client.take_consumed(engine, socket)?;
            client.take_sends(engine, socket, true)
        };
        self.with_socket(index, step).unwrap_or(Ok(()))
    }

    /// Takes the program's count of consumed bytes; the core's window may open.
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
        // Without news for the program this publishes nothing; with a queue that was full, it does.
        self.sockets.touch(socket);
        Ok(())
    }

    /// Gives the core what the program wants to send; `bounded` by what may be in flight.
    pub(crate) fn take_sends(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
        bounded: bool,
    ) -> Result<(), ClientFault> {
        let index = socket.id.index;
        socket.tx.look()?;
        let mut some = 0;
        for _ in 0..QUEUE {
            let taken = socket.tx.take(index, &self.tx_pool, &self.memory, bounded)?;
            let Some(taken) = taken else { break };
            submit(engine, socket, taken);
            some += 1;
        }
        engine.batches.sends.add(some);
        if some > 0 {
            self.settle(engine, socket);
        }
        Ok(())
    }

    /// Copies what the core has received into the client's areas.
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

    /// Follows up on sent bytes that are not needed any more: fences their release, or releases
    /// them at once when no driver holds a frame; frees the place of a closed socket with nothing
    /// left.
    pub(crate) fn settle(&mut self, engine: &mut Engine, socket: &mut Socket) {
        let index = socket.id.index;
        if socket.tx.wants_fence() {
            socket.tx.set_fence();
            let fence = engine.nics.emitted();
            if engine.nics.passed() >= fence {
                socket.tx.release();
            } else {
                let owner = SocketOwner { client: self.number, index, serial: socket.serial };
                engine.releases.push_back(PendingRelease { fence, owner });
            }
        }
        if socket.closed && socket.tx.is_drained() {
            socket.over = true;
            return;
        }
        if socket.tx.blocked {
            self.mark_dirty(index);
        }
        self.sockets.touch(socket);
    }

    /// Looks after sockets that were closed while bytes were in flight: the core reports no
    /// progress on them before all is over, which may be long after their last byte is
    /// acknowledged.
    pub(crate) fn serve_closing(&mut self, engine: &mut Engine) {
        for at in (0..self.closing.len()).rev() {
            let waits = self.with_socket(self.closing[at], |client, socket| {
                if socket.closed {
                    socket.tx.acked(engine.stack.acked(socket.handle));
                    if socket.tx.wants_fence() {
                        client.settle(engine, socket);
                    }
                }
                socket.closed
            });
            if waits != Some(true) {
                self.closing.swap_remove(at);
            }
        }
    }

    /// The drivers have passed the fence of a release.
    pub(crate) fn released(&mut self, engine: &mut Engine, owner: SocketOwner) {
        self.with_socket(owner.index, |client, socket| {
            if socket.serial == owner.serial {
                socket.tx.release();
                client.settle(engine, socket);
            }
        });
    }
}

/// Lends the frames that the core has received for a stream, and copies what is not worth it or
/// cannot be; how many bytes were copied.
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
            socket.left.push_front(piece);
            return copied;
        }
        copied += copy(socket, piece);
    }
}

/// The next piece of a stream, in one area.
fn next_piece(engine: &mut Engine, socket: &mut Socket) -> Option<FramePiece> {
    if socket.left.is_empty() {
        frame::take_apart(engine.stack.recv(socket.handle)?.piece, &mut socket.left);
    }
    socket.left.pop_front()
}

/// Copies of a piece what there is room for, and keeps the rest; how many bytes were copied.
fn copy(socket: &mut Socket, mut piece: FramePiece) -> usize {
    let written = socket.rx.write(piece.bytes());
    piece.range.start += written;
    if !piece.range.is_empty() {
        socket.left.push_front(piece);
    }
    written
}

/// Gives one descriptor's bytes to the core. What the core refuses is dropped; streams tell the
/// program by their flags, datagram sockets by the error word.
pub(crate) fn submit(engine: &mut Engine, socket: &mut Socket, taken: QueuedSend) {
    let QueuedSend { descriptor, ancillary, chunk } = taken;
    let (now, handle, len) = (engine.now, socket.handle, descriptor.len);
    if socket.is_dead() {
        engine.counters.sends_dropped += 1;
        socket.tx.abandon();
        return;
    }
    if !socket.is_stream() {
        return datagrams::submit(engine, socket, (&descriptor, &ancillary), chunk);
    }
    if len == 0 {
        return;
    }
    engine.nics.trace.mark(TraceStage::Tcp);
    let has = |flag| descriptor.flags.has(flag);
    let options = SendOptions {
        more: has(DataFlags::MORE),
        eor: has(DataFlags::RECORD),
        ..SendOptions::default()
    };
    if engine.stack.send_with(now, handle, chunk, &options).is_ok() {
        engine.counters.payload_tx += u64::from(len);
        socket.tx.accepted(len);
        if has(DataFlags::URGENT) {
            engine.stack.mark_urgent(now, handle);
        }
    } else {
        engine.counters.sends_dropped += 1;
        socket.tx.refuse(len, engine.stack.acked(handle));
    }
}

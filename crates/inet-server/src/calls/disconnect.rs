//! Ending what a socket does while it stays open: shutdown, and connect with AF_UNSPEC.

use std::collections::VecDeque;

use abi::call::Reply;
use abi::client::QUEUE;
use abi::{Errno, ShutdownHow};

use super::outcome::{CallAnswer, DONE};
use crate::client::Client;
use crate::engine::Engine;
use crate::socket::{Socket, SocketState};

impl Client {
    pub(super) fn shutdown(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
        how: ShutdownHow,
    ) -> CallAnswer {
        let (core_how, read, write) = match how {
            ShutdownHow::Read => (inet::ShutdownHow::Read, true, false),
            ShutdownHow::Write => (inet::ShutdownHow::Write, false, true),
            ShutdownHow::Both => (inet::ShutdownHow::Both, true, true),
        };
        // As Linux: an attempt ends, whichever direction is named, and a listener that is to read
        // no more.
        let attempts = socket.state == SocketState::Connecting || socket.fast_open;
        if attempts || read && socket.state == SocketState::Listening {
            return self.disconnect(engine, socket);
        }
        // What was queued before is still sent, beyond the bounds on what is in flight. This
        // happens once a connection: nothing can be sent after it.
        let has_peer = matches!(socket.state, SocketState::Connected | SocketState::Connecting);
        let ends = write && !socket.write_shut && has_peer;
        self.take_sends(engine, socket, (!ends).then_some(QUEUE))?;
        let ended = engine.stack.shutdown(engine.now, socket.handle, core_how);
        // As Linux: a socket without a peer keeps what was asked, although the call fails. What a
        // listener will not send is nothing to it.
        if socket.state != SocketState::Listening {
            socket.read_shut |= read;
            socket.write_shut |= write;
        }
        // Waiting `recv` calls get the end of the stream.
        let mut readers = VecDeque::new();
        if read {
            std::mem::swap(&mut readers, &mut socket.waiting.recv);
        }
        self.sockets.touch(socket);
        for path in readers {
            self.finish(engine, Some(path), Ok(Reply::Readable(0).encode()))?;
        }
        ended?;
        DONE
    }

    /// Takes away a socket's peer, as connect(2) with AF_UNSPEC does. A stream is then as it was
    /// before connect or listen. What it has received and published remains in its queue; the
    /// program throws that away.
    #[cold]
    #[inline(never)]
    pub(super) fn disconnect(&mut self, engine: &mut Engine, socket: &mut Socket) -> CallAnswer {
        self.take_consumed(engine, socket)?;
        self.take_sends(engine, socket, None)?;
        let cut_short = engine.stack.disconnect(engine.now, socket.handle)?;
        socket.state = SocketState::Idle;
        if !socket.is_stream() {
            self.sockets.touch(socket);
            return DONE;
        }
        socket.tx.restart();
        socket.rx.forget_unpublished();
        socket.pending_pieces.clear();
        (socket.eof, socket.read_shut, socket.write_shut) = (false, false, false);
        socket.fast_open = false;
        (socket.urgent, socket.accept_ready) = (0, 0);
        socket.rx_skip = 0_u64.wrapping_sub(socket.rx.published());
        let waiting = std::mem::take(&mut socket.waiting);
        // As Linux: the first call that looks learns that the connection was cut short.
        let told = waiting.connect.is_some() || !waiting.recv.is_empty();
        if cut_short && !told {
            socket.error = Some(Errno::CONNRESET);
        }
        socket.news = true;
        self.settle(engine, socket);
        self.ring_posted();
        let why = if cut_short { Errno::CONNRESET } else { Errno::NOTCONN };
        for path in waiting.connect.into_iter().chain(waiting.recv) {
            self.finish(engine, Some(path), Err(why))?;
        }
        for path in waiting.accept {
            self.finish(engine, Some(path), Err(Errno::INVAL))?;
        }
        DONE
    }
}

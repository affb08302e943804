//! Events of the protocol core, for a client's sockets.

use abi::Errno;
use abi::call::{Reply, ReplyWords, ReturnPath};
use inet::EventKind;

use crate::client::Client;
use crate::engine::{Engine, SocketOwner};
use crate::fault::ClientFault;
use crate::refusal::errno;
use crate::socket::{Socket, SocketState};

impl Client {
    /// Handles an event. An event of a socket that is gone has no effect.
    pub(crate) fn on_event(
        &mut self,
        engine: &mut Engine,
        owner: SocketOwner,
        kind: EventKind,
    ) -> Result<(), ClientFault> {
        let step = |client: &mut Self, socket: &mut Socket| match socket.serial == owner.serial {
            true => client.on_event_of(engine, socket, kind),
            false => Ok(()),
        };
        self.with_socket(owner.index, step).unwrap_or(Ok(()))
    }

    fn on_event_of(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
        kind: EventKind,
    ) -> Result<(), ClientFault> {
        match kind {
            EventKind::Connected => {
                socket.state = SocketState::Connected;
                socket.fast_open = false;
                let waiter = socket.waiting.connect.take();
                engine.connect_succeeded = true;
                self.ring_posted();
                self.sockets.touch(socket);
                self.finish(engine, waiter, Ok(ReplyWords::DONE))
            }
            EventKind::Acceptable => self.on_acceptable(engine, socket),
            EventKind::Urgent => {
                socket.set_urgent(engine.stack.urgent_mark(socket.handle));
                self.sockets.touch(socket);
                Ok(())
            }
            EventKind::Readable => {
                self.receive(engine, socket);
                self.wake_readers(engine, socket)
            }
            EventKind::Eof => {
                socket.eof = true;
                self.sockets.touch(socket);
                self.wake_readers(engine, socket)
            }
            EventKind::Acked => {
                socket.tx.acked(engine.stack.acked(socket.handle));
                socket.tx.tune(engine.stack.congestion_window(socket.handle));
                self.settle(engine, socket);
                Ok(())
            }
            EventKind::ErrorQueued => {
                self.on_error_queued(engine, socket);
                Ok(())
            }
            EventKind::Failed(error) => self.on_failed(engine, socket, errno(error)),
            EventKind::Closed => {
                socket.state = SocketState::Dead;
                socket.tx.abandon();
                self.settle(engine, socket);
                Ok(())
            }
        }
    }

    /// The error queue has a new entry, or a connection that asks for errors has one and goes on.
    #[cold]
    fn on_error_queued(&mut self, engine: &mut Engine, socket: &mut Socket) {
        socket.errors_queued = engine.stack.queued_error(socket.handle).is_some();
        if let Some(error) = engine.stack.take_soft_error(socket.handle) {
            socket.error = Some(errno(error));
        }
        socket.news = true;
        self.sockets.touch(socket);
    }

    fn on_failed(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
        errno: Errno,
    ) -> Result<(), ClientFault> {
        // The program can still read bytes that arrived before the failure.
        self.receive(engine, socket);
        let mut readers = std::mem::take(&mut socket.waiting.recv);
        if !socket.is_stream() {
            // As Linux: an unconnected socket gets no later error of a sent datagram, unless it
            // asks for errors.
            if socket.state != SocketState::Connected && !engine.stack.queues_errors(socket.handle)
            {
                socket.waiting.recv = readers;
                return Ok(());
            }
            // The program gets the error of an earlier datagram once: as the result of a waiting
            // call, or else in the error word.
            let reader = readers.pop_front();
            socket.waiting.recv = readers;
            if reader.is_none() {
                socket.error = Some(errno);
            }
            self.sockets.touch(socket);
            return self.finish(engine, reader, Err(errno));
        }
        socket.state = SocketState::Dead;
        socket.fast_open = false;
        socket.eof |= engine.stack.has_peer_ended(socket.handle);
        socket.tx.abandon();
        let connect = socket.waiting.connect.take();
        let ended = socket.eof;
        if ended || connect.is_none() && readers.is_empty() {
            socket.error = Some(errno);
        }
        self.ring_posted();
        self.settle(engine, socket);
        self.finish(engine, connect, Err(errno))?;
        let unread = socket.rx.unread();
        let outcome = if ended { Ok(Reply::Readable(unread).encode()) } else { Err(errno) };
        readers.into_iter().try_for_each(|path| self.finish(engine, Some(path), outcome))
    }

    /// Completes the waiting `recv` calls, if there is something to read or the stream has ended.
    fn wake_readers(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
    ) -> Result<(), ClientFault> {
        let unread = socket.rx.unread();
        if unread == 0 && !socket.eof || socket.waiting.recv.is_empty() {
            return Ok(());
        }
        let readers = std::mem::take(&mut socket.waiting.recv);
        let outcome = Ok(Reply::Readable(unread).encode());
        readers.into_iter().try_for_each(|path| self.finish(engine, Some(path), outcome))
    }

    /// Posts the result of a waiting call.
    pub(crate) fn finish(
        &mut self,
        engine: &mut Engine,
        path: Option<ReturnPath>,
        outcome: Result<ReplyWords, Errno>,
    ) -> Result<(), ClientFault> {
        let Some(path) = path else { return Ok(()) };
        self.waiting = self.waiting.saturating_sub(1);
        self.post(engine, path, outcome.as_ref().map_err(|errno| *errno), true)
    }
}

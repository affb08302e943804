//! Closing: in the background, in order, or at once.

use core::time::Duration;

use super::events::EventKind;
use super::{Body, faces};
use crate::bytes::{RxBytes, TxBytes};
use crate::error::Error;
use crate::stack::Stack;
use crate::table::Handle;
use crate::tcp::{State, TcpStats};
use crate::time::Instant;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Closes the socket in the background: what is queued is still sent, then the stream is ended.
    /// With received bytes not consumed, or a linger time of zero, this is [`abort`](Self::abort).
    /// The handle is not usable any more; the event `Closed` follows when the socket's bytes are
    /// gone.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn close(&mut self, now: Instant, handle: Handle) -> Result<(), Error> {
        let socket = self.open_socket(handle)?;
        if socket.options.linger == Some(Duration::ZERO) {
            return self.abort(now, handle);
        }
        socket.closing = true;
        socket.events.clear();
        match &mut socket.body {
            Body::Connection(stream) => {
                let ends = stream.connection.endpoints();
                if let Some(reset) = stream.connection.close(now) {
                    self.resets.push_back((ends, reset));
                }
                self.settle(now, handle);
                self.mark_ready(handle);
            }
            // What is queued leaves first; nothing is received any more.
            Body::Datagram(datagram) if datagram.send.len() > 0 => self.unregister(handle),
            _ => {
                self.stop_listening(now, handle);
                self.end(handle);
            }
        }
        Ok(())
    }

    /// Ends the socket at once: a connection's peer gets a RST, and queued bytes are dropped.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn abort(&mut self, now: Instant, handle: Handle) -> Result<(), Error> {
        let socket = self.open_socket(handle)?;
        socket.closing = true;
        socket.events.clear();
        if let Body::Connection(stream) = &mut socket.body {
            let ends = stream.connection.endpoints();
            if let Some(reset) = stream.connection.abort(now) {
                self.resets.push_back((ends, reset));
            }
        }
        self.stop_listening(now, handle);
        self.end(handle);
        Ok(())
    }

    /// Looks at a connection that was closed, after something happened to it.
    pub(super) fn settle_closing(&mut self, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let orphan = socket.orphan;
        let Some(stream) = socket.connection() else { return };
        let (is_done, state) = (stream.connection.is_done(), stream.connection.state());
        if is_done && orphan {
            self.remove_socket(handle);
        } else if is_done {
            self.end(handle);
        } else if matches!(state, State::FinWait2 | State::TimeWait) && !stream.told.closed {
            // All that was sent is acknowledged and nothing is received any more: what remains of
            // the connection is the stack's business.
            stream.told.closed = true;
            self.events.add(handle, socket, EventKind::Closed);
        }
    }

    /// Frees all that a closed socket, not a listener, has but its place, which goes when its owner
    /// is told.
    pub(super) fn end(&mut self, handle: Handle) {
        self.unregister(handle);
        if let Some(socket) = self.sockets.get_mut(handle) {
            socket.body = Body::Gone;
            self.events.add(handle, socket, EventKind::Closed);
        }
    }

    /// The owner of a closed socket has been told.
    pub(crate) fn told_closed(&mut self, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        match socket.body {
            Body::Connection(_) => socket.orphan = true,
            _ => self.remove_socket(handle),
        }
    }

    /// Removes a connection that nobody has accepted, with a RST to its peer.
    pub(super) fn reset_and_remove(&mut self, now: Instant, handle: Handle) {
        if let Some(stream) = self.sockets.get_mut(handle).and_then(|socket| socket.connection()) {
            let ends = stream.connection.endpoints();
            if let Some(reset) = stream.connection.abort(now) {
                self.resets.push_back((ends, reset));
            }
        }
        self.remove_socket(handle);
    }

    /// Removes a socket from the table and everything that names it.
    pub(super) fn remove_socket(&mut self, handle: Handle) {
        self.unregister(handle);
        self.fast.forget_socket(handle);
        self.sockets.remove(handle);
    }

    /// Takes a socket out of demultiplexing, ports and timers. What its connection counted is kept.
    pub(super) fn unregister(&mut self, handle: Handle) {
        self.forget_peer(handle);
        self.leave_all_groups(handle);
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        if let Some(timer) = socket.timer.take() {
            self.cx.timers.cancel(timer);
        }
        if let Some(key) = socket.waits_for.take() {
            self.waiting.stop_waiting(key, handle);
        }
        let dual = socket.is_dual();
        let mut stats = TcpStats::default();
        match &mut socket.body {
            Body::Connection(stream) => {
                self.demux.remove_connection(&stream.connection.endpoints(), handle);
                stats = stream.connection.take_stats();
            }
            Body::Datagram(_) => {
                if let Some(local) = socket.local {
                    faces(local, dual).for_each(|face| self.demux.remove_bound(face, handle));
                }
            }
            _ => {}
        }
        if let Some(claim) = socket.claim.take() {
            self.ports.release(&claim);
        }
        self.count(stats);
    }
}

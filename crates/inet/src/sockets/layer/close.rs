//! Closing: in order and in the background, or at once.

use crate::bytes::{RxBytes, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::sockets::events::EventKind;
use crate::sockets::layer::SocketLayer;
use crate::sockets::ports::receive_addresses;
use crate::sockets::socket::{Ownership, Socket, SocketBody};
use crate::table::Handle;
use crate::tcp::{State, TcpStats};
use crate::time::Instant;
use alloc::vec::Vec;
use core::time::Duration;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// See [`Stack::close`](crate::Stack::close).
    pub(crate) fn close(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
    ) -> Result<(), Error> {
        let socket = self.open_socket(handle)?;
        let at_once = socket.options.linger() == Some(Duration::ZERO);
        if socket.connection().is_some_and(|stream| at_once || stream.connection.resets_on_close())
        {
            return self.abort_after_output(cx, now, handle);
        }
        socket.ownership = Ownership::Closing;
        socket.events.clear();
        if let Some(datagram) = socket.datagram()
            && let Some(number) = datagram.send.take_open()
        {
            datagram.send.done(number);
        }
        match &mut socket.body {
            SocketBody::Connection(stream) => {
                let ends = stream.connection.endpoints();
                if let Some(reset) = stream.connection.close(now) {
                    self.tcp.queue_reset(ends, reset);
                }
                self.update(cx, now, handle);
                self.mark_ready(handle);
            }
            // Queued datagrams leave first. Nothing is received any more.
            SocketBody::Datagram(datagram) if datagram.send.len() > 0 => {
                self.unregister(cx, handle);
                // That also ended the wait for a neighbour, which the next datagram begins anew.
                self.mark_ready(handle);
            }
            _ => {
                self.stop_listening(cx, now, handle);
                self.end(cx, handle);
            }
        }
        Ok(())
    }

    /// See [`Stack::abort`](crate::Stack::abort).
    pub(crate) fn abort(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
    ) -> Result<(), Error> {
        let socket = self.open_socket(handle)?;
        socket.ownership = Ownership::Closing;
        socket.events.clear();
        if let SocketBody::Connection(stream) = &mut socket.body {
            let ends = stream.connection.endpoints();
            if let Some(reset) = stream.connection.abort(now) {
                self.tcp.queue_reset(ends, reset);
            }
        }
        self.stop_listening(cx, now, handle);
        self.end(cx, handle);
        Ok(())
    }

    /// Ends a connection with a RST, after what the windows permit to be sent now. As on Linux,
    /// where the bytes of a send leave before the call returns, no such bytes are lost by a close
    /// that resets. The ends are free at once.
    fn abort_after_output(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
    ) -> Result<(), Error> {
        let socket = self.open_socket(handle)?;
        match socket.connection().filter(|stream| stream.connection.has_output()) {
            None => return self.abort(cx, now, handle),
            Some(stream) => stream.aborts = true,
        }
        socket.ownership = Ownership::Closing;
        socket.events.clear();
        self.unregister(cx, handle);
        self.mark_ready(handle);
        Ok(())
    }

    /// See [`Stack::abort_closed`](crate::Stack::abort_closed).
    pub(crate) fn abort_closed(
        &mut self,
        cx: &mut Context,
        now: Instant,
        is_meant: impl Fn(u64) -> bool,
    ) {
        let meant = |socket: &Socket<T, R>| {
            let sends = match &socket.body {
                SocketBody::Connection(stream) => !stream.notified.closed,
                SocketBody::Datagram(_) => true,
                _ => false,
            };
            sends && socket.is_closing() && is_meant(socket.tag)
        };
        let found = self.sockets.iter().filter(|(_, socket)| meant(socket));
        let found: Vec<Handle> = found.map(|(handle, _)| handle).collect();
        for handle in found {
            if let Some(stream) = self.sockets.get_mut(handle).and_then(Socket::connection) {
                let ends = stream.connection.endpoints();
                if let Some(reset) = stream.connection.abort(now) {
                    self.tcp.queue_reset(ends, reset);
                }
            }
            self.end(cx, handle);
        }
    }

    /// Follows up a change of a closed connection.
    pub(super) fn update_closing(&mut self, cx: &mut Context, now: Instant, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let orphan = socket.ownership == Ownership::Orphan;
        let Some(stream) = socket.connection() else { return };
        if stream.aborts {
            // Nothing more may leave now.
            if stream.connection.poll_at(now).is_none_or(|at| at > now) {
                let ends = stream.connection.endpoints();
                if let Some(reset) = stream.connection.abort(now) {
                    self.tcp.queue_reset(ends, reset);
                }
                self.end(cx, handle);
            }
            return;
        }
        let (is_done, state) = (stream.connection.is_done(), stream.connection.state());
        if is_done && orphan {
            self.remove_socket(cx, handle);
        } else if is_done {
            self.end(cx, handle);
        } else if matches!(state, State::FinWait2 | State::TimeWait) && !stream.notified.closed {
            // All sent data is acknowledged and nothing is received any more. The stack alone
            // finishes the connection.
            stream.notified.closed = true;
            self.events.add(handle, socket, EventKind::Closed);
        }
    }

    /// Frees all of a closed socket (not a listener) but its table entry. The entry goes when the
    /// owner has been notified.
    pub(super) fn end(&mut self, cx: &mut Context, handle: Handle) {
        self.unregister(cx, handle);
        if let Some(socket) = self.sockets.get_mut(handle) {
            socket.body = SocketBody::Gone;
            self.events.add(handle, socket, EventKind::Closed);
        }
    }

    /// The owner of a closed socket has taken its last event.
    pub(crate) fn handle_closed_taken(&mut self, cx: &mut Context, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        match socket.body {
            SocketBody::Connection(_) => socket.ownership = Ownership::Orphan,
            _ => self.remove_socket(cx, handle),
        }
    }

    /// Removes a connection that was not accepted, with a RST to its peer.
    pub(super) fn reset_and_remove(&mut self, cx: &mut Context, now: Instant, handle: Handle) {
        if let Some(stream) = self.sockets.get_mut(handle).and_then(|socket| socket.connection()) {
            let ends = stream.connection.endpoints();
            if let Some(reset) = stream.connection.abort(now) {
                self.tcp.queue_reset(ends, reset);
            }
        }
        self.remove_socket(cx, handle);
    }

    /// Removes a socket from the table and everything that names it.
    pub(super) fn remove_socket(&mut self, cx: &mut Context, handle: Handle) {
        self.unregister(cx, handle);
        self.tcp.forget_socket(handle);
        self.clear_errors(handle);
        if let Some(socket) = self.sockets.remove(handle) {
            self.owners.remove_socket(socket.owner);
        }
    }

    /// Removes a socket from demultiplexing, ports and timers. Its connection's counters are added
    /// to the totals.
    pub(super) fn unregister(&mut self, cx: &mut Context, handle: Handle) {
        self.forget_peer(handle);
        self.leave_all_groups(cx, handle);
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        if let Some(timer) = socket.timer.take() {
            cx.timers.cancel(timer);
        }
        if let Some(key) = socket.waits_for.take() {
            self.waiting.stop_waiting(key, handle);
        }
        let (dual, kind) = (socket.is_dual(), socket.kind());
        let mut stats = TcpStats::default();
        match &mut socket.body {
            SocketBody::Connection(stream) => {
                self.demux.remove_connection(&stream.connection.endpoints(), handle);
                stats = stream.connection.take_stats();
            }
            SocketBody::Datagram(_) => {
                if let Some(local) = socket.local {
                    let demux = self.demux.datagrams(kind);
                    receive_addresses(local, dual)
                        .for_each(|face| demux.remove_bound(face, handle));
                }
            }
            _ => {}
        }
        if let Some(claim) = socket.claim.take() {
            self.ports.release(&claim, socket.owner);
        }
        self.tcp.add_stats(stats);
    }
}

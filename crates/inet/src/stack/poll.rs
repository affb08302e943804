//! Timers, neighbours that are known now or silent, and the turns of the sockets.

use core::net::IpAddr;

use super::state::Stack;
use crate::bytes::{Egress, RxBytes, TxBytes};
use crate::error::Error;
use crate::icmp::IcmpError;
use crate::interface_id::NeighbourKey;
use crate::link::{MOST_FRAMES_AT_ONCE, NeighbourSilent, Resolved};
use crate::sockets::{Body, Socket};
use crate::time::Instant;
use crate::timers::Timer;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Acts on due timers and sends what there is to send, as far as `out` has room; the sockets
    /// take turns, and go on where they were at the next call.
    pub fn poll(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        while let Some(handle) = self.fin_acks.pop() {
            if let Some(stream) = self.sockets.get_mut(handle).and_then(Socket::connection) {
                stream.connection.end_deferral();
                self.mark_ready(handle);
            }
        }
        self.send_all(now, out);
    }

    /// [`poll`](Self::poll) without the lone ACKs of FINs, which a program's close mostly makes
    /// needless. While [`defers_fin_acks`](Self::defers_fin_acks) says so, the owner looks for its
    /// programs' answers, and calls `poll` before it waits. However busy it is, an ACK is deferred
    /// for 200 µs at most.
    pub fn poll_deferring(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        if self.fin_acks.are_late(now) {
            return self.poll(now, out);
        }
        self.fin_acks.defer(true);
        self.send_all(now, out);
        self.fin_acks.defer(false);
    }

    /// Whether [`poll_deferring`](Self::poll_deferring) has left ACKs to be sent.
    pub fn defers_fin_acks(&self) -> bool {
        !self.fin_acks.is_empty()
    }

    fn send_all(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        self.cx.clock = now;
        while let Some(timer) = self.cx.timers.pop(now) {
            self.handle_timer(now, timer, out);
        }
        while out.ready()
            && let Some((ends, reset)) = self.resets.pop_front()
        {
            self.send_reset(now, &ends, &reset, out);
        }
        // A frame to ourselves may make a socket ready, so sockets and frames take turns.
        let mut left = MOST_FRAMES_AT_ONCE;
        loop {
            self.serve_ready(now, out);
            let handled = self.handle_loopback(now, left, out);
            left -= handled;
            let more = out.ready() && !self.ready.is_empty() || self.cx.link.loopback_len() > 0;
            if left == 0 || !more {
                break;
            }
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: Timer, out: &mut dyn Egress<T>) {
        match timer {
            Timer::Socket(handle) => self.handle_socket_timer(now, handle),
            Timer::Request(place) => self.handle_request_timer(now, place, out),
            Timer::TimeWait(place) => self.time_wait_due(place),
            Timer::Addressing => self.handle_addressing_timer(now, out),
            Timer::Groups => {
                let shared = (&mut self.cx.secret, &mut self.cx.timers);
                self.cx.ip.handle_groups_timer(now, &mut self.cx.link, shared, out);
            }
            Timer::Reassembly => self.handle_reassembly_timer(now, out),
            Timer::Discovery(id) => self.nd.handle_timer(&mut self.cx, now, id, out),
            Timer::Neighbour(key) => {
                let timers = &mut self.cx.timers;
                match self.cx.link.handle_neighbour_timer(now, key, timers, out) {
                    None => {}
                    Some(NeighbourSilent::Solicit(target)) => self.cx.solicit(target, out),
                    Some(NeighbourSilent::Failed(key)) => self.handle_unreachable(now, key),
                }
            }
        }
    }

    /// Lets each of the sockets that are ready now send.
    fn serve_ready(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        for _ in 0..self.ready.len() {
            if !out.ready() {
                return;
            }
            let Some(handle) = self.ready.pop_front() else { return };
            let Some(socket) = self.sockets.get_mut(handle) else { continue };
            socket.ready = false;
            match socket.body {
                Body::Connection(_) => self.serve_stream(now, handle, out),
                Body::Datagram(_) => self.serve_datagram(now, handle, out),
                _ => {}
            }
        }
    }

    /// A neighbour's hardware address is known: what waited for it may go on.
    pub(super) fn handle_resolved(&mut self, resolved: Resolved, out: &mut dyn Egress<T>) {
        let Resolved { neighbour, mac } = resolved;
        for datagram in self.parked.take(neighbour) {
            self.send_parked(neighbour, mac, datagram, out);
        }
        for handle in self.waiting.take(neighbour) {
            if let Some(socket) = self.sockets.get_mut(handle) {
                socket.waits_for = None;
                self.mark_ready(handle);
            }
        }
    }

    /// A neighbour is silent: what waited for it cannot reach its host (RFC 1122 2.3.2.2, 3.3.1.4).
    fn handle_unreachable(&mut self, now: Instant, key: NeighbourKey) {
        if let IpAddr::V6(address) = key.address {
            self.nd.set_router_answers(&mut self.cx, key.interface, address, false);
        }
        for datagram in self.parked.take(key) {
            self.drop_parked(datagram, Some(Error::HostUnreachable));
        }
        for handle in self.waiting.take(key) {
            if let Some(socket) = self.sockets.get_mut(handle) {
                socket.waits_for = None;
                if socket.datagram().is_some() {
                    self.drop_load(handle, Error::HostUnreachable);
                } else {
                    self.send_into_void(now, handle, Error::HostUnreachable);
                }
            }
        }
    }

    /// Packets have waited too long for their fragments.
    fn handle_reassembly_timer(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        self.fragments.handle_timer();
        while let Some((packet, frame)) = self.fragments.poll_expired(now, &mut self.cx.timers) {
            if self.cx.link.interfaces().is_ours(packet.destination) {
                let about = (&packet, frame.bytes());
                let error = IcmpError::ReassemblyTimeout;
                self.icmp.send_error(&mut self.cx, now, about, error, out);
            }
        }
    }

    /// When to call [`poll`](Self::poll) next if nothing else happens: the past if there is
    /// something to send (at once, or when the egress that was full has room again), `None` for
    /// never.
    pub fn poll_at(&self) -> Option<Instant> {
        if self.ready.is_empty() && self.resets.is_empty() && self.cx.link.loopback_len() == 0 {
            self.cx.timers.poll_at().into_iter().chain(self.fin_acks.due()).min()
        } else {
            Some(Instant::ZERO)
        }
    }
}

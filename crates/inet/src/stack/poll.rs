//! Timers, resolved and silent neighbours, and the scheduling of the sockets.

use core::net::IpAddr;

use super::state::Stack;
use crate::bytes::{Egress, RxBytes, TxBytes};
use crate::icmp::IcmpError;
use crate::interface_id::NeighbourKey;
use crate::link::{MOST_FRAMES_AT_ONCE, UnansweredNeighbour};
use crate::time::Instant;
use crate::timers::Timer;

/// Timers handled at once. If more are due, `poll_at` says so.
const MOST_TIMERS: usize = 512;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Runs due timers and sends pending output, as far as `out` has room. Sockets are served in
    /// turn, and the next call goes on where this one stopped.
    pub fn poll(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        self.sockets.end_deferrals();
        self.send_all(now, out);
    }

    /// [`poll`](Self::poll) without lone ACKs of FINs, which a program's close mostly makes
    /// superfluous. While [`defers_fin_acks`](Self::defers_fin_acks) is true, the owner looks for
    /// its programs' answers, and calls `poll` before it waits. However busy the owner is, an ACK
    /// is deferred for at most 200 µs.
    pub fn poll_deferring(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        if self.sockets.fin_acks_are_late(now) {
            return self.poll(now, out);
        }
        self.sockets.defer_fin_acks(true);
        self.send_all(now, out);
        self.sockets.defer_fin_acks(false);
    }

    /// Whether [`poll_deferring`](Self::poll_deferring) has left ACKs to be sent.
    pub fn defers_fin_acks(&self) -> bool {
        self.sockets.defers_fin_acks()
    }

    fn send_all(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        self.cx.clock = now;
        for _ in 0..MOST_TIMERS {
            let Some(timer) = self.cx.timers.pop(now) else { break };
            self.handle_timer(now, timer, out);
        }
        self.sockets.send_resets(&mut self.cx, now, out);
        // A loopback frame may make a socket ready, so sockets and frames are handled alternately.
        let mut left = MOST_FRAMES_AT_ONCE;
        loop {
            self.sockets.serve_ready(&mut self.cx, now, out);
            // Those of sockets that had something to send before.
            self.sockets.send_resets(&mut self.cx, now, out);
            let handled = self.handle_loopback(now, left, out);
            left -= handled;
            let more = self.sockets.can_go_on(&self.cx, out) || self.cx.link.loopback_len() > 0;
            if left == 0 || !more {
                break;
            }
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: Timer, out: &mut dyn Egress<T>) {
        match timer {
            Timer::Socket(handle) => self.sockets.handle_socket_timer(&mut self.cx, now, handle),
            Timer::Request(key) => {
                self.sockets.handle_request_timer(&mut self.cx, now, key, out);
            }
            Timer::TimeWait(key) => self.sockets.time_wait_due(&mut self.cx, key),
            Timer::Addressing => self.handle_addressing_timer(now, out),
            Timer::Lifetimes => self.cx.esp.handle_timer(now, &mut self.cx.timers),
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
                    Some(UnansweredNeighbour::Solicit(target)) => self.cx.solicit(target, out),
                    Some(UnansweredNeighbour::Failed(key)) => self.handle_unreachable(now, key),
                }
            }
        }
    }

    /// A neighbour is silent.
    fn handle_unreachable(&mut self, now: Instant, key: NeighbourKey) {
        if let IpAddr::V6(address) = key.address {
            self.nd.set_router_answers(&mut self.cx, key.interface, address, false);
        }
        self.sockets.handle_unreachable(&mut self.cx, now, key);
    }

    /// Packets have waited too long for their fragments.
    fn handle_reassembly_timer(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        self.fragments.handle_timer();
        while let Some((packet, frame)) = self.fragments.poll_expired(now, &mut self.cx.timers) {
            if self.cx.link.interfaces().is_ours(packet.destination) {
                let error = IcmpError::ReassemblyTimeout;
                self.with_copy(frame, |stack, copy, _| {
                    stack.icmp.send_error(&mut stack.cx, now, (&packet, copy), error, out);
                });
            }
        }
    }

    /// When to call [`poll`](Self::poll) next if nothing else happens. A time in the past means
    /// that there is output: it can leave at once, or as soon as a full egress has room. `None`
    /// means never.
    pub fn poll_at(&self) -> Option<Instant> {
        if self.cx.link.loopback_len() > 0 {
            return Some(Instant::ZERO);
        }
        match self.sockets.poll_at() {
            Some(Instant::ZERO) => Some(Instant::ZERO),
            other => self.cx.timers.poll_at().into_iter().chain(other).min(),
        }
    }
}

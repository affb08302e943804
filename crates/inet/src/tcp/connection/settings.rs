//! Settings that can change while a connection lives.
//!
//! Connections with equal settings share them by reference. A connection whose settings change gets
//! a copy of its own.

use alloc::sync::Arc;
use core::time::Duration;

use super::Connection;
use crate::tcp::config::KeepAlive;
use crate::tcp::congestion::CongestionKind;
use crate::tcp::timers::TcpTimer;
use crate::{Instant, RxBytes, TxBytes};

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Sets whether small segments leave at once.
    pub fn set_nodelay(&mut self, _now: Instant, on: bool) {
        self.nagle.set_nodelay(on);
        // As Linux: queued data leaves at once, even out of a corked connection.
        self.pending.request_poll();
        if on && self.send.unsent() > 0 {
            self.pending.request_small();
        }
    }

    /// Sets whether the interface splits super-segments from now on; at first, no.
    pub fn enable_super_segments(&mut self, on: bool) {
        self.super_segments.enable(on);
    }

    /// The size that the receive buffer should have by the application's reading, if it has less
    /// because its owner has not [granted](Self::grant_recv_buffer) more; bytes.
    pub fn recv_buffer_wanted(&self) -> Option<usize> {
        self.tuner.wanted_beyond(self.recv.buffer())
    }

    /// Lets the receive buffer grow by itself up to `bytes`. A buffer never gets smaller by this.
    pub fn grant_recv_buffer(&mut self, bytes: usize) {
        self.tuner.grant(bytes, &mut self.recv);
        self.offer_window();
    }

    /// Size of the receive buffer, bytes of payload.
    pub fn recv_buffer(&self) -> usize {
        self.recv.buffer()
    }

    /// Sets how often a SYN is retransmitted before the attempt fails (TCP_SYNCNT).
    pub fn set_syn_retries(&mut self, count: u8) {
        if self.config.syn_retries != count {
            Arc::make_mut(&mut self.config).syn_retries = count;
        }
    }

    /// Sets the length of an orphan's FIN-WAIT-2 (TCP_LINGER2).
    pub fn set_fin_timeout(&mut self, time: Duration) {
        if self.config.fin_timeout != time {
            Arc::make_mut(&mut self.config).fin_timeout = time;
        }
    }

    /// Bounds the offered window from now on, bytes; 0 for no bound. An offer is never withdrawn.
    pub fn set_window_clamp(&mut self, bytes: u32) {
        if self.config.window_clamp != bytes {
            Arc::make_mut(&mut self.config).window_clamp = bytes;
        }
        self.offer_window();
    }

    /// Sets the congestion control algorithm (TCP_CONGESTION). Window and threshold do not change.
    pub fn set_congestion_control(&mut self, now: Instant, kind: CongestionKind) {
        if self.config.congestion_control == kind {
            return;
        }
        Arc::make_mut(&mut self.config).congestion_control = kind;
        // A connection in its handshake gets the algorithm when it is established.
        if !self.state().opening() {
            self.congestion.set_algorithm(now, kind, self.durable.snd_max);
        }
    }

    /// Sets the offset of this connection's timestamp clock, a secret function of the endpoints.
    /// With it the timestamps disclose nothing about the machine (RFC 7323 5.4). To be called
    /// before the first segment is given out.
    pub fn set_timestamp_offset(&mut self, offset: u32) {
        self.durable.ts_offset = offset;
    }

    /// `on`: acknowledgements do not wait for now, and one that waits leaves at once; off: they
    /// wait (TCP_QUICKACK).
    pub fn set_quick_ack(&mut self, on: bool) {
        self.acks.set_quick(if on { self.config.quick_acks } else { 0 });
        if on && self.timers.is_set(TcpTimer::DelayedAck) {
            self.pending.request_ack();
        }
    }

    /// Whether acknowledgements leave at once.
    pub fn quick_ack(&self) -> bool {
        self.acks.is_quick()
    }

    /// Sets whether only full segments leave.
    pub fn set_cork(&mut self, _now: Instant, on: bool) {
        self.nagle.set_cork(on);
        self.pending.request_poll();
    }

    /// Sets whether and how the peer is probed when idle.
    pub fn set_keep_alive(&mut self, now: Instant, keep_alive: Option<KeepAlive>) {
        Arc::make_mut(&mut self.config).keep_alive = keep_alive;
        self.start_keep_alive(now);
    }

    /// Sets the time that sent data may be unacknowledged.
    pub fn set_user_timeout(&mut self, timeout: Option<Duration>) {
        Arc::make_mut(&mut self.config).user_timeout = timeout;
    }

    /// Sets the size of the receive buffer, bytes; at least 2 KiB. From now on it does not grow by
    /// itself. An offered window is never withdrawn.
    pub fn set_recv_buffer(&mut self, _now: Instant, bytes: usize) {
        if self.config.moderate_rcvbuf {
            Arc::make_mut(&mut self.config).moderate_rcvbuf = false;
        }
        self.recv.set_buffer(bytes.max(2 << self.durable.rcv_scale));
        self.tuner.raise_threshold(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.offer_window();
    }
}

//! Connections asleep.
//!
//! Most connections of a busy server are idle at any moment, and most of what a connection keeps
//! concerns what is under way: segments sent, bytes queued and out of order, recovery, deadlines. A
//! connection on which nothing is under way can be put down to what it is ([`Dormant`]) and taken
//! up again as if nothing had happened. What is lost is what idleness makes worthless: the state of
//! the congestion control beside its window (RFC 5681 4.1, RFC 2861), and the reordering that RACK
//! has seen.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use super::congestion::Window;
use super::connection::Connection;
use super::durable::Durable;
use super::ecn::Ecn;
use super::info::Meter;
use super::loss::Kept;
use super::mtu_probe::MtuProbing;
use super::recv::Receiver;
use super::send::SendQueue;
use super::timers::Timer;
use super::tuning::Tuned;
use super::{Seq, State, TcpConfig};
use crate::{Instant, RxBytes, TxBytes};

/// What is kept of a connection on which nothing is under way.
#[derive(Debug, Clone)]
pub struct Dormant {
    durable: Durable,
    config: Arc<TcpConfig>,
    meter: Meter,
    mtu_probing: Option<Box<MtuProbing>>,
    window: Window,
    kept: Kept,
    /// Round-trip time: smoothed, its variation, least; microseconds, 0 for none.
    rtt: [u32; 3],
    recv_buffer: u32,
    recv_segment: u32,
    tuned: Tuned,
    progress_at: Instant,
    sent_at: Instant,
    heard_at: Instant,
    recent_at: Instant,
    keep_alive_at: Option<Instant>,
    window_seq: Seq,
    window_max: u32,
    small_end: Seq,
    acked_to: Seq,
    window_field: u16,
    quick_acks: u8,
    ecn: Ecn,
    nodelay: bool,
    cork: bool,
}

impl Dormant {
    /// What must outlive the process.
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    /// The connection, awake.
    pub fn to_connection<T: TxBytes, R: RxBytes>(&self) -> Connection<T, R> {
        let durable = self.durable;
        let now = self.heard_at;
        let (ends, state) = (durable.endpoints(), durable.state());
        let mut connection =
            Connection::new(now, Arc::clone(&self.config), ends, durable.iss, state);
        connection.durable = durable;
        connection.meter = self.meter.clone();
        connection.mtu_probing = self.mtu_probing.clone();
        connection.congestion = self.config.congestion_control.start(now, durable.snd_max);
        connection.window = self.window.clone();
        connection.loss.resume(&self.kept);
        let [smoothed, variation, least] = self.rtt.map(|time| Duration::from_micros(time.into()));
        connection.rtt.resume(now, smoothed, variation, least);
        connection.send = SendQueue::resumed(durable.acked);
        let buffer = self.recv_buffer as usize;
        connection.recv = Receiver::new(buffer, self.config.out_of_order_limit);
        connection.recv.resume(self.recv_segment as usize, durable.finished());
        connection.tuner.resume(now, self.tuned, durable.received, buffer);
        connection.progress_at = self.progress_at;
        connection.sent_at = self.sent_at;
        connection.heard_at = self.heard_at;
        connection.recent_at = self.recent_at;
        if let Some(at) = self.keep_alive_at {
            connection.timers.set(Timer::KeepAlive, at);
        }
        connection.window_seq = self.window_seq;
        connection.window_max = self.window_max;
        connection.small_end = self.small_end;
        connection.acked_to = self.acked_to;
        connection.window_field = self.window_field;
        connection.quick_acks = self.quick_acks;
        connection.ecn = self.ecn;
        connection.nodelay = self.nodelay;
        connection.cork = self.cork;
        connection
    }
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Whether nothing is under way in either direction, and no deadline but that of a keep-alive
    /// probe set.
    pub fn is_idle(&self) -> bool {
        let lasting = matches!(self.state(), State::Established | State::CloseWait);
        let waits = self.writer_waits
            || self.wishes.anything
            || self.wishes.fin_ack
            || self.keep_alive_probes > 0;
        let troubled = self.error.is_some() || self.soft_error.is_some() || self.retries > 0;
        lasting
            && !waits
            && !troubled
            && self.fast_open.is_none()
            && !self.awaits_urgent()
            && self.send.unacked() == 0
            && self.loss.is_idle()
            && self.recv.is_idle()
            && self.timers.is_quiet()
    }

    /// When something was last sent or received.
    pub fn quiet_since(&self) -> Instant {
        self.heard_at.max(self.sent_at)
    }

    /// What is to be kept of an [idle](Self::is_idle) connection. Its
    /// [`take_stats`](Self::take_stats) should have been called.
    pub fn to_dormant(&self) -> Dormant {
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let saturated = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let rtt = [self.rtt.smoothed(), Some(self.rtt.variation()), self.rtt.min()];
        Dormant {
            durable: self.durable,
            config: Arc::clone(&self.config),
            meter: self.meter.clone(),
            mtu_probing: self.mtu_probing.clone(),
            window: self.window.clone(),
            kept: self.loss.kept(),
            rtt: rtt.map(|time| time.map_or(0, |time| micros(time).max(1))),
            recv_buffer: saturated(self.recv.buffer()),
            recv_segment: saturated(self.recv.segment()),
            tuned: self.tuner.kept,
            progress_at: self.progress_at,
            sent_at: self.sent_at,
            heard_at: self.heard_at,
            recent_at: self.recent_at,
            keep_alive_at: self.timers.at(Timer::KeepAlive),
            window_seq: self.window_seq,
            window_max: self.window_max,
            small_end: self.small_end,
            acked_to: self.acked_to,
            window_field: self.window_field,
            quick_acks: self.quick_acks,
            ecn: self.ecn,
            nodelay: self.nodelay,
            cork: self.cork,
        }
    }
}

//! Dormant connections.
//!
//! Most connections of a busy server are idle at any moment. Most state of a connection concerns
//! activity: segments sent, bytes queued and out of order, recovery, deadlines. An idle connection
//! needs none of it. It can be reduced to a [`Dormant`] record and restored later as if nothing had
//! happened.
//!
//! Only state that idleness makes worthless is lost: the state of the congestion control beside its
//! window (RFC 5681 4.1, RFC 2861), and the reordering that RACK has seen.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use super::Connection;
use crate::tcp::ack_policy::AckPolicy;
use crate::tcp::config::TcpConfig;
use crate::tcp::congestion::{CongestionControl, CongestionWindow};
use crate::tcp::durable::Durable;
use crate::tcp::ecn::EcnState;
use crate::tcp::info_counters::InfoCounters;
use crate::tcp::loss::DormantRecovery;
use crate::tcp::mtu_search::MtuSearch;
use crate::tcp::nagle::Nagle;
use crate::tcp::peer_window::PeerWindow;
use crate::tcp::progress::Progress;
use crate::tcp::recv_queue::ReceiveQueue;
use crate::tcp::recv_tuning::LearntTuning;
use crate::tcp::send_queue::TcpSendQueue;
use crate::tcp::state::State;
use crate::tcp::timers::TcpTimer;
use crate::tcp::timestamps::PeerTimestamp;
use crate::{Instant, RxBytes, TxBytes};

/// The record of a connection with nothing in flight.
#[derive(Debug, Clone)]
pub struct Dormant {
    durable: Durable,
    config: Arc<TcpConfig>,
    counters: InfoCounters,
    mtu_search: Option<Box<MtuSearch>>,
    window: CongestionWindow,
    loss: DormantRecovery,
    /// Round-trip time: smoothed, its variation, least; microseconds, 0 for none.
    rtt: [u32; 3],
    recv_buffer: u32,
    recv_segment: u32,
    tuning: LearntTuning,
    progress: Progress,
    peer_timestamp: PeerTimestamp,
    keep_alive_at: Option<Instant>,
    peer_window: PeerWindow,
    acks: AckPolicy,
    nagle: Nagle,
    ecn: EcnState,
}

impl Dormant {
    /// The half that must outlive the process.
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    /// The connection, awake.
    pub fn to_connection<T: TxBytes, R: RxBytes>(&self) -> Connection<T, R> {
        let durable = self.durable;
        let now = self.progress.heard_at();
        let (ends, state) = (durable.endpoints(), durable.state());
        let mut connection =
            Connection::new(now, Arc::clone(&self.config), ends, durable.iss, state);
        connection.durable = durable;
        connection.counters = self.counters.clone();
        connection.mtu_search = self.mtu_search.clone();
        let (kind, window) = (self.config.congestion_control, self.window.clone());
        connection.congestion = CongestionControl::resumed(now, kind, window, durable.snd_max);
        connection.loss.resume(&self.loss);
        let [smoothed, variation, least] = self.rtt.map(|time| Duration::from_micros(time.into()));
        connection.rtt.resume(now, smoothed, variation, least);
        connection.send = TcpSendQueue::resumed(durable.acked);
        let buffer = self.recv_buffer as usize;
        connection.recv = ReceiveQueue::new(buffer, self.config.out_of_order_limit);
        connection.recv.resume(self.recv_segment as usize, durable.finished());
        connection.tuner.resume(now, self.tuning, durable.received, buffer);
        connection.progress = self.progress;
        connection.peer_timestamp = self.peer_timestamp;
        if let Some(at) = self.keep_alive_at {
            connection.timers.set(TcpTimer::KeepAlive, at);
        }
        connection.peer_window = self.peer_window;
        connection.acks = self.acks;
        connection.nagle = self.nagle;
        connection.ecn = self.ecn;
        connection
    }
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Whether nothing is in flight in either direction, and no timer but that of a keep-alive
    /// probe is set.
    pub fn is_idle(&self) -> bool {
        let lasting = matches!(self.state(), State::Established | State::CloseWait);
        let waits = self.counters.writer_waits()
            || self.pending.wants_poll()
            || self.pending.wants_fin_ack()
            || self.attempts.keep_alive_probes() > 0;
        let troubled = !self.failure.is_clear() || self.attempts.timeouts() > 0;
        lasting
            && !waits
            && !troubled
            && self.fast_open.is_none()
            && !self.urgent.is_ahead(self.durable.received)
            && self.send.unacked() == 0
            && self.loss.is_idle()
            && self.recv.is_idle()
            && self.timers.is_quiet()
    }

    /// When something was last sent or received.
    pub fn idle_since(&self) -> Instant {
        self.progress.idle_since()
    }

    /// The record of an [idle](Self::is_idle) connection. Its
    /// [`take_stats`](Self::take_stats) should have been called.
    pub fn to_dormant(&self) -> Dormant {
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let saturated = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let rtt = [self.rtt.smoothed(), Some(self.rtt.variation()), self.rtt.min()];
        Dormant {
            durable: self.durable,
            config: Arc::clone(&self.config),
            counters: self.counters.clone(),
            mtu_search: self.mtu_search.clone(),
            window: self.congestion.window().clone(),
            loss: self.loss.dormant(),
            rtt: rtt.map(|time| time.map_or(0, |time| micros(time).max(1))),
            recv_buffer: saturated(self.recv.buffer()),
            recv_segment: saturated(self.recv.segment()),
            tuning: self.tuner.learnt(),
            progress: self.progress,
            peer_timestamp: self.peer_timestamp,
            keep_alive_at: self.timers.at(TcpTimer::KeepAlive),
            peer_window: self.peer_window,
            acks: self.acks,
            nagle: self.nagle,
            ecn: self.ecn,
        }
    }
}

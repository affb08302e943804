//! Reports about a connection: TCP_INFO and single values.

use core::time::Duration;

use super::Connection;
use crate::tcp::durable;
use crate::tcp::info::TcpInfo;
use crate::tcp::info_counters::SendLimit;
use crate::tcp::state::State;
use crate::{Instant, RxBytes, TxBytes};

fn saturated(value: impl TryInto<u32>) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}

/// The number that Linux gives a state.
fn number(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// Smoothed round-trip time, if measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// Congestion window, bytes.
    pub fn congestion_window(&self) -> usize {
        (self.congestion.cwnd() as usize).saturating_mul(self.send_mss())
    }

    /// The fields of TCP_INFO.
    pub fn info(&self, now: Instant) -> TcpInfo {
        let d = &self.durable;
        let option = |flag: u16, bit| if d.has(flag) { bit } else { 0 };
        let millis = |since: Instant| saturated((now - since).as_millis());
        let mss = saturated(self.send_mss());
        let fast_open = self.fast_open.as_deref();
        let window_probes = u8::try_from(self.attempts.window_probes()).unwrap_or(u8::MAX);
        let options = option(durable::TIMESTAMPS, 1)
            | option(durable::SACK, 2)
            | option(durable::SCALED, 4)
            | option(durable::ECN, 8)
            | if self.ecn.seen() { 16 } else { 0 }
            | if fast_open.is_some_and(|fast| fast.is_taken()) { 32 } else { 0 };
        let sent = self.loss.sent();
        let rtt_micros = |rtt: Option<Duration>| rtt.map_or(0, |rtt| saturated(rtt.as_micros()));
        let mut info = TcpInfo {
            state: if self.is_half_open() { 3 } else { number(self.state()) },
            fastopen_client_fail: fast_open.map_or(0, |fast| fast.fail()),
            ca_state: self.loss.state() as u8,
            retransmits: self.attempts.timeouts(),
            backoff: u8::try_from(self.rtt.backoff()).unwrap_or(u8::MAX),
            probes: window_probes.max(self.attempts.keep_alive_probes()),
            options,
            snd_wscale: d.snd_scale,
            rcv_wscale: d.rcv_scale,
            rto: saturated(self.rtt.timeout().as_micros()),
            ato: saturated(self.config.delayed_ack.as_micros()),
            snd_mss: mss,
            rcv_mss: saturated(self.peer_segment()),
            rcv_ssthresh: self.tuner.threshold(),
            rcv_rtt: rtt_micros(self.tuner.rtt()),
            rcv_space: self.tuner.space(),
            unacked: sent.packets_out(),
            sacked: sent.sacked_out(),
            lost: sent.lost_out(),
            retrans: sent.retrans_out(),
            reordering: self.loss.reordering(),
            reord_seen: self.loss.reord_seen(),
            dsack_dups: self.loss.dsack_dups() as u32,
            delivered: self.loss.delivered() as u32,
            last_data_sent: millis(self.progress.sent_at()),
            last_ack_recv: millis(self.progress.heard_at()),
            pmtu: u32::from(self.config.mss) + 40,
            rtt: rtt_micros(self.rtt.smoothed()),
            rttvar: saturated(self.rtt.variation().as_micros()),
            min_rtt: rtt_micros(self.rtt.min()),
            snd_ssthresh: self.congestion.ssthresh(),
            snd_cwnd: self.congestion.cwnd(),
            advmss: u32::from(d.rcv_mss),
            bytes_acked: d.acked,
            bytes_received: d.received,
            notsent_bytes: saturated(self.unsent_len()),
            snd_wnd: d.snd_wnd,
            rcv_wnd: d.window_left(),
            ..TcpInfo::default()
        };
        self.counters.report(now, &mut info);
        info
    }

    /// Queued payload bytes that have never been sent.
    pub fn unsent_len(&self) -> usize {
        self.send.unacked().saturating_sub(self.in_flight_payload())
    }

    /// Payload bytes that were sent at least once, in total.
    pub fn sent(&self) -> u64 {
        self.durable.acked + self.in_flight_payload() as u64
    }

    fn in_flight_payload(&self) -> usize {
        let d = &self.durable;
        let sent = d.snd_max.since(d.snd_una) as usize;
        sent.min(self.send.unacked())
    }

    /// The application has more to send than its buffer holds, until the next [`send`](Self::send).
    pub fn set_writer_waits(&mut self, now: Instant) {
        self.counters.set_writer_waits(true);
        self.note_limit(now);
    }

    /// Notes the cause for which sending waits now.
    pub(super) fn note_limit(&mut self, now: Instant) {
        let unsent = self.unsent_len();
        let usable = self.durable.send_edge().since(self.durable.snd_max) as usize;
        let limit = if self.send.unacked() == 0 {
            SendLimit::Idle
        } else if unsent > 0 && usable < unsent.min(self.send_mss()) {
            SendLimit::Window
        } else if unsent == 0 && self.counters.writer_waits() {
            SendLimit::Buffer
        } else {
            SendLimit::Network
        };
        self.counters.wait_for(now, limit);
    }
}

//! What a connection tells about itself (TCP_INFO), and what it counts only for that.

use core::time::Duration;

use super::connection::Connection;
use super::{State, durable};
use crate::{Instant, RxBytes, TxBytes};

/// The fields of Linux's `struct tcp_info` by their names without `tcpi_`, and in its units:
/// microseconds for `rto`, `ato`, round-trip times and the three limited times; milliseconds for
/// the `last_` ones; bytes for windows and sizes but `snd_cwnd` and `snd_ssthresh`, which are
/// segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names are those of Linux's tcp(7)")]
pub struct TcpInfo {
    /// The state by Linux's number: ESTABLISHED is 1.
    pub state: u8,
    /// 0 open, 1 disorder, 2 window reduced, 3 recovery, 4 loss.
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    /// 1 timestamps, 2 SACK, 4 window scaling, 8 ECN, 16 ECN seen, 32 data in the SYN acknowledged.
    pub options: u8,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub delivery_rate_app_limited: bool,
    /// Why Fast Open was not used: 0 unknown or used, 1 no cookie, 2 data not acknowledged,
    /// 3 the SYN had to be sent again.
    pub fastopen_client_fail: u8,
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub last_data_sent: u32,
    pub last_data_recv: u32,
    pub last_ack_recv: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub total_rto: u16,
    pub total_rto_recoveries: u16,
    pub total_rto_time: u32,
}

/// What sending waits for while there is something that is not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Limit {
    /// Nothing is queued.
    #[default]
    Idle,
    /// The network.
    Network,
    /// The peer's window.
    Window,
    /// The application, which has more than its send buffer takes.
    Buffer,
}

/// Counts of one connection since its start, kept for [`TcpInfo`] alone.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter {
    pub(super) segs_in: u32,
    pub(super) segs_out: u32,
    pub(super) data_segs_in: u32,
    pub(super) data_segs_out: u32,
    pub(super) total_retrans: u32,
    pub(super) out_of_order: u32,
    pub(super) bytes_sent: u64,
    pub(super) bytes_retrans: u64,
    pub(super) data_received_at: Option<Instant>,
    limit: Limit,
    limit_since: Option<Instant>,
    /// Microseconds in `Limit::Network`, `Window` and `Buffer`.
    spent: [u64; 3],
}

impl Meter {
    /// `len` bytes leave in segments of `mss` bytes; one of them is counted already.
    pub(super) fn sent(&mut self, len: usize, mss: usize, again: bool) {
        let bytes = len as u64;
        let segments = segments(len, mss);
        self.segs_out = self.segs_out.wrapping_add(segments - 1);
        self.data_segs_out = self.data_segs_out.wrapping_add(if len > 0 { segments } else { 0 });
        self.bytes_sent += bytes;
        if again {
            self.total_retrans = self.total_retrans.wrapping_add(segments);
            self.bytes_retrans += bytes;
        }
    }

    /// `len` bytes came, joined of segments of `joined` bytes (0: of one).
    pub(super) fn received(&mut self, now: Instant, len: usize, joined: u16) {
        let segments = if joined == 0 { 1 } else { segments(len, joined.into()) };
        self.segs_in = self.segs_in.wrapping_add(segments);
        if len > 0 {
            self.data_segs_in = self.data_segs_in.wrapping_add(segments);
            self.data_received_at = Some(now);
        }
    }

    /// As Linux, the time without data counts from here on.
    pub(super) fn established(&mut self, now: Instant) {
        self.data_received_at = Some(now);
    }

    fn enter(&mut self, now: Instant, limit: Limit) {
        if self.limit != limit {
            self.spent = self.spent(now);
            (self.limit, self.limit_since) = (limit, Some(now));
        }
    }

    fn spent(&self, now: Instant) -> [u64; 3] {
        let here = self.limit_since.map_or(0, |since| micros(now - since));
        let add = |limit, spent| if self.limit == limit { spent + here } else { spent };
        let [network, window, buffer] = self.spent;
        let network = add(Limit::Network, network);
        [network, add(Limit::Window, window), add(Limit::Buffer, buffer)]
    }
}

/// Of how many segments of `size` bytes `len` bytes consist; none are one.
fn segments(len: usize, size: usize) -> u32 {
    len.div_ceil(size.max(1)).max(1) as u32
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

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
        (self.window.cwnd as usize).saturating_mul(self.send_mss())
    }

    /// All that TCP_INFO tells.
    pub fn info(&self, now: Instant) -> TcpInfo {
        let (d, meter) = (&self.durable, &self.meter);
        let option = |flag: u16, bit| if d.has(flag) { bit } else { 0 };
        let millis = |since: Instant| saturated((now - since).as_millis());
        let [network, window, buffer] = meter.spent(now);
        let mss = saturated(self.send_mss());
        let options = option(durable::TIMESTAMPS, 1)
            | option(durable::SACK, 2)
            | option(durable::SCALED, 4)
            | option(durable::ECN, 8)
            | if self.ecn.seen() { 16 } else { 0 }
            | if self.syn_data_taken() { 32 } else { 0 };
        let sent = &self.loss.sent;
        let rtt_micros = |rtt: Option<Duration>| rtt.map_or(0, |rtt| saturated(rtt.as_micros()));
        TcpInfo {
            state: if self.is_half_open() { 3 } else { number(self.state()) },
            fastopen_client_fail: self.fast_open_fail(),
            ca_state: self.loss.state() as u8,
            retransmits: self.retries,
            backoff: u8::try_from(self.rtt.backoff()).unwrap_or(u8::MAX),
            probes: u8::try_from(self.probes).unwrap_or(u8::MAX).max(self.keep_alive_probes),
            options,
            snd_wscale: d.snd_scale,
            rcv_wscale: d.rcv_scale,
            rto: saturated(self.rtt.timeout().as_micros()),
            ato: saturated(self.config.delayed_ack.as_micros()),
            snd_mss: mss,
            rcv_mss: saturated(self.peer_segment()),
            rcv_ssthresh: self.tuner.kept.threshold,
            rcv_rtt: rtt_micros(self.tuner.kept.rtt()),
            rcv_space: self.tuner.kept.space,
            unacked: sent.packets_out(),
            sacked: sent.sacked_out,
            lost: sent.lost_out(),
            retrans: sent.retrans_out(),
            reordering: self.loss.reordering(),
            reord_seen: self.loss.reord_seen(),
            dsack_dups: self.loss.dsack_dups() as u32,
            delivered: self.loss.delivered() as u32,
            last_data_sent: millis(self.sent_at),
            last_data_recv: meter.data_received_at.map_or(0, millis),
            last_ack_recv: millis(self.heard_at),
            pmtu: u32::from(self.config.mss) + 40,
            rtt: rtt_micros(self.rtt.smoothed()),
            rttvar: saturated(self.rtt.variation().as_micros()),
            min_rtt: rtt_micros(self.rtt.min()),
            snd_ssthresh: self.window.ssthresh,
            snd_cwnd: self.window.cwnd,
            advmss: u32::from(d.rcv_mss),
            total_retrans: meter.total_retrans,
            bytes_acked: d.acked,
            bytes_received: d.received,
            segs_out: meter.segs_out,
            segs_in: meter.segs_in,
            notsent_bytes: saturated(self.unsent_len()),
            data_segs_in: meter.data_segs_in,
            data_segs_out: meter.data_segs_out,
            busy_time: network + window + buffer,
            rwnd_limited: window,
            sndbuf_limited: buffer,
            bytes_sent: meter.bytes_sent,
            bytes_retrans: meter.bytes_retrans,
            rcv_ooopack: meter.out_of_order,
            snd_wnd: d.snd_wnd,
            rcv_wnd: d.window_left(),
            ..TcpInfo::default()
        }
    }

    /// Queued payload bytes that have never been sent.
    pub fn unsent_len(&self) -> usize {
        self.send.unacked().saturating_sub(self.in_flight_payload())
    }

    fn in_flight_payload(&self) -> usize {
        let d = &self.durable;
        let sent = d.snd_max.since(d.snd_una) as usize;
        sent.min(self.send.unacked())
    }

    /// The application has more to send than its buffer takes, until the next [`send`](Self::send).
    pub fn set_writer_waits(&mut self, now: Instant) {
        self.writer_waits = true;
        self.note_limit(now);
    }

    /// Notes what sending waits for now.
    pub(super) fn note_limit(&mut self, now: Instant) {
        let unsent = self.unsent_len();
        let usable = self.durable.send_edge().since(self.durable.snd_max) as usize;
        let limit = if self.send.unacked() == 0 {
            Limit::Idle
        } else if unsent > 0 && usable < unsent.min(self.send_mss()) {
            Limit::Window
        } else if unsent == 0 && self.writer_waits {
            Limit::Buffer
        } else {
            Limit::Network
        };
        self.meter.enter(now, limit);
    }
}

//! The path's MTU on a connection: reports of routers (RFC 1191, RFC 8201), and the connection's
//! own search ([`MtuSearch`]).

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::Connection;
use crate::tcp::durable;
use crate::tcp::loss::CaState;
use crate::tcp::mtu_search::{LEAST_WINDOW, MtuSearch, base_mss};
use crate::tcp::send_queue::QueueRange;
use crate::tcp::seq::Seq;
use crate::tcp::state::State;
use crate::tcp::timestamps::TIMESTAMPS_LEN;
use crate::{Instant, RxBytes, TxBytes};

/// Length of a TCP header without options, bytes.
const TCP_HEADER: u16 = 20;

/// The step of the search before something new is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextMtuProbe {
    /// Nothing.
    No,
    /// To wait for room in the congestion window.
    Wait,
    /// To send this.
    Now(QueueRange),
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// The path takes packets of at most `mtu` bytes. Longer packets in flight are lost, which is
    /// no sign of congestion (RFC 1191 6.4). Their bytes are sent again in smaller segments.
    pub fn handle_too_big(&mut self, now: Instant, mtu: u16) {
        let mss = mtu.saturating_sub(self.packet_overhead()).max(1);
        if let Some(search) = self.mtu_search.as_deref_mut() {
            search.bound(mtu);
        }
        if mss < self.durable.snd_mss {
            self.durable.snd_mss = mss;
            self.forget_mtu_probe();
            if self.state() == State::SynSent {
                return self.shorten_syn(mss);
            }
            let (loss, mut context) = self.loss_context(now);
            loss.path_takes(&mut context, u32::from(mss));
            self.pending.request_poll();
        } else if self.mtu_search.as_ref().is_some_and(|search| search.exceeds(mtu)) {
            self.mtu_probe_lost(now);
        }
    }

    /// A SYN with payload did not arrive. A SYN without payload leaves at once. As Linux, it also
    /// offers an MSS of at most `mss`.
    fn shorten_syn(&mut self, mss: u16) {
        Arc::make_mut(&mut self.config).mss = mss;
        self.durable.rcv_mss = mss;
        self.pending.request_poll();
        if self.syn_has_data() {
            self.pending.request_syn();
        }
    }

    /// All headers of a packet, SACK blocks apart, bytes.
    fn packet_overhead(&self) -> u16 {
        let ip = if self.endpoints().remote.is_ipv4() { 20 } else { 40 };
        let stamps = if self.durable.has(durable::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
        ip + TCP_HEADER + stamps
    }

    /// The handshake is over: with `mtu_probing` 2 the search begins.
    pub(super) fn start_mtu_probing(&mut self, now: Instant) {
        if self.config.mtu_probing < 2 {
            return;
        }
        self.begin_mtu_search(now);
        if !self.durable.has(durable::PASSIVE) {
            self.durable.snd_mss = self.durable.snd_mss.min(base_mss(&self.config));
        }
    }

    fn begin_mtu_search(&mut self, now: Instant) {
        let overhead = self.packet_overhead();
        let search = MtuSearch::begin(now, &self.durable, &self.config, overhead);
        self.mtu_search = Some(Box::new(search));
    }

    /// Whether it is time for a probe: RFC 4821 7.3, 7.4.
    #[inline]
    pub(super) fn next_mtu_probe(&mut self, now: Instant) -> NextMtuProbe {
        if self.mtu_search.is_none() {
            return NextMtuProbe::No;
        }
        self.mtu_probe_range(now).unwrap_or(NextMtuProbe::No)
    }

    fn mtu_probe_range(&mut self, now: Instant) -> Option<NextMtuProbe> {
        let mss = self.durable.snd_mss;
        let overhead = self.packet_overhead();
        let reports = self.recv.sack_report_len(self.most_blocks(), self.config.dsack) > 0;
        let search = self.mtu_search.as_deref_mut()?;
        search.raise_low(mss.saturating_add(overhead));
        let calm = !search.is_probing()
            && self.loss.state() == CaState::Open
            && self.congestion.cwnd() >= LEAST_WINDOW
            && !reports;
        if !calm {
            return None;
        }
        let payload = usize::from(search.next_length(now, &self.config)? - overhead);
        // There must be enough data behind the probe to tell its loss from a late ACK, all of it
        // within the peer's window.
        let spare = (self.loss.reordering() as usize + 1).saturating_mul(usize::from(mss));
        let needed = payload.saturating_add(spare);
        let usable = self.durable.send_edge().since(self.durable.snd_max) as usize;
        let room = self.congestion.room(self.loss.sent().in_flight());
        if self.send.unsent() < needed || usable < needed {
            return None;
        }
        let range = self.send.at_next(payload);
        if range.len() < payload {
            return None;
        }
        // A probe takes the room of two segments. If data is in flight, the next ACK makes that
        // room.
        let in_flight = !self.loss.sent().is_empty();
        Some(if room < 2 && in_flight { NextMtuProbe::Wait } else { NextMtuProbe::Now(range) })
    }

    /// A probe from `start` to `end` has left. It takes the room of two segments.
    pub(super) fn mtu_probe_sent(&mut self, start: Seq, end: Seq) {
        let overhead = self.packet_overhead();
        let Some(search) = self.mtu_search.as_deref_mut() else { return };
        search.sent(end, (end.since(start) as u16).saturating_add(overhead));
        self.loss.watch_mtu_probe(Some(start));
        self.congestion.mtu_probe_sent();
        self.stats.mtu_probes += 1;
    }

    /// SND.UNA has moved. Beyond the probe, it shows that the path takes packets of the probe's
    /// length.
    #[inline]
    pub(super) fn check_mtu_probe(&mut self) {
        let una = self.durable.snd_una;
        if let Some(mtu) = self.mtu_search.as_deref_mut().and_then(|search| search.acked(una)) {
            self.mtu_probe_arrived(mtu);
        }
    }

    fn mtu_probe_arrived(&mut self, mtu: u16) {
        let overhead = self.packet_overhead();
        self.loss.watch_mtu_probe(None);
        self.congestion.packets_grow(self.durable.snd_mss.saturating_add(overhead), mtu);
        self.durable.snd_mss = mtu - overhead;
        self.stats.mtu_probe_successes += 1;
    }

    /// The loss of the probe, and of nothing before it, was found: no sign of congestion.
    pub(super) fn mtu_probe_lost(&mut self, now: Instant) {
        if !self.mtu_search.as_deref_mut().is_some_and(MtuSearch::lost) {
            return;
        }
        self.congestion.mtu_probe_lost();
        self.stats.mtu_probe_failures += 1;
        let mss = u32::from(self.durable.snd_mss);
        let (loss, mut context) = self.loss_context(now);
        loss.path_takes(&mut context, mss);
        self.pending.request_poll();
    }

    /// Data is retransmitted, so the probe's loss or arrival shows nothing any more.
    pub(super) fn forget_mtu_probe(&mut self) {
        self.loss.watch_mtu_probe(None);
        if let Some(search) = self.mtu_search.as_deref_mut() {
            search.forget_probe();
        }
    }

    /// The same data has timed out once more. Perhaps the path drops segments of this length.
    pub(super) fn suspect_black_hole(&mut self, now: Instant) {
        if self.config.mtu_probing == 0 || self.state() == State::Closed {
            return;
        }
        let overhead = self.packet_overhead();
        let mss = match &self.mtu_search {
            None => {
                self.begin_mtu_search(now);
                base_mss(&self.config)
            }
            Some(search) => search.shorter_mss(&self.config, overhead),
        };
        if let Some(search) = self.mtu_search.as_deref_mut() {
            search.restart_from(mss.saturating_add(overhead));
        }
        if mss < self.durable.snd_mss {
            self.durable.snd_mss = mss;
            self.stats.black_holes += 1;
            // All is held to be lost already; longer segments are split when they are
            // retransmitted.
        }
    }
}

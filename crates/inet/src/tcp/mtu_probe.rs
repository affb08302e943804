//! Finding out how long packets the path takes (RFC 4821, RFC 8899), without the network's help.
//!
//! A *probe* is a full segment longer than the others, made of what is queued anyway; if it arrives
//! the path takes packets of its length. The search halves the interval between the longest length
//! known to arrive (`low`) and the shortest known not to (`high`), until less than
//! `probe_threshold` bytes are left of it; after `probe_interval` it begins anew. A lost probe says
//! nothing about congestion: what was in it leaves again in usual segments and the congestion
//! window stays. One at a time is under way, and only while nothing is lost (RFC 4821 7.4).
//!
//! The other half is for paths that swallow long packets without a word (RFC 2923 2.1): after
//! several timeouts for the same data the segments become shorter, first those of `base_mss`, then
//! half as long each time, not below `mtu_probe_floor`; the search takes it up from there.
//!
//! As in Linux: `mtu_probing` 0 is neither, 1 begins with a black hole, 2 at once. A client with 2
//! begins with `base_mss`; a server with what the handshake has agreed on, which probes only
//! exceed.

use alloc::boxed::Box;

use super::connection::Connection;
use super::durable;
use super::input::TIMESTAMPS_LEN;
use super::loss::CaState;
use super::send::Stretch;
use super::{Seq, State};
use crate::{Instant, RxBytes, TxBytes};

/// Length of a TCP header without options, bytes.
const TCP_HEADER: u16 = 20;

/// Least congestion window in which a probe is sent, segments.
const LEAST_WINDOW: u32 = 11;

/// Shortest segment a black hole makes us send, bytes of payload (Linux's tcp_min_snd_mss, less its
/// 40 bytes of options).
const LEAST_MSS: u16 = 8;

/// A probe under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Probe {
    start: Seq,
    end: Seq,
    /// Length of its packet.
    mtu: u16,
}

/// What is to be done about a probe before something new is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextProbe {
    /// Nothing.
    No,
    /// To wait for room in the congestion window.
    Wait,
    /// To send this.
    Now(Stretch),
}

/// The search; lengths are those of packets, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MtuProbing {
    /// Packets of this length arrive.
    low: u16,
    /// Longer ones do not.
    high: u16,
    /// The most that link and peer permit.
    ceiling: u16,
    /// When the search began.
    since: Instant,
    probe: Option<Probe>,
}

impl<T: TxBytes, R: RxBytes> Connection<T, R> {
    /// All headers of a packet, SACK blocks apart, bytes.
    pub(super) fn packet_overhead(&self) -> u16 {
        let ip = if self.endpoints().remote.is_ipv4() { 20 } else { 40 };
        let stamps = if self.durable.has(durable::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
        ip + TCP_HEADER + stamps
    }

    /// The handshake is over: with `mtu_probing` 2 the search begins.
    pub(super) fn start_mtu_probing(&mut self, now: Instant) {
        if self.config.mtu_probing < 2 {
            return;
        }
        self.begin_search(now);
        if !self.durable.has(durable::PASSIVE) {
            self.durable.snd_mss = self.durable.snd_mss.min(self.config.base_mss.max(LEAST_MSS));
        }
    }

    fn begin_search(&mut self, now: Instant) {
        let overhead = self.packet_overhead();
        let ceiling = self.durable.snd_mss.saturating_add(overhead);
        let base = self.config.base_mss.max(LEAST_MSS).saturating_add(overhead);
        let low = base.min(ceiling);
        self.mtu_probing =
            Some(Box::new(MtuProbing { low, high: ceiling, ceiling, since: now, probe: None }));
    }

    /// Whether it is time for a probe: RFC 4821 7.3, 7.4.
    pub(super) fn mtu_probe(&mut self, now: Instant) -> NextProbe {
        self.probe_stretch(now).unwrap_or(NextProbe::No)
    }

    fn probe_stretch(&mut self, now: Instant) -> Option<NextProbe> {
        let mss = self.durable.snd_mss;
        let overhead = self.packet_overhead();
        self.mtu_probing.as_ref()?;
        let reports = self.recv.report_len(self.most_blocks(), self.config.dsack) > 0;
        let search = self.mtu_probing.as_deref_mut()?;
        // What leaves anyway is no probe.
        search.low = search.low.max(mss.saturating_add(overhead)).min(search.high);
        let calm = search.probe.is_none()
            && self.loss.state() == CaState::Open
            && self.window.cwnd >= LEAST_WINDOW
            && !reports;
        if !calm {
            return None;
        }
        if search.high - search.low < self.config.probe_threshold.max(1) {
            // RFC 4821 7.7: the path may have changed.
            if now - search.since >= self.config.probe_interval {
                (search.high, search.since) = (search.ceiling, now);
            }
            return None;
        }
        let payload = usize::from((search.low + (search.high - search.low) / 2) - overhead);
        // Enough behind it to tell its loss from a late ACK, all of it within the peer's window.
        let spare = (self.loss.reordering() as usize + 1).saturating_mul(usize::from(mss));
        let needed = payload.saturating_add(spare);
        let usable = self.durable.send_edge().since(self.durable.snd_max) as usize;
        let room = self.window.cwnd.saturating_sub(self.loss.sent.in_flight());
        if self.send.unsent() < needed || usable < needed {
            return None;
        }
        let stretch = self.send.at_next(payload);
        if stretch.len < payload {
            return None;
        }
        // It takes the room of two segments; the next ACK makes it.
        let in_flight = !self.loss.sent.is_empty();
        Some(if room < 2 && in_flight { NextProbe::Wait } else { NextProbe::Now(stretch) })
    }

    /// A probe from `start` to `end` has left. It takes the room of two segments.
    pub(super) fn mtu_probe_sent(&mut self, start: Seq, end: Seq) {
        let overhead = self.packet_overhead();
        let Some(search) = self.mtu_probing.as_deref_mut() else { return };
        let mtu = (end.since(start) as u16).saturating_add(overhead);
        search.probe = Some(Probe { start, end, mtu });
        self.loss.mtu_probe = Some(start);
        self.window.cwnd = self.window.cwnd.saturating_sub(1).max(1);
        self.stats.mtu_probes += 1;
    }

    /// SND.UNA has moved: if that is beyond the probe, the path takes packets of its length.
    pub(super) fn judge_mtu_probe(&mut self) {
        let overhead = self.packet_overhead();
        let una = self.durable.snd_una;
        let Some(search) = self.mtu_probing.as_deref_mut() else { return };
        let Some(probe) = search.probe.filter(|probe| una.at_or_after(probe.end)) else { return };
        search.probe = None;
        search.low = probe.mtu;
        self.loss.mtu_probe = None;
        let old = u64::from(self.durable.snd_mss.saturating_add(overhead));
        // The window's bytes stay; its segments are fewer.
        let cwnd = u64::from(self.window.cwnd) * old / u64::from(probe.mtu.max(1));
        self.window.cwnd = u32::try_from(cwnd).unwrap_or(u32::MAX).max(1);
        self.window.cnt = 0;
        self.durable.snd_mss = probe.mtu - overhead;
        self.stats.mtu_probe_successes += 1;
    }

    /// The loss of the probe, and of nothing before it, was found: no sign of congestion.
    pub(super) fn mtu_probe_lost(&mut self, now: Instant) {
        let Some(search) = self.mtu_probing.as_deref_mut() else { return };
        let Some(probe) = search.probe.take() else { return };
        search.high = probe.mtu.saturating_sub(1).max(search.low);
        // The room that the probe took.
        self.window.cwnd += 1;
        self.stats.mtu_probe_failures += 1;
        let mss = u32::from(self.durable.snd_mss);
        let (loss, mut env) = self.loss_env(now);
        loss.path_takes(&mut env, mss);
        self.wish(|_| {});
    }

    /// Whether a probe is under way that is longer than `mtu`.
    pub(super) fn mtu_probe_exceeds(&self, mtu: u16) -> bool {
        let probe = self.mtu_probing.as_ref().and_then(|search| search.probe);
        probe.is_some_and(|probe| probe.mtu > mtu)
    }

    /// Something is sent again: what becomes of the probe tells nothing any more.
    pub(super) fn forget_mtu_probe(&mut self) {
        self.loss.mtu_probe = None;
        if let Some(search) = self.mtu_probing.as_deref_mut() {
            search.probe = None;
        }
    }

    /// The path takes packets of `mtu` bytes, a router says: longer ones need no probe.
    pub(super) fn bound_mtu_search(&mut self, mtu: u16) {
        if let Some(search) = self.mtu_probing.as_deref_mut() {
            search.ceiling = search.ceiling.min(mtu);
            search.high = search.high.min(mtu);
            search.low = search.low.min(mtu);
        }
    }

    /// The same data has timed out once more: perhaps the path swallows segments of this length.
    pub(super) fn suspect_black_hole(&mut self, now: Instant) {
        if self.config.mtu_probing == 0 || self.state() == State::Closed {
            return;
        }
        let overhead = self.packet_overhead();
        let base = self.config.base_mss.max(LEAST_MSS);
        let mss = match &self.mtu_probing {
            None => {
                self.begin_search(now);
                base
            }
            Some(search) => {
                let half = search.low.saturating_sub(overhead) / 2;
                half.min(base).max(self.config.mtu_probe_floor).max(LEAST_MSS)
            }
        };
        if let Some(search) = self.mtu_probing.as_deref_mut() {
            search.low = mss.saturating_add(overhead).min(search.high);
            search.probe = None;
        }
        if mss < self.durable.snd_mss {
            self.durable.snd_mss = mss;
            self.stats.black_holes += 1;
            // All is held to be lost already; what is longer is cut when it is sent again.
        }
    }
}

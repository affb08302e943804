//! The search for the longest packet that the path takes (RFC 4821, RFC 8899), without ICMP.
//!
//! A *probe* is a full segment longer than the others, made of queued data. If it arrives the path
//! takes packets of its length. The search halves the interval between the longest length known to
//! arrive (`low`) and the shortest known not to (`high`), until less than `probe_threshold` bytes
//! are left of it. After `probe_interval` it begins anew. A lost probe says nothing about
//! congestion: its bytes leave again in usual segments and the congestion window stays. One probe
//! at a time is under way, and only while nothing is lost (RFC 4821 7.4).
//!
//! The other half is for paths that drop long packets without an ICMP error (RFC 2923 2.1). After
//! several timeouts for the same data the segments become shorter: first `base_mss`, then half as
//! long each time, not below `mtu_probe_floor`. The search goes on from there.
//!
//! As in Linux, `mtu_probing` 0 is neither, 1 begins with a black hole, 2 at once. A client with 2
//! begins with `base_mss`. A server begins with the handshake's segment size, and only longer
//! packets are probes.

use super::config::TcpConfig;
use super::durable::Durable;
use super::seq::Seq;
use crate::Instant;

/// Least congestion window in which a probe is sent, segments.
pub(super) const LEAST_WINDOW: u32 = 11;

/// Shortest segment that a black hole leads to, bytes of payload (Linux's tcp_min_snd_mss, less its
/// 40 bytes of options).
const LEAST_MSS: u16 = 8;

/// A probe in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MtuProbe {
    end: Seq,
    /// Length of its packet.
    mtu: u16,
}

/// The search; lengths are those of packets, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MtuSearch {
    /// Packets of this length arrive.
    low: u16,
    /// Longer ones do not.
    high: u16,
    /// The most that link and peer permit.
    ceiling: u16,
    /// When the search began.
    since: Instant,
    probe: Option<MtuProbe>,
}

/// Payload of the segments that a search begins with, bytes.
pub(super) fn base_mss(config: &TcpConfig) -> u16 {
    config.base_mss.max(LEAST_MSS)
}

impl MtuSearch {
    /// Begins a search. All headers of a packet together are `overhead` bytes.
    pub(super) fn begin(
        now: Instant,
        durable: &Durable,
        config: &TcpConfig,
        overhead: u16,
    ) -> Self {
        let ceiling = durable.snd_mss.saturating_add(overhead);
        let low = base_mss(config).saturating_add(overhead).min(ceiling);
        Self { low, high: ceiling, ceiling, since: now, probe: None }
    }

    /// Whether a probe is in flight.
    #[inline]
    pub(super) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Usual segments are no probes: packets of `mtu` bytes arrive.
    pub(super) fn raise_low(&mut self, mtu: u16) {
        self.low = self.low.max(mtu).min(self.high);
    }

    /// Length of the packet that should be probed next; `None` if the search is over for now.
    pub(super) fn next_length(&mut self, now: Instant, config: &TcpConfig) -> Option<u16> {
        if self.high - self.low < config.probe_threshold.max(1) {
            // RFC 4821 7.7: the path may have changed.
            if now - self.since >= config.probe_interval {
                (self.high, self.since) = (self.ceiling, now);
            }
            return None;
        }
        Some(self.low + (self.high - self.low) / 2)
    }

    /// A probe has left, which ends at `end` and is a packet of `mtu` bytes.
    pub(super) fn sent(&mut self, end: Seq, mtu: u16) {
        self.probe = Some(MtuProbe { end, mtu });
    }

    /// SND.UNA is `una`. Beyond the probe, it shows that the path takes packets of the probe's
    /// length, which is the result.
    pub(super) fn acked(&mut self, una: Seq) -> Option<u16> {
        let probe = self.probe.filter(|probe| una.at_or_after(probe.end))?;
        self.probe = None;
        self.low = probe.mtu;
        Some(probe.mtu)
    }

    /// The probe is lost. True if one was in flight.
    pub(super) fn lost(&mut self) -> bool {
        let Some(probe) = self.probe.take() else { return false };
        self.high = probe.mtu.saturating_sub(1).max(self.low);
        true
    }

    /// Whether a probe longer than `mtu` is in flight.
    pub(super) fn exceeds(&self, mtu: u16) -> bool {
        self.probe.is_some_and(|probe| probe.mtu > mtu)
    }

    /// Forgets the probe: its loss or arrival shows nothing any more.
    pub(super) fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// A router says that the path takes packets of at most `mtu` bytes. Longer ones need no probe.
    pub(super) fn bound(&mut self, mtu: u16) {
        self.ceiling = self.ceiling.min(mtu);
        self.high = self.high.min(mtu);
        self.low = self.low.min(mtu);
    }

    /// Payload of the segments that follow if the path drops those of now as well, bytes.
    pub(super) fn shorter_mss(&self, config: &TcpConfig, overhead: u16) -> u16 {
        let half = self.low.saturating_sub(overhead) / 2;
        half.min(base_mss(config)).max(config.mtu_probe_floor).max(LEAST_MSS)
    }

    /// The search goes on from packets of `mtu` bytes.
    pub(super) fn restart_from(&mut self, mtu: u16) {
        self.low = mtu.min(self.high);
        self.probe = None;
    }
}

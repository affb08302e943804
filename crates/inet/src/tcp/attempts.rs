//! Attempts that the peer has not answered: retransmissions (RFC 9293 3.8.3), probes of its window
//! (3.8.6.1) and keep-alive probes (3.8.4).

/// Counts of attempts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Attempts {
    /// Expired retransmission timers since the peer last made progress.
    timeouts: u8,
    /// Window probes since the window closed.
    window_probes: u32,
    /// Unanswered ones of these.
    unanswered: u8,
    /// Keep-alive probes since the last segment of the peer.
    keep_alive_probes: u8,
}

impl Attempts {
    /// Expired retransmission timers since the peer last made progress.
    #[inline]
    pub(super) fn timeouts(&self) -> u8 {
        self.timeouts
    }

    /// The retransmission timer has expired.
    pub(super) fn timed_out(&mut self) {
        self.timeouts = self.timeouts.saturating_add(1);
    }

    /// The peer has made progress.
    #[inline]
    pub(super) fn clear_timeouts(&mut self) {
        self.timeouts = 0;
    }

    /// Window probes since the window closed.
    #[inline]
    pub(super) fn window_probes(&self) -> u32 {
        self.window_probes
    }

    /// A window probe is sent.
    pub(super) fn window_probe_sent(&mut self) {
        self.window_probes += 1;
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// The window has opened, or something was acknowledged.
    #[inline]
    pub(super) fn window_opened(&mut self) {
        self.window_probes = 0;
    }

    /// Window probes that were not answered.
    pub(super) fn unanswered(&self) -> u8 {
        self.unanswered
    }

    /// An ACK has come.
    #[inline]
    pub(super) fn answered(&mut self) {
        self.unanswered = 0;
    }

    /// Keep-alive probes since the last segment of the peer.
    #[inline]
    pub(super) fn keep_alive_probes(&self) -> u8 {
        self.keep_alive_probes
    }

    /// A keep-alive probe is sent.
    pub(super) fn keep_alive_probe_sent(&mut self) {
        self.keep_alive_probes = self.keep_alive_probes.saturating_add(1);
    }

    /// The peer has sent a segment.
    #[inline]
    pub(super) fn segment_received(&mut self) {
        self.keep_alive_probes = 0;
    }
}

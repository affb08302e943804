//! Counts of one connection that only TCP_INFO shows.

use core::time::Duration;

use super::info::TcpInfo;
use crate::Instant;

/// The cause for which sending waits while something is not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SendLimit {
    /// Nothing is queued.
    #[default]
    Idle,
    /// The network.
    Network,
    /// The peer's window.
    Window,
    /// The application, which has more to send than its buffer holds.
    Buffer,
}

/// Counts of one connection since its start, for [`TcpInfo`] alone.
#[derive(Debug, Clone, Default)]
pub(super) struct InfoCounters {
    segs_in: u32,
    segs_out: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    total_retrans: u32,
    out_of_order: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    data_received_at: Option<Instant>,
    /// The application has more to send than its buffer holds.
    writer_waits: bool,
    limit: SendLimit,
    limit_since: Option<Instant>,
    /// Microseconds in `SendLimit::Network`, `Window` and `Buffer`.
    spent: [u64; 3],
}

impl InfoCounters {
    /// A segment leaves.
    #[inline]
    pub(super) fn segment_out(&mut self) {
        self.segs_out = self.segs_out.wrapping_add(1);
    }

    /// There was none after all.
    #[inline]
    pub(super) fn no_segment_out(&mut self) {
        self.segs_out = self.segs_out.wrapping_sub(1);
    }

    /// Whether at most one segment has left.
    #[inline]
    pub(super) fn sent_at_most_one(&self) -> bool {
        self.segs_out <= 1
    }

    /// A SYN is retransmitted.
    pub(super) fn syn_retransmitted(&mut self) {
        self.total_retrans = self.total_retrans.wrapping_add(1);
    }

    /// Whether anything was retransmitted.
    pub(super) fn has_retransmitted(&self) -> bool {
        self.total_retrans > 0
    }

    /// Whether a segment with payload has come.
    pub(super) fn has_received_data(&self) -> bool {
        self.data_segs_in > 0
    }

    /// A segment came out of order and was queued.
    pub(super) fn out_of_order(&mut self) {
        self.out_of_order += 1;
    }

    /// Sets whether the application has more to send than its buffer holds.
    #[inline]
    pub(super) fn set_writer_waits(&mut self, waits: bool) {
        self.writer_waits = waits;
    }

    /// Whether it has.
    #[inline]
    pub(super) fn writer_waits(&self) -> bool {
        self.writer_waits
    }

    /// `len` bytes leave in segments of `mss` bytes; one of them is counted already.
    pub(super) fn sent(&mut self, len: usize, mss: usize, retransmitted: bool) {
        let bytes = len as u64;
        let segments = segments(len, mss);
        self.segs_out = self.segs_out.wrapping_add(segments - 1);
        self.data_segs_out = self.data_segs_out.wrapping_add(if len > 0 { segments } else { 0 });
        self.bytes_sent += bytes;
        if retransmitted {
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

    /// Sending waits for `limit` from `now` on.
    #[inline]
    pub(super) fn wait_for(&mut self, now: Instant, limit: SendLimit) {
        if self.limit != limit {
            self.spent = self.spent(now);
            (self.limit, self.limit_since) = (limit, Some(now));
        }
    }

    /// Writes the counts into `info`.
    pub(super) fn report(&self, now: Instant, info: &mut TcpInfo) {
        let [network, window, buffer] = self.spent(now);
        let millis = |since: Instant| u32::try_from((now - since).as_millis()).unwrap_or(u32::MAX);
        info.segs_in = self.segs_in;
        info.segs_out = self.segs_out;
        info.data_segs_in = self.data_segs_in;
        info.data_segs_out = self.data_segs_out;
        info.total_retrans = self.total_retrans;
        info.rcv_ooopack = self.out_of_order;
        info.bytes_sent = self.bytes_sent;
        info.bytes_retrans = self.bytes_retrans;
        info.last_data_recv = self.data_received_at.map_or(0, millis);
        info.busy_time = network + window + buffer;
        info.rwnd_limited = window;
        info.sndbuf_limited = buffer;
    }

    fn spent(&self, now: Instant) -> [u64; 3] {
        let here = self.limit_since.map_or(0, |since| micros(now - since));
        let add = |limit, spent| if self.limit == limit { spent + here } else { spent };
        let [network, window, buffer] = self.spent;
        let network = add(SendLimit::Network, network);
        [network, add(SendLimit::Window, window), add(SendLimit::Buffer, buffer)]
    }
}

/// Of how many segments of `size` bytes `len` bytes consist; none are one.
fn segments(len: usize, size: usize) -> u32 {
    len.div_ceil(size.max(1)).max(1) as u32
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

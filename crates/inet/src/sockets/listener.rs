//! What makes a socket a listener.

use crate::table::Handle;
use crate::tcp::TcpConfig;
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The state of a listener.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) backlog: u16,
    /// Handshakes under way; of them, those whose timer has not yet expired.
    pub(crate) requests: u32,
    pub(crate) young: u32,
    /// SYN-ACK timeouts for which a finished handshake waits for data.
    pub(crate) defer: u8,
    /// When a cookie was last sent.
    pub(crate) cookies_at: Option<Instant>,
    /// Connections to be accepted.
    pub(crate) accept_queue: VecDeque<Handle>,
    /// Fast connections whose peer may not have acknowledged anything yet.
    pub(crate) fast: Vec<Handle>,
}

impl Listener {
    pub(super) fn is_full(&self) -> bool {
        self.accept_queue.len() > usize::from(self.backlog)
    }

    /// Whether there are as many requests as there may be.
    pub(super) fn has_all_requests(&self, tcp: &TcpConfig) -> bool {
        self.requests >= u32::from(self.backlog).min(tcp.max_syn_backlog)
    }

    /// Whether only the last quarter of all possible requests is left. As Linux, without cookies to
    /// fall back on, that quarter remains free.
    pub(super) fn has_few_left(&self, tcp: &TcpConfig) -> bool {
        tcp.max_syn_backlog.saturating_sub(self.requests) < tcp.max_syn_backlog / 4
    }

    /// Number of SYN-ACK timeouts that a request may live, at most `most`. While more than half the
    /// backlog is used, it shrinks with the share of old requests.
    pub(super) fn most_timeouts(&self, most: u8) -> u8 {
        if self.requests.saturating_mul(2) <= u32::from(self.backlog).max(8) {
            return most;
        }
        let mut young = self.young.saturating_mul(2);
        let mut most_timeouts = most;
        while most_timeouts > 2 && self.requests >= young {
            most_timeouts -= 1;
            young = young.saturating_mul(2);
        }
        most_timeouts
    }
}

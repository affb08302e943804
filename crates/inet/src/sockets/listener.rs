//! The state of a listener.

use super::cookies;
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
    requests: u32,
    young: u32,
    /// SYN-ACK timeouts for which a finished handshake waits for data.
    pub(crate) defer: u8,
    /// When a cookie was last sent.
    cookies_at: Option<Instant>,
    /// Connections to be accepted.
    accept_queue: VecDeque<Handle>,
    /// Fast connections whose peer may not have acknowledged anything yet.
    pub(crate) fast: Vec<Handle>,
}

impl Listener {
    /// A listener without connections. `defer` is the number of SYN-ACK timeouts for which a
    /// finished handshake waits for data.
    pub(super) fn new(backlog: u16, defer: u8) -> Self {
        Self {
            backlog,
            requests: 0,
            young: 0,
            defer,
            cookies_at: None,
            accept_queue: VecDeque::new(),
            fast: Vec::new(),
        }
    }

    /// A handshake has begun.
    #[inline]
    pub(super) fn add_request(&mut self) {
        self.requests += 1;
        self.young += 1;
    }

    /// The timer of a handshake has expired for the first time.
    #[inline]
    pub(super) fn request_timed_out(&mut self) {
        self.young = self.young.saturating_sub(1);
    }

    /// A handshake has ended, after `timeouts` expiries of its timer.
    #[inline]
    pub(super) fn remove_request(&mut self, timeouts: u8) {
        self.requests = self.requests.saturating_sub(1);
        if timeouts == 0 {
            self.young = self.young.saturating_sub(1);
        }
    }

    pub(super) fn has_requests(&self) -> bool {
        self.requests > 0
    }

    /// A cookie was sent.
    #[inline]
    pub(super) fn cookie_sent(&mut self, now: Instant) {
        self.cookies_at = Some(now);
    }

    /// Whether an ACK may bring back a cookie.
    #[inline]
    pub(super) fn may_get_cookie(&self, now: Instant) -> bool {
        self.cookies_at.is_some_and(|at| now - at < cookies::VALIDITY)
    }

    /// Queues a connection to be accepted.
    #[inline]
    pub(super) fn queue(&mut self, child: Handle) {
        self.accept_queue.push_back(child);
    }

    /// The next connection to be accepted.
    #[inline]
    pub(super) fn next_child(&mut self) -> Option<Handle> {
        self.accept_queue.pop_front()
    }

    /// Number of connections to be accepted.
    #[inline]
    pub(super) fn queued(&self) -> usize {
        self.accept_queue.len()
    }

    /// Removes all connections to be accepted.
    pub(super) fn take_queue(&mut self) -> VecDeque<Handle> {
        core::mem::take(&mut self.accept_queue)
    }

    /// Whether no further connection may be queued.
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

//! Fast Open (RFC 7413): data in the SYN, as far as one connection is concerned.
//!
//! A client's data travels in the SYN beside the send queue's own account: the queue counts it as
//! not sent. If the SYN-ACK acknowledges the data, it is done. If not, the data counts as sent and
//! lost, which says nothing about congestion, and leaves again at once. A retransmitted SYN carries
//! neither data nor option.
//!
//! A server's connection gets the data before the handshake is over. The application may use it at
//! once, as if it were ESTABLISHED. Until its SYN is acknowledged the connection is *half open*: it
//! is shown as SYN-RECV, and retransmits its SYN-ACK. The stack decides which cookies are good.

use super::fastopen_option::FastOpenOption;
use super::segment::SegmentRepr;
use super::seq::Seq;

/// The outcome of a client's Fast Open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenOutcome {
    /// The option in the SYN.
    pub asked: Option<FastOpenOption>,
    /// The option in the SYN-ACK.
    pub answer: Option<FastOpenOption>,
    /// The peer's segment size, bytes.
    pub mss: Option<u16>,
    /// There was data in the SYN.
    pub had_data: bool,
    /// The SYN was retransmitted.
    pub retransmitted: bool,
}

/// The state of Fast Open on one connection.
#[derive(Debug, Default)]
pub(super) struct FastOpenState {
    /// For our SYN.
    option: Option<FastOpenOption>,
    /// Most payload in it, bytes, and its payload.
    limit: u16,
    payload: u16,
    /// Where the payload ends that the SYN-ACK has not acknowledged, until it is held to be lost.
    refused_to: Option<Seq>,
    /// The SYN waits for data.
    deferred: bool,
    /// The receiver has accepted the SYN's payload.
    taken: bool,
    /// A server's connection whose SYN may be unacknowledged.
    server: bool,
    /// Whether data arrives is of interest: there was reason for doubt.
    watched: bool,
    outcome: Option<FastOpenOutcome>,
    /// As `TcpInfo::fastopen_client_fail`.
    fail: u8,
}

impl FastOpenState {
    /// A client's: its SYN carries `option` and up to `limit` bytes of payload, and waits for them
    /// if `deferred`.
    pub(super) fn client(option: Option<FastOpenOption>, limit: u16, deferred: bool) -> Self {
        Self { option, limit, deferred, fail: u8::from(limit == 0), ..Self::default() }
    }

    /// A server's state. `taken`: the SYN came with payload. `renewal` is a cookie for the SYN-ACK.
    pub(super) fn server(taken: bool, renewal: Option<FastOpenOption>) -> Self {
        Self { server: true, taken, option: renewal, ..Self::default() }
    }

    /// The option of the first SYN or SYN-ACK.
    pub(super) fn option(&self) -> Option<FastOpenOption> {
        self.option
    }

    /// Most payload of the SYN, bytes.
    pub(super) fn limit(&self) -> usize {
        usize::from(self.limit)
    }

    /// The SYN leaves with `len` bytes of payload.
    pub(super) fn syn_sent(&mut self, len: usize) {
        self.payload = u16::try_from(len).unwrap_or(u16::MAX);
    }

    /// Payload that left with the SYN, bytes.
    #[inline]
    pub(super) fn payload(&self) -> u16 {
        self.payload
    }

    /// Whether the SYN waits for data.
    pub(super) fn is_deferred(&self) -> bool {
        self.deferred
    }

    /// The SYN waits no more. Whether it did.
    #[inline]
    pub(super) fn stop_deferring(&mut self) -> bool {
        core::mem::take(&mut self.deferred)
    }

    /// Whether the receiver has accepted the SYN's payload.
    pub(super) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Whether this is a server's connection.
    #[inline]
    pub(super) fn is_server(&self) -> bool {
        self.server
    }

    /// Whether this is a client's connection whose SYN had data or an option of Fast Open.
    pub(super) fn has_asked(&self) -> bool {
        !self.server && (self.option.is_some() || self.payload > 0)
    }

    /// As `TcpInfo::fastopen_client_fail`.
    pub(super) fn fail(&self) -> u8 {
        self.fail
    }

    /// Whether Fast Open works is in doubt: this connection is to show.
    pub(super) fn watch(&mut self) {
        self.watched = true;
    }

    /// Whether this connection is to show that.
    pub(super) fn is_watched(&self) -> bool {
        self.watched
    }

    /// `acked` bytes of the SYN's payload are acknowledged; its first byte is `start`. Whether that
    /// is all; `None` if there was none.
    pub(super) fn syn_acked(
        &mut self,
        start: Seq,
        acked: u32,
        retransmitted: bool,
    ) -> Option<bool> {
        if self.payload == 0 {
            return None;
        }
        self.taken = acked == u32::from(self.payload);
        if !self.taken {
            self.refused_to = Some(start + u32::from(self.payload));
            self.fail = if retransmitted { 3 } else { 2 };
        }
        Some(self.taken)
    }

    /// Where the payload ends that was not acknowledged; asked once.
    pub(super) fn take_refused(&mut self) -> Option<Seq> {
        self.refused_to.take()
    }

    /// Handles the Fast Open part of the SYN-ACK. `retransmitted`: the SYN was retransmitted.
    pub(super) fn learn(&mut self, syn_ack: &SegmentRepr, retransmitted: bool) {
        self.outcome = Some(FastOpenOutcome {
            asked: self.option,
            answer: syn_ack.fast_open,
            mss: syn_ack.mss,
            had_data: self.payload > 0,
            retransmitted,
        });
    }

    /// The outcome, once.
    pub(super) fn take_outcome(&mut self) -> Option<FastOpenOutcome> {
        self.outcome.take()
    }
}

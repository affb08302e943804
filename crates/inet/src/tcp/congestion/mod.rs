//! Congestion control: how much may be in flight (RFC 5681).
//!
//! What was lost and what is sent again is [`loss`](super::loss)'s business; an algorithm here is
//! told about acknowledgements, losses and timeouts and answers with a window in bytes. The
//! inflation of the window during fast recovery is `loss`'s too, because it models what has left
//! the network and is the same for every algorithm.

mod newreno;

use core::fmt::Debug;

pub(super) use newreno::NewReno;

use crate::Instant;

/// An acknowledgement of new data outside of recovery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ack {
    /// Bytes that it acknowledges.
    pub(super) bytes: usize,
    /// Bytes that were in flight before it.
    pub(super) flight: usize,
    /// Bytes lost by a timeout are being sent again.
    pub(super) after_timeout: bool,
}

/// A congestion control algorithm. Sizes are bytes. Each is told the time, of which some windows
/// are a function.
pub(super) trait Congestion: Debug + Send {
    /// The congestion window: at least one segment.
    fn window(&self) -> usize;

    /// New data was acknowledged.
    fn on_ack(&mut self, now: Instant, ack: Ack);

    /// Duplicate ACKs tell of a loss with `flight` bytes in flight: a recovery begins.
    fn on_loss(&mut self, now: Instant, flight: usize);

    /// The recovery ends with `flight` bytes in flight.
    fn on_recovered(&mut self, flight: usize);

    /// The retransmission timer expired with `flight` bytes in flight; `first` unless it had
    /// expired for the same data before.
    fn on_timeout(&mut self, now: Instant, flight: usize, first: bool);

    /// Nothing was sent for a retransmission timeout (RFC 5681 4.1).
    fn on_idle(&mut self);
}

//! Congestion control: the number of segments that may be in flight (RFC 5681).
//!
//! [`loss`](super::loss) finds losses and retransmits. The [`CongestionWindow`] belongs to the
//! connection's [`CongestionControl`]; an algorithm behind the trait `Congestion` changes it.
//!
//! Windows are counted in segments, as in Linux. Growth then counts acknowledged segments, and
//! appropriate byte counting (RFC 3465) needs no code: a segment counts once, however many ACKs its
//! bytes are split into. `tcpi_snd_cwnd` shows the same number as on Linux.
//!
//! One ACK calls `Congestion::on_rtt` if it gives a sample and then, outside of recovery,
//! `Congestion::on_ack`. A loss episode calls `Congestion::ssthresh` at its start and
//! `Congestion::on_event` with `CongestionEvent::Recovered` at its end. Between the two, every
//! algorithm's window does the same, under control of [`loss`](super::loss).

mod algorithm;
mod control;
mod cubic;
mod hystart;
mod newreno;
mod prr;
mod window;

use crate::config::congestion as kind;
pub(super) use algorithm::{AckSample, RttSample};
pub(super) use control::CongestionControl;

pub use kind::CongestionKind;
pub(super) use prr::Prr;
#[cfg(test)]
pub(super) use window::INFINITE;
pub(super) use window::{CongestionWindow, FlightReport};

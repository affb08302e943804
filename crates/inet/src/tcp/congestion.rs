//! Congestion control: how many segments may be in flight (RFC 5681).
//!
//! What was lost and what is sent again is [`loss`](super::loss)'s business. The
//! [`CongestionWindow`] belongs to the connection; an algorithm behind the trait [`Congestion`]
//! changes it. Windows are counted in segments, as in Linux: growth is then a matter of counting
//! acknowledged segments (appropriate byte counting, RFC 3465, falls out of it, since a segment
//! counts once, however many ACKs its bytes are split into), and whoever reads `tcpi_snd_cwnd` sees
//! the same number.
//!
//! One ACK calls, in this order: [`Congestion::on_rtt`] if it gives a sample, then, outside of
//! recovery, [`Congestion::on_ack`]. A loss episode calls [`Congestion::ssthresh`] at its
//! start and [`Congestion::on_event`] with [`Event::Recovered`] at its end; what the window does
//! between is the same for every algorithm and not here.

mod algorithm;
mod control;
mod cubic;
mod hystart;
mod kind;
mod newreno;
mod prr;
mod window;

pub(super) use algorithm::{AckSample, RttSample};
pub(super) use control::CongestionControl;
pub use kind::CongestionKind;
pub(super) use prr::Prr;
#[cfg(test)]
pub(super) use window::INFINITE;
pub(super) use window::{CongestionWindow, FlightReport};

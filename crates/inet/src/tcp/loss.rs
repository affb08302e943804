//! Detecting and repairing losses.
//!
//! The mechanisms are SACK (RFC 2018, 2883, 6675), RACK-TLP (RFC 8985), NewReno where the peer has
//! no SACK (RFC 6582, 3042), and undoing needless reductions (RFC 3522, 4015, 5682).
//!
//! Sent segments are in a queue (`sent`). An ACK passes these steps, in Linux's order:
//!
//! 1. The SACK blocks mark segments (`recovery::sack`).
//! 2. Acknowledged segments leave the queue (`recovery::clean`), which gives samples of round-trip
//!    time and delivery.
//! 3. The answer to a tail loss probe is judged (`recovery::tlp`).
//! 4. The state machine (`recovery::alert`) undoes or enters a recovery, with losses found by time
//!    (`recovery::rack`).
//! 5. The congestion window follows.
//!
//! Lost segments are not sent here. They are marked, and the connection's `data` module retransmits
//! them as far as the window permits.
//!
//! | state | meaning |
//! |---|---|
//! | `Open` | nothing unusual |
//! | `Disorder` | SACKs or duplicate ACKs have come, which may be reordering |
//! | `Cwr` | the window is being reduced for an ECN echo or a loss that a probe repaired |
//! | `Recovery` | losses are being repaired (fast recovery) |
//! | `Loss` | losses are being repaired after a timeout |
//!
//! A recovery ends when everything sent before its start (`high_seq`) is acknowledged. It can be
//! undone while it lasts (`undo_marker`), in two cases. Every retransmission turns out to have
//! arrived twice (DSACK). Or the first ACK after it answers an original (timestamps, F-RTO).

mod ack_info;
mod ca_state;
mod context;
mod rack;
mod recovery;
mod sent;

pub(super) use ack_info::{ReceivedAck, TimerRequest};
pub(super) use ca_state::{CaState, RetransmitPolicy};
pub(super) use context::LossContext;
pub(super) use recovery::LossRecovery;
pub(super) use recovery::dormant::DormantRecovery;
pub(super) use sent::SentSegment;

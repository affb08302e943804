//! Detecting and repairing losses: SACK (RFC 2018, 2883, 6675), RACK-TLP (RFC 8985), NewReno where
//! the peer has no SACK (RFC 6582, 3042), undoing what was a mistake (RFC 3522, 4015, 5682).
//!
//! What was sent is in a queue of segments ([`sent`]). An ACK is taken in this order, which is
//! Linux's: the SACK blocks mark segments ([`sack`]); what is acknowledged leaves the queue
//! ([`clean`]), which gives samples of round-trip time and delivery; the answer to a tail loss
//! probe is judged ([`tlp`]); the state machine ([`alert`]) undoes or enters a recovery, with
//! losses found by time ([`rack`]); last, the congestion window follows. What was lost is not sent
//! here: it is marked, and `output` sends it as far as the window permits.
//!
//! | state | meaning |
//! |---|---|
//! | `Open` | nothing unusual |
//! | `Disorder` | SACKs or duplicate ACKs have come, which may be reordering |
//! | `Cwr` | the window is being reduced for an ECN echo or a loss that a probe repaired |
//! | `Recovery` | losses are being repaired (fast recovery) |
//! | `Loss` | losses are being repaired after a timeout |
//!
//! A recovery ends when all that had been sent at its start (`high_seq`) is acknowledged. It can be
//! undone while it lasts (`undo_marker`): if every retransmission turns out to have arrived twice
//! (DSACK), or if the first ACK it brings forth answers an original (timestamps, F-RTO).

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

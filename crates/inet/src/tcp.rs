//! The TCP engine: one [`Connection`] per connection, without clock, thread or I/O.
//!
//! The caller moves segments and time. [`Connection::handle_segment`] takes an arriving segment.
//! [`Connection::poll_segment`] gives the next segment to be sent. [`Connection::poll_at`] says
//! when to come back.
//!
//! A connection is composed of parts. Each part is a struct in a module of its own, with private
//! fields.
//!
//! | part | modules |
//! |---|---|
//! | numbers, wire format, states | `seq`, `segment`, `sack_blocks`, `state`, `endpoints` |
//! | the half that outlives the process | `durable` |
//! | the peer's window | `peer_window` |
//! | acknowledgement policy | `ack_policy`, `challenge` |
//! | probes and clocks | `attempts`, `progress`, `timers`, `timestamps` |
//! | receiving | `recv_queue`, `recv_tuning`, `recv_window` |
//! | sending | `send_queue`, `nagle`, `super_segments`, `urgent` |
//! | loss, congestion, round-trip time | `loss`, `congestion`, `ecn`, `rtt` |
//! | pending output | `pending` |
//! | errors | `failure` |
//! | what few connections use | `fastopen`, `mtu_search` |
//! | counts | `stats`, `info_counters`, `info` |
//!
//! `connection` composes them: `input` and `ack` take segments, `timeout` acts on deadlines,
//! `output` and `data` make segments.
//!
//! A connection has two halves. [`Durable`] is plain old data that must outlive the process; the
//! rest can be made again. The engine brings the durable half up to date before it gives out a
//! segment that informs the peer (publish before emit).
//!
//! # Deviations from the RFCs
//! * A segment is acceptable if it touches the window, its edges included, as in Linux. The table
//!   of RFC 9293 3.10.7.4 would lose ACKs that come with data for a closed window, or from its very
//!   edge.
//! * A FIN is taken without room for it in the window.
//! * Of two segments with the same numbers the larger window counts, as in Linux, not the later.
//! * The least retransmission timeout is 200 ms, not 1 s (RFC 6298 2.4), and is a margin above the
//!   smoothed round-trip time.
//! * Slow start counts all segments that an ACK covers, not at most two (RFC 3465 2.2).
//! * Window and keep-alive probes are empty and have an old number; RFC 9293 3.8.6.1 sends a byte.
//! * Nagle's rule looks at small segments in flight only (Minshall's variant).
//! * FIN-WAIT-2 ends after 60 s once the application has closed. Data for an application that has
//!   closed is answered with a RST.
//! * Without SACK every partial ACK restarts the timer (RFC 6582 4, slow but steady), and a
//!   recovery is held until more than its end is acknowledged (RFC 6582 6), as in Linux.
//! * A tail loss probe needs SACK and is not sent in recovery. The least reordering window is that
//!   of RACK alone, never RFC 8985's 1 ms.

mod ack_policy;
mod attempts;
mod challenge;
mod congestion;
mod connection;
mod durable;
mod ecn;
mod endpoints;
mod failure;
mod fastopen;
mod fastopen_option;
mod info;
mod info_counters;
mod isn;
mod loss;
mod mtu_search;
mod nagle;
mod peer_window;
mod pending;
mod progress;
mod recv_queue;
mod recv_tuning;
mod recv_window;
mod reset;
mod rtt;
mod sack_blocks;
mod segment;
mod send_queue;
mod seq;
mod state;
mod stats;
mod super_segments;
mod timers;
mod timestamps;
mod urgent;

use crate::config::tcp as config;
use crate::ecn_field;

pub use config::{KeepAlive, TcpConfig};
pub use congestion::CongestionKind;
pub use connection::dormant::Dormant;
pub use connection::time_wait::TimeWait;
pub use connection::{Connection, SegmentReply};
pub use durable::Durable;
pub use ecn_field::{EcnField, EcnPolicy};
pub use endpoints::Endpoints;
pub use fastopen::FastOpenOutcome;
pub use fastopen_option::{FastOpenOption, MAX_COOKIE};
pub use info::TcpInfo;
pub use reset::reset_for;
pub use sack_blocks::{SackBlock, SackBlocks};
pub use segment::{CHECKSUM_AT, MAX_HEADER, ParsedSegment, SegmentError, SegmentRepr, Timestamps};
pub use send_queue::{SegmentOut, SendFlags};
pub use seq::Seq;
pub use state::State;
pub use stats::TcpStats;

#[cfg(test)]
mod tests;

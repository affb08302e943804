//! Results of the checks of an arriving segment (RFC 9293 3.10.7.4).

use super::SegmentReply;

/// The result of a check.
pub(super) enum SegmentCheck {
    Pass,
    Done(SegmentReply),
}

/// The effect of a segment on the peer's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowChange {
    /// The segment is too old to count.
    None,
    /// The segment sets it.
    Updated,
    /// The segment opens a closed window.
    Reopened,
}

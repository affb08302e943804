//! A call from its registration until its result is fetched.

use abi::Errno;
use abi::call::{Call, Op};
use abi::client::RESULTS;

/// A call's result: its six values, or its error.
pub(crate) type CallOutcome = Result<[u64; 6], Errno>;

/// From a tag to that of the next call of its place, which the low bits name.
pub(super) const NEXT: u32 = RESULTS;
/// No place.
pub(super) const NONE: u16 = u16::MAX;
const _: () = assert!(RESULTS.is_power_of_two() && RESULTS < NONE as u32);

/// A call to be registered.
#[derive(Debug)]
pub(crate) struct NewCall {
    pub(crate) op: Op,
    pub(crate) flags: u8,
    pub(crate) priority: u8,
    pub(crate) args: [u64; 6],
    /// The caller's own word.
    pub(crate) user_data: u64,
}

impl NewCall {
    pub(crate) fn new(op: Op, flags: u8, args: [u64; 6]) -> Self {
        Self { op, flags, priority: 0, args, user_data: 0 }
    }

    /// Can the server keep it waiting?
    #[inline]
    pub(super) fn may_wait(&self) -> bool {
        matches!(self.op, Op::Connect | Op::Accept | Op::Recv) && self.flags & Call::NONBLOCK == 0
    }
}

/// A call that is over, as its batch gets it.
#[derive(Debug)]
pub(crate) struct FinishedCall {
    pub(crate) tag: u32,
    pub(crate) op: Op,
    /// Its first two arguments.
    pub(crate) args: [u64; 2],
    pub(crate) user_data: u64,
    pub(crate) outcome: CallOutcome,
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallState {
    Free,
    /// Its result is due. True: the server may keep it waiting.
    Due(bool),
    /// The same, and nobody will ask for it.
    Abandoned,
    /// The same: it makes a spare socket.
    Spare,
    /// Its outcome is in the place.
    Done,
}

/// A place of the table of calls.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) tag: u32,
    pub(super) op: Op,
    pub(super) priority: u8,
    pub(super) batch: u16,
    pub(super) state: CallState,
    /// The first arguments: mostly the socket's name, and what it should be.
    pub(super) args: [u64; 2],
    pub(super) user_data: u64,
    /// Neighbours among the batch's results, or the next free place.
    pub(super) next: u16,
    pub(super) prev: u16,
    /// Once it is done.
    pub(super) outcome: CallOutcome,
}

impl PendingCall {
    /// Place number `at`, that had no call yet.
    pub(super) fn new(at: u16) -> Self {
        Self {
            // The first call's is the number itself.
            tag: u32::from(at).wrapping_sub(NEXT),
            op: Op::Null,
            priority: 0,
            batch: NONE,
            state: CallState::Free,
            args: [0; 2],
            user_data: 0,
            next: NONE,
            prev: NONE,
            outcome: Ok([0; 6]),
        }
    }

    /// The call, which is done, as its batch gets it.
    #[inline]
    pub(super) fn finished(&self) -> FinishedCall {
        let Self { tag, op, args, user_data, outcome, .. } = *self;
        FinishedCall { tag, op, args, user_data, outcome }
    }
}

/// The calls of one batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchCalls {
    pub(super) first: u16,
    pub(super) last: u16,
    /// Results that have come.
    pub(super) ready: u32,
    /// Calls without a result.
    pub(super) due: u32,
}

pub(super) const EMPTY: BatchCalls = BatchCalls { first: NONE, last: NONE, ready: 0, due: 0 };

/// The place that a tag names.
#[inline]
pub(crate) fn place_in(tag: u32) -> u16 {
    // Fewer bits than a place has.
    u16::try_from(tag & (RESULTS - 1)).unwrap_or(NONE)
}

//! A call from its registration until its result is fetched.

use abi::call::{CallFlags, Op, ReplyWords, Request, RequestWords};
use abi::client::RESULTS;
use abi::{Errno, Family, SocketId, SocketKind};

/// A call's result: its reply, or its error.
pub(crate) type CallOutcome = Result<ReplyWords, Errno>;

/// From a tag to that of the next call of its place, which the low bits name.
pub(super) const NEXT: u32 = RESULTS;
/// No place.
pub(super) const NONE: u16 = u16::MAX;
const _: () = assert!(RESULTS.is_power_of_two() && RESULTS < NONE as u32);

/// The kind and family of a socket to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketSpec {
    pub(crate) kind: SocketKind,
    pub(crate) family: Family,
}

impl SocketSpec {
    pub(crate) fn request(self) -> Request {
        Request::Socket { kind: self.kind, family: self.family }
    }
}

/// A call to be registered.
#[derive(Debug)]
pub(crate) struct NewCall {
    pub(crate) request: RequestWords,
    pub(crate) flags: CallFlags,
    pub(crate) priority: u8,
    /// The caller's own word.
    pub(crate) user_data: u64,
}

impl NewCall {
    #[inline]
    pub(crate) fn new(request: Request) -> Self {
        Self::with_flags(request, CallFlags::NONE)
    }

    #[inline]
    pub(crate) fn with_flags(request: Request, flags: CallFlags) -> Self {
        Self { request: request.encode(), flags, priority: 0, user_data: 0 }
    }

    /// Can the server keep it waiting?
    #[inline]
    pub(super) fn may_wait(&self) -> bool {
        matches!(self.request.op(), Op::Connect | Op::Accept | Op::Recv)
            && !self.flags.has(CallFlags::NONBLOCK)
    }
}

/// A call that is over, as its batch gets it.
#[derive(Debug)]
pub(crate) struct FinishedCall {
    pub(crate) tag: u32,
    pub(crate) op: Op,
    pub(crate) user_data: u64,
    pub(crate) outcome: CallOutcome,
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallState {
    Free,
    /// Its result is due. True: the server may keep it waiting.
    Due(bool),
    /// The same, and its batch is gone.
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
    /// The socket that the call is about, for its cancellation.
    pub(super) socket: SocketId,
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
            socket: SocketId::from_word(0),
            user_data: 0,
            next: NONE,
            prev: NONE,
            outcome: Ok(ReplyWords::DONE),
        }
    }

    /// The call, which is done, as its batch gets it.
    #[inline]
    pub(super) fn finished(&self) -> FinishedCall {
        let Self { tag, op, user_data, outcome, .. } = *self;
        FinishedCall { tag, op, user_data, outcome }
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

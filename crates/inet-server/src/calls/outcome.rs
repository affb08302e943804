//! Outcomes of calls.

use abi::call::{Reply, ReplyWords};

use crate::refusal::Refusal;

/// The outcome of a call's execution.
pub(crate) enum CallOutcome {
    /// The call is done, without values.
    Done,
    /// The call is done, with these values.
    Gives(ReplyWords),
    /// The call waits. Its return path is with its socket.
    Waits,
}

pub(crate) type CallAnswer = Result<CallOutcome, Refusal>;

pub(crate) const DONE: CallAnswer = Ok(CallOutcome::Done);

/// The outcome of a call that is done, with values.
pub(crate) fn gives(reply: Reply) -> CallAnswer {
    Ok(CallOutcome::Gives(reply.encode()))
}

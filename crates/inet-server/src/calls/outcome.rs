//! What a call comes to.

use abi::call::{Reply, ReplyWords};

use crate::refusal::Refusal;

/// What a call comes to at once.
pub(crate) enum CallOutcome {
    /// It is done, and gives nothing.
    Done,
    /// It is done, and gives this.
    Gives(ReplyWords),
    /// It waits; its return path is kept.
    Later,
}

pub(crate) type CallAnswer = Result<CallOutcome, Refusal>;

pub(crate) const DONE: CallAnswer = Ok(CallOutcome::Done);

/// A call that is done, and gives something.
pub(crate) fn gives(reply: Reply) -> CallAnswer {
    Ok(CallOutcome::Gives(reply.encode()))
}

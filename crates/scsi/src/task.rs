//! A task: one command from its begin to its response.

use bytes::Bytes;

use crate::call::{Failure, Origin, Plan, Planned, Reply, Then};
use crate::id::{LunAddress, NexusId};
use crate::locks::Access;
use crate::sense::Sense;
use crate::status::Status;
use crate::step::{DataIn, Residual, Response, Step};
use crate::table::Direction;

/// The attribute of a task (SAM-5 8.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TaskAttribute {
    /// Tasks may run in any order.
    #[default]
    Simple,
    /// All earlier tasks are over before, and all later ones begin after.
    Ordered,
    /// It comes before those that wait. [`crate::RangeLocks`] treats it like a simple task.
    HeadOfQueue,
}

/// A command as the initiator sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command<'a> {
    /// The nexus.
    pub nexus: NexusId,
    /// The LUN field.
    pub lun: LunAddress,
    /// The command descriptor block. What is behind its length, by its operation code, is ignored.
    pub cdb: &'a [u8],
    /// Data-in bytes that the initiator expects: 0 without the R bit.
    pub expected_in: u64,
    /// Data-out bytes that the initiator has: 0 without the W bit.
    pub expected_out: u64,
    /// Attribute.
    pub attribute: TaskAttribute,
}

/// A command from its begin to its response.
///
/// A task may be dropped at any time: the shell has aborted it.
#[derive(Debug)]
pub struct Task {
    /// `None` once the task is over.
    pub(crate) open: Option<OpenTask>,
    pub(crate) step: Step,
}

/// What a task that is over holds.
static NO_ACCESS: Access = Access { claims: Vec::new(), barrier: None, lun: None };

/// What a task that is not over holds.
#[derive(Debug)]
pub(crate) struct OpenTask {
    pub(crate) origin: Origin,
    pub(crate) then: Then,
}

impl Task {
    /// What the task needs now.
    pub const fn step(&self) -> &Step {
        &self.step
    }

    /// What the task holds while it runs: to be given to [`crate::RangeLocks::start`]. It can
    /// become less with the task's first data-out. A task that is over holds nothing.
    pub const fn access(&self) -> &Access {
        match &self.open {
            Some(open) => &open.origin.access,
            None => &NO_ACCESS,
        }
    }

    /// The response; `None` while the task is not over.
    pub const fn response(&self) -> Option<&Response> {
        match &self.step {
            Step::Done(response) => Some(response),
            _ => None,
        }
    }

    /// A task that is over.
    pub(crate) fn over(response: Response) -> Self {
        Self { open: None, step: Step::Done(response) }
    }

    /// A task that goes on with what a handler gave.
    pub(crate) fn follow(origin: Origin, planned: Planned, descriptor: bool) -> Self {
        let (step, then) = match planned {
            Ok(Plan::Reply(reply)) => return Self::end(origin, Ok(reply), descriptor),
            Err(failure) => return Self::end(origin, Err(failure), descriptor),
            Ok(Plan::DataOut { offset, len, work }) => {
                (Step::DataOut { offset, len }, Then::Work(work))
            }
            Ok(Plan::Medium { lun, operation, then }) => (Step::Medium { lun, operation }, then),
            Ok(Plan::Store { lun, state, then }) => (Step::Store { lun, state }, then),
        };
        Self { open: Some(OpenTask { origin, then }), step }
    }

    fn end(origin: Origin, result: Result<Reply, Failure>, descriptor: bool) -> Self {
        let expected = match origin.row.direction {
            Direction::In => origin.expected_in,
            Direction::Out => origin.expected_out,
            Direction::No => origin.expected_in.max(origin.expected_out),
        };
        let mut response = respond(result, origin.length, expected, descriptor);
        response.effects = origin.effects;
        Self::over(response)
    }
}

/// A response: `length` bytes are the command's by its own fields, `expected` the initiator's.
pub(crate) fn respond(
    result: Result<Reply, Failure>,
    length: u64,
    expected: u64,
    descriptor: bool,
) -> Response {
    let residual = Residual::of(length, expected);
    let bad = |status, sense: Bytes| {
        let data_in = DataIn::None;
        // Nothing was transferred; more than expected stays to be said.
        let residual = match residual {
            Residual::Overflow(_) => residual,
            _ => Residual::of(0, expected),
        };
        Response { status, sense, data_in, residual, effects: Vec::new() }
    };
    match result {
        Ok(Reply { status, data: data_in }) => {
            Response { status, sense: Bytes::new(), data_in, residual, effects: Vec::new() }
        }
        Err(Failure::Check(sense)) => bad(Status::CheckCondition, sense.to_bytes(descriptor)),
        Err(Failure::Conflict) => bad(Status::ReservationConflict, Bytes::new()),
    }
}

/// The response to something that the shell must not do, or that contradicts itself.
pub(crate) fn internal_failure(expected: u64) -> Response {
    respond(Err(Sense::internal().into()), 0, expected, false)
}

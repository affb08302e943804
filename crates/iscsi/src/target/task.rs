//! An open command.

use std::collections::VecDeque;

use bytes::Bytes;

use super::burst::{Burst, DataFault};
use super::event::TaskId;
use crate::lun::Lun;
use crate::pdu::TaskAttribute;
use crate::serial::SerialNumber;

/// How far a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskStage {
    /// It waits for its turn or its unsolicited data.
    Waiting,
    /// The shell has it.
    Delivered,
    /// Its status is in the output queue.
    Completing,
}

/// An open command of an initiator.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: TaskId,
    pub(super) lun: Lun,
    pub(super) cdb: Bytes,
    pub(super) attribute: TaskAttribute,
    pub(super) cmd_sn: SerialNumber,
    pub(super) immediate: bool,
    pub(super) expected_out: u32,
    pub(super) expected_in: u32,
    pub(super) stage: TaskStage,
    /// Immediate and unsolicited data.
    pub(super) data: Vec<Bytes>,
    pub(super) data_length: u32,
    /// Sequences under way, in the order in which they were asked for.
    pub(super) bursts: Vec<Burst>,
    /// Ranges that the shell wants and no R2T has asked for: offset and length.
    pub(super) wanted: VecDeque<(u32, u32)>,
    pub(super) r2t_sn: u32,
    pub(super) data_in_sn: u32,
    /// Bytes of data-in that the shell gave, those beyond the initiator's room included.
    pub(super) given_in: u64,
    /// Bytes of data-in that are queued or sent.
    pub(super) queued_in: u32,
    pub(super) fault: Option<DataFault>,
}

impl Task {
    /// Whether unsolicited data is still to come.
    pub(super) fn awaits_unsolicited(&self) -> bool {
        self.bursts.iter().any(Burst::is_unsolicited)
    }

    /// Bytes of open R2Ts.
    pub(super) fn solicited(&self) -> u32 {
        let solicited = self.bursts.iter().filter(|burst| !burst.is_unsolicited());
        solicited.map(|burst| burst.length).sum()
    }

    /// Notes the first fault. Nothing more is asked for.
    pub(super) fn fail(&mut self, fault: DataFault) {
        self.fault.get_or_insert(fault);
        self.wanted.clear();
        self.data.clear();
    }
}

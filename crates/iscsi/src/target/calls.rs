//! Calls of the shell about commands, pings and asynchronous messages.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::connection::TargetConnection;
use super::event::{Completion, TaskId};
use super::output_item::{AnswerOutput, DataInQueue, Finish, OrderedOutput, StatusOutput};
use super::task::{Task, TaskStage};
use crate::error::UsageError;
use crate::lun::Lun;
use crate::pdu::AsyncEvent;
use crate::residual::Residual;

/// GOOD (SAM-5 5.3.1).
const GOOD: u8 = 0;
/// Longest sense data in bytes (SPC-4 4.5.1).
const MAX_SENSE: usize = 252;

impl TargetConnection {
    fn delivered(&mut self, task: TaskId) -> Result<(u32, &mut Task), UsageError> {
        let tag = *self.tags.get(&task).ok_or(UsageError::UnknownRequest)?;
        let task = self.tasks.get_mut(&tag);
        let open = task.filter(|task| task.stage == TaskStage::Delivered);
        open.map(|task| (tag, task)).ok_or(UsageError::UnknownRequest)
    }

    /// Asks for `length` bytes of a command's data-out from `offset` on. They come in parts of at
    /// most MaxBurstLength as `DataOut` events. The shell asks only for what it can hold.
    ///
    /// # Errors
    ///
    /// The command is not open, or the range is not part of its data-out.
    pub fn request_data(
        &mut self,
        task: TaskId,
        offset: u32,
        length: u32,
    ) -> Result<(), UsageError> {
        let (tag, task) = self.delivered(task)?;
        let end = offset.checked_add(length).ok_or(UsageError::Range)?;
        if length == 0 || end > task.expected_out || offset < task.data_length {
            return Err(UsageError::Range);
        }
        // A command whose data was wrong ends by itself.
        if task.fault.is_none() {
            task.wanted.push_back((offset, length));
            self.wait_for_r2t(tag);
            self.ask_for_data();
        }
        Ok(())
    }

    /// Sends data-in of a command as soon as it is there, in order. Bytes beyond the initiator's
    /// room are not sent; they count as overflow.
    ///
    /// # Errors
    ///
    /// The command is not open.
    pub fn send_data(&mut self, task: TaskId, data: Vec<Bytes>) -> Result<(), UsageError> {
        let max_burst = self.parameters.max_burst;
        let (tag, task) = self.delivered(task)?;
        let length: u64 = data.iter().map(|piece| piece.len() as u64).sum();
        task.given_in = task.given_in.saturating_add(length);
        let offset = task.queued_in;
        let room = u64::from(task.expected_in - offset);
        let left = u32::try_from(length.min(room)).unwrap_or(0);
        if left == 0 {
            return Ok(());
        }
        task.queued_in += left;
        let mut pieces = VecDeque::new();
        let mut rest = left as usize;
        for piece in data.into_iter().filter(|piece| !piece.is_empty()) {
            let step = piece.len().min(rest);
            rest -= step;
            if step > 0 {
                pieces.push_back(piece.slice(..step));
            }
        }
        let burst_left = max_burst;
        let queue = DataInQueue { tag, pieces, left, offset, burst_left, finish: None };
        self.ordered.push_back(OrderedOutput::Data(queue));
        Ok(())
    }

    /// Ends a command.
    ///
    /// # Errors
    ///
    /// The command is not open.
    pub fn complete(&mut self, task: TaskId, completion: Completion) -> Result<(), UsageError> {
        self.finish_command(task, completion)
    }

    pub(super) fn finish_command(
        &mut self,
        id: TaskId,
        mut completion: Completion,
    ) -> Result<(), UsageError> {
        self.send_data(id, std::mem::take(&mut completion.data))?;
        let (tag, task) = self.delivered(id)?;
        task.stage = TaskStage::Completing;
        task.wanted.clear();
        let (residual, read_residual) = residuals(task, &completion);
        let solicited = task.solicited();
        task.bursts.clear();
        self.solicited = self.solicited.saturating_sub(solicited);
        self.r2ts.retain(|r2t| r2t.task_tag != tag);
        let sense = completion.sense.slice(..completion.sense.len().min(MAX_SENSE));
        let finish = Finish { status: completion.status, sense, residual, read_residual };
        self.queue_finish(tag, finish);
        self.ask_for_data();
        Ok(())
    }

    /// Puts the end of a command behind its data; together with the data if that is queued last.
    fn queue_finish(&mut self, tag: u32, finish: Finish) {
        if let Some(OrderedOutput::Data(queue)) = self.ordered.back_mut()
            && queue.tag == tag
            && queue.finish.is_none()
        {
            queue.finish = Some(finish);
            return;
        }
        self.ordered.push_back(OrderedOutput::Data(DataInQueue {
            tag,
            pieces: VecDeque::new(),
            left: 0,
            offset: 0,
            burst_left: 0,
            finish: Some(finish),
        }));
    }

    /// Ends a command without an answer, after task management. Its queued output is dropped.
    ///
    /// # Errors
    ///
    /// The command is not open.
    pub fn abort(&mut self, task: TaskId) -> Result<(), UsageError> {
        let (tag, _) = self.delivered(task)?;
        self.ordered.retain(|item| match item {
            OrderedOutput::Data(queue) => queue.tag != tag,
            _ => true,
        });
        self.drop_task(tag);
        self.ask_for_data();
        Ok(())
    }

    /// The commands that the shell has, on one logical unit or all, in the order of their coming.
    pub fn tasks_of(&self, lun: Option<Lun>) -> Vec<TaskId> {
        let open = self.tags.iter().filter_map(|(id, tag)| Some((id, self.tasks.get(tag)?)));
        open.filter(|(_, task)| {
            task.stage == TaskStage::Delivered && lun.is_none_or(|lun| lun == task.lun)
        })
        .map(|(id, _)| *id)
        .collect()
    }

    pub(super) fn wait_for_r2t(&mut self, tag: u32) {
        if !self.r2t_waiters.contains(&tag) {
            self.r2t_waiters.push_back(tag);
        }
    }

    /// Tells the initiator something unasked (RFC 7143 11.9). `sense` is the sense data of a SCSI
    /// event, at most 252 bytes; empty otherwise.
    ///
    /// # Errors
    ///
    /// The connection is not in the full feature phase.
    pub fn send_async(&mut self, event: AsyncEvent, sense: &Bytes) -> Result<(), UsageError> {
        self.check_full_feature()?;
        let sense = sense.slice(..sense.len().min(MAX_SENSE));
        self.queue_status(StatusOutput::Async(event, sense));
        Ok(())
    }

    /// Sends a ping (RFC 7143 11.19), unless one is on its way. The answer is a `Pong`.
    ///
    /// # Errors
    ///
    /// The connection is not in the full feature phase.
    pub fn ping(&mut self, now: Duration) -> Result<(), UsageError> {
        self.check_full_feature()?;
        if self.ping.is_none() {
            let tag = self.fresh_transfer_tag();
            self.ping = Some((tag, now.saturating_add(self.config.ping_timeout)));
            self.answers.push_back(AnswerOutput::Ping(tag));
        }
        Ok(())
    }
}

/// RFC 7143 11.4.5, 11.4.6: the residual of the command, and of the read part of a bidirectional one.
fn residuals(task: &Task, completion: &Completion) -> (Residual, Residual) {
    let moved = completion.transfer_length;
    if task.expected_in > 0 && task.expected_out == 0 {
        return (Residual::of(task.expected_in, moved.unwrap_or(task.given_in)), Residual::None);
    }
    let read_residual = match task.expected_in {
        0 => Residual::None,
        expected => Residual::of(expected, task.given_in),
    };
    let given = match completion.status {
        // Data-in of a command for which the initiator has no room.
        GOOD if task.expected_out == 0 => Some(task.given_in),
        GOOD => Some(u64::from(task.expected_out)),
        _ => None,
    };
    let moved = moved.or(given);
    (moved.map_or(Residual::None, |moved| Residual::of(task.expected_out, moved)), read_residual)
}

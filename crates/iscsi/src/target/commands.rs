//! Commands of the initiator and their data-out.

use bytes::Bytes;

use super::burst::{Burst, DataFault};
use super::connection::TargetConnection;
use super::event::{Completion, TargetCommand, TargetEvent, TaskId};
use super::output_item::R2tOutput;
use super::task::{Task, TaskStage};
use super::window::Pending;
use crate::pdu::{Ahs, Bhs, DataOut, NO_TAG, RejectReason, Request, ScsiCommand};
use std::collections::VecDeque;

/// CHECK CONDITION (SAM-5 5.3.1).
const CHECK_CONDITION: u8 = 2;

impl TargetConnection {
    /// RFC 7143 11.3.
    pub(super) fn handle_command(
        &mut self,
        bhs: &Bhs,
        command: &ScsiCommand,
        ahs: &Bytes,
        data: Bytes,
    ) {
        let place = self.window.place(command.cmd_sn);
        if !command.immediate && place.is_none() {
            // RFC 7143 4.2.2.1: silently ignored.
            return;
        }
        let request = Request::Command(*command);
        let Ok(ahs) = Ahs::parse(ahs) else {
            return self.reject_numbered(bhs, &request, RejectReason::InvalidPduField);
        };
        if self.tasks.contains_key(&command.task_tag) {
            return self.reject_numbered(bhs, &request, RejectReason::TaskInProgress);
        }
        if command.immediate && self.open_immediate >= self.config.max_immediate {
            return self.reject_numbered(bhs, &request, RejectReason::ImmediateCommandReject);
        }
        let tag = command.task_tag;
        let task = self.new_task(command, &ahs, data);
        self.tags.insert(task.id, tag);
        let is_over = task.bursts.is_empty();
        self.tasks.insert(tag, task);
        match place {
            Some(place) if !command.immediate => self.window.put(place, Pending::Command(tag)),
            _ => {
                self.open_immediate += 1;
                if is_over {
                    self.deliver_command(tag);
                }
            }
        }
    }

    fn new_task(&mut self, command: &ScsiCommand, ahs: &Ahs, data: Bytes) -> Task {
        self.next_task += 1;
        let cdb = match ahs.extended_cdb.is_empty() {
            true => Bytes::copy_from_slice(&command.cdb),
            false => [&command.cdb[..], &ahs.extended_cdb].concat().into(),
        };
        let (expected_out, expected_in) = match (command.write, command.read) {
            (true, false) => (command.expected_length, 0),
            (false, true) => (0, command.expected_length),
            (true, true) => (command.expected_length, ahs.read_length.unwrap_or(0)),
            (false, false) => (0, 0),
        };
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let mut task = Task {
            id: TaskId(self.next_task),
            lun: command.lun,
            cdb,
            attribute: command.attribute,
            cmd_sn: command.cmd_sn,
            immediate: command.immediate,
            expected_out,
            expected_in,
            stage: TaskStage::Waiting,
            data: if data.is_empty() { Vec::new() } else { vec![data] },
            data_length: length,
            bursts: Vec::new(),
            wanted: VecDeque::new(),
            r2t_sn: 0,
            data_in_sn: 0,
            given_in: 0,
            queued_in: 0,
            fault: None,
        };
        let first_burst = self.parameters.first_burst.min(expected_out);
        if !command.is_final {
            // RFC 7143 11.3.1: unsolicited Data-Out follows, up to the one with F.
            let left = first_burst.saturating_sub(length);
            let in_order = self.parameters.data_pdu_in_order;
            task.bursts.push(Burst::new(NO_TAG, length.min(first_burst), left, in_order));
        }
        // RFC 7143 13.10, 13.11: unsolicited data that was not agreed.
        let forbidden = length > 0 && !self.parameters.immediate_data
            || !command.is_final && self.parameters.initial_r2t;
        if forbidden {
            task.fail(DataFault::Unexpected);
        } else if length > first_burst {
            task.fail(DataFault::Amount);
        }
        task
    }

    /// Gives a command to the shell, or ends one whose data was wrong.
    pub(super) fn deliver_command(&mut self, tag: u32) {
        let Some(task) = self.tasks.get_mut(&tag) else {
            // It was aborted while it waited.
            self.window.release();
            return;
        };
        task.stage = TaskStage::Delivered;
        if task.fault.is_some() {
            return self.fail_command(tag);
        }
        let command = TargetCommand {
            task: task.id,
            lun: task.lun,
            cdb: task.cdb.clone(),
            attribute: task.attribute,
            expected_out: task.expected_out,
            expected_in: task.expected_in,
            data: std::mem::take(&mut task.data),
            data_length: task.data_length,
        };
        self.events.push_back(TargetEvent::Command(command));
    }

    /// RFC 7143 11.7.
    pub(super) fn handle_data_out(&mut self, bhs: &Bhs, pdu: &DataOut, data: Bytes, sound: bool) {
        let in_order = self.parameters.data_sequence_in_order;
        let first_burst = self.parameters.first_burst;
        let mut reject = false;
        let Some(task) = self.tasks.get_mut(&pdu.task_tag) else {
            // Data of a command that is over is discarded (RFC 7143 4.2.3.3).
            return;
        };
        let position = task.bursts.iter().position(|burst| burst.transfer_tag == pdu.transfer_tag);
        let Some(position) = position else {
            if pdu.transfer_tag == NO_TAG && task.stage != TaskStage::Completing {
                // RFC 7143 11.4.7.2: unsolicited data that was not announced.
                self.reject(*bhs, RejectReason::ProtocolError);
            }
            return;
        };
        // RFC 7143 11.8, 13.19: sequences come in the order in which they were asked for.
        if in_order && position > 0 {
            task.fail(DataFault::Damaged);
        }
        let has_fault = task.fault.is_some();
        // RFC 7143 11.4.7.2: only what is longer than a first burst needs a whole one.
        let burst = &mut task.bursts[position];
        let whole = !burst.is_unsolicited() || task.expected_out > first_burst;
        if !sound {
            reject = true;
            burst.is_over |= pdu.is_final;
            task.fail(DataFault::Damaged);
        } else if has_fault {
            burst.is_over |= pdu.is_final;
        } else if let Err(fault) = burst.take(pdu, data, whole) {
            task.fail(fault);
        }
        if reject {
            // RFC 7143 7.8
            self.reject(*bhs, RejectReason::DataDigestError);
        }
        self.finish_burst(pdu.task_tag, position);
    }

    /// Ends a burst whose F bit was there.
    fn finish_burst(&mut self, tag: u32, position: usize) {
        let Some(task) = self.tasks.get_mut(&tag) else { return };
        if !task.bursts[position].is_over {
            return;
        }
        let burst = task.bursts.remove(position);
        let (id, offset) = (task.id, burst.offset);
        if burst.is_unsolicited() {
            if task.fault.is_none() {
                task.data_length += burst.received();
                task.data.extend(burst.into_pieces());
            }
            if task.immediate && task.stage == TaskStage::Waiting {
                self.deliver_command(tag);
            }
            return;
        }
        self.solicited = self.solicited.saturating_sub(burst.length);
        if task.fault.is_some() {
            // RFC 7143 7.8: the status comes after the last Data-Out.
            if task.bursts.is_empty() {
                self.events.push_back(TargetEvent::TaskFailed(id));
                self.fail_command(tag);
            }
            return;
        }
        if !task.wanted.is_empty() {
            self.wait_for_r2t(tag);
        }
        let data = burst.into_pieces().collect();
        self.events.push_back(TargetEvent::DataOut { task: id, offset, data });
    }

    /// RFC 7143 11.4.7.2: CHECK CONDITION with ABORTED COMMAND.
    fn fail_command(&mut self, tag: u32) {
        let Some(task) = self.tasks.get(&tag) else { return };
        let [code, qualifier] = task.fault.unwrap_or(DataFault::Damaged).additional_sense();
        let mut sense = [0; 18];
        (sense[0], sense[2], sense[7]) = (0x70, 0x0b, 10);
        (sense[12], sense[13]) = (code, qualifier);
        let sense = Bytes::copy_from_slice(&sense);
        let id = task.id;
        let completion = Completion { status: CHECK_CONDITION, sense, ..Completion::default() };
        // The task is there, so it can be ended.
        let _ = self.finish_command(id, completion);
    }

    /// Queues R2Ts, as far as the initiator and the budget allow (RFC 7143 11.8, 13.17).
    pub(super) fn ask_for_data(&mut self) {
        // An initiator that leaves MaxBurstLength out has the default, which may be longer than the
        // target's wish. A target may ask for less than a burst (RFC 7143 11.8.4).
        let max_burst = self.parameters.max_burst.min(self.config.keys.max_burst).max(512);
        let budget = self.config.data_out_budget.max(max_burst);
        let most = usize::from(self.parameters.max_outstanding_r2t);
        while let Some(tag) = self.r2t_waiters.front().copied() {
            let Some(task) = self.tasks.get_mut(&tag) else {
                self.r2t_waiters.pop_front();
                continue;
            };
            let open = task.bursts.len();
            let Some((offset, length)) = task.wanted.front_mut().filter(|_| open < most) else {
                // A burst that ends puts the command back.
                self.r2t_waiters.pop_front();
                continue;
            };
            let step = (*length).min(max_burst);
            if self.solicited + step > budget {
                break;
            }
            let at = *offset;
            *offset += step;
            *length -= step;
            if *length == 0 {
                task.wanted.pop_front();
            }
            self.solicited += step;
            self.queue_r2t(tag, at, step);
        }
    }

    fn queue_r2t(&mut self, tag: u32, offset: u32, length: u32) {
        let transfer_tag = self.fresh_transfer_tag();
        let in_order = self.parameters.data_pdu_in_order;
        let Some(task) = self.tasks.get_mut(&tag) else { return };
        task.bursts.push(Burst::new(transfer_tag, offset, length, in_order));
        let r2t_sn = task.r2t_sn;
        task.r2t_sn = r2t_sn.wrapping_add(1);
        let lun = task.lun;
        self.r2ts.push_back(R2tOutput { task_tag: tag, transfer_tag, lun, r2t_sn, offset, length });
    }

    /// Forgets a command: its R2Ts, its output, its place.
    pub(super) fn drop_task(&mut self, tag: u32) {
        let Some(task) = self.tasks.remove(&tag) else { return };
        self.tags.remove(&task.id);
        self.solicited = self.solicited.saturating_sub(task.solicited());
        self.r2ts.retain(|r2t| r2t.task_tag != tag);
        self.r2t_waiters.retain(|waiter| *waiter != tag);
        if task.immediate {
            self.open_immediate = self.open_immediate.saturating_sub(1);
        } else if task.stage != TaskStage::Waiting {
            self.window.release();
        }
    }
}

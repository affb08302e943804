//! The target's shell: a disk in memory with two commands, READ (0) and WRITE (1). Bytes 2 to 5 of
//! the command block are the offset, bytes 6 to 9 the length.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use iscsi::pdu::{TaskFunction, TaskResponse};
use iscsi::target::{
    Completion, LoginAnswer, LoginInfo, TargetCommand, TargetConnection, TargetEvent, TargetRecord,
};
use iscsi::{IscsiName, TaskId};

use crate::random::Random;

/// A write whose data is not complete.
struct Write {
    offset: usize,
    left: usize,
}

pub(crate) struct Disk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) answer: LoginAnswer,
    pub(crate) record: TargetRecord,
    pub(crate) is_closed: bool,
    /// Who logged in first: a session that replaces another has the same identifiers.
    session: Option<LoginInfo>,
    writes: BTreeMap<TaskId, Write>,
    /// Commands that the disk ends later.
    slow: Vec<TargetCommand>,
}

fn number(cdb: &Bytes, at: usize) -> usize {
    u32::from_be_bytes([cdb[at], cdb[at + 1], cdb[at + 2], cdb[at + 3]]) as usize
}

impl Disk {
    pub(crate) fn new(length: usize, name: IscsiName) -> Self {
        Self {
            bytes: vec![0; length],
            answer: LoginAnswer::Allow { chap: None, alias: None },
            record: TargetRecord { name, addresses: vec!["10.0.0.1:3260,1".to_owned()] },
            is_closed: false,
            session: None,
            writes: BTreeMap::new(),
            slow: Vec::new(),
        }
    }

    /// The session is replaced: its commands are over.
    pub(crate) fn end_session(&mut self) {
        self.writes.clear();
        self.slow.clear();
    }

    /// Does what the connection's events ask for.
    pub(crate) fn work(&mut self, target: &mut TargetConnection, random: &mut Random) {
        while let Some(event) = target.poll_event() {
            self.take(target, event, random);
        }
        while !self.slow.is_empty() && random.below(3) == 0 {
            let command = self.slow.swap_remove(random.below(self.slow.len()));
            self.read(target, &command, random);
        }
    }

    fn take(&mut self, target: &mut TargetConnection, event: TargetEvent, random: &mut Random) {
        match event {
            TargetEvent::Login(_) => target.answer_login(self.answer.clone()).expect("asked"),
            TargetEvent::SessionReady(info) => {
                assert_eq!(self.session.get_or_insert(info.clone()), &info);
                target.accept_session(Duration::ZERO, 77).expect("asked");
            }
            TargetEvent::Command(command) => self.start(target, command, random),
            TargetEvent::DataOut { task, offset, data } => {
                self.store(target, task, offset as usize, &data);
            }
            TargetEvent::TaskManagement { request, function, task, lun } => {
                let meant = match function {
                    TaskFunction::AbortTask => task.into_iter().collect(),
                    _ => target.tasks_of(Some(lun)),
                };
                for task in meant {
                    self.slow.retain(|command| command.task != task);
                    self.writes.remove(&task);
                    target.abort(task).expect("open");
                }
                let complete = TaskResponse::Complete;
                target.finish_task_management(request, complete).expect("open");
            }
            TargetEvent::SendTargets { request, .. } => {
                let records = vec![self.record.clone(); 40];
                target.answer_send_targets(request, &records).expect("open");
            }
            TargetEvent::Closed(_) => self.is_closed = true,
            TargetEvent::TaskFailed(task) => panic!("{task:?} failed"),
            TargetEvent::Rejected { opcode, reason } => panic!("rejected {opcode}: {reason:?}"),
            _ => {}
        }
    }

    fn start(
        &mut self,
        target: &mut TargetConnection,
        command: TargetCommand,
        random: &mut Random,
    ) {
        if command.cdb[0] == 0 {
            self.slow.push(command);
            return;
        }
        let (offset, length) = (number(&command.cdb, 2), number(&command.cdb, 6));
        assert_eq!(length, command.expected_out as usize);
        let write = Write { offset, left: length };
        self.writes.insert(command.task, write);
        let data = command.data.concat();
        assert_eq!(data.len(), command.data_length as usize);
        self.store(target, command.task, 0, &[data.into()]);
        let rest = command.expected_out - command.data_length;
        if rest > 1 && random.below(2) == 0 {
            let half = rest / 2;
            let at = command.data_length;
            target.request_data(command.task, at, half).expect("in range");
            target.request_data(command.task, at + half, rest - half).expect("in range");
        } else if rest > 0 {
            target.request_data(command.task, command.data_length, rest).expect("in range");
        }
    }

    fn store(
        &mut self,
        target: &mut TargetConnection,
        task: TaskId,
        offset: usize,
        data: &[Bytes],
    ) {
        let write = self.writes.get_mut(&task).expect("a write");
        let data = data.concat();
        let at = write.offset + offset;
        self.bytes[at..at + data.len()].copy_from_slice(&data);
        write.left -= data.len();
        if write.left == 0 {
            self.writes.remove(&task);
            target.complete(task, Completion::default()).expect("open");
        }
    }

    fn read(&self, target: &mut TargetConnection, command: &TargetCommand, random: &mut Random) {
        let (offset, length) = (number(&command.cdb, 2), number(&command.cdb, 6));
        let mut data = Bytes::copy_from_slice(&self.bytes[offset..offset + length]);
        let early = data.split_to(random.below(length + 1));
        if random.below(2) == 0 {
            target.send_data(command.task, vec![early]).expect("open");
            let completion = Completion { data: vec![data], ..Completion::default() };
            target.complete(command.task, completion).expect("open");
        } else {
            let completion = Completion { data: vec![early, data], ..Completion::default() };
            target.complete(command.task, completion).expect("open");
        }
    }
}

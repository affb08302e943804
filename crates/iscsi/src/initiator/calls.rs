//! Calls of the shell: requests.

use std::time::Duration;

use bytes::Bytes;

use super::connection::{InitiatorConnection, InitiatorPhase};
use super::event::{CommandId, InitiatorCommand, InitiatorEvent};
use super::open_request::{MAX_DISCOVERY, OpenCommand, RequestKind};
use crate::error::UsageError;
use crate::lun::Lun;
use crate::name::IscsiName;
use crate::pdu::{
    LogoutReason, LogoutRequest, NO_TAG, NopOut, Request, TaskFunction, TaskRequest, TaskResponse,
    TextRequest,
};
use crate::serial::SerialNumber;
use crate::text::{TextAssembler, TextWriter};

/// Requests that are no commands and may be open besides the queue.
const OTHER_REQUESTS: usize = 16;

impl InitiatorConnection {
    fn check_room(&self, besides: usize) -> Result<(), UsageError> {
        if self.phase != InitiatorPhase::FullFeature {
            return Err(UsageError::WrongPhase);
        }
        match self.open.len() < usize::from(self.config.queue_depth) + besides {
            true => Ok(()),
            false => Err(UsageError::Full),
        }
    }

    /// Submits a command. It is sent as soon as the target's command window has room.
    ///
    /// # Errors
    ///
    /// The connection is not in the full feature phase, has as many open requests as it may, or is
    /// of a discovery session; the command block or the data is too long.
    pub fn submit(&mut self, command: InitiatorCommand) -> Result<CommandId, UsageError> {
        self.check_room(0)?;
        if self.config.target.is_none() {
            return Err(UsageError::WrongPhase);
        }
        if command.cdb.is_empty() || command.cdb.len() > 260 {
            return Err(UsageError::Invalid("a command block has 1 to 260 bytes"));
        }
        let length: u64 = command.data_out.iter().map(|piece| piece.len() as u64).sum();
        let out_length = u32::try_from(length);
        let out_length = out_length.map_err(|_| UsageError::Invalid("data-out is too long"))?;
        let open = OpenCommand {
            command,
            out_length,
            cmd_sn: None,
            data_sn: 0,
            r2t_sn: 0,
            open_r2ts: 0,
            received: 0,
            next_offset: 0,
            is_damaged: false,
        };
        let (id, tag) = self.open_request(RequestKind::Command(Box::new(open)));
        self.queue.push_back(tag);
        Ok(id)
    }

    /// Asks for task management (RFC 7143 11.5). `command` is the command of ABORT TASK. A command
    /// that is not sent yet is over at once.
    ///
    /// # Errors
    ///
    /// As for [`InitiatorConnection::submit`]; or the command of ABORT TASK is not open.
    pub fn task_management(
        &mut self,
        function: TaskFunction,
        lun: Lun,
        command: Option<CommandId>,
    ) -> Result<CommandId, UsageError> {
        self.check_room(OTHER_REQUESTS)?;
        let mut referenced = None;
        let mut number = SerialNumber::new(0);
        if function == TaskFunction::AbortTask {
            let tag = command.and_then(|command| self.tags.get(&command).copied());
            let tag = tag.ok_or(UsageError::UnknownRequest)?;
            match self.open.get(&tag).map(|request| &request.kind) {
                Some(RequestKind::Command(open)) => match open.cmd_sn {
                    Some(cmd_sn) => (referenced, number) = (Some(tag), cmd_sn),
                    None => return Ok(self.end_unsent(tag)),
                },
                _ => return Err(UsageError::UnknownRequest),
            }
        }
        let cmd_sn = self.cmd_sn;
        let (id, task_tag) =
            self.open_request(RequestKind::Task { function, lun, referenced, cmd_sn });
        let request = TaskRequest {
            immediate: true,
            function,
            lun,
            task_tag,
            referenced_tag: referenced.unwrap_or(NO_TAG),
            cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            referenced_cmd_sn: number,
        };
        self.urgent.push_back((Request::Task(request), Bytes::new()));
        Ok(id)
    }

    /// Ends a command that was never sent.
    fn end_unsent(&mut self, tag: u32) -> CommandId {
        let ended = self.end_request(tag).map(|request| request.id).into_iter().collect();
        let (command, own) = self.open_request(RequestKind::Logout);
        self.end_request(own);
        let response = TaskResponse::Complete;
        self.events.push_back(InitiatorEvent::TaskManagement { command, response, ended });
        command
    }

    /// Asks for targets (RFC 7143, appendix C): all of them in a discovery session, or that one; in
    /// a normal session `None` means the session's own.
    ///
    /// # Errors
    ///
    /// As for [`InitiatorConnection::submit`].
    pub fn send_targets(&mut self, name: Option<&IscsiName>) -> Result<CommandId, UsageError> {
        self.check_room(OTHER_REQUESTS)?;
        let value = match (name, &self.config.target) {
            (Some(name), _) => name.as_str(),
            (None, None) => "All",
            (None, Some(_)) => "",
        };
        let mut text = TextWriter::default();
        text.push("SendTargets", value);
        let assembler = TextAssembler::with_limit(MAX_DISCOVERY);
        let (id, tag) = self.open_request(RequestKind::Text(assembler, 0));
        self.queue_text(tag, NO_TAG, Lun::default(), text.finish().into());
        Ok(id)
    }

    pub(super) fn queue_text(&mut self, task_tag: u32, transfer_tag: u32, lun: Lun, text: Bytes) {
        let request = TextRequest {
            immediate: true,
            is_final: true,
            more: false,
            lun,
            task_tag,
            transfer_tag,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.urgent.push_back((Request::Text(request), text));
    }

    /// Sends a ping. `data` comes back; it is at most as long as the target takes.
    ///
    /// # Errors
    ///
    /// As for [`InitiatorConnection::submit`]; or `data` is too long.
    pub fn ping(&mut self, data: Bytes) -> Result<CommandId, UsageError> {
        self.check_room(OTHER_REQUESTS)?;
        if data.len() > self.parameters.send_limit as usize {
            return Err(UsageError::Range);
        }
        Ok(self.queue_ping(data, true))
    }

    pub(super) fn queue_ping(&mut self, data: Bytes, told: bool) -> CommandId {
        let (id, task_tag) = self.open_request(RequestKind::Ping { told });
        let request = NopOut {
            immediate: true,
            lun: Lun::default(),
            task_tag,
            transfer_tag: NO_TAG,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.urgent.push_back((Request::NopOut(request), data));
        id
    }

    /// Logs out (RFC 7143 11.14). No more requests are taken. Commands that are not sent yet stay
    /// unsent.
    ///
    /// # Errors
    ///
    /// The connection is not in the full feature phase; or the reason is one of recovery, which
    /// this initiator does not have.
    pub fn logout(&mut self, now: Duration, reason: LogoutReason) -> Result<CommandId, UsageError> {
        self.check_room(usize::MAX / 2)?;
        if !matches!(reason, LogoutReason::CloseSession | LogoutReason::CloseConnection) {
            return Err(UsageError::Invalid("a logout closes the session or the connection"));
        }
        let (id, task_tag) = self.open_request(RequestKind::Logout);
        let request = LogoutRequest {
            immediate: true,
            reason,
            task_tag,
            cid: self.config.cid,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.urgent.push_back((Request::Logout(request), Bytes::new()));
        self.phase = InitiatorPhase::LoggingOut;
        self.deadline = now.saturating_add(self.config.login_timeout);
        Ok(id)
    }
}

//! Responses of the full feature phase.

use bytes::Bytes;

use super::connection::{InitiatorConnection, InitiatorPhase};
use super::event::{CommandId, Ending, InitiatorEvent};
use super::open_request::{OpenCommand, RequestKind};
use crate::error::ProtocolError;
use crate::framing::RawPdu;
use crate::lun::Lun;
use crate::pdu::{
    Bhs, LogoutResponse, NO_TAG, NopIn, NopOut, Opcode, Reject, RejectReason, Request, Response,
    TaskFunction, TaskManagementResponse, TaskRequest, TaskResponse,
};
use crate::serial::SerialNumber;

impl InitiatorConnection {
    pub(super) fn handle_pdu(&mut self, pdu: RawPdu) -> Result<(), ProtocolError> {
        if self.phase == InitiatorPhase::Login {
            return self.handle_login_pdu(&pdu);
        }
        let RawPdu { bhs, data, data_is_sound, .. } = pdu;
        let response = Response::parse(&bhs)?;
        if !data_is_sound {
            // RFC 7143 7.8: at ErrorRecoveryLevel 0 the session is recovered.
            return Err(ProtocolError::DataDigest(bhs.opcode()));
        }
        self.take_numbers(&response);
        match response {
            // Those with bytes come in parts.
            Response::DataIn(pdu) => {
                self.check_data_in(&pdu, 0)?;
                self.end_data_in(&pdu);
                Ok(())
            }
            Response::R2t(pdu) => self.handle_r2t(&pdu),
            Response::Scsi(pdu) => self.handle_status(&pdu, &data),
            Response::NopIn(pdu) => self.handle_nop(&pdu, data),
            Response::Task(pdu) => self.handle_management(&pdu),
            Response::Text(pdu) => self.handle_text(&pdu, &data),
            Response::Logout(pdu) => self.handle_logout(&pdu),
            Response::Reject(pdu) => self.handle_reject(&pdu, &data),
            Response::Async(pdu) => {
                let sense = sense_data(&data);
                self.events.push_back(InitiatorEvent::Async { event: pdu.event, sense });
                Ok(())
            }
            Response::Login(_) => Err(ProtocolError::OutOfPlace(bhs.opcode())),
        }
    }

    /// RFC 7143 4.2.2.1, 4.2.2.2: the window only rises; a status acknowledges itself.
    pub(super) fn take_numbers(&mut self, response: &Response) {
        let (exp, max, stat) = numbers(response);
        // MaxCmdSN below ExpCmdSN - 1 is ignored.
        if !max.before(exp - 1) {
            if exp.after(self.exp_cmd_sn) {
                self.exp_cmd_sn = exp;
            }
            if max.after(self.max_cmd_sn) {
                self.max_cmd_sn = max;
            }
        }
        if let Some(stat) = stat
            && !stat.before(self.exp_stat_sn)
        {
            self.exp_stat_sn = stat.next();
        }
    }

    /// The command of a tag that was sent.
    pub(super) fn command(
        &mut self,
        tag: u32,
    ) -> Result<(CommandId, &mut OpenCommand), ProtocolError> {
        match self.open.get_mut(&tag) {
            Some(super::open_request::OpenRequest { id, kind: RequestKind::Command(command) })
                if command.cmd_sn.is_some() =>
            {
                Ok((*id, command))
            }
            _ => Err(ProtocolError::UnknownTag(tag)),
        }
    }

    /// RFC 7143 11.19: the answer to a ping, or a ping.
    fn handle_nop(&mut self, pdu: &NopIn, data: Bytes) -> Result<(), ProtocolError> {
        if pdu.task_tag != NO_TAG {
            let told = match self.open.get(&pdu.task_tag).map(|request| &request.kind) {
                Some(RequestKind::Ping { told }) => *told,
                _ => return Err(Self::unknown(pdu.task_tag)),
            };
            let ended = self.end_request(pdu.task_tag);
            if let Some(request) = ended.filter(|_| told) {
                self.events.push_back(InitiatorEvent::Pong { command: request.id, data });
            }
        } else if pdu.transfer_tag != NO_TAG {
            let answer = NopOut {
                immediate: true,
                lun: pdu.lun,
                task_tag: NO_TAG,
                transfer_tag: pdu.transfer_tag,
                cmd_sn: self.cmd_sn,
                exp_stat_sn: self.exp_stat_sn,
            };
            self.urgent.push_back((Request::NopOut(answer), Bytes::new()));
        }
        Ok(())
    }

    /// RFC 7143 11.6.
    fn handle_management(&mut self, pdu: &TaskManagementResponse) -> Result<(), ProtocolError> {
        let is_open = self.open.get(&pdu.task_tag).map(|request| &request.kind);
        if matches!(is_open, Some(RequestKind::Gap)) {
            self.end_request(pdu.task_tag);
            return Ok(());
        }
        let Some(RequestKind::Task { function, lun, referenced, cmd_sn }) = is_open else {
            return Err(Self::unknown(pdu.task_tag));
        };
        let (function, lun, referenced, cmd_sn) = (*function, *lun, *referenced, *cmd_sn);
        let is_meant = |tag: u32, open: &OpenCommand| {
            let before = open.cmd_sn.is_some_and(|number| number.before(cmd_sn));
            match function {
                TaskFunction::AbortTask => referenced == Some(tag),
                TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset => before,
                TaskFunction::AbortTaskSet
                | TaskFunction::ClearTaskSet
                | TaskFunction::LogicalUnitReset => before && open.command.lun == lun,
                _ => false,
            }
        };
        let meant = self.open.iter().filter_map(|(tag, request)| match &request.kind {
            RequestKind::Command(open) if is_meant(*tag, open) => Some(*tag),
            _ => None,
        });
        let meant: Vec<u32> = match pdu.response {
            TaskResponse::Complete => meant.collect(),
            _ => Vec::new(),
        };
        let ended = meant.into_iter().filter_map(|tag| self.end_request(tag));
        let ended: Vec<CommandId> = ended.map(|request| request.id).collect();
        if let Some(request) = self.end_request(pdu.task_tag) {
            let (command, response) = (request.id, pdu.response);
            self.events.push_back(InitiatorEvent::TaskManagement { command, response, ended });
        }
        Ok(())
    }

    /// RFC 7143 11.15.
    fn handle_logout(&mut self, pdu: &LogoutResponse) -> Result<(), ProtocolError> {
        match self.open.get(&pdu.task_tag).map(|request| &request.kind) {
            Some(RequestKind::Logout) => {
                self.close(Ending::LoggedOut(pdu.response));
                Ok(())
            }
            _ => Err(Self::unknown(pdu.task_tag)),
        }
    }

    /// RFC 7143 11.17.
    fn handle_reject(&mut self, pdu: &Reject, data: &Bytes) -> Result<(), ProtocolError> {
        let reason = pdu.reason;
        let Some(header) = data.first_chunk::<48>() else {
            return Err(ProtocolError::Data("a Reject has no header"));
        };
        let header = Bhs(*header);
        let opcode = header.opcode();
        if opcode == Opcode::ScsiCommand as u8 && reason == RejectReason::DataDigestError {
            // The target waits for the same CmdSN again; the session is recovered instead.
            return Err(ProtocolError::DataDigest(opcode));
        }
        // RFC 7143 7.8: a command whose Data-Out was rejected has a status still to come.
        let is_over = opcode != Opcode::DataOut as u8;
        let ended = if is_over { self.end_request(header.task_tag()) } else { None };
        let command = ended.as_ref().map(|request| request.id);
        if let Some(RequestKind::Command(open)) = ended.map(|request| request.kind)
            && self.phase == InitiatorPhase::FullFeature
            && let Some(number) = open.cmd_sn.filter(|number| !pdu.exp_cmd_sn.after(*number))
        {
            self.close_gap(header.task_tag(), open.command.lun, number);
        }
        self.events.push_back(InitiatorEvent::Rejected { command, reason });
        Ok(())
    }

    /// RFC 7143 7.3, 7.11: a target that has rejected a command does not count it, and delivers
    /// none behind it. It counts the CmdSN when the command is aborted.
    fn close_gap(&mut self, referenced_tag: u32, lun: Lun, referenced_cmd_sn: SerialNumber) {
        let (_, task_tag) = self.open_request(RequestKind::Gap);
        let request = TaskRequest {
            immediate: true,
            function: TaskFunction::AbortTask,
            lun,
            task_tag,
            referenced_tag,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            referenced_cmd_sn,
        };
        self.urgent.push_back((Request::Task(request), Bytes::new()));
    }
}

/// ExpCmdSN, MaxCmdSN, and StatSN if the PDU uses one up.
fn numbers(response: &Response) -> (SerialNumber, SerialNumber, Option<SerialNumber>) {
    match response {
        Response::NopIn(pdu) => {
            let counts = pdu.task_tag != NO_TAG;
            (pdu.exp_cmd_sn, pdu.max_cmd_sn, counts.then_some(pdu.stat_sn))
        }
        Response::DataIn(pdu) => {
            (pdu.exp_cmd_sn, pdu.max_cmd_sn, pdu.status.is_some().then_some(pdu.stat_sn))
        }
        Response::R2t(pdu) => (pdu.exp_cmd_sn, pdu.max_cmd_sn, None),
        Response::Scsi(pdu) => (pdu.exp_cmd_sn, pdu.max_cmd_sn, Some(pdu.stat_sn)),
        Response::Task(pdu) => (pdu.exp_cmd_sn, pdu.max_cmd_sn, Some(pdu.stat_sn)),
        Response::Login(pdu) => (pdu.exp_cmd_sn, pdu.max_cmd_sn, Some(pdu.stat_sn)),
        Response::Text(pdu) => (pdu.exp_cmd_sn, pdu.max_cmd_sn, Some(pdu.stat_sn)),
        Response::Logout(pdu) => (pdu.exp_cmd_sn, pdu.max_cmd_sn, Some(pdu.stat_sn)),
        Response::Async(pdu) => (pdu.exp_cmd_sn, pdu.max_cmd_sn, Some(pdu.stat_sn)),
        Response::Reject(pdu) => (pdu.exp_cmd_sn, pdu.max_cmd_sn, Some(pdu.stat_sn)),
    }
}

/// RFC 7143 11.4.7: the sense data behind SenseLength, as far as it is there.
pub(super) fn sense_data(segment: &Bytes) -> Bytes {
    let Some(length) = segment.first_chunk::<2>() else { return Bytes::new() };
    let length = usize::from(u16::from_be_bytes(*length));
    segment.slice(2..2 + length.min(segment.len() - 2))
}

//! Requests of the full feature phase.

use bytes::Bytes;

use super::connection::TargetConnection;
use super::event::TargetEvent;
use super::output_item::AnswerOutput;
use super::window::Pending;
use crate::error::ProtocolError;
use crate::framing::RawPdu;
use crate::pdu::{Bhs, NO_TAG, NopOut, Opcode, RejectReason, Request};
use crate::settings::SessionType;

impl TargetConnection {
    pub(super) fn handle_pdu(&mut self, pdu: RawPdu) -> Result<(), ProtocolError> {
        if !self.is_full_feature() {
            return Ok(());
        }
        let RawPdu { bhs, ahs, data, data_is_sound } = pdu;
        let request = match Request::parse(&bhs) {
            Ok(request) => request,
            Err(_) => {
                self.reject_unreadable(&bhs);
                return Ok(());
            }
        };
        self.counters.digest_errors += u64::from(!data_is_sound);
        if !data_is_sound && !matches!(request, Request::DataOut(_)) {
            // RFC 7143 7.8: the PDU is discarded; its CmdSN is not used up, so it can come again.
            self.reject(bhs, RejectReason::DataDigestError);
            return Ok(());
        }
        // RFC 7143 4.3: a discovery session has no commands.
        let is_command = matches!(request, Request::Command(_) | Request::Task(_));
        if self.session == SessionType::Discovery && is_command {
            self.reject_numbered(&bhs, &request, RejectReason::CommandNotSupported);
            self.deliver();
            return Ok(());
        }
        match request {
            Request::DataOut(pdu) => self.handle_data_out(&bhs, &pdu, data, data_is_sound),
            // RFC 7143 11.16: ErrorRecoveryLevel 0 has no SNACK.
            Request::Snack(_) => self.reject(bhs, RejectReason::SnackReject),
            // RFC 7143 6.3: a connection logs in once.
            Request::Login(_) => self.reject(bhs, RejectReason::ProtocolError),
            Request::Command(command) => self.handle_command(&bhs, &command, &ahs, data),
            request => self.handle_numbered(&bhs, request, data),
        }
        self.deliver();
        Ok(())
    }

    /// A PDU that cannot be read. If it has a CmdSN, that is used up. RFC 7143 7.7 would end the
    /// connection; a Reject tells an initiator more about its fault.
    fn reject_unreadable(&mut self, bhs: &Bhs) {
        let known = Opcode::from_code(bhs.opcode()).is_some_and(|opcode| (opcode as u8) < 0x20);
        let reason = match known {
            true => RejectReason::InvalidPduField,
            false => RejectReason::CommandNotSupported,
        };
        let numbered = known && bhs.opcode() != Opcode::DataOut as u8 && !bhs.immediate();
        let number = crate::serial::SerialNumber::new(bhs.u32_at(24));
        if let Some(place) = self.window.place(number).filter(|_| numbered) {
            self.window.put(place, Pending::Skip);
        }
        self.reject(*bhs, reason);
        self.deliver();
    }

    /// Rejects a request that can be read. Its CmdSN is used up. RFC 7143 7.3 leaves a gap that the
    /// initiator has to close, but Linux's initiator only logs a Reject: its session would stand.
    pub(super) fn reject_numbered(&mut self, bhs: &Bhs, request: &Request, reason: RejectReason) {
        if let Some((false, number)) = request.command_number() {
            let Some(place) = self.window.place(number) else { return };
            self.window.put(place, Pending::Skip);
        }
        self.reject(*bhs, reason);
    }

    /// Requests with a CmdSN that are no commands.
    fn handle_numbered(&mut self, bhs: &Bhs, request: Request, data: Bytes) {
        let Some((immediate, number)) = request.command_number() else { return };
        let pending = match request {
            Request::NopOut(nop) => Pending::Nop(nop, data),
            Request::Task(task) => Pending::Task(task),
            Request::Text(text) => Pending::Text(text, data),
            Request::Logout(logout) => Pending::Logout(logout),
            _ => return,
        };
        if immediate {
            let full = self.managements.len() >= usize::from(self.config.max_immediate);
            if full && matches!(pending, Pending::Task(_)) {
                // RFC 7143 11.17.1
                self.reject(*bhs, RejectReason::ImmediateCommandReject);
                return;
            }
            self.perform(pending);
        } else if let Some(place) = self.window.place(number) {
            self.window.put(place, pending);
        }
    }

    /// Delivers the requests whose turn it is.
    pub(super) fn deliver(&mut self) {
        while self.is_full_feature() {
            match self.window.front() {
                // A command waits for its unsolicited data, and all after it with it.
                Some(Pending::Command(tag)) if self.must_wait(*tag) => break,
                Some(_) => {}
                None => break,
            }
            match self.window.take() {
                Some(pending) => self.perform(pending),
                None => break,
            }
        }
        self.ask_for_data();
    }

    fn must_wait(&self, tag: u32) -> bool {
        self.tasks.get(&tag).is_some_and(super::task::Task::awaits_unsolicited)
    }

    fn perform(&mut self, pending: Pending) {
        match pending {
            Pending::Command(tag) => self.deliver_command(tag),
            Pending::Task(request) => self.handle_management(&request),
            Pending::Text(request, data) => self.handle_text(&request, &data),
            Pending::Logout(request) => self.handle_logout(&request),
            Pending::Nop(nop, data) => self.handle_nop(nop, &data),
            Pending::Skip => {}
        }
    }

    /// RFC 7143 11.18: a ping is answered; an answer to a ping of ours ends there.
    fn handle_nop(&mut self, nop: NopOut, data: &Bytes) {
        if nop.task_tag != NO_TAG {
            // RFC 7143 11.19: as much of the data as the initiator takes.
            let length = data.len().min(self.parameters.send_limit as usize);
            self.answers.push_back(AnswerOutput::Nop(nop, data.slice(..length)));
        } else if nop.transfer_tag != NO_TAG {
            self.events.push_back(TargetEvent::Pong);
        }
    }
}

//! Data-In, R2Ts, statuses and texts.

use bytes::Bytes;

use super::connection::InitiatorConnection;
use super::event::{CommandId, DiscoveredTarget, InitiatorEvent};
use super::input::sense_data;
use super::open_request::{DataRun, IncomingData, RequestKind};
use crate::error::ProtocolError;
use crate::pdu::{Bhs, DataIn, Opcode, R2t, Response, ScsiResponse, ServiceResponse, TextResponse};
use crate::residual::Residual;
use crate::text;

/// Most pairs of a text of SendTargets.
const MAX_TARGET_PAIRS: usize = 65_536;
/// Most PDUs of a text.
const MAX_TEXT_PDUS: u32 = 4096;

impl InitiatorConnection {
    /// RFC 7143 11.7: the header of a PDU whose payload comes in parts.
    pub(super) fn begin_data_in(&mut self, bhs: &Bhs) -> Result<(), ProtocolError> {
        let Response::DataIn(pdu) = Response::parse(bhs)? else {
            return Err(ProtocolError::OutOfPlace(bhs.opcode()));
        };
        let id = self.check_data_in(&pdu, bhs.data_len())?;
        self.incoming = Some(IncomingData { id, offset: pdu.offset, pdu });
        Ok(())
    }

    /// The next bytes of the payload; with the last ones whether all are sound.
    pub(super) fn handle_part(
        &mut self,
        data: Bytes,
        is_sound: Option<bool>,
    ) -> Result<(), ProtocolError> {
        let Some(incoming) = &mut self.incoming else { return Ok(()) };
        if !data.is_empty() {
            let (command, offset) = (incoming.id, incoming.offset);
            incoming.offset += u32::try_from(data.len()).unwrap_or(0);
            self.events.push_back(InitiatorEvent::DataIn { command, offset, data });
        }
        match is_sound {
            None => {}
            // RFC 7143 7.8: the task ends with an error. Its header is to be trusted then, by a
            // digest of its own; without one the session is recovered.
            Some(false) if !self.parameters.header_digest => {
                return Err(ProtocolError::DataDigest(Opcode::DataIn as u8));
            }
            Some(sound) => {
                if let Some(IncomingData { id, pdu, .. }) = self.incoming.take() {
                    if !sound {
                        self.command(pdu.task_tag)?.1.is_damaged = true;
                        self.events.push_back(InitiatorEvent::Damaged { command: id });
                    }
                    self.take_numbers(&Response::DataIn(pdu));
                    self.end_data_in(&pdu);
                }
            }
        }
        Ok(())
    }

    /// Whether a Data-In of `length` bytes is in order; its command.
    pub(super) fn check_data_in(
        &mut self,
        pdu: &DataIn,
        length: u32,
    ) -> Result<CommandId, ProtocolError> {
        let wrong = |what| Err(ProtocolError::Data(what));
        let in_order = self.parameters.data_pdu_in_order && self.parameters.data_sequence_in_order;
        let (id, command) = self.command(pdu.task_tag)?;
        if pdu.data_sn.get() != command.data_sn {
            // RFC 7143 7.9
            return wrong("a DataSN is missing");
        }
        if pdu.acknowledge {
            return wrong("an acknowledgement is asked for at ErrorRecoveryLevel 0");
        }
        let expected = command.command.expected_in;
        let fits = pdu.offset.checked_add(length).is_some_and(|end| end <= expected);
        let received = command.received.saturating_add(length);
        if !fits || received > expected {
            return wrong("data-in is longer than expected");
        }
        if in_order && length > 0 && pdu.offset != command.next_offset {
            return wrong("data-in is not in order");
        }
        command.data_sn = command.data_sn.wrapping_add(1);
        command.received = received;
        command.next_offset = pdu.offset + length;
        Ok(id)
    }

    /// A Data-In is there. It may be the command's end.
    pub(super) fn end_data_in(&mut self, pdu: &DataIn) {
        if let Some((status, residual)) = pdu.status
            && let Some(request) = self.end_request(pdu.task_tag)
        {
            self.events.push_back(InitiatorEvent::Response {
                command: request.id,
                response: request.kind.response(ServiceResponse::Completed),
                status,
                sense: Bytes::new(),
                residual,
                read_residual: Residual::None,
            });
        }
    }

    /// RFC 7143 11.8.
    pub(super) fn handle_r2t(&mut self, pdu: &R2t) -> Result<(), ProtocolError> {
        let wrong = |what| Err(ProtocolError::Data(what));
        let (max_burst, most) = (self.parameters.max_burst, self.parameters.max_outstanding_r2t);
        let (_, command) = self.command(pdu.task_tag)?;
        if pdu.r2t_sn.get() != command.r2t_sn {
            return wrong("an R2TSN is missing");
        }
        let end = pdu.offset.checked_add(pdu.length);
        if end.is_none_or(|end| end > command.out_length) || pdu.length > max_burst {
            return wrong("an R2T asks for more than there is or was agreed");
        }
        if command.open_r2ts >= most {
            return wrong("there are more R2Ts than were agreed");
        }
        command.r2t_sn = command.r2t_sn.wrapping_add(1);
        command.open_r2ts += 1;
        let lun = command.command.lun;
        self.runs.push_back(DataRun {
            tag: pdu.task_tag,
            transfer_tag: pdu.transfer_tag,
            lun,
            offset: pdu.offset,
            left: pdu.length,
            data_sn: 0,
        });
        Ok(())
    }

    /// RFC 7143 11.4.
    pub(super) fn handle_status(
        &mut self,
        pdu: &ScsiResponse,
        data: &Bytes,
    ) -> Result<(), ProtocolError> {
        let (id, command) = self.command(pdu.task_tag)?;
        let seen = command.data_sn.wrapping_add(command.r2t_sn);
        // RFC 7143 11.4.8, 7.9: fewer PDUs came than were sent.
        if pdu.response == ServiceResponse::Completed && pdu.exp_data_sn.get() > seen {
            return Err(ProtocolError::Data("a data PDU is missing before the status"));
        }
        let ended = self.end_request(pdu.task_tag);
        let response = ended.map_or(pdu.response, |ended| ended.kind.response(pdu.response));
        self.events.push_back(InitiatorEvent::Response {
            command: id,
            response,
            status: pdu.status,
            sense: sense_data(data),
            residual: pdu.residual,
            read_residual: pdu.read_residual,
        });
        Ok(())
    }

    /// RFC 7143 11.11.
    pub(super) fn handle_text(
        &mut self,
        pdu: &TextResponse,
        data: &Bytes,
    ) -> Result<(), ProtocolError> {
        let is_open = self.open.get_mut(&pdu.task_tag).map(|request| &mut request.kind);
        let Some(RequestKind::Text(assembler, pdus)) = is_open else {
            return Err(Self::unknown(pdu.task_tag));
        };
        *pdus += 1;
        if *pdus > MAX_TEXT_PDUS {
            return Err(ProtocolError::Text("it has too many PDUs"));
        }
        match assembler.push(data, !pdu.is_final)? {
            Some(text) => {
                let targets = targets(&text)?;
                if let Some(request) = self.end_request(pdu.task_tag) {
                    let command = request.id;
                    self.events.push_back(InitiatorEvent::Targets { command, targets });
                }
            }
            None => self.queue_text(pdu.task_tag, pdu.transfer_tag, pdu.lun, Bytes::new()),
        }
        Ok(())
    }
}

/// RFC 7143, appendix C: each target's name is followed by its addresses.
fn targets(text: &[u8]) -> Result<Vec<DiscoveredTarget>, ProtocolError> {
    let mut targets: Vec<DiscoveredTarget> = Vec::new();
    for (key, value) in text::parse_up_to(text, MAX_TARGET_PAIRS)? {
        match (key, targets.last_mut()) {
            ("TargetName", _) => {
                let name = value.parse();
                let name = name.map_err(|_| ProtocolError::Text("a target has no iSCSI name"))?;
                targets.push(DiscoveredTarget { name, addresses: Vec::new() });
            }
            ("TargetAddress", Some(target)) => target.addresses.push(value.to_owned()),
            ("TargetAddress", None) => {
                return Err(ProtocolError::Text("an address has no target"));
            }
            _ => {}
        }
    }
    Ok(targets)
}

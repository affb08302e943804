//! PDUs out of the queues.

use bytes::Bytes;

use super::connection::{InitiatorConnection, InitiatorPhase};
use super::open_request::{DataRun, OpenCommand, RequestKind, part_of};
use crate::framing::encode;
use crate::pdu::{Ahs, DataOut, NO_TAG, Request, ScsiCommand, TaskAttribute};
use crate::serial::SerialNumber;
use crate::transmit::Transmit;

impl InitiatorConnection {
    /// The next PDU to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some((mut request, data)) = self.urgent.pop_front() {
            self.acknowledge(&mut request);
            return Some(self.encode(&request, &[], vec![data]));
        }
        if let Some(run) = self.runs.pop_front() {
            return self.emit_data(run);
        }
        // RFC 7143 4.2.2.1: a command is inside of the window.
        let is_open = self.phase == InitiatorPhase::FullFeature;
        if !is_open || self.cmd_sn.after(self.max_cmd_sn) {
            return None;
        }
        let tag = self.queue.pop_front()?;
        self.emit_command(tag)
    }

    fn encode(&self, request: &Request, ahs: &[u8], data: Vec<Bytes>) -> Transmit {
        let digests = match request {
            Request::Login(_) => (false, false),
            _ => (self.parameters.header_digest, self.parameters.data_digest),
        };
        encode(request.emit(), ahs, data, digests)
    }

    /// ExpStatSN acknowledges at the time of sending (RFC 7143 4.2.2.2).
    fn acknowledge(&self, request: &mut Request) {
        let number = self.exp_stat_sn;
        match request {
            Request::NopOut(pdu) => pdu.exp_stat_sn = number,
            Request::Command(pdu) => pdu.exp_stat_sn = number,
            Request::Task(pdu) => pdu.exp_stat_sn = number,
            Request::Login(pdu) => pdu.exp_stat_sn = number,
            Request::Text(pdu) => pdu.exp_stat_sn = number,
            Request::DataOut(pdu) => pdu.exp_stat_sn = number,
            Request::Logout(pdu) => pdu.exp_stat_sn = number,
            Request::Snack(pdu) => pdu.exp_stat_sn = number,
        }
    }

    /// The command of a tag, sent or not.
    fn any_command(&mut self, tag: u32) -> Option<&mut OpenCommand> {
        match self.open.get_mut(&tag).map(|request| &mut request.kind) {
            Some(RequestKind::Command(command)) => Some(command),
            _ => None,
        }
    }

    /// RFC 7143 11.3: with immediate data, and unsolicited data behind it.
    fn emit_command(&mut self, tag: u32) -> Option<Transmit> {
        let (cmd_sn, exp_stat_sn) = (self.cmd_sn, self.exp_stat_sn);
        let parameters = self.parameters.clone();
        let open = self.any_command(tag)?;
        open.cmd_sn = Some(cmd_sn);
        let command = &open.command;
        let first_burst = open.out_length.min(parameters.first_burst);
        // RFC 7143 13.11
        let immediate = match parameters.immediate_data {
            true => first_burst.min(parameters.send_limit),
            false => 0,
        };
        // RFC 7143 13.10
        let unsolicited = if parameters.initial_r2t { 0 } else { first_burst - immediate };
        let mut cdb = [0; 16];
        let length = command.cdb.len().min(16);
        cdb[..length].copy_from_slice(&command.cdb[..length]);
        let (read, write) = (command.expected_in > 0, open.out_length > 0);
        let ahs = Ahs {
            extended_cdb: command.cdb.slice(length..),
            read_length: (read && write).then_some(command.expected_in),
        };
        let pdu = ScsiCommand {
            immediate: false,
            is_final: unsolicited == 0,
            read,
            write,
            attribute: command.attribute.unwrap_or(TaskAttribute::Simple),
            lun: command.lun,
            task_tag: tag,
            expected_length: if write { open.out_length } else { command.expected_in },
            cmd_sn,
            exp_stat_sn,
            cdb,
        };
        let data = part_of(&command.data_out, 0, immediate);
        self.cmd_sn = cmd_sn.next();
        if unsolicited > 0 {
            self.runs.push_back(DataRun {
                tag,
                transfer_tag: NO_TAG,
                lun: pdu.lun,
                offset: immediate,
                left: unsolicited,
                data_sn: 0,
            });
        }
        Some(self.encode(&Request::Command(pdu), &ahs.emit(), data))
    }

    /// RFC 7143 11.7.
    fn emit_data(&mut self, mut run: DataRun) -> Option<Transmit> {
        let (limit, exp_stat_sn) = (self.parameters.send_limit, self.exp_stat_sn);
        let step = run.left.min(limit);
        let is_final = step == run.left;
        let command = self.any_command(run.tag)?;
        let data = part_of(&command.command.data_out, run.offset, step);
        if is_final && run.transfer_tag != NO_TAG {
            command.open_r2ts = command.open_r2ts.saturating_sub(1);
        }
        let request = Request::DataOut(DataOut {
            is_final,
            lun: run.lun,
            task_tag: run.tag,
            transfer_tag: run.transfer_tag,
            exp_stat_sn,
            data_sn: SerialNumber::new(run.data_sn),
            offset: run.offset,
        });
        if !is_final {
            run.offset += step;
            run.left -= step;
            run.data_sn += 1;
            self.runs.push_front(run);
        }
        Some(self.encode(&request, &[], data))
    }
}

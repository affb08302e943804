//! The PDUs of an initiator.

use super::bhs::{Bhs, NO_TAG, Opcode};
use super::codes::{LogoutReason, TaskAttribute, TaskFunction};
use super::login::LoginRequest;
use crate::lun::Lun;
use crate::pdu_error::PduError;
use crate::serial::SerialNumber;

/// A PDU that an initiator sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the types are documented")]
pub enum Request {
    NopOut(NopOut),
    Command(ScsiCommand),
    Task(TaskRequest),
    Login(LoginRequest),
    Text(TextRequest),
    DataOut(DataOut),
    Logout(LogoutRequest),
    Snack(SnackRequest),
}

/// NOP-Out (RFC 7143 11.18): a ping, or the answer to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NopOut {
    /// The I bit.
    pub immediate: bool,
    /// Of the NOP-In that this answers.
    pub lun: Lun,
    /// [`NO_TAG`] if no answer is wanted.
    pub task_tag: u32,
    /// Of the NOP-In that this answers, or [`NO_TAG`].
    pub transfer_tag: u32,
    /// CmdSN.
    pub cmd_sn: SerialNumber,
    /// ExpStatSN.
    pub exp_stat_sn: SerialNumber,
}

/// SCSI Command (RFC 7143 11.3). Additional headers are beside it; its data is immediate data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScsiCommand {
    /// The I bit.
    pub immediate: bool,
    /// The F bit: no unsolicited Data-Out follows.
    pub is_final: bool,
    /// The R bit.
    pub read: bool,
    /// The W bit.
    pub write: bool,
    /// The task attribute.
    pub attribute: TaskAttribute,
    /// The logical unit.
    pub lun: Lun,
    /// The Initiator Task Tag.
    pub task_tag: u32,
    /// Expected Data Transfer Length in bytes: of data-out with `write`, else of data-in.
    pub expected_length: u32,
    /// CmdSN.
    pub cmd_sn: SerialNumber,
    /// ExpStatSN.
    pub exp_stat_sn: SerialNumber,
    /// The first 16 bytes of the command block.
    pub cdb: [u8; 16],
}

/// Task Management Function Request (RFC 7143 11.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRequest {
    /// The I bit.
    pub immediate: bool,
    /// The function.
    pub function: TaskFunction,
    /// The logical unit.
    pub lun: Lun,
    /// The Initiator Task Tag of this request.
    pub task_tag: u32,
    /// The tag of the task that is meant, or [`NO_TAG`].
    pub referenced_tag: u32,
    /// CmdSN.
    pub cmd_sn: SerialNumber,
    /// ExpStatSN.
    pub exp_stat_sn: SerialNumber,
    /// CmdSN of the task that is meant.
    pub referenced_cmd_sn: SerialNumber,
}

/// Text Request (RFC 7143 11.10). Its data is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextRequest {
    /// The I bit.
    pub immediate: bool,
    /// The F bit: the initiator has no more to say.
    pub is_final: bool,
    /// The C bit: the text goes on in the next request.
    pub more: bool,
    /// The logical unit of the response that this goes on with.
    pub lun: Lun,
    /// The Initiator Task Tag.
    pub task_tag: u32,
    /// Of the response that this goes on with, or [`NO_TAG`].
    pub transfer_tag: u32,
    /// CmdSN.
    pub cmd_sn: SerialNumber,
    /// ExpStatSN.
    pub exp_stat_sn: SerialNumber,
}

/// SCSI Data-Out (RFC 7143 11.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataOut {
    /// The F bit: the last of its sequence.
    pub is_final: bool,
    /// The logical unit, as in the R2T.
    pub lun: Lun,
    /// The task.
    pub task_tag: u32,
    /// Of the R2T, or [`NO_TAG`] for unsolicited data.
    pub transfer_tag: u32,
    /// ExpStatSN.
    pub exp_stat_sn: SerialNumber,
    /// The number within the sequence.
    pub data_sn: SerialNumber,
    /// Where the payload begins in the command's data, in bytes.
    pub offset: u32,
}

/// Logout Request (RFC 7143 11.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogoutRequest {
    /// The I bit.
    pub immediate: bool,
    /// What is to end.
    pub reason: LogoutReason,
    /// The Initiator Task Tag.
    pub task_tag: u32,
    /// The connection, unless the session ends.
    pub cid: u16,
    /// CmdSN.
    pub cmd_sn: SerialNumber,
    /// ExpStatSN.
    pub exp_stat_sn: SerialNumber,
}

/// SNACK Request (RFC 7143 11.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnackRequest {
    /// The type: four bits.
    pub kind: u8,
    /// The logical unit.
    pub lun: Lun,
    /// The task.
    pub task_tag: u32,
    /// Target Transfer Tag or SNACK Tag.
    pub transfer_tag: u32,
    /// ExpStatSN.
    pub exp_stat_sn: SerialNumber,
    /// BegRun.
    pub begin: u32,
    /// RunLength.
    pub length: u32,
}

impl Request {
    /// Reads a header.
    ///
    /// # Errors
    ///
    /// The operation is not one of an initiator, or a field has a value that it cannot have. The
    /// initiator is at fault.
    pub fn parse(bhs: &Bhs) -> Result<Self, PduError> {
        let opcode = Opcode::from_code(bhs.opcode()).ok_or(PduError::Opcode(bhs.opcode()))?;
        Ok(match opcode {
            Opcode::NopOut => Self::NopOut(NopOut::parse(bhs)?),
            Opcode::ScsiCommand => Self::Command(ScsiCommand::parse(bhs)?),
            Opcode::TaskRequest => Self::Task(TaskRequest::parse(bhs)),
            Opcode::LoginRequest => Self::Login(LoginRequest::parse(bhs)?),
            Opcode::TextRequest => Self::Text(TextRequest::parse(bhs)?),
            Opcode::DataOut => Self::DataOut(DataOut::parse(bhs)),
            Opcode::LogoutRequest => Self::Logout(LogoutRequest::parse(bhs)),
            Opcode::SnackRequest => Self::Snack(SnackRequest::parse(bhs)),
            _ => return Err(PduError::Opcode(bhs.opcode())),
        })
    }

    /// The header, with both lengths 0.
    pub fn emit(&self) -> Bhs {
        match self {
            Self::NopOut(pdu) => pdu.emit(),
            Self::Command(pdu) => pdu.emit(),
            Self::Task(pdu) => pdu.emit(),
            Self::Login(pdu) => pdu.emit(),
            Self::Text(pdu) => pdu.emit(),
            Self::DataOut(pdu) => pdu.emit(),
            Self::Logout(pdu) => pdu.emit(),
            Self::Snack(pdu) => pdu.emit(),
        }
    }

    /// I bit and CmdSN of a PDU that is a command to the target; `None` for Data-Out and SNACK,
    /// which have no CmdSN.
    pub const fn command_number(&self) -> Option<(bool, SerialNumber)> {
        match self {
            Self::NopOut(pdu) => Some((pdu.immediate, pdu.cmd_sn)),
            Self::Command(pdu) => Some((pdu.immediate, pdu.cmd_sn)),
            Self::Task(pdu) => Some((pdu.immediate, pdu.cmd_sn)),
            Self::Login(pdu) => Some((true, pdu.cmd_sn)),
            Self::Text(pdu) => Some((pdu.immediate, pdu.cmd_sn)),
            Self::Logout(pdu) => Some((pdu.immediate, pdu.cmd_sn)),
            Self::DataOut(_) | Self::Snack(_) => None,
        }
    }
}

fn lun(bhs: &Bhs) -> Lun {
    Lun::from_bytes(bhs.bytes_at(8))
}

fn number(bhs: &Bhs, at: usize) -> SerialNumber {
    SerialNumber::new(bhs.u32_at(at))
}

/// Operation, I bit, F bit, LUN, tag, CmdSN and ExpStatSN, which most requests have.
fn head(
    opcode: Opcode,
    immediate: bool,
    is_final: bool,
    lun: Lun,
    tag: u32,
    numbers: [u32; 2],
) -> Bhs {
    Bhs::new(opcode)
        .with_bits(0, 0x40, immediate)
        .with_bits(1, 0x80, is_final)
        .with(8, &lun.bytes())
        .with_u32(16, tag)
        .with_u32(24, numbers[0])
        .with_u32(28, numbers[1])
}

impl NopOut {
    fn parse(bhs: &Bhs) -> Result<Self, PduError> {
        let pdu = Self {
            immediate: bhs.immediate(),
            lun: lun(bhs),
            task_tag: bhs.task_tag(),
            transfer_tag: bhs.u32_at(20),
            cmd_sn: number(bhs, 24),
            exp_stat_sn: number(bhs, 28),
        };
        // RFC 7143 11.18.1: a NOP-Out that wants no answer is immediate.
        if pdu.task_tag == NO_TAG && !pdu.immediate {
            return Err(PduError::field(Opcode::NopOut as u8, "I"));
        }
        Ok(pdu)
    }

    fn emit(&self) -> Bhs {
        let numbers = [self.cmd_sn.get(), self.exp_stat_sn.get()];
        head(Opcode::NopOut, self.immediate, true, self.lun, self.task_tag, numbers)
            .with_u32(20, self.transfer_tag)
    }
}

impl ScsiCommand {
    fn parse(bhs: &Bhs) -> Result<Self, PduError> {
        let flags = bhs.0[1];
        let pdu = Self {
            immediate: bhs.immediate(),
            is_final: flags & 0x80 != 0,
            read: flags & 0x40 != 0,
            write: flags & 0x20 != 0,
            attribute: TaskAttribute::from_code(flags & 7),
            lun: lun(bhs),
            task_tag: bhs.task_tag(),
            expected_length: bhs.u32_at(20),
            cmd_sn: number(bhs, 24),
            exp_stat_sn: number(bhs, 28),
            cdb: bhs.bytes_at(32),
        };
        let wrong = |field| Err(PduError::field(Opcode::ScsiCommand as u8, field));
        // RFC 7143 11.3.1: without W, no unsolicited data can follow.
        if !pdu.is_final && !pdu.write {
            return wrong("F");
        }
        if pdu.task_tag == NO_TAG {
            return wrong("Initiator Task Tag");
        }
        Ok(pdu)
    }

    fn emit(&self) -> Bhs {
        let numbers = [self.cmd_sn.get(), self.exp_stat_sn.get()];
        let opcode = Opcode::ScsiCommand;
        head(opcode, self.immediate, self.is_final, self.lun, self.task_tag, numbers)
            .with_bits(1, 0x40, self.read)
            .with_bits(1, 0x20, self.write)
            .with_bits(1, self.attribute.code() & 7, true)
            .with_u32(20, self.expected_length)
            .with(32, &self.cdb)
    }
}

impl TaskRequest {
    fn parse(bhs: &Bhs) -> Self {
        Self {
            immediate: bhs.immediate(),
            function: TaskFunction::from_code(bhs.0[1] & 0x7f),
            lun: lun(bhs),
            task_tag: bhs.task_tag(),
            referenced_tag: bhs.u32_at(20),
            cmd_sn: number(bhs, 24),
            exp_stat_sn: number(bhs, 28),
            referenced_cmd_sn: number(bhs, 32),
        }
    }

    fn emit(&self) -> Bhs {
        let numbers = [self.cmd_sn.get(), self.exp_stat_sn.get()];
        head(Opcode::TaskRequest, self.immediate, true, self.lun, self.task_tag, numbers)
            .with_bits(1, self.function.code() & 0x7f, true)
            .with_u32(20, self.referenced_tag)
            .with_u32(32, self.referenced_cmd_sn.get())
    }
}

impl TextRequest {
    fn parse(bhs: &Bhs) -> Result<Self, PduError> {
        let pdu = Self {
            immediate: bhs.immediate(),
            is_final: bhs.is_final(),
            more: bhs.0[1] & 0x40 != 0,
            lun: lun(bhs),
            task_tag: bhs.task_tag(),
            transfer_tag: bhs.u32_at(20),
            cmd_sn: number(bhs, 24),
            exp_stat_sn: number(bhs, 28),
        };
        // RFC 7143 11.10.2
        if pdu.is_final && pdu.more {
            return Err(PduError::field(Opcode::TextRequest as u8, "C"));
        }
        Ok(pdu)
    }

    fn emit(&self) -> Bhs {
        let numbers = [self.cmd_sn.get(), self.exp_stat_sn.get()];
        let opcode = Opcode::TextRequest;
        head(opcode, self.immediate, self.is_final, self.lun, self.task_tag, numbers)
            .with_bits(1, 0x40, self.more)
            .with_u32(20, self.transfer_tag)
    }
}

impl DataOut {
    fn parse(bhs: &Bhs) -> Self {
        Self {
            is_final: bhs.is_final(),
            lun: lun(bhs),
            task_tag: bhs.task_tag(),
            transfer_tag: bhs.u32_at(20),
            exp_stat_sn: number(bhs, 28),
            data_sn: number(bhs, 36),
            offset: bhs.u32_at(40),
        }
    }

    fn emit(&self) -> Bhs {
        let numbers = [0, self.exp_stat_sn.get()];
        head(Opcode::DataOut, false, self.is_final, self.lun, self.task_tag, numbers)
            .with_u32(20, self.transfer_tag)
            .with_u32(36, self.data_sn.get())
            .with_u32(40, self.offset)
    }
}

impl LogoutRequest {
    fn parse(bhs: &Bhs) -> Self {
        Self {
            immediate: bhs.immediate(),
            reason: LogoutReason::from_code(bhs.0[1] & 0x7f),
            task_tag: bhs.task_tag(),
            cid: bhs.u16_at(20),
            cmd_sn: number(bhs, 24),
            exp_stat_sn: number(bhs, 28),
        }
    }

    fn emit(&self) -> Bhs {
        let numbers = [self.cmd_sn.get(), self.exp_stat_sn.get()];
        let opcode = Opcode::LogoutRequest;
        head(opcode, self.immediate, true, Lun::default(), self.task_tag, numbers)
            .with_bits(1, self.reason.code() & 0x7f, true)
            .with(20, &self.cid.to_be_bytes())
    }
}

impl SnackRequest {
    fn parse(bhs: &Bhs) -> Self {
        Self {
            kind: bhs.0[1] & 0xf,
            lun: lun(bhs),
            task_tag: bhs.task_tag(),
            transfer_tag: bhs.u32_at(20),
            exp_stat_sn: number(bhs, 28),
            begin: bhs.u32_at(40),
            length: bhs.u32_at(44),
        }
    }

    fn emit(&self) -> Bhs {
        let numbers = [0, self.exp_stat_sn.get()];
        head(Opcode::SnackRequest, false, true, self.lun, self.task_tag, numbers)
            .with_bits(1, self.kind & 0xf, true)
            .with_u32(20, self.transfer_tag)
            .with_u32(40, self.begin)
            .with_u32(44, self.length)
    }
}

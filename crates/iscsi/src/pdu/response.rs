//! The PDUs of a target.

use super::async_message::AsyncMessage;
use super::bhs::{Bhs, NO_TAG, Opcode};
use super::codes::{LogoutResponseCode, RejectReason, ServiceResponse, TaskResponse};
use super::login::LoginResponse;
use crate::lun::Lun;
use crate::pdu_error::PduError;
use crate::residual::Residual;
use crate::serial::SerialNumber;

/// A PDU that a target sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the types are documented")]
pub enum Response {
    NopIn(NopIn),
    Scsi(ScsiResponse),
    Task(TaskManagementResponse),
    Login(LoginResponse),
    Text(TextResponse),
    DataIn(DataIn),
    Logout(LogoutResponse),
    R2t(R2t),
    Async(AsyncMessage),
    Reject(Reject),
}

/// NOP-In (RFC 7143 11.19): a ping, or the answer to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NopIn {
    /// Goes back in the initiator's answer.
    pub lun: Lun,
    /// Of the NOP-Out that this answers, or [`NO_TAG`].
    pub task_tag: u32,
    /// [`NO_TAG`] if no answer is wanted.
    pub transfer_tag: u32,
    /// StatSN.
    pub stat_sn: SerialNumber,
    /// ExpCmdSN.
    pub exp_cmd_sn: SerialNumber,
    /// MaxCmdSN.
    pub max_cmd_sn: SerialNumber,
}

/// SCSI Response (RFC 7143 11.4). Its data is SenseLength and sense bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScsiResponse {
    /// The answer of the iSCSI layer.
    pub response: ServiceResponse,
    /// The SCSI status.
    pub status: u8,
    /// Residual of the read part of a bidirectional command.
    pub read_residual: Residual,
    /// Residual of the command.
    pub residual: Residual,
    /// The Initiator Task Tag.
    pub task_tag: u32,
    /// StatSN.
    pub stat_sn: SerialNumber,
    /// ExpCmdSN.
    pub exp_cmd_sn: SerialNumber,
    /// MaxCmdSN.
    pub max_cmd_sn: SerialNumber,
    /// ExpDataSN: how many Data-In and R2T PDUs the target sent for the command.
    pub exp_data_sn: SerialNumber,
}

/// Task Management Function Response (RFC 7143 11.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskManagementResponse {
    /// The outcome.
    pub response: TaskResponse,
    /// The Initiator Task Tag.
    pub task_tag: u32,
    /// StatSN.
    pub stat_sn: SerialNumber,
    /// ExpCmdSN.
    pub exp_cmd_sn: SerialNumber,
    /// MaxCmdSN.
    pub max_cmd_sn: SerialNumber,
}

/// Text Response (RFC 7143 11.11). Its data is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextResponse {
    /// The F bit: the target has no more to say.
    pub is_final: bool,
    /// The C bit: the text goes on in the next response.
    pub more: bool,
    /// Goes back in the initiator's next request.
    pub lun: Lun,
    /// The Initiator Task Tag.
    pub task_tag: u32,
    /// For the next request, or [`NO_TAG`] with F.
    pub transfer_tag: u32,
    /// StatSN.
    pub stat_sn: SerialNumber,
    /// ExpCmdSN.
    pub exp_cmd_sn: SerialNumber,
    /// MaxCmdSN.
    pub max_cmd_sn: SerialNumber,
}

/// SCSI Data-In (RFC 7143 11.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataIn {
    /// The F bit: the last of its sequence.
    pub is_final: bool,
    /// The A bit: the target wants an acknowledgement (ErrorRecoveryLevel 1 and above).
    pub acknowledge: bool,
    /// The S bit, with SCSI status and residual: the command is done.
    pub status: Option<(u8, Residual)>,
    /// The logical unit, if there is a transfer tag.
    pub lun: Lun,
    /// The Initiator Task Tag.
    pub task_tag: u32,
    /// For an acknowledgement, or [`NO_TAG`].
    pub transfer_tag: u32,
    /// StatSN; valid with `status`.
    pub stat_sn: SerialNumber,
    /// ExpCmdSN.
    pub exp_cmd_sn: SerialNumber,
    /// MaxCmdSN.
    pub max_cmd_sn: SerialNumber,
    /// The number within the command.
    pub data_sn: SerialNumber,
    /// Where the payload begins in the command's data, in bytes.
    pub offset: u32,
}

/// Logout Response (RFC 7143 11.15). Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogoutResponse {
    /// The outcome.
    pub response: LogoutResponseCode,
    /// The Initiator Task Tag.
    pub task_tag: u32,
    /// StatSN.
    pub stat_sn: SerialNumber,
    /// ExpCmdSN.
    pub exp_cmd_sn: SerialNumber,
    /// MaxCmdSN.
    pub max_cmd_sn: SerialNumber,
    /// Time2Wait.
    pub wait: u16,
    /// Time2Retain.
    pub retain: u16,
}

/// Ready To Transfer (RFC 7143 11.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct R2t {
    /// The logical unit.
    pub lun: Lun,
    /// The task.
    pub task_tag: u32,
    /// Names the transfer in its Data-Out PDUs.
    pub transfer_tag: u32,
    /// The next StatSN; an R2T does not use one up.
    pub stat_sn: SerialNumber,
    /// ExpCmdSN.
    pub exp_cmd_sn: SerialNumber,
    /// MaxCmdSN.
    pub max_cmd_sn: SerialNumber,
    /// The number within the command.
    pub r2t_sn: SerialNumber,
    /// Where the wanted data begins, in bytes.
    pub offset: u32,
    /// How many bytes are wanted; not 0.
    pub length: u32,
}

/// Reject (RFC 7143 11.17). Its data is the header of the PDU in question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reject {
    /// The reason.
    pub reason: RejectReason,
    /// StatSN.
    pub stat_sn: SerialNumber,
    /// ExpCmdSN.
    pub exp_cmd_sn: SerialNumber,
    /// MaxCmdSN.
    pub max_cmd_sn: SerialNumber,
    /// DataSN or R2TSN, where the reason has one.
    pub data_sn: SerialNumber,
}

fn lun(bhs: &Bhs) -> Lun {
    Lun::from_bytes(bhs.bytes_at(8))
}

fn number(bhs: &Bhs, at: usize) -> SerialNumber {
    SerialNumber::new(bhs.u32_at(at))
}

/// StatSN, ExpCmdSN and MaxCmdSN.
fn numbers(bhs: &Bhs) -> [SerialNumber; 3] {
    [24, 28, 32].map(|at| number(bhs, at))
}

fn head(opcode: Opcode, tag: u32, numbers: [SerialNumber; 3]) -> Bhs {
    let [stat, exp, max] = numbers.map(SerialNumber::get);
    Bhs::new(opcode)
        .with_bits(1, 0x80, true)
        .with_u32(16, tag)
        .with_u32(24, stat)
        .with_u32(28, exp)
        .with_u32(32, max)
}

impl Response {
    /// Reads a header.
    ///
    /// # Errors
    ///
    /// The operation is not one of a target, or a field has a value that it cannot have. The
    /// target is at fault.
    pub fn parse(bhs: &Bhs) -> Result<Self, PduError> {
        let opcode = Opcode::from_code(bhs.opcode()).ok_or(PduError::Opcode(bhs.opcode()))?;
        Ok(match opcode {
            Opcode::NopIn => Self::NopIn(NopIn::parse(bhs)),
            Opcode::ScsiResponse => Self::Scsi(ScsiResponse::parse(bhs)?),
            Opcode::TaskResponse => Self::Task(TaskManagementResponse::parse(bhs)),
            Opcode::LoginResponse => Self::Login(LoginResponse::parse(bhs)?),
            Opcode::TextResponse => Self::Text(TextResponse::parse(bhs)?),
            Opcode::DataIn => Self::DataIn(DataIn::parse(bhs)?),
            Opcode::LogoutResponse => Self::Logout(LogoutResponse::parse(bhs)),
            Opcode::R2t => Self::R2t(R2t::parse(bhs)?),
            Opcode::AsyncMessage => Self::Async(AsyncMessage::parse(bhs)),
            Opcode::Reject => Self::Reject(Reject::parse(bhs)),
            _ => return Err(PduError::Opcode(bhs.opcode())),
        })
    }

    /// The header, with both lengths 0.
    pub fn emit(&self) -> Bhs {
        match self {
            Self::NopIn(pdu) => pdu.emit(),
            Self::Scsi(pdu) => pdu.emit(),
            Self::Task(pdu) => pdu.emit(),
            Self::Login(pdu) => pdu.emit(),
            Self::Text(pdu) => pdu.emit(),
            Self::DataIn(pdu) => pdu.emit(),
            Self::Logout(pdu) => pdu.emit(),
            Self::R2t(pdu) => pdu.emit(),
            Self::Async(pdu) => pdu.emit(),
            Self::Reject(pdu) => pdu.emit(),
        }
    }
}

impl NopIn {
    fn parse(bhs: &Bhs) -> Self {
        let [stat_sn, exp_cmd_sn, max_cmd_sn] = numbers(bhs);
        let (task_tag, transfer_tag) = (bhs.task_tag(), bhs.u32_at(20));
        Self { lun: lun(bhs), task_tag, transfer_tag, stat_sn, exp_cmd_sn, max_cmd_sn }
    }

    fn emit(&self) -> Bhs {
        head(Opcode::NopIn, self.task_tag, [self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn])
            .with(8, &self.lun.bytes())
            .with_u32(20, self.transfer_tag)
    }
}

impl ScsiResponse {
    fn parse(bhs: &Bhs) -> Result<Self, PduError> {
        let flags = bhs.0[1];
        let [stat_sn, exp_cmd_sn, max_cmd_sn] = numbers(bhs);
        let wrong = PduError::field(Opcode::ScsiResponse as u8, "flags");
        let residual = |over: u8, under: u8, at| {
            Residual::from_bits(flags & over != 0, flags & under != 0, bhs.u32_at(at)).ok_or(wrong)
        };
        Ok(Self {
            response: ServiceResponse::from_code(bhs.0[2]),
            status: bhs.0[3],
            read_residual: residual(0x10, 0x08, 40)?,
            residual: residual(0x04, 0x02, 44)?,
            task_tag: bhs.task_tag(),
            stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
            exp_data_sn: number(bhs, 36),
        })
    }

    fn emit(&self) -> Bhs {
        let (read_bits, read_count) = self.read_residual.bits(0x10, 0x08);
        let (bits, count) = self.residual.bits(0x04, 0x02);
        head(Opcode::ScsiResponse, self.task_tag, [self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn])
            .with_bits(1, read_bits | bits, true)
            .with(2, &[self.response.code(), self.status])
            .with_u32(36, self.exp_data_sn.get())
            .with_u32(40, read_count)
            .with_u32(44, count)
    }
}

impl TaskManagementResponse {
    fn parse(bhs: &Bhs) -> Self {
        let [stat_sn, exp_cmd_sn, max_cmd_sn] = numbers(bhs);
        let response = TaskResponse::from_code(bhs.0[2]);
        Self { response, task_tag: bhs.task_tag(), stat_sn, exp_cmd_sn, max_cmd_sn }
    }

    fn emit(&self) -> Bhs {
        head(Opcode::TaskResponse, self.task_tag, [self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn])
            .with(2, &[self.response.code()])
    }
}

impl TextResponse {
    fn parse(bhs: &Bhs) -> Result<Self, PduError> {
        let [stat_sn, exp_cmd_sn, max_cmd_sn] = numbers(bhs);
        let (is_final, more) = (bhs.is_final(), bhs.0[1] & 0x40 != 0);
        if is_final && more {
            return Err(PduError::field(Opcode::TextResponse as u8, "C"));
        }
        Ok(Self {
            is_final,
            more,
            lun: lun(bhs),
            task_tag: bhs.task_tag(),
            transfer_tag: bhs.u32_at(20),
            stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
        })
    }

    fn emit(&self) -> Bhs {
        let flags = if self.is_final { 0x80 } else { 0 } | if self.more { 0x40 } else { 0 };
        head(Opcode::TextResponse, self.task_tag, [self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn])
            .with(1, &[flags])
            .with(8, &self.lun.bytes())
            .with_u32(20, self.transfer_tag)
    }
}

impl DataIn {
    fn parse(bhs: &Bhs) -> Result<Self, PduError> {
        let flags = bhs.0[1];
        let [stat_sn, exp_cmd_sn, max_cmd_sn] = numbers(bhs);
        let wrong = |field| PduError::field(Opcode::DataIn as u8, field);
        let is_final = flags & 0x80 != 0;
        let status = match flags & 1 != 0 {
            // RFC 7143 11.7.3: S comes with F.
            true if !is_final => return Err(wrong("S")),
            true => {
                let (over, under) = (flags & 4 != 0, flags & 2 != 0);
                let residual = Residual::from_bits(over, under, bhs.u32_at(44));
                Some((bhs.0[3], residual.ok_or(wrong("flags"))?))
            }
            false => None,
        };
        Ok(Self {
            is_final,
            acknowledge: flags & 0x40 != 0,
            status,
            lun: lun(bhs),
            task_tag: bhs.task_tag(),
            transfer_tag: bhs.u32_at(20),
            stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
            data_sn: number(bhs, 36),
            offset: bhs.u32_at(40),
        })
    }

    fn emit(&self) -> Bhs {
        let mut flags = if self.is_final { 0x80 } else { 0 };
        flags |= if self.acknowledge { 0x40 } else { 0 };
        let (mut status, mut count) = (0, 0);
        if let Some((code, residual)) = self.status {
            let bits;
            (bits, count) = residual.bits(4, 2);
            flags |= 1 | bits;
            status = code;
        }
        head(Opcode::DataIn, self.task_tag, [self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn])
            .with(1, &[flags, 0, status])
            .with(8, &self.lun.bytes())
            .with_u32(20, self.transfer_tag)
            .with_u32(36, self.data_sn.get())
            .with_u32(40, self.offset)
            .with_u32(44, count)
    }
}

impl LogoutResponse {
    fn parse(bhs: &Bhs) -> Self {
        let [stat_sn, exp_cmd_sn, max_cmd_sn] = numbers(bhs);
        Self {
            response: LogoutResponseCode::from_code(bhs.0[2]),
            task_tag: bhs.task_tag(),
            stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
            wait: bhs.u16_at(40),
            retain: bhs.u16_at(42),
        }
    }

    fn emit(&self) -> Bhs {
        let numbers = [self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn];
        head(Opcode::LogoutResponse, self.task_tag, numbers)
            .with(2, &[self.response.code()])
            .with(40, &self.wait.to_be_bytes())
            .with(42, &self.retain.to_be_bytes())
    }
}

impl R2t {
    fn parse(bhs: &Bhs) -> Result<Self, PduError> {
        let [stat_sn, exp_cmd_sn, max_cmd_sn] = numbers(bhs);
        let pdu = Self {
            lun: lun(bhs),
            task_tag: bhs.task_tag(),
            transfer_tag: bhs.u32_at(20),
            stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
            r2t_sn: number(bhs, 36),
            offset: bhs.u32_at(40),
            length: bhs.u32_at(44),
        };
        // RFC 7143 11.8
        match (pdu.length, pdu.transfer_tag) {
            (0, _) => Err(PduError::field(Opcode::R2t as u8, "Desired Data Transfer Length")),
            (_, NO_TAG) => Err(PduError::field(Opcode::R2t as u8, "Target Transfer Tag")),
            _ => Ok(pdu),
        }
    }

    fn emit(&self) -> Bhs {
        head(Opcode::R2t, self.task_tag, [self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn])
            .with(8, &self.lun.bytes())
            .with_u32(20, self.transfer_tag)
            .with_u32(36, self.r2t_sn.get())
            .with_u32(40, self.offset)
            .with_u32(44, self.length)
    }
}

impl Reject {
    fn parse(bhs: &Bhs) -> Self {
        let [stat_sn, exp_cmd_sn, max_cmd_sn] = numbers(bhs);
        let reason = RejectReason::from_code(bhs.0[2]);
        Self { reason, stat_sn, exp_cmd_sn, max_cmd_sn, data_sn: number(bhs, 36) }
    }

    fn emit(&self) -> Bhs {
        head(Opcode::Reject, NO_TAG, [self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn])
            .with(2, &[self.reason.code()])
            .with_u32(36, self.data_sn.get())
    }
}

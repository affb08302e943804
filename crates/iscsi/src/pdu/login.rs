//! Login Request and Login Response (RFC 7143 11.12, 11.13).

use core::fmt;

use super::bhs::{Bhs, Opcode};
use crate::pdu_error::PduError;
use crate::serial::SerialNumber;

/// The stages of a login (RFC 7143 11.12.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// SecurityNegotiation.
    Security,
    /// LoginOperationalNegotiation.
    Operational,
    /// FullFeaturePhase.
    FullFeature,
}

impl Stage {
    const fn from_code(code: u8) -> Option<Self> {
        match code & 3 {
            0 => Some(Self::Security),
            1 => Some(Self::Operational),
            3 => Some(Self::FullFeature),
            _ => None,
        }
    }

    /// The code in CSG and NSG.
    pub const fn code(self) -> u8 {
        match self {
            Self::Security => 0,
            Self::Operational => 1,
            Self::FullFeature => 3,
        }
    }
}

/// The initiator's part of a session's identifier (RFC 7143 11.12.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Isid(pub [u8; 6]);

impl Isid {
    /// A random identifier of the format "Random" (10b).
    pub const fn random(bytes: [u8; 5]) -> Self {
        let [a, b, c, d, e] = bytes;
        Self([0x80, a, b, c, d, e])
    }
}

/// Status-Class and Status-Detail of a Login Response (RFC 7143 11.13.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the RFC's table")]
pub enum LoginStatus {
    Success,
    TargetMovedTemporarily,
    TargetMovedPermanently,
    InitiatorError,
    AuthenticationFailure,
    AuthorizationFailure,
    NotFound,
    TargetRemoved,
    UnsupportedVersion,
    TooManyConnections,
    MissingParameter,
    CannotIncludeInSession,
    SessionTypeNotSupported,
    SessionDoesNotExist,
    InvalidDuringLogin,
    TargetError,
    ServiceUnavailable,
    OutOfResources,
    /// A code that RFC 7143 does not name.
    Other(u16),
}

impl fmt::Display for LoginStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "no error",
            Self::TargetMovedTemporarily => "the target is elsewhere for now",
            Self::TargetMovedPermanently => "the target has moved",
            Self::InitiatorError => "the target finds the login wrong",
            Self::AuthenticationFailure => "the proof of who this is lacks or is wrong (CHAP)",
            Self::AuthorizationFailure => "this initiator may not use the target",
            Self::NotFound => "there is no such target",
            Self::TargetRemoved => "the target has been removed",
            Self::UnsupportedVersion => "the target has another version of iSCSI",
            Self::TooManyConnections => "the session has too many connections",
            Self::MissingParameter => "the target misses a parameter",
            Self::CannotIncludeInSession => "the session takes no such connection",
            Self::SessionTypeNotSupported => "the target has no such type of session",
            Self::SessionDoesNotExist => "there is no such session",
            Self::InvalidDuringLogin => "the target finds a request wrong within the login",
            Self::TargetError => "the target has a fault",
            Self::ServiceUnavailable => "the target does not serve now",
            Self::OutOfResources => "the target has no room for another session",
            Self::Other(code) => return write!(f, "status {code:04x}h"),
        })
    }
}

/// The codes of the table.
const STATUSES: [(LoginStatus, u16); 18] = [
    (LoginStatus::Success, 0x0000),
    (LoginStatus::TargetMovedTemporarily, 0x0101),
    (LoginStatus::TargetMovedPermanently, 0x0102),
    (LoginStatus::InitiatorError, 0x0200),
    (LoginStatus::AuthenticationFailure, 0x0201),
    (LoginStatus::AuthorizationFailure, 0x0202),
    (LoginStatus::NotFound, 0x0203),
    (LoginStatus::TargetRemoved, 0x0204),
    (LoginStatus::UnsupportedVersion, 0x0205),
    (LoginStatus::TooManyConnections, 0x0206),
    (LoginStatus::MissingParameter, 0x0207),
    (LoginStatus::CannotIncludeInSession, 0x0208),
    (LoginStatus::SessionTypeNotSupported, 0x0209),
    (LoginStatus::SessionDoesNotExist, 0x020a),
    (LoginStatus::InvalidDuringLogin, 0x020b),
    (LoginStatus::TargetError, 0x0300),
    (LoginStatus::ServiceUnavailable, 0x0301),
    (LoginStatus::OutOfResources, 0x0302),
];

impl LoginStatus {
    /// The status with that class (high byte) and detail.
    pub fn from_code(code: u16) -> Self {
        STATUSES.iter().find(|entry| entry.1 == code).map_or(Self::Other(code), |entry| entry.0)
    }

    /// Class (high byte) and detail.
    pub fn code(self) -> u16 {
        match self {
            Self::Other(code) => code,
            known => STATUSES.iter().find(|entry| entry.0 == known).map_or(0x0300, |entry| entry.1),
        }
    }

    /// Whether the target sends the initiator elsewhere (class 1).
    pub fn is_redirection(self) -> bool {
        self.code() >> 8 == 1
    }
}

/// A Login Request. Its data is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginRequest {
    /// The T bit: the initiator is ready for `next`.
    pub transit: bool,
    /// The C bit: the text goes on in the next request.
    pub more: bool,
    /// CSG.
    pub current: Stage,
    /// NSG; valid with `transit`.
    pub next: Stage,
    /// The highest version that the initiator has.
    pub version_max: u8,
    /// The lowest version that the initiator has.
    pub version_min: u8,
    /// The initiator's part of the session's identifier.
    pub isid: Isid,
    /// The target's part; 0 for a new session.
    pub tsih: u16,
    /// The Initiator Task Tag.
    pub task_tag: u32,
    /// The connection's identifier.
    pub cid: u16,
    /// CmdSN.
    pub cmd_sn: SerialNumber,
    /// ExpStatSN.
    pub exp_stat_sn: SerialNumber,
}

/// T, C, CSG and NSG of byte 1.
fn flags(opcode: Opcode, byte: u8) -> Result<(bool, bool, Stage, Stage), PduError> {
    let wrong = |field| PduError::field(opcode as u8, field);
    let (transit, more) = (byte & 0x80 != 0, byte & 0x40 != 0);
    if transit && more {
        return Err(wrong("C"));
    }
    let current = Stage::from_code(byte >> 2).ok_or(wrong("CSG"))?;
    // NSG is reserved without T.
    let next = match transit {
        true => Stage::from_code(byte).ok_or(wrong("NSG"))?,
        false => current,
    };
    Ok((transit, more, current, next))
}

const fn flag_byte(transit: bool, more: bool, current: Stage, next: Stage) -> u8 {
    let mut byte = current.code() << 2;
    if transit {
        byte |= 0x80 | next.code();
    }
    if more {
        byte |= 0x40;
    }
    byte
}

impl LoginRequest {
    pub(super) fn parse(bhs: &Bhs) -> Result<Self, PduError> {
        let (transit, more, current, next) = flags(Opcode::LoginRequest, bhs.0[1])?;
        Ok(Self {
            transit,
            more,
            current,
            next,
            version_max: bhs.0[2],
            version_min: bhs.0[3],
            isid: Isid(bhs.bytes_at(8)),
            tsih: bhs.u16_at(14),
            task_tag: bhs.task_tag(),
            cid: bhs.u16_at(20),
            cmd_sn: SerialNumber::new(bhs.u32_at(24)),
            exp_stat_sn: SerialNumber::new(bhs.u32_at(28)),
        })
    }

    pub(super) fn emit(&self) -> Bhs {
        let flags = flag_byte(self.transit, self.more, self.current, self.next);
        Bhs::new(Opcode::LoginRequest)
            .with_bits(0, 0x40, true)
            .with(1, &[flags, self.version_max, self.version_min])
            .with(8, &self.isid.0)
            .with(14, &self.tsih.to_be_bytes())
            .with_u32(16, self.task_tag)
            .with(20, &self.cid.to_be_bytes())
            .with_u32(24, self.cmd_sn.get())
            .with_u32(28, self.exp_stat_sn.get())
    }
}

/// A Login Response. Its data is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginResponse {
    /// The T bit: the target agrees to go on to `next`.
    pub transit: bool,
    /// The C bit: the text goes on in the next response.
    pub more: bool,
    /// CSG.
    pub current: Stage,
    /// NSG; valid with `transit`.
    pub next: Stage,
    /// The highest version that the target has.
    pub version_max: u8,
    /// The version in use.
    pub version_active: u8,
    /// As in the request.
    pub isid: Isid,
    /// The target's part of the session's identifier.
    pub tsih: u16,
    /// The Initiator Task Tag.
    pub task_tag: u32,
    /// StatSN.
    pub stat_sn: SerialNumber,
    /// ExpCmdSN.
    pub exp_cmd_sn: SerialNumber,
    /// MaxCmdSN.
    pub max_cmd_sn: SerialNumber,
    /// The outcome so far.
    pub status: LoginStatus,
}

impl LoginResponse {
    pub(super) fn parse(bhs: &Bhs) -> Result<Self, PduError> {
        let (transit, more, current, next) = flags(Opcode::LoginResponse, bhs.0[1])?;
        Ok(Self {
            transit,
            more,
            current,
            next,
            version_max: bhs.0[2],
            version_active: bhs.0[3],
            isid: Isid(bhs.bytes_at(8)),
            tsih: bhs.u16_at(14),
            task_tag: bhs.task_tag(),
            stat_sn: SerialNumber::new(bhs.u32_at(24)),
            exp_cmd_sn: SerialNumber::new(bhs.u32_at(28)),
            max_cmd_sn: SerialNumber::new(bhs.u32_at(32)),
            status: LoginStatus::from_code(bhs.u16_at(36)),
        })
    }

    pub(super) fn emit(&self) -> Bhs {
        let flags = flag_byte(self.transit, self.more, self.current, self.next);
        Bhs::new(Opcode::LoginResponse)
            .with(1, &[flags, self.version_max, self.version_active])
            .with(8, &self.isid.0)
            .with(14, &self.tsih.to_be_bytes())
            .with_u32(16, self.task_tag)
            .with_u32(24, self.stat_sn.get())
            .with_u32(28, self.exp_cmd_sn.get())
            .with_u32(32, self.max_cmd_sn.get())
            .with(36, &self.status.code().to_be_bytes())
    }
}

//! What a target's connection tells its shell, and what the shell answers.

use core::fmt;

use bytes::Bytes;

use crate::error::ProtocolError;
use crate::login::LoginInfo;
use crate::lun::Lun;
use crate::name::IscsiName;
use crate::pdu::{LoginStatus, LogoutReason, RejectReason, TaskAttribute, TaskFunction};
use crate::settings::SessionParameters;

/// A command of an initiator, as long as its connection lives. Identifiers are not used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub(crate) u64);

/// A request of an initiator that is no SCSI command and waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub(crate) u32);

/// A SCSI command with its unsolicited data.
#[derive(Debug, Clone)]
pub struct TargetCommand {
    /// Names the command in calls of the shell.
    pub task: TaskId,
    /// The logical unit.
    pub lun: Lun,
    /// The command block, 16 bytes or as many as an additional header adds.
    pub cdb: Bytes,
    /// The task attribute.
    pub attribute: TaskAttribute,
    /// Bytes that the initiator will send; 0 if it sends none.
    pub expected_out: u32,
    /// Bytes that the initiator has room for; 0 if it wants none.
    pub expected_in: u32,
    /// The first bytes of the data-out in order: immediate data and unsolicited Data-Out.
    pub data: Vec<Bytes>,
    /// How many bytes `data` has.
    pub data_length: u32,
}

/// What SendTargets asks for (RFC 7143, appendix C).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendTargetsScope {
    /// All targets that the initiator may see; in discovery sessions only.
    All,
    /// The target of that name.
    Target(IscsiName),
    /// The target of this session. `SendTargets=All` in a normal session means this too.
    Current,
}

/// A target and its portals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetRecord {
    /// The target's name.
    pub name: IscsiName,
    /// TargetAddress: each `host[:port][,portal group]`.
    pub addresses: Vec<String>,
}

/// The outcome of a command.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// The SCSI status.
    pub status: u8,
    /// The sense data, at most 252 bytes; empty if there is none.
    pub sense: Bytes,
    /// Data-in that follows what `send_data` has sent already. Bytes beyond the initiator's room
    /// are not sent and count as overflow.
    pub data: Vec<Bytes>,
    /// How many bytes the command moves by its command block, for the residual. `None`: of a
    /// command that reads, the bytes of data-in; of any other with status GOOD, as many as
    /// expected; with another status, no residual is told.
    pub transfer_length: Option<u64>,
}

/// Why a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// The initiator logged out.
    Logout,
    /// The login was refused with that status.
    LoginRefused(LoginStatus),
    /// The login was not finished in time.
    LoginTimeout,
    /// The peer did not answer a ping in time.
    PingTimeout,
    /// The peer broke the protocol.
    Peer(ProtocolError),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Logout => f.write_str("the initiator logged out"),
            Self::LoginRefused(status) => write!(f, "its login was refused: {status}"),
            Self::LoginTimeout => f.write_str("its login takes too long"),
            Self::PingTimeout => f.write_str("the initiator did not answer a ping in time"),
            Self::Peer(error) => error.fmt(f),
        }
    }
}

/// What the shell hears of a connection.
#[derive(Debug, Clone)]
pub enum TargetEvent {
    /// An initiator wants to log in. The shell calls `answer_login`.
    Login(LoginInfo),
    /// The initiator is authenticated and the keys are agreed. The shell ends a session that this
    /// one replaces, and calls `accept_session` or `refuse_session`.
    SessionReady(LoginInfo),
    /// The full feature phase has begun.
    LoggedIn(SessionParameters),
    /// A command, in the order of CmdSN. The shell fetches more data-out with `request_data` and
    /// ends the command with `complete`.
    Command(TargetCommand),
    /// A part of the data-out that `request_data` asked for. Parts come in rising order if
    /// `data_sequence_in_order` is agreed.
    DataOut {
        /// The command.
        task: TaskId,
        /// Where the part begins, in bytes.
        offset: u32,
        /// The bytes in order.
        data: Vec<Bytes>,
    },
    /// The initiator's data-out was wrong. The connection itself sends CHECK CONDITION; the shell
    /// forgets the command.
    TaskFailed(TaskId),
    /// The initiator wants tasks to be managed. The shell ends the tasks that are meant with
    /// `abort`, and then calls `finish_task_management`.
    TaskManagement {
        /// For the answer.
        request: RequestId,
        /// The function; never TASK REASSIGN or CLEAR ACA, which the connection refuses.
        function: TaskFunction,
        /// The logical unit.
        lun: Lun,
        /// The task to abort, of ABORT TASK.
        task: Option<TaskId>,
    },
    /// The initiator asks for targets. The shell calls `answer_send_targets`.
    SendTargets {
        /// For the answer.
        request: RequestId,
        /// What it asks for.
        scope: SendTargetsScope,
    },
    /// The initiator answered a ping.
    Pong,
    /// The connection rejected a PDU of the initiator; for logs and counters.
    Rejected {
        /// The operation code.
        opcode: u8,
        /// The reason.
        reason: RejectReason,
    },
    /// The initiator logs out. All its commands are over; the shell forgets them.
    Logout(LogoutReason),
    /// The connection is over. All commands are. The shell sends what `poll_transmit` still has,
    /// and closes.
    Closed(CloseReason),
}

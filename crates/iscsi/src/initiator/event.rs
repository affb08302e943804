//! What an initiator's connection tells its shell.

use core::fmt;

use bytes::Bytes;

use crate::error::ProtocolError;
use crate::lun::Lun;
use crate::name::IscsiName;
use crate::pdu::{
    AsyncEvent, LoginStatus, LogoutResponseCode, RejectReason, ServiceResponse, TaskAttribute,
    TaskResponse,
};
use crate::residual::Residual;
use crate::settings::SessionParameters;

/// A request of the shell, as long as its connection lives. Identifiers are not used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub(crate) u64);

/// A SCSI command that the shell submits.
#[derive(Debug, Clone, Default)]
pub struct InitiatorCommand {
    /// The logical unit.
    pub lun: Lun,
    /// The command block, 1 to 260 bytes; a short one is filled up with zeros.
    pub cdb: Bytes,
    /// The task attribute; `None` for SIMPLE.
    pub attribute: Option<TaskAttribute>,
    /// The data-out in order, less than 4 GiB. It is sent from where it lies.
    pub data_out: Vec<Bytes>,
    /// Bytes that the shell has room for.
    pub expected_in: u32,
}

/// A target as SendTargets names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredTarget {
    /// The target's name.
    pub name: IscsiName,
    /// TargetAddress: each `host[:port][,portal group]`.
    pub addresses: Vec<String>,
}

/// Why a connection has ended. Open commands are to be submitted again on a new connection with
/// the same ISID (session reinstatement, RFC 7143 6.3.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The logout is done.
    LoggedOut(LogoutResponseCode),
    /// The target refused the login.
    LoginRefused(LoginStatus),
    /// The target is elsewhere.
    Redirected {
        /// TargetAddress.
        address: String,
        /// Whether to remember that.
        permanent: bool,
    },
    /// The login or the logout was not answered in time.
    Timeout,
    /// The target did not answer a ping in time.
    PingTimeout,
    /// The peer broke the protocol.
    Peer(ProtocolError),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoggedOut(_) => f.write_str("it is logged out"),
            Self::LoginRefused(status) => write!(f, "the target refuses the login: {status}"),
            Self::Redirected { address, .. } => write!(f, "the target is at {address}"),
            Self::Timeout => f.write_str("the login or logout was not answered in time"),
            Self::PingTimeout => f.write_str("the target did not answer a ping in time"),
            Self::Peer(error) => error.fmt(f),
        }
    }
}

/// What the shell hears of a connection.
#[derive(Debug, Clone)]
pub enum InitiatorEvent {
    /// The full feature phase has begun.
    LoggedIn {
        /// The agreed values.
        parameters: SessionParameters,
        /// The target's part of the session's identifier.
        tsih: u16,
        /// TargetPortalGroupTag, if the target told it.
        portal_group: Option<u16>,
        /// TargetAlias, if the target has one.
        alias: Option<String>,
    },
    /// A part of a command's data-in, which belongs at that offset of its data. It may come before
    /// its digest was checked: the data is sound when the command has its `Response`.
    DataIn {
        /// The command.
        command: CommandId,
        /// Where the part begins, in bytes.
        offset: u32,
        /// The bytes, where they lie in the input of `handle_bytes`.
        data: Bytes,
    },
    /// A part of a command's data-in had a wrong digest. The command goes on to its end, and its
    /// `Response` is a failure.
    Damaged {
        /// The command.
        command: CommandId,
    },
    /// A command is done.
    Response {
        /// The command.
        command: CommandId,
        /// The answer of the iSCSI layer; without `Completed` the rest means nothing.
        response: ServiceResponse,
        /// The SCSI status.
        status: u8,
        /// Sense data; empty if there is none.
        sense: Bytes,
        /// The residual.
        residual: Residual,
        /// The residual of the read part of a bidirectional command.
        read_residual: Residual,
    },
    /// A request of task management is done.
    TaskManagement {
        /// The request.
        command: CommandId,
        /// The outcome.
        response: TaskResponse,
        /// The commands that are over with it. They have no `Response`.
        ended: Vec<CommandId>,
    },
    /// The targets that SendTargets found.
    Targets {
        /// The request.
        command: CommandId,
        /// The targets.
        targets: Vec<DiscoveredTarget>,
    },
    /// The target answered a ping.
    Pong {
        /// The ping.
        command: CommandId,
        /// Its data.
        data: Bytes,
    },
    /// The target rejected a request, which is over.
    Rejected {
        /// The request, if it is open.
        command: Option<CommandId>,
        /// The reason.
        reason: RejectReason,
    },
    /// The target tells something unasked; sense data with a SCSI event. After
    /// [`AsyncEvent::LogoutRequested`] the shell calls `logout`.
    Async {
        /// The event.
        event: AsyncEvent,
        /// SenseLength and sense data are taken apart: this is the sense data.
        sense: Bytes,
    },
    /// The connection is over. The shell sends what `poll_transmit` still has, and closes.
    Closed(Ending),
}

//! The question of a target's login to the shell, and its answer.

use crate::name::IscsiName;
use crate::pdu::{Isid, LoginStatus};
use crate::settings::{ChapDemand, SessionType};

/// An initiator that wants to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginInfo {
    /// The initiator's name. It is an allegation until CHAP has proved it.
    pub initiator: IscsiName,
    /// The target that it wants; `None` in a discovery session.
    pub target: Option<IscsiName>,
    /// The kind of session.
    pub session: SessionType,
    /// The initiator's part of the session's identifier. A session of the same initiator, target,
    /// portal group and ISID is to be ended before this one begins (RFC 7143 6.3.5).
    pub isid: Isid,
    /// The connection's identifier.
    pub cid: u16,
    /// The name with which the initiator has proved itself by CHAP; `None` before, and without.
    pub user: Option<String>,
}

/// The shell's answer to [`LoginInfo`].
#[derive(Debug, Clone)]
pub enum LoginAnswer {
    /// The initiator may use the target.
    Allow {
        /// The proof that it has to give; `None` for AuthMethod None.
        chap: Option<ChapDemand>,
        /// TargetAlias, up to 255 bytes.
        alias: Option<String>,
    },
    /// The target refuses the login.
    Refuse(LoginStatus),
    /// The target is elsewhere (RFC 7143 11.13.5, class 1).
    Redirect {
        /// `host[:port][,portal group]`.
        address: String,
        /// Whether the initiator should remember that.
        permanent: bool,
    },
}

//! A refusal of a login by the target.

use crate::error::ProtocolError;
use crate::pdu::LoginStatus;

/// Why the target refuses: what the initiator hears, and what the shell hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoginRefusal {
    pub(crate) status: LoginStatus,
    /// The breach, if there is one.
    pub(crate) error: Option<ProtocolError>,
    /// TargetAddress of a redirection.
    pub(crate) address: Option<String>,
}

impl LoginRefusal {
    pub(super) fn breach(what: &'static str) -> Self {
        Self::new(LoginStatus::InitiatorError, ProtocolError::Login(what))
    }

    pub(super) fn new(status: LoginStatus, error: ProtocolError) -> Self {
        Self { status, error: Some(error), address: None }
    }

    pub(super) fn authentication(what: &'static str) -> Self {
        Self::new(LoginStatus::AuthenticationFailure, ProtocolError::Authentication(what))
    }
}

impl From<ProtocolError> for LoginRefusal {
    fn from(error: ProtocolError) -> Self {
        Self::new(LoginStatus::InitiatorError, error)
    }
}

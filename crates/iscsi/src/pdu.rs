//! The PDUs of iSCSI (RFC 7143 11).
//!
//! [`Bhs`] is a view of the 48 bytes that begin each PDU. [`Request`] and [`Response`] are legal
//! values: a malformed header does not become one. Both write themselves back into a [`Bhs`].
//! Payload is not part of these values; it travels beside them as [`bytes::Bytes`].

mod ahs;
mod async_message;
mod bhs;
mod codes;
mod login;
mod request;
mod response;

pub use ahs::{Ahs, AhsError};
pub use async_message::{AsyncEvent, AsyncMessage};
pub use bhs::{BHS, Bhs, NO_TAG, Opcode};
pub use codes::{
    LogoutReason, LogoutResponseCode, RejectReason, ServiceResponse, TaskAttribute, TaskFunction,
    TaskResponse,
};
pub use login::{Isid, LoginRequest, LoginResponse, LoginStatus, Stage};
pub use request::{
    DataOut, LogoutRequest, NopOut, Request, ScsiCommand, SnackRequest, TaskRequest, TextRequest,
};
pub use response::{
    DataIn, LogoutResponse, NopIn, R2t, Reject, Response, ScsiResponse, TaskManagementResponse,
    TextResponse,
};

#[cfg(test)]
mod tests;

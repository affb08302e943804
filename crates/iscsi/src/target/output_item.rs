//! What waits to be sent.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::lun::Lun;
use crate::pdu::{
    AsyncEvent, Bhs, LoginResponse, LogoutResponseCode, NopOut, RejectReason, TaskResponse,
};
use crate::residual::Residual;

/// The end of a command.
#[derive(Debug)]
pub(super) struct Finish {
    pub(super) status: u8,
    pub(super) sense: Bytes,
    pub(super) residual: Residual,
    pub(super) read_residual: Residual,
}

/// Data-in of a command, and its end.
#[derive(Debug)]
pub(super) struct DataInQueue {
    pub(super) tag: u32,
    pub(super) pieces: VecDeque<Bytes>,
    /// Bytes of `pieces`.
    pub(super) left: u32,
    /// Where the next byte belongs.
    pub(super) offset: u32,
    /// Bytes that the present sequence may still have.
    pub(super) burst_left: u32,
    pub(super) finish: Option<Finish>,
}

/// An entry whose order matters: statuses leave in the order of the shell's calls.
#[derive(Debug)]
pub(super) enum OrderedOutput {
    Data(DataInQueue),
    Other(StatusOutput),
}

/// A PDU with a StatSN that is no command's.
#[derive(Debug)]
pub(super) enum StatusOutput {
    /// Numbers are filled in when it is sent.
    Login(LoginResponse, Vec<u8>),
    Task(u32, TaskResponse),
    Text {
        tag: u32,
        lun: Lun,
        transfer_tag: u32,
        is_final: bool,
        more: bool,
        text: Bytes,
    },
    Logout(u32, LogoutResponseCode),
    Async(AsyncEvent, Bytes),
}

/// An entry that may overtake.
#[derive(Debug)]
pub(super) enum AnswerOutput {
    /// The answer to a ping.
    Nop(NopOut, Bytes),
    /// A ping.
    Ping(u32),
    Reject(RejectReason, Bhs),
}

/// An R2T that waits to be sent.
#[derive(Debug)]
pub(super) struct R2tOutput {
    pub(super) task_tag: u32,
    pub(super) transfer_tag: u32,
    pub(super) lun: Lun,
    pub(super) r2t_sn: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
}

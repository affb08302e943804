//! A target's connection.

mod config;
mod event;

pub use crate::login::{LoginAnswer, LoginInfo};
pub use config::TargetConfig;
pub use event::{
    CloseReason, Completion, RequestId, SendTargetsScope, TargetCommand, TargetEvent, TargetRecord,
    TaskId,
};

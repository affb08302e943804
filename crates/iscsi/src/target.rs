//! A target's connection.

mod config;
mod event;

pub use config::TargetConfig;
pub use event::{
    CloseReason, Completion, LoginAnswer, LoginInfo, RequestId, SendTargetsScope, TargetCommand,
    TargetEvent, TargetRecord, TaskId,
};

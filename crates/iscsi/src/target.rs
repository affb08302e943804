//! A target's connection.
//!
//! ```text
//!   bytes ─▶ decoder ─▶ login ─┐                       ┌─▶ events ─▶ shell
//!                │             ▼                       │
//!                └──▶ input ─▶ window (order of CmdSN) ┴─▶ commands, management, text
//!                        │                                      │
//!                        └─▶ bursts of data-out ◀── R2Ts ◀──────┤
//!                                                               ▼
//!   PDUs ◀── output ◀── r2ts, answers, ordered (statuses, data-in) ◀── calls of the shell
//! ```

mod burst;
mod calls;
mod commands;
mod config;
mod connection;
mod counters;
mod event;
mod input;
mod login_phase;
mod management;
mod output;
mod output_item;
mod task;
mod text_exchange;
mod text_phase;
mod timers;
mod window;

pub use crate::login::{LoginAnswer, LoginInfo};
pub use config::TargetConfig;
pub use connection::TargetConnection;
pub use counters::ConnectionCounters;
pub use event::{
    CloseReason, Completion, RequestId, SendTargetsScope, TargetCommand, TargetEvent, TargetRecord,
    TaskId,
};

#[cfg(test)]
mod tests;

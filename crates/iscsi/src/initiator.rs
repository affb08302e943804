//! An initiator's connection.
//!
//! ```text
//!   calls of the shell ─▶ queue (command window) ─▶ commands, immediate data ─┐
//!                     └─▶ urgent (management, pings, text, logout) ───────────┤
//!   bytes ─▶ decoder ─▶ login, input ─▶ R2Ts ─▶ runs of data-out ─────────────┴▶ PDUs
//!                                  └─▶ data-in, statuses ─▶ events ─▶ shell
//! ```

mod calls;
mod config;
mod connection;
mod data;
mod event;
mod input;
mod login_phase;
mod open_request;
mod output;
mod timers;

pub use crate::login::LoginStages;
pub use config::InitiatorConfig;
pub use connection::InitiatorConnection;
pub use event::{CommandId, DiscoveredTarget, Ending, InitiatorCommand, InitiatorEvent};

#[cfg(test)]
mod tests;

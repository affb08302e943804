//! An initiator's connection.

mod config;
mod event;

pub use crate::login::LoginStages;
pub use config::InitiatorConfig;
pub use event::{CommandId, DiscoveredTarget, Ending, InitiatorCommand, InitiatorEvent};

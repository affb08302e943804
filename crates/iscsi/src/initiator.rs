//! An initiator's connection.

mod config;
mod event;

pub use config::{InitiatorConfig, LoginStages};
pub use event::{CommandId, DiscoveredTarget, Ending, InitiatorCommand, InitiatorEvent};

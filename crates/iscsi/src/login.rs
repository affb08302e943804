//! The login of both ends (RFC 7143 6.3): stages, authentication, keys.
//!
//! A machine takes the header and text of a PDU, and gives the next step. The connections add the
//! sequence numbers.
//!
//! ```text
//!              T, NSG 1                    T, NSG 3
//!   Security ────────────▶ Operational ────────────────▶ full feature phase
//!      └──────────────────── T, NSG 3 ────────────────────────▲
//! ```

mod info;
mod initiator;
mod initiator_chap;
mod refusal;
mod target;
mod target_chap;

pub use info::{LoginAnswer, LoginInfo};
pub use initiator::LoginStages;
pub(crate) use initiator::{InitiatorLogin, InitiatorStep, InitiatorWishes};
pub(crate) use refusal::LoginRefusal;
pub(crate) use target::{TargetLogin, TargetStep};

#[cfg(test)]
mod tests;

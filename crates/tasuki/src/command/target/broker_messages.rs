//! What a target asks its broker.
//!
//! Each message is JSON in a message of a channel. The target asks one thing at a time. No request
//! of a target that serves names a path.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use storage::{KeptState, LunNumber, StoredState};

use crate::exit::Code;

/// A target's request.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum BrokerRequest {
    /// Make the socket by which the target is managed, and have its folder for state. Once, before
    /// it serves.
    Prepare { name: String, state: Option<PathBuf> },
    /// It serves.
    Ready,
    /// It does not serve.
    Failed { code: Code, sentence: String },
    /// What had this unit?
    Load { lun: u16 },
    /// Store this state of a unit.
    Store { lun: u16, state: UnitState },
    /// Is this key one of the known initiators'?
    IsKnown { key: String },
}

/// The broker's reply.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum BrokerReply {
    /// The user to become, and the process as others see it. The socket comes with it.
    Prepared { user: Option<u32>, pid: u32 },
    /// It is done.
    Done,
    /// What the unit had.
    Kept { reservations: Option<Vec<u8>>, mode_pages: Option<Vec<u8>> },
    /// Is the key known?
    Known(bool),
    /// It is not done.
    Failed { code: Code, sentence: String },
}

/// State of a unit.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum UnitState {
    Reservations(Option<Vec<u8>>),
    ModePages(Vec<u8>),
}

impl From<&StoredState> for UnitState {
    fn from(state: &StoredState) -> Self {
        match state {
            StoredState::Reservations(bytes) => {
                Self::Reservations(bytes.as_ref().map(|bytes| bytes.to_vec()))
            }
            StoredState::ModePages(bytes) => Self::ModePages(bytes.to_vec()),
        }
    }
}

impl From<UnitState> for StoredState {
    fn from(state: UnitState) -> Self {
        match state {
            UnitState::Reservations(bytes) => Self::Reservations(bytes.map(Into::into)),
            UnitState::ModePages(bytes) => Self::ModePages(bytes.into()),
        }
    }
}

impl From<KeptState> for BrokerReply {
    fn from(kept: KeptState) -> Self {
        let KeptState { reservations, mode_pages } = kept;
        Self::Kept {
            reservations: reservations.map(|bytes| bytes.to_vec()),
            mode_pages: mode_pages.map(|bytes| bytes.to_vec()),
        }
    }
}

/// A unit of this number.
///
/// # Errors
/// One sentence: there can be none.
pub(super) fn unit(lun: u16) -> Result<LunNumber, String> {
    LunNumber::new(lun).ok_or_else(|| format!("{lun} is no unit's number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_what_it_was() {
        for state in [
            StoredState::Reservations(None),
            StoredState::Reservations(Some(vec![0, 255].into())),
            StoredState::ModePages(vec![1, 2].into()),
        ] {
            let sent = BrokerRequest::Store { lun: 7, state: (&state).into() };
            let line = serde_json::to_vec(&sent).unwrap();
            let BrokerRequest::Store { lun: 7, state: come } =
                serde_json::from_slice(&line).unwrap()
            else {
                panic!("another request")
            };
            assert_eq!(StoredState::from(come), state);
        }
    }
}

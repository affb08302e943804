//! For how long the threads of servers spin.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use shm::SpinLimit;

/// How long a thread spins before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BusyPoll {
    /// As long as pays by the measured cost of its wake-ups.
    #[default]
    Auto,
    /// So many microseconds at most; 0: not at all.
    Micros(u32),
}

impl BusyPoll {
    /// Threads sleep at once.
    pub const OFF: Self = Self::Micros(0);
}

impl From<BusyPoll> for SpinLimit {
    fn from(busy_poll: BusyPoll) -> Self {
        match busy_poll {
            BusyPoll::Auto => Self::Calibrated,
            BusyPoll::Micros(micros) => Self::Fixed(Duration::from_micros(micros.into())),
        }
    }
}

//! A figure of `storage`, and where it was taken.

use serde::{Deserialize, Serialize};

use super::plan::{BackEnd, Requests, StoragePath};
use super::world::Seconds;
use crate::machine::MachineState;

/// One measurement of some seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StorageRow {
    /// What lies between the ends.
    pub(super) path: StoragePath,
    /// The column: a transport, or the programs at both ends.
    pub(super) column: String,
    /// Where the bytes are.
    pub(super) back_end: BackEnd,
    /// The requests.
    #[serde(flatten)]
    pub(super) requests: Requests,
    /// The round, from 0.
    pub(super) round: u32,
    /// Requests a second.
    pub(super) rate: f64,
    /// Microseconds. Not every initiator tells them.
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    /// GiB that were moved.
    pub(super) gib: f64,
    /// CPU seconds of the target's side, where it is ours or tgt's.
    pub(super) target_cpu: Seconds,
    /// CPU seconds of the initiator's side.
    pub(super) initiator_cpu: Seconds,
    /// The machine meanwhile.
    pub(super) machine: MachineState,
}

impl StorageRow {
    /// CPU seconds of both sides for each GiB: user, system.
    pub(crate) fn cpu_per_gib(&self) -> (f64, f64) {
        let (target, initiator) = (self.target_cpu, self.initiator_cpu);
        ((target.0 + initiator.0) / self.gib, (target.1 + initiator.1) / self.gib)
    }

    /// MiB a second.
    pub(crate) fn mib(&self) -> f64 {
        self.rate * f64::from(self.requests.bytes) / f64::from(1 << 20)
    }
}

//! A row of `compare`: one sample, and the set-up, build and round that it belongs to.

use serde::{Deserialize, Serialize};

use crate::machine::MachineState;
use crate::protocol::Test;
use crate::setup::{Build, Role, Setup};

/// One line of a client's output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// The measurement.
    pub(crate) test: Test,
    /// Bytes per write or request.
    pub(crate) size: u32,
    /// MiB/s for send and receive; round trips or connections per second otherwise.
    pub(crate) rate: f64,
    /// Median round trip, microseconds (rtt, connect).
    pub(crate) median_us: Option<f64>,
    /// 99th percentile, microseconds (rtt, connect).
    pub p99_us: Option<f64>,
}

/// A sample and where it was taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The set-up.
    pub(crate) setup: Setup,
    /// Which build of Tasuki; the kernel's rows are all `New`.
    #[serde(default)]
    pub(crate) build: Build,
    /// Whether the set-up's end is the client or the server.
    #[serde(default)]
    pub(crate) role: Role,
    /// The round, from 0.
    pub(crate) round: u32,
    /// The figures.
    #[serde(flatten)]
    pub(crate) sample: Sample,
    /// CPU seconds of the client and all of Tasuki's processes: user, system. They are those of the
    /// whole client command, so they mean something only for commands of one size. The system time
    /// includes that of kernel threads that receive the frames of these processes
    /// ([`KernelThreads`](crate::processor_time::KernelThreads)).
    pub(crate) cpu: Option<(f64, f64)>,
    /// GiB that this CPU time moved.
    pub(crate) gib: f64,
    /// The machine meanwhile.
    pub(crate) machine: Option<MachineState>,
}

impl Row {
    /// CPU seconds per GiB, user and system.
    pub(crate) fn cpu_per_gib(&self) -> Option<f64> {
        self.cpu.map(|(user, system)| (user + system) / self.gib)
    }

    /// The rate, if the row belongs to the sweep over sizes and not to the CPU measurement.
    pub(crate) fn sweep_rate(&self) -> Option<f64> {
        self.cpu.is_none().then_some(self.sample.rate)
    }
}

/// The value of a table's cell, out of a row.
pub(crate) type RowFigure = fn(&Row) -> Option<f64>;

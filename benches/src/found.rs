//! The results of `tasuki-bench all`, as it writes them to its file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::idle::Idle;
use crate::instruments::{Hops, Stages};
use crate::programs::Trip;
use crate::row::Row;
use crate::states::StateTrip;
use crate::{calls, devices, handover};

/// Everything that was found.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Found {
    /// The machine: system, processors.
    pub(crate) machine: String,
    /// The output of `tasuki --version`, and the commit if the program was run in its repository.
    pub(crate) tasuki: String,
    /// Seconds that each part took.
    pub(crate) seconds: Vec<(String, u64)>,
    /// Parts that ended with an error.
    pub(crate) failures: Vec<String>,
    pub(crate) compare: Vec<Row>,
    pub(crate) calls: Option<calls::CallReport>,
    pub(crate) handover: Vec<handover::HandoverFigure>,
    pub(crate) devices: Vec<devices::DeviceFigure>,
    pub(crate) idle: Vec<Idle>,
    pub(crate) hops: Vec<Hops>,
    pub(crate) stages: Vec<Stages>,
    pub(crate) programs: Vec<Trip>,
    pub(crate) states: Vec<StateTrip>,
}

/// Reads the file.
pub(crate) fn read(file: &Path) -> Result<Found> {
    let text = fs::read(file)
        .with_context(|| format!("{} (`tasuki-bench all` writes it)", file.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not of this version of `tasuki-bench all`", file.display()))
}

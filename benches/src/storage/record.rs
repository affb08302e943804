//! Rows as they are measured, and how far the run is.

use super::row::StorageRow;
use crate::progress::Progress;

/// See the module.
pub(super) struct StorageRecord {
    pub(super) rows: Vec<StorageRow>,
    /// Transports that the build does not know.
    pub(super) skipped: Vec<String>,
    pub(super) progress: Progress,
}

impl StorageRecord {
    /// Begins a run of so many measurements.
    pub(super) fn new(measurements: usize) -> Self {
        Self { rows: Vec::new(), skipped: Vec::new(), progress: Progress::new(measurements) }
    }

    /// Says what is not measured, and why.
    pub(super) fn skip(&self, what: &str) {
        self.progress.line(&format!("SKIP {what}"));
    }
}

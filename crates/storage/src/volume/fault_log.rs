//! Tells the log when the file or device of a volume fails: in words, and the same fault once in a
//! while. Initiators hear of each by sense data, and counters have all of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use scsi::MediumError;

use super::opened::VolumeUse;

/// The same fault is not told again for so long.
const PAUSE: Duration = Duration::from_secs(60);

/// What failed, and how: the operation, and the system's error number (0: none).
type Fault = (&'static str, i32);

/// The faults of a volume that were told.
#[derive(Debug)]
pub(super) struct FaultLog {
    unit: VolumeUse,
    path: PathBuf,
    told: RefCell<BTreeMap<Fault, Told>>,
}

/// When a fault was told, and how often it has come since.
#[derive(Debug, Clone, Copy)]
struct Told {
    at: Instant,
    since: u64,
}

impl FaultLog {
    pub(super) fn new(unit: VolumeUse, path: &Path) -> Self {
        Self { unit, path: path.into(), told: RefCell::default() }
    }

    /// An operation has failed, at this byte. Gives what initiators are told.
    pub(super) fn tell(
        &self,
        operation: &'static str,
        offset: Option<u64>,
        error: &io::Error,
        seen: MediumError,
    ) -> MediumError {
        let fault = (operation, error.raw_os_error().unwrap_or(0));
        if let Some(before) = self.is_due(fault, Instant::now()) {
            let lun = self.unit.lun;
            let sentence = self.sentence(operation, offset, error, seen);
            match before {
                0 => tracing::error!(lun, "{sentence}"),
                _ => tracing::error!(lun, "{sentence}; {before} times more before"),
            }
        }
        seen
    }

    /// Is the fault to be told now? How often it has come without being told.
    fn is_due(&self, fault: Fault, now: Instant) -> Option<u64> {
        let mut told = self.told.borrow_mut();
        match told.get_mut(&fault) {
            Some(told) if now.duration_since(told.at) < PAUSE => {
                told.since += 1;
                None
            }
            other => {
                let before = other.map_or(0, |told| told.since);
                told.insert(fault, Told { at: now, since: 0 });
                Some(before)
            }
        }
    }

    fn sentence(
        &self,
        operation: &str,
        offset: Option<u64>,
        error: &io::Error,
        seen: MediumError,
    ) -> String {
        let place = offset.map_or_else(String::new, |offset| {
            format!(" at block {}", offset / u64::from(self.unit.block_size))
        });
        let seen = match seen {
            MediumError::Read(_) => "a medium error: it cannot be read",
            MediumError::Write(_) | MediumError::Flush => "a medium error: it cannot be written",
            MediumError::NoSpace => "that no space is left (SPACE ALLOCATION FAILED)",
            MediumError::Gone => "that the unit is not ready",
            MediumError::ReadOnly => "that the unit is write-protected",
        };
        let path = self.path.display();
        format!("{operation}{place} failed on {path}: {error}; initiators are told {seen}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> FaultLog {
        let unit = VolumeUse { lun: 3, block_size: 512, read_only: false };
        FaultLog::new(unit, Path::new("/srv/a.img"))
    }

    #[test]
    fn a_fault_is_told_in_words() {
        let full = io::Error::from_raw_os_error(28);
        assert_eq!(
            log().sentence("a write", Some(8192), &full, MediumError::NoSpace),
            "a write at block 16 failed on /srv/a.img: No space left on device (os error 28); \
             initiators are told that no space is left (SPACE ALLOCATION FAILED)"
        );
        let lost = io::Error::from_raw_os_error(5);
        let said = log().sentence("a flush", None, &lost, MediumError::Flush);
        assert!(said.starts_with("a flush failed on /srv/a.img: Input/output error"), "{said}");
    }

    #[test]
    fn the_same_fault_is_told_once_in_a_while() {
        let (log, begin) = (log(), Instant::now());
        assert_eq!(log.is_due(("a write", 28), begin), Some(0));
        for _ in 0..5 {
            assert_eq!(log.is_due(("a write", 28), begin + PAUSE / 2), None);
        }
        assert_eq!(log.is_due(("a write", 5), begin), Some(0), "another one");
        assert_eq!(log.is_due(("a read", 28), begin), Some(0), "another one");
        assert_eq!(log.is_due(("a write", 28), begin + PAUSE), Some(5));
        assert_eq!(log.is_due(("a write", 28), begin + 2 * PAUSE), Some(0));
    }
}

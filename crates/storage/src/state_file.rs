//! State of units that outlives the target: persistent reservations (APTPL) and saved mode pages.
//!
//! Each is a file of its own, `lun-NUMBER.reservations` and `lun-NUMBER.mode`. A new one is written
//! beside it, flushed, and takes its place by rename(2). So a kill leaves the old one or the new
//! one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use scsi::{LunNumber, StoredState};

/// Where the files are.
#[derive(Debug)]
pub(crate) struct StateFile(Option<PathBuf>);

/// What a unit had.
#[derive(Debug, Default)]
pub(crate) struct KeptState {
    pub(crate) reservations: Option<Bytes>,
    pub(crate) mode_pages: Option<Bytes>,
}

impl StateFile {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// Can state outlive the target?
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    fn path(folder: &Path, lun: LunNumber, kind: &str) -> PathBuf {
        folder.join(format!("lun-{}.{kind}", lun.get()))
    }

    /// What the unit had last.
    pub(crate) fn load(&self, lun: LunNumber) -> KeptState {
        let read = |kind| {
            let bytes = fs::read(Self::path(self.0.as_deref()?, lun, kind)).ok()?;
            Some(Bytes::from(bytes))
        };
        KeptState { reservations: read("reservations"), mode_pages: read("mode") }
    }

    /// Stores state. It is on stable storage when the call returns.
    ///
    /// # Errors
    /// The system's, or that there is no folder.
    pub(crate) fn store(&self, lun: LunNumber, state: &StoredState) -> io::Result<()> {
        let Some(folder) = self.0.as_deref() else {
            // Nothing that is to survive can be forgotten by not being stored.
            return match state {
                StoredState::Reservations(None) => Ok(()),
                _ => Err(io::Error::other("the target has no folder for state")),
            };
        };
        let (kind, bytes) = match state {
            StoredState::Reservations(bytes) => ("reservations", bytes.as_ref()),
            StoredState::ModePages(bytes) => ("mode", Some(bytes)),
        };
        let path = Self::path(folder, lun, kind);
        match bytes {
            Some(bytes) => {
                let new = path.with_extension(format!("{kind}.new"));
                let mut file = File::create(&new)?;
                file.write_all(bytes)?;
                file.sync_all()?;
                fs::rename(&new, &path)?;
            }
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            },
        }
        File::open(folder)?.sync_all()
    }
}

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
    /// Makes the folder, if there is to be one.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new(folder: Option<PathBuf>) -> io::Result<Self> {
        if let Some(folder) = &folder {
            fs::create_dir_all(folder)?;
        }
        Ok(Self(folder))
    }

    /// Can state outlive the target?
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    fn path(folder: &Path, lun: LunNumber, kind: &str) -> PathBuf {
        folder.join(format!("lun-{}.{kind}", lun.get()))
    }

    /// What the unit had last.
    ///
    /// # Errors
    /// The system's: there is state, and it cannot be read.
    pub(crate) fn load(&self, lun: LunNumber) -> io::Result<KeptState> {
        let read = |kind| {
            let Some(folder) = self.0.as_deref() else { return Ok(None) };
            match fs::read(Self::path(folder, lun, kind)) {
                Ok(bytes) => Ok(Some(Bytes::from(bytes))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        Ok(KeptState { reservations: read("reservations")?, mode_pages: read("mode")? })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let state = || StateFile::new(Some(folder.path().join("state"))).unwrap();
        let lun = LunNumber::new(3).unwrap();
        assert!(state().load(lun).unwrap().reservations.is_none());
        let bytes = Bytes::from_static(b"kept");
        state().store(lun, &StoredState::Reservations(Some(bytes.clone()))).unwrap();
        state().store(lun, &StoredState::ModePages(Bytes::from_static(b"pages"))).unwrap();
        let kept = state().load(lun).unwrap();
        assert_eq!(kept.reservations, Some(bytes));
        assert_eq!(kept.mode_pages.as_deref(), Some(&b"pages"[..]));
        state().store(lun, &StoredState::Reservations(None)).unwrap();
        assert!(state().load(lun).unwrap().reservations.is_none());
    }

    #[test]
    fn state_that_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFile::new(Some(folder.path().into())).unwrap();
        let lun = LunNumber::new(0).unwrap();
        fs::create_dir(folder.path().join("lun-0.reservations")).unwrap();
        assert!(state.load(lun).is_err());
    }

    #[test]
    fn without_a_folder_nothing_is_kept() {
        let (state, lun) = (StateFile::new(None).unwrap(), LunNumber::new(0).unwrap());
        assert!(state.store(lun, &StoredState::ModePages(Bytes::new())).is_err());
        state.store(lun, &StoredState::Reservations(None)).unwrap();
    }
}

//! State of units that outlives the target: persistent reservations (APTPL) and saved mode pages.
//!
//! Each is a file of its own, `lun-NUMBER.reservations` and `lun-NUMBER.mode`. A new one is written
//! beside it, flushed, and takes its place by rename(2). So a kill leaves the old one or the new
//! one.
//!
//! A target in a sandbox opens no file. So where the state goes is a trait ([`StateStore`]):
//! another process may have the folder.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

use bytes::Bytes;
use scsi::{LunNumber, StoredState};

/// Where state of units is kept.
pub trait StateStore: Debug {
    /// What the unit had last.
    ///
    /// # Errors
    /// The system's: there is state, and it cannot be read.
    fn load(&self, lun: LunNumber) -> io::Result<KeptState>;

    /// Stores state. It is on stable storage when the call returns.
    ///
    /// # Errors
    /// The system's.
    fn store(&self, lun: LunNumber, state: &StoredState) -> io::Result<()>;
}

/// What a unit had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptState {
    /// Persistent reservations.
    pub reservations: Option<Bytes>,
    /// Saved mode pages.
    pub mode_pages: Option<Bytes>,
}

/// State as files in a folder.
#[derive(Debug)]
pub struct StateFolder(PathBuf);

impl StateFolder {
    /// Makes the folder.
    ///
    /// # Errors
    /// The system's.
    pub fn new(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    fn path(&self, lun: LunNumber, kind: &str) -> PathBuf {
        self.0.join(format!("lun-{}.{kind}", lun.get()))
    }
}

impl StateStore for StateFolder {
    fn load(&self, lun: LunNumber) -> io::Result<KeptState> {
        let read = |kind| match fs::read(self.path(lun, kind)) {
            Ok(bytes) => Ok(Some(Bytes::from(bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        Ok(KeptState { reservations: read("reservations")?, mode_pages: read("mode")? })
    }

    fn store(&self, lun: LunNumber, state: &StoredState) -> io::Result<()> {
        let (kind, bytes) = match state {
            StoredState::Reservations(bytes) => ("reservations", bytes.as_ref()),
            StoredState::ModePages(bytes) => ("mode", Some(bytes)),
        };
        let path = self.path(lun, kind);
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
        File::open(&self.0)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let state = || StateFolder::new(folder.path().join("state")).unwrap();
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
        let state = StateFolder::new(folder.path().into()).unwrap();
        let lun = LunNumber::new(0).unwrap();
        fs::create_dir(folder.path().join("lun-0.reservations")).unwrap();
        assert!(state.load(lun).is_err());
    }
}

//! State of units that outlives the target: persistent reservations (APTPL) and saved mode pages.
//!
//! Each is a file of its own, `lun-NUMBER.reservations` and `lun-NUMBER.mode`. A new one is written
//! beside it, flushed, and takes its place by rename(2). So a kill leaves the old one or the new
//! one.
//!
//! State belongs to a volume: it begins with the volume's identity. Another volume that has the
//! unit's number starts without.
//!
//! A target in a sandbox opens no file. So where the state goes is a trait ([`StateStore`]):
//! another process may have the folder.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

use bytes::Bytes;
use scsi::{LunNumber, StoredState};

use crate::identity::VolumeIdentity;

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

/// Begins state that names its volume: the identity follows.
const HEAD: &[u8] = b"tasuki volume\0";
/// Bytes of an identity.
const IDENTITY: usize = 16;

impl KeptState {
    /// The state of this volume. That of another one is left out: `true` then. State of versions
    /// that named no volume is taken.
    pub(crate) fn of(self, volume: VolumeIdentity) -> (Self, bool) {
        let mut foreign = false;
        let mut own = |bytes: Option<Bytes>| {
            let bytes = bytes?;
            let Some(named) = bytes.strip_prefix(HEAD) else { return Some(bytes) };
            let is_own = named.starts_with(&volume.to_bytes());
            foreign |= !is_own;
            is_own.then(|| bytes.slice(HEAD.len() + IDENTITY..))
        };
        let (reservations, mode_pages) = (own(self.reservations), own(self.mode_pages));
        (Self { reservations, mode_pages }, foreign)
    }
}

/// The state as that of this volume.
pub(crate) fn state_of(volume: VolumeIdentity, state: &StoredState) -> StoredState {
    let named = |bytes: &Bytes| Bytes::from([HEAD, &volume.to_bytes(), bytes].concat());
    match state {
        StoredState::Reservations(bytes) => StoredState::Reservations(bytes.as_ref().map(named)),
        StoredState::ModePages(bytes) => StoredState::ModePages(named(bytes)),
    }
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
    fn state_is_that_of_its_volume_alone() {
        let (one, two) = (VolumeIdentity::random().unwrap(), VolumeIdentity::random().unwrap());
        let bytes = Bytes::from_static(b"kept");
        let stored = state_of(one, &StoredState::Reservations(Some(bytes.clone())));
        let StoredState::Reservations(reservations) = stored else { panic!("another kind") };
        let StoredState::ModePages(pages) = state_of(one, &StoredState::ModePages(bytes.clone()))
        else {
            panic!("another kind")
        };
        let kept = KeptState { reservations, mode_pages: Some(pages) };
        let own = KeptState { reservations: Some(bytes.clone()), mode_pages: Some(bytes) };
        assert_eq!(kept.clone().of(one), (own.clone(), false));
        assert_eq!(kept.of(two), (KeptState::default(), true));
        assert_eq!(own.clone().of(two), (own, false), "an earlier version's");
        let nothing = StoredState::Reservations(None);
        assert_eq!(state_of(one, &nothing), nothing);
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

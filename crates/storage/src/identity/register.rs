//! Identities of volumes that cannot keep their own, as lines of a file: `KEY IDENTITY`.
//!
//! The file is `volumes` in the directory of what outlives instances. A new one takes its place as
//! a whole, under the directory's lock.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

use super::volume_identity::VolumeIdentity;

/// The file's name.
const NAME: &str = "volumes";

/// Where identities of volumes are kept that cannot keep their own.
#[derive(Debug, Clone, Default)]
pub struct IdentityRegister(Option<PathBuf>);

impl IdentityRegister {
    /// In this directory, which is made when it is needed; `None`: nowhere.
    #[must_use]
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self(directory)
    }

    /// The identity of what has this key, which has no white space. One is made if there is none.
    ///
    /// # Errors
    /// It cannot be kept.
    pub(super) fn identity(&self, key: &str) -> io::Result<VolumeIdentity> {
        let no_place = || io::Error::other("no directory for it: set HOME or TASUKI_STATE");
        let directory = self.0.as_ref().ok_or_else(no_place)?;
        let path = directory.join(NAME);
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(named)?;
        let lock = File::open(directory).map_err(named)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|errno| named(errno.into()))?;
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other.map_err(named)?,
        };
        let line = text.lines().filter_map(|line| line.split_once(' ')).find(|it| it.0 == key);
        if let Some((_, identity)) = line {
            return identity.parse().map_err(|error| named(io::Error::other(error)));
        }
        let identity = VolumeIdentity::random()?;
        let new = path.with_extension("new");
        let store = || {
            let mut options = File::options();
            let options = options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&new)?;
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            writeln!(file, "{text}{end}{key} {identity}")?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            lock.sync_all()
        };
        store().map_err(named)?;
        Ok(identity)
    }
}

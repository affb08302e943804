//! Initialization vectors of ESP, reserved for good.
//!
//! A combined cipher breaks when a vector is used twice with one key (RFC 4106 3.1, RFC 8221 4).
//! Keys are set by hand, so they outlive instances. Each association that is added therefore gets a
//! block of vectors of its own, and the end of the block is on the disk before the first packet
//! leaves. Neither a clock that was set back nor a crash brings a vector again.
//!
//! A file for each key has the number from which on no vector was given; the file's name is made of
//! a hash of the key. A block begins at the time of day, if that is later: so a lost directory
//! repeats no vector as long as the clock is right. The files lie in `$TASUKI_STATE`, or in
//! `/var/lib/tasuki` (root), or in `$XDG_STATE_HOME/tasuki` or `~/.local/state/tasuki` (others).

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use abi::xfrm::{XfrmRequest, XfrmVectors};
use rustix::fs::{FlockOperation, flock};

/// Names another directory.
const VARIABLE: &str = "TASUKI_STATE";
/// The directory of these files in it.
const FOLDER: &str = "esp-vectors";
/// Vectors of one block: as many as nanoseconds in 2.4 hours.
const BLOCK: u64 = 1 << 43;
/// No vector reaches this: the first bit tells the direction.
const LIMIT: u64 = 1 << 63;
/// 2020-01-01: a clock before that is not set.
const EARLIEST: Duration = Duration::from_secs(1_577_836_800);
/// Longest file, bytes.
const LONGEST: u64 = 64;

/// Why no vectors are reserved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VectorRefusal {
    #[error("no place for the initialization vectors that were used: set HOME or {VARIABLE}")]
    NoDirectory,
    #[error(
        "cannot keep in {} which initialization vectors a key has used: {error}; set {VARIABLE} to \
         a directory that can be written and stays",
        path.display()
    )]
    Directory { path: PathBuf, error: io::Error },
    #[error(
        "{} does not say which initialization vectors the key has used: set another key",
        path.display()
    )]
    Damaged { path: PathBuf },
    #[error("no initialization vector is left for the key: set another key")]
    Exhausted,
    #[error("the clock is before 2020: set it, so that no initialization vector is used twice")]
    Clock,
}

/// The vectors that a request needs, if it adds an association that counts them.
///
/// # Errors
/// They cannot be reserved.
pub(crate) fn reserved(request: &XfrmRequest) -> Result<Option<XfrmVectors>, VectorRefusal> {
    let key = match request {
        XfrmRequest::AddState(state) => esp::counted_key(&state.algorithms),
        _ => None,
    };
    let reserve = |key: String| VectorDirectory::find()?.reserve(&key, SystemTime::now());
    key.map(reserve).transpose()
}

/// Where it is kept which vectors were given.
#[derive(Debug, Clone)]
pub(crate) struct VectorDirectory(PathBuf);

impl VectorDirectory {
    /// The directory of this user. It need not be there.
    ///
    /// # Errors
    /// No variable tells where it is.
    pub(crate) fn find() -> Result<Self, VectorRefusal> {
        let base = user::state_directory().ok_or(VectorRefusal::NoDirectory)?;
        Ok(Self(base.join(FOLDER)))
    }

    /// Reserves a block for a key, which has this name, at a time of day.
    ///
    /// # Errors
    /// It cannot be kept, or there is none.
    pub(crate) fn reserve(&self, key: &str, now: SystemTime) -> Result<XfrmVectors, VectorRefusal> {
        let path = self.0.join(key);
        let failed = |error| VectorRefusal::Directory { path: self.0.clone(), error };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(failed)?;
        let directory = File::open(&self.0).map_err(failed)?;
        flock(&directory, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
        let given = match read(&path).map_err(failed)? {
            None => None,
            Some(text) => {
                let number = text.strip_suffix('\n').and_then(|text| text.parse::<u64>().ok());
                Some(number.ok_or(VectorRefusal::Damaged { path: path.clone() })?)
            }
        };
        let clock = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let first = match given {
            // Without a record the clock alone keeps this key's vectors apart.
            None if clock < EARLIEST => return Err(VectorRefusal::Clock),
            _ => given.unwrap_or(0).max(u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX)),
        };
        let end = first.checked_add(BLOCK).filter(|end| *end <= LIMIT);
        let end = end.ok_or(VectorRefusal::Exhausted)?;
        replace(&path, &directory, &format!("{end}\n")).map_err(failed)?;
        Ok(XfrmVectors { first, end })
    }
}

/// The content of a file; `None` if it is not there.
fn read(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?.take(LONGEST).read_to_string(&mut text)?,
    };
    Ok(Some(text))
}

/// Replaces a file as a whole. It is on the disk when this returns.
fn replace(path: &Path, directory: &File, content: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    directory.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const KEY: &str = "0123abcd";

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_clock_that_is_set_back_brings_no_vector_again() {
        let folder = tempfile::tempdir().unwrap();
        let vectors = VectorDirectory(folder.path().join("a/b"));
        let first = vectors.reserve(KEY, at(1_800_000_000)).unwrap();
        assert_eq!(first.first, 1_800_000_000_000_000_000);
        assert_eq!(first.end - first.first, BLOCK);
        // The same second, a year before, no clock at all.
        let mut end = first.end;
        for seconds in [1_800_000_000, 1_768_464_000, 0] {
            let next = vectors.reserve(KEY, at(seconds)).unwrap();
            assert_eq!(next.first, end);
            end = next.end;
        }
        // Later it is the clock again, for a case where the directory is lost.
        let next = vectors.reserve(KEY, at(1_900_000_000)).unwrap();
        assert_eq!(next.first, 1_900_000_000_000_000_000);
        // Another key has its own.
        let other = vectors.reserve("ffff", at(1_800_000_000)).unwrap();
        assert_eq!(other, first);
        let mode = fs::metadata(vectors.0.join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_record_that_says_nothing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let vectors = VectorDirectory(folder.path().to_owned());
        let refused = |text: &str| {
            fs::write(folder.path().join(KEY), text).unwrap();
            vectors.reserve(KEY, at(1_800_000_000)).unwrap_err().to_string()
        };
        for text in ["", "\n", "12", "-1\n", "1x\n", "99999999999999999999\n"] {
            let said = refused(text);
            assert!(said.contains("set another key"), "{text:?}: {said}");
        }
        let said = refused(&format!("{}\n", LIMIT - BLOCK + 1));
        assert!(said.contains("no initialization vector is left"), "{said}");
        fs::write(folder.path().join(KEY), format!("{}\n", LIMIT - BLOCK)).unwrap();
        assert_eq!(vectors.reserve(KEY, at(1_800_000_000)).unwrap().end, LIMIT);
        let said = vectors.reserve("new", at(0)).unwrap_err().to_string();
        assert!(said.contains("the clock is before 2020"), "{said}");
        let file = folder.path().join(KEY).join("below");
        let said = VectorDirectory(file).reserve(KEY, at(1_800_000_000)).unwrap_err().to_string();
        assert!(said.contains("set TASUKI_STATE"), "{said}");
    }
}

//! Who may use a file with a key, a secret or a passphrase: its owner alone, who is this user or
//! root.
//!
//! A file that others may use is refused: what is in it may be known already, or be another
//! one's. Callers look at the file that they have open, not at its path.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Rights of group and others.
const ALL: u32 = 0o077;
/// Their rights to write.
const WRITE: u32 = 0o022;

/// Why a file is not taken, behind the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrivateFileError {
    /// Others may read, write or execute it.
    #[error("others may use it (mode {mode:04o}): run `chmod 600 {path}`")]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Others may write it.
    #[error("others may write to it (mode {mode:04o}): run `chmod go-w {path}`")]
    Writable {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It belongs to somebody else.
    #[error("it belongs to user {owner}, not to root or to user {us}: run `chown {us} {path}`")]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Who reads it.
        us: u32,
    },
}

/// May only root and this user read or write this file?
///
/// # Errors
/// Who else may, and what to run.
pub fn check_private(path: &Path, file: &Metadata) -> Result<(), PrivateFileError> {
    check_owner(path, file)?;
    let mode = file.mode() & 0o7777;
    if mode & ALL != 0 {
        return Err(PrivateFileError::Open { path: path.into(), mode });
    }
    Ok(())
}

/// May only root and this user write this file, which others may read?
///
/// # Errors
/// Who else may, and what to run.
pub fn check_trusted(path: &Path, file: &Metadata) -> Result<(), PrivateFileError> {
    check_owner(path, file)?;
    let mode = file.mode() & 0o7777;
    if mode & WRITE != 0 {
        return Err(PrivateFileError::Writable { path: path.into(), mode });
    }
    Ok(())
}

fn check_owner(path: &Path, file: &Metadata) -> Result<(), PrivateFileError> {
    let (owner, us) = (file.uid(), rustix::process::geteuid().as_raw());
    if owner != 0 && owner != us {
        return Err(PrivateFileError::Owner { path: path.into(), owner, us });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    type Check = fn(&Path, &Metadata) -> Result<(), PrivateFileError>;

    fn checked(check: Check, mode: u32, owner: Option<u32>) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&file, owner, None).unwrap();
        let metadata = File::open(&file).unwrap().metadata().unwrap();
        check(file.path(), &metadata).err().map(|error| error.to_string())
    }

    #[test]
    fn modes() {
        for mode in [0o600, 0o400, 0o700] {
            assert_eq!(checked(check_private, mode, None), None, "{mode:o}");
        }
        for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644] {
            let said = checked(check_private, mode, None).expect("it is refused");
            assert!(said.contains(&format!("(mode {mode:04o})")), "{said}");
            assert!(said.contains("run `chmod 600 /"), "{said}");
        }
        assert_eq!(checked(check_trusted, 0o644, None), None);
        for mode in [0o664, 0o646] {
            let said = checked(check_trusted, mode, None).expect("it is refused");
            assert!(said.contains("run `chmod go-w /"), "{said}");
        }
    }

    #[test]
    fn owners() {
        if !rustix::process::geteuid().is_root() {
            crate::testing::skip("only root can give a file away");
            return;
        }
        for check in [check_private as Check, check_trusted] {
            assert_eq!(checked(check, 0o600, Some(0)), None);
            let said = checked(check, 0o600, Some(4711)).expect("it is refused");
            assert!(said.contains("belongs to user 4711, not to root or to user 0"), "{said}");
            assert!(said.contains("run `chown 0 /"), "{said}");
        }
    }
}

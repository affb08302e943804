//! Files with one secret of CHAP.
//!
//! A secret is read from a file, never from a command line, which every user of the machine sees.
//! A file that others can read is refused: its secret may be known already.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use iscsi::ChapSecret;
use zeroize::Zeroizing;

use crate::private_file::{PrivateFileError, check_private};

/// Fewest bytes of a secret (RFC 7143 9.2.1: 96 bits).
pub const LEAST_SECRET: usize = 12;
/// Most bytes of a secret.
pub const MOST_SECRET: usize = 255;

/// Why a file has no secret that can be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// open(2) and the like.
    #[error("cannot read the secret file {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No regular file.
    #[error("the secret file {0} is no regular file")]
    Kind(PathBuf),
    /// Others may use it.
    #[error("the secret file {path}: {source}; change the secret if they may have read it")]
    Private {
        /// The file.
        path: PathBuf,
        /// Who may, and what to do.
        source: PrivateFileError,
    },
    /// It is too short or too long.
    #[error(
        "the secret file {path} has a secret of {length} bytes, not of {LEAST_SECRET} to \
         {MOST_SECRET}: run `openssl rand -base64 24 > {path}`"
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// The secret's bytes.
        length: usize,
    },
    /// It has more than the secret.
    #[error("the secret file {0} has more than one line: it may have the secret alone")]
    Lines(PathBuf),
}

/// Reads a secret: the whole file, without one line feed at its end.
///
/// # Errors
/// What is wrong with the file, and what to run.
pub fn read_secret(path: &Path) -> Result<ChapSecret, SecretFileError> {
    let failed = |source| SecretFileError::Read { path: path.into(), source };
    // A FIFO has no secret, and must not be waited for.
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let mut file = File::options().read(true).custom_flags(nonblock).open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(SecretFileError::Kind(path.into()));
    }
    check_private(path, &meta)
        .map_err(|source| SecretFileError::Private { path: path.into(), source })?;
    // It never grows, so that no copy of it is left behind.
    let mut bytes = Zeroizing::new([0; MOST_SECRET + 3]);
    let mut length = 0;
    loop {
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let secret = &bytes[..length];
    let secret = secret.strip_suffix(b"\n").unwrap_or(secret);
    let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
    if secret.contains(&b'\n') {
        return Err(SecretFileError::Lines(path.into()));
    }
    if !(LEAST_SECRET..=MOST_SECRET).contains(&secret.len()) {
        return Err(SecretFileError::Length { path: path.into(), length: secret.len() });
    }
    Ok(ChapSecret::new(secret))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn read(bytes: &[u8], mode: u32) -> Result<ChapSecret, SecretFileError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        read_secret(&path)
    }

    #[test]
    fn a_secret_is_the_file_without_its_line_feed() {
        let secret = ChapSecret::new(b"twelve bytes");
        for text in ["twelve bytes", "twelve bytes\n", "twelve bytes\r\n"] {
            assert!(read(text.as_bytes(), 0o600).unwrap().is_same(&secret));
        }
        assert!(!read(b"twelve Bytes", 0o400).unwrap().is_same(&secret));
        assert_eq!(read(&[7; MOST_SECRET], 0o600).unwrap().len(), MOST_SECRET);
    }

    #[test]
    fn files_that_are_not_safe_are_refused() {
        for mode in [0o640, 0o604, 0o660, 0o610, 0o601, 0o644] {
            let error = read(b"twelve bytes", mode).unwrap_err().to_string();
            assert!(error.contains(&format!("mode {mode:04o}")), "{error}");
            assert!(error.contains("chmod 600") && !error.contains("twelve"), "{error}");
        }
        for (bytes, why) in [
            (&b"eleven byte"[..], "secret of 11 bytes"),
            (b"", "secret of 0 bytes"),
            (b"a\n\n", "more than one line"),
            (b"twelve bytes\nand more", "more than one line"),
            (&[7; MOST_SECRET + 1], "secret of 256 bytes"),
            (&[7; 9999], "bytes, not of 12 to 255"),
        ] {
            let error = read(bytes, 0o600).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(matches!(read_secret(Path::new("/dev/null")), Err(SecretFileError::Kind(_))));
        assert!(matches!(read_secret(Path::new("/none")), Err(SecretFileError::Read { .. })));
    }

    #[test]
    fn a_file_of_somebody_else_is_refused() {
        if !rustix::process::geteuid().is_root() {
            crate::testing::skip("only root can make one");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "twelve bytes").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
        let error = read_secret(&path).unwrap_err().to_string();
        assert!(error.contains("belongs to user 4711") && error.contains("chown 0"), "{error}");
    }
}

//! Keys, by themselves or in files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use abi::xfrm::XfrmKey;
use storage::check_private;
use zeroize::Zeroizing;

/// Longest file of a key, bytes.
const MOST: u64 = 4096;

/// The key of a word: hexadecimal after 0x, or a file's name after @.
///
/// # Errors
/// A sentence, which does not contain the word.
pub(super) fn key(word: &str) -> Result<XfrmKey, String> {
    match word.strip_prefix('@') {
        Some(path) => key_in_file(Path::new(path)),
        None => word.parse(),
    }
}

/// The key in a file, as text, that only its owner can read.
///
/// # Errors
/// A sentence.
pub(crate) fn key_in_file(path: &Path) -> Result<XfrmKey, String> {
    let wrong = |what: String| format!("the key file {}: {what}", path.display());
    let failed = |error: std::io::Error| wrong(error.to_string());
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    check_private(path, &metadata).map_err(|error| wrong(error.to_string()))?;
    let mut text = Zeroizing::new(String::new());
    file.take(MOST).read_to_string(&mut text).map_err(failed)?;
    text.trim().parse().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn key_files_that_others_may_use_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "0x00112233\n").unwrap();
        let mode = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            key_in_file(file.path())
        };
        assert!(mode(0o600).is_ok());
        let said = mode(0o640).unwrap_err();
        assert!(said.contains("(mode 0640): run `chmod 600 /") && !said.contains("00112233"));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(file.path(), Some(4711), None).unwrap();
            assert!(mode(0o600).unwrap_err().contains("belongs to user 4711"));
        }
    }
}

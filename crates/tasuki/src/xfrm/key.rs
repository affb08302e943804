//! Keys, by themselves or in files.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use abi::xfrm::XfrmKey;
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
    let read = || {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut text = Zeroizing::new(String::new());
        file.take(MOST).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>((metadata, text))
    };
    let wrong = |what: String| format!("the key file {}: {what}", path.display());
    let (metadata, text) = read().map_err(|error| wrong(error.to_string()))?;
    private(&metadata).map_err(&wrong)?;
    text.trim().parse().map_err(wrong)
}

/// Whether only its owner can read a file.
///
/// # Errors
/// A sentence with the remedy.
pub(crate) fn private(metadata: &Metadata) -> Result<(), String> {
    let mode = metadata.mode() & 0o7777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(format!("others can read or write it (mode {mode:04o}): chmod 600 it")),
    }
}

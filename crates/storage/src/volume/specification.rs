//! Words for a volume, as `--lun` and the configuration have them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::file::{self, OpenError};
use super::opened::OpenedVolume;
use crate::identity::{IdentityRegister, VolumeIdentity};

/// `file:PATH`, `block:PATH`, `memory:SIZE` or `null:SIZE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSpecification {
    /// A regular file or a block device.
    File(PathBuf),
    /// Memory of the target's process, bytes.
    Memory(u64),
    /// Nothing, bytes.
    Null(u64),
}

/// A word that names no volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecificationError {
    /// There is no such kind.
    #[error("`{0}` is no volume: say file:PATH, block:PATH, memory:SIZE or null:SIZE")]
    Kind(String),
    /// The path is missing.
    #[error("`{0}` lacks the path of the file")]
    Path(String),
    /// No size.
    #[error("`{0}` is no size: say a number of bytes, or with K, M, G or T, such as 64M")]
    Size(String),
}

impl VolumeSpecification {
    /// Opens its file or device for blocks of `block_size` bytes, and tells which volume it is.
    /// Identities that a volume cannot keep are in the register. Other volumes are new ones.
    ///
    /// # Errors
    /// Why it cannot be opened, and what to do.
    pub(crate) fn open(
        &self,
        block_size: u32,
        read_only: bool,
        register: &IdentityRegister,
    ) -> Result<OpenedVolume, OpenError> {
        match self {
            Self::File(path) => file::open(path, block_size, read_only, register),
            Self::Memory(_) | Self::Null(_) => {
                let unknown =
                    |source| OpenError::Identity { path: self.to_string().into(), source };
                let identity = VolumeIdentity::random().map_err(unknown)?;
                Ok(OpenedVolume { file: None, identity, notices: Vec::new() })
            }
        }
    }
}

impl VolumeSpecification {
    /// What is to be said of bytes of its file behind the last whole block.
    pub(crate) fn tail(&self, block_size: u32) -> Option<String> {
        let Self::File(path) = self else { return None };
        let size = std::fs::metadata(path).ok()?.len();
        file::tail(path, size, block_size)
    }
}

impl FromStr for VolumeSpecification {
    type Err = SpecificationError;

    fn from_str(word: &str) -> Result<Self, SpecificationError> {
        let unknown = || SpecificationError::Kind(word.to_owned());
        let (kind, rest) = word.split_once(':').ok_or_else(unknown)?;
        match kind {
            "file" | "block" if rest.is_empty() => Err(SpecificationError::Path(word.to_owned())),
            "file" | "block" => Ok(Self::File(rest.into())),
            "memory" => Ok(Self::Memory(parse_size(rest)?)),
            "null" => Ok(Self::Null(parse_size(rest)?)),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for VolumeSpecification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Memory(size) => write!(f, "memory:{size}"),
            Self::Null(size) => write!(f, "null:{size}"),
        }
    }
}

/// Bytes: a number, or one with K, M, G or T for powers of 1,024.
///
/// # Errors
/// The word is no size, or zero.
pub fn parse_size(word: &str) -> Result<u64, SpecificationError> {
    let wrong = || SpecificationError::Size(word.to_owned());
    let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match word[digits.len()..].trim_end_matches(['i', 'B']) {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|size| *size > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_volumes() {
        for (word, volume) in [
            ("file:/srv/a.img", VolumeSpecification::File("/srv/a.img".into())),
            ("block:/dev/loop0", VolumeSpecification::File("/dev/loop0".into())),
            ("memory:64M", VolumeSpecification::Memory(64 << 20)),
            ("null:1TiB", VolumeSpecification::Null(1 << 40)),
            ("null:512", VolumeSpecification::Null(512)),
        ] {
            assert_eq!(word.parse(), Ok(volume), "{word}");
        }
    }

    #[test]
    fn other_words_are_refused() {
        for word in
            ["", "file", "file:", "disk:/a", "memory:", "null:0", "null:9Q", "memory:99999999999T"]
        {
            assert!(word.parse::<VolumeSpecification>().is_err(), "{word}");
        }
    }
}

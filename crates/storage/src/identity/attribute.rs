//! The identity as an extended attribute of the file that has the volume.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;

use super::mark::FileMark;
use super::volume_identity::VolumeIdentity;

/// The attribute's name.
pub(super) const NAME: &str = "user.tasuki.identity";
/// Longest attribute that is read, bytes.
const LONGEST: usize = 256;

/// What the attribute says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) identity: VolumeIdentity,
    /// The file that the identity was made for. One that was set by hand names none, and fits any.
    pub(super) made_for: FileMark,
}

impl Attribute {
    /// That of an open file; `None`: it has none, or none that can be read.
    ///
    /// # Errors
    /// The file system has no such attributes.
    pub(super) fn read(file: &OwnedFd) -> io::Result<Option<Self>> {
        let mut bytes = [0; LONGEST];
        let length = match fgetxattr(file, NAME, &mut bytes) {
            Ok(length) => length,
            Err(Errno::NODATA | Errno::RANGE) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        Ok(std::str::from_utf8(&bytes[..length.min(LONGEST)]).ok().and_then(Self::parse))
    }

    /// Sets it.
    ///
    /// # Errors
    /// The system's: the file is read-only, its file system has no such attributes.
    pub(super) fn write(&self, file: &OwnedFd) -> io::Result<()> {
        let text = format!("{}{}", self.identity, self.made_for.words());
        Ok(fsetxattr(file, NAME, text.as_bytes(), XattrFlags::empty())?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let identity = words.next()?.parse().ok()?;
        Some(Self { identity, made_for: FileMark::parse(words) })
    }
}

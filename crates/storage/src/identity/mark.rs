//! What tells one file from another one, whatever its name and its content.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, StatxFlags};

/// Types of file systems (statfs(2)) whose snapshots have the same files again, and whose number
/// (`f_fsid`) differs for each snapshot and stays: btrfs, ZFS.
const SNAPSHOTS: [u64; 2] = [0x9123_683e, 0x2fc1_2fc1];

/// A file: the number of its inode, when it was made, and where snapshots have it too, in which.
///
/// A file that is removed gives its inode's number to the next one, so the time counts too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FileMark {
    inode: Option<u64>,
    /// Nanoseconds since 1970.
    born: Option<i128>,
    volume: Option<u64>,
    /// Which file system, as far as that is known. It may change when the system starts again.
    system: Option<u64>,
}

impl FileMark {
    /// That of an open file.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn of(file: &OwnedFd) -> io::Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let statx = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted)?;
        let known = |flag: StatxFlags| statx.stx_mask & flag.bits() != 0;
        let born = i128::from(statx.stx_btime.tv_sec) * 1_000_000_000
            + i128::from(statx.stx_btime.tv_nsec);
        let system = rustix::fs::fstatvfs(file).map(|system| system.f_fsid).ok();
        let kind = rustix::fs::fstatfs(file).map(|system| system.f_type as u64).unwrap_or(0);
        Ok(Self {
            inode: known(StatxFlags::INO).then_some(statx.stx_ino),
            born: known(StatxFlags::BTIME).then_some(born),
            volume: system.filter(|_| SNAPSHOTS.contains(&(kind & 0xffff_ffff))),
            system,
        })
    }

    /// Is it the mark of this file? What one of them does not know does not count.
    pub(super) fn is_of(&self, file: &Self) -> bool {
        fn fits<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        fits(self.inode.as_ref(), file.inode.as_ref())
            && fits(self.born.as_ref(), file.born.as_ref())
            && fits(self.volume.as_ref(), file.volume.as_ref())
    }

    /// A name of the file in this machine.
    ///
    /// # Errors
    /// Another file could have the same name.
    pub(super) fn key(&self) -> io::Result<String> {
        match (self.inode, self.born, self.system) {
            (Some(inode), Some(born), Some(system)) => {
                Ok(format!("file:{system:x}:{inode}:{born}"))
            }
            _ => Err(io::Error::other("its file system tells no time of birth")),
        }
    }

    /// As an attribute has it: words.
    pub(super) fn words(&self) -> String {
        let number = |name: &str, number: Option<i128>| {
            number.map_or_else(String::new, |number| format!(" {name}={number}"))
        };
        [
            number("inode", self.inode.map(i128::from)),
            number("born", self.born),
            number("volume", self.volume.map(i128::from)),
        ]
        .concat()
    }

    /// Out of these words. Others are left alone.
    pub(super) fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut mark = Self::default();
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            match name {
                "inode" => mark.inode = value.parse().ok(),
                "born" => mark.born = value.parse().ok(),
                "volume" => mark.volume = value.parse().ok(),
                _ => {}
            }
        }
        mark
    }
}

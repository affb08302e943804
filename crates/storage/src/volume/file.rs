//! A volume in a regular file or on a block device, by io_uring.
//!
//! The file is opened with O_DIRECT where its alignment allows the unit's blocks: then a write that
//! is over is in the device's cache, and a flush is fdatasync(2). Other volumes go through the page
//! cache. One process at a time has a file (flock(2)) or a device (O_EXCL).

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags,
};
use rustix::io::Errno;
use scsi::{Allocation, ByteRange, Extent, ExtentState, MediumError};

use super::resize_error::ResizeVolumeError;
use crate::ring::Ring;

/// Why a file is no volume.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// open(2) and the like.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The process that asked for it did not pass it.
    #[error("{0} was not passed to the target: is `tasuki target add` of another version?")]
    NotPassed(PathBuf),
    /// Another process has it.
    #[error("{0} is in use: another target serves it, or the system has it mounted")]
    InUse(PathBuf),
    /// No regular file and no block device.
    #[error("{0} is neither a regular file nor a block device")]
    Kind(PathBuf),
    /// It has not one whole block.
    #[error("{path} has {size} bytes, less than a block of {block_size}: see truncate(1)")]
    TooSmall {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// A block's bytes.
        block_size: u32,
    },
}

/// An open file or device.
#[derive(Debug)]
pub(super) struct FileVolume {
    file: Rc<OwnedFd>,
    ring: Rc<Ring>,
    size: u64,
    /// Holes can be made.
    thin: bool,
    device: bool,
    read_only: bool,
}

/// Opens it for blocks of `block_size` bytes, and takes its lock. Both stay with the open file,
/// whichever process has it.
///
/// # Errors
/// The system's, or that it is no volume.
pub(super) fn open(path: &Path, block_size: u32, read_only: bool) -> Result<OwnedFd, OpenError> {
    let failed = |errno: Errno| OpenError::Open { path: path.into(), source: errno.into() };
    let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR } | OFlags::CLOEXEC;
    let stat = rustix::fs::stat(path).map_err(failed)?;
    let device = is_device(path, stat.st_mode)?;
    let exclusive = if device && !read_only { OFlags::EXCL } else { OFlags::empty() };
    let open = |flags| match rustix::fs::open(path, access | exclusive | flags, Mode::empty()) {
        Err(Errno::BUSY) => Err(OpenError::InUse(path.into())),
        other => other.map_err(failed),
    };
    let mut file = open(OFlags::empty())?;
    if direct_alignment(&file) <= block_size {
        // Without it the volume goes through the page cache.
        file = open(OFlags::DIRECT).unwrap_or(file);
    }
    let lock = if read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    match rustix::fs::flock(&file, lock) {
        Err(Errno::AGAIN) => Err(OpenError::InUse(path.into())),
        other => other.map(|()| file).map_err(failed),
    }
}

/// Is it a block device, and no regular file?
fn is_device(path: &Path, mode: u32) -> Result<bool, OpenError> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(false),
        FileType::BlockDevice => Ok(true),
        _ => Err(OpenError::Kind(path.into())),
    }
}

impl FileVolume {
    /// Has the file of [`open`], which came from another process perhaps. `path` is its name.
    ///
    /// # Errors
    /// The system's, or that it is no volume.
    pub(super) fn new(
        file: OwnedFd,
        path: &Path,
        block_size: u32,
        read_only: bool,
        ring: Rc<Ring>,
    ) -> Result<Self, OpenError> {
        let failed = |errno: Errno| OpenError::Open { path: path.into(), source: errno.into() };
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        let device = is_device(path, stat.st_mode)?;
        let flags = rustix::fs::fcntl_getfl(&file).map_err(failed)?;
        let wanted = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
        if flags & OFlags::ACCMODE != wanted {
            return Err(failed(Errno::BADF));
        }
        let size = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(failed)?;
        if size < u64::from(block_size) {
            return Err(OpenError::TooSmall { path: path.into(), size, block_size });
        }
        Ok(Self { file: Rc::new(file), ring, size, thin: !read_only, device, read_only })
    }

    /// Bytes when it was opened.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The size that it would get: the wanted one, or the one that it has now.
    ///
    /// # Errors
    /// It cannot be given a size, or the system does not tell it.
    pub(super) fn size_for(&self, wanted: Option<u64>) -> Result<u64, ResizeVolumeError> {
        match wanted {
            Some(_) if self.device => Err(ResizeVolumeError::Device),
            Some(_) if self.read_only => Err(ResizeVolumeError::ReadOnly),
            Some(size) => Ok(size),
            None => {
                let end = rustix::fs::seek(&*self.file, SeekFrom::End(0));
                end.map_err(|errno| ResizeVolumeError::System(errno.into()))
            }
        }
    }

    /// Gives the file that many bytes. Freeing many extents takes time, so another thread does it.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn truncate(&self, size: u64) -> io::Result<()> {
        let file = self.file.try_clone()?;
        let truncate = move || rustix::fs::ftruncate(&file, size).map_err(io::Error::from);
        tokio::task::spawn_blocking(truncate).await.map_err(io::Error::other)?
    }

    pub(super) fn is_thin(&self) -> bool {
        self.thin
    }

    pub(super) async fn read(&self, offset: u64, len: usize) -> Result<Bytes, MediumError> {
        let read = self.ring.read(&self.file, offset, len).await;
        let memory = read.map_err(|error| failure(&error, MediumError::Read(offset)))?;
        if memory.len() < len {
            // The file is shorter than it was.
            return Err(MediumError::Read(offset + memory.len() as u64));
        }
        Ok(memory.into_bytes())
    }

    pub(super) async fn write(
        &self,
        mut offset: u64,
        pieces: &[Bytes],
        durable: bool,
    ) -> Result<(), MediumError> {
        let mut rest = self.ring.aligned(pieces);
        while !rest.is_empty() {
            let written = self.ring.write(&self.file, offset, rest.clone(), durable).await;
            let written = written.map_err(|error| failure(&error, MediumError::Write(offset)))?;
            if written == 0 {
                return Err(MediumError::NoSpace);
            }
            offset += u64::from(written);
            rest = self.ring.aligned(&[rest.slice(written as usize..)]);
        }
        Ok(())
    }

    pub(super) async fn flush(&self) -> Result<(), MediumError> {
        let flushed = self.ring.flush(&self.file).await;
        flushed.map_err(|error| failure(&error, MediumError::Flush))
    }

    /// Makes bytes zero without writing them. `false`: the file system cannot.
    pub(super) async fn zero(
        &self,
        range: ByteRange,
        allocation: Allocation,
    ) -> Result<bool, MediumError> {
        let mode = match allocation {
            Allocation::Deallocate => FallocateFlags::PUNCH_HOLE,
            Allocation::Anchor => FallocateFlags::ZERO_RANGE,
            Allocation::Write => return Ok(false),
        };
        let mode = mode | FallocateFlags::KEEP_SIZE;
        match self.ring.allocate(&self.file, mode, range.offset, range.len).await {
            Ok(()) => Ok(true),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(failure(&error, MediumError::Write(range.offset))),
        }
    }

    /// Which bytes have storage, by SEEK_DATA and SEEK_HOLE.
    pub(super) fn extents(&self, range: ByteRange, most: u32) -> Result<Vec<Extent>, MediumError> {
        let mut extents = Vec::new();
        let mut offset = range.offset;
        while offset < range.end() && extents.len() < most as usize {
            let seek = |to| match rustix::fs::seek(&*self.file, to) {
                // No data behind it.
                Err(Errno::NXIO) => Ok(range.end()),
                other => other.map_err(|_| MediumError::Read(offset)),
            };
            let data = seek(SeekFrom::Data(offset))?;
            let (state, end) = if data > offset {
                (ExtentState::Deallocated, data)
            } else {
                (ExtentState::Mapped, seek(SeekFrom::Hole(offset))?)
            };
            let end = end.clamp(offset + 1, range.end());
            extents.push(Extent { len: end - offset, state });
            offset = end;
        }
        Ok(extents)
    }
}

/// The multiple that offsets must be of for O_DIRECT. `u32::MAX`: there is none, or nobody knows.
fn direct_alignment(file: &OwnedFd) -> u32 {
    let wanted = StatxFlags::DIOALIGN;
    match rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted) {
        Ok(statx) if statx.stx_mask & wanted.bits() != 0 && statx.stx_dio_offset_align > 0 => {
            statx.stx_dio_offset_align
        }
        _ => u32::MAX,
    }
}

/// The medium's error for the system's.
fn failure(error: &io::Error, other: MediumError) -> MediumError {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => MediumError::NoSpace,
        Some(Errno::ROFS | Errno::PERM | Errno::BADF) => MediumError::ReadOnly,
        Some(Errno::NODEV | Errno::NXIO | Errno::STALE | Errno::NOMEDIUM) => MediumError::Gone,
        _ => other,
    }
}

//! A volume in a regular file or on a block device, by io_uring.
//!
//! The file is opened with O_DIRECT where its alignment allows the unit's blocks: then a write that
//! is over is in the device's cache, and a flush is fdatasync(2). Other volumes go through the page
//! cache. One target at a time has a file (a lock of the open file) or a device (O_EXCL).

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use nix::fcntl::{FcntlArg, fcntl};
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags,
};
use rustix::io::Errno;
use scsi::{Allocation, ByteRange, Extent, ExtentState, MediumError};

use super::fault_log::FaultLog;
use super::opened::{OpenedVolume, VolumeUse};
use super::resize_error::ResizeVolumeError;
use crate::identity::{Identified, IdentityRegister, identify};
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
    /// It is not known which volume it is.
    #[error("cannot tell which volume {path} is: {source}")]
    Identity {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// An open file or device.
#[derive(Debug)]
pub(super) struct FileVolume {
    file: Rc<OwnedFd>,
    ring: Rc<Ring>,
    faults: FaultLog,
    size: u64,
    /// Holes can be made.
    thin: bool,
    device: bool,
    read_only: bool,
}

/// Opens it for blocks of `block_size` bytes, takes its lock, and tells which volume it is. The
/// lock stays with the open file, whichever process has it.
///
/// # Errors
/// The system's, or that it is no volume.
pub(super) fn open(
    path: &Path,
    block_size: u32,
    read_only: bool,
    register: &IdentityRegister,
) -> Result<OpenedVolume, OpenError> {
    let file = open_locked(path, block_size, read_only)?;
    let unknown = |source| OpenError::Identity { path: path.into(), source };
    let Identified { identity, notice } = identify(&file, path, register).map_err(unknown)?;
    let size = rustix::fs::seek(&file, SeekFrom::End(0)).unwrap_or(0);
    let notices = notice.into_iter().chain(tail(path, size, block_size)).collect();
    Ok(OpenedVolume { file: Some(file), identity, notices })
}

/// What is to be said of bytes behind the last whole block.
pub(super) fn tail(path: &Path, size: u64, block_size: u32) -> Option<String> {
    let rest = size % u64::from(block_size);
    let whole = size - rest;
    (rest > 0 && whole > 0).then(|| {
        let (path, next) = (path.display(), size.next_multiple_of(block_size.into()));
        format!(
            "{path} has {size} bytes, no whole number of blocks of {block_size}: the unit has \
             {whole} of them, without the last {rest}; `truncate -s {next} {path}` makes it whole"
        )
    })
}

fn open_locked(path: &Path, block_size: u32, read_only: bool) -> Result<OwnedFd, OpenError> {
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
    match lock(&file, read_only) {
        Err(Errno::AGAIN | Errno::ACCESS) => Err(OpenError::InUse(path.into())),
        other => other.map(|()| file).map_err(failed),
    }
}

/// Takes the lock of a target: of the open file (fcntl(2), OFD), which QEMU honours too. Beside it
/// a shared flock(2) tells programs that change the file. cryptsetup takes a shared one to read a
/// header, and would wait for an exclusive one for ever.
fn lock(file: &OwnedFd, read_only: bool) -> Result<(), Errno> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockShared)?;
    let kind = if read_only { libc::F_RDLCK } else { libc::F_WRLCK };
    let whole = libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole)) {
        Ok(_) => Ok(()),
        Err(errno) => match Errno::from_io_error(&errno.into()) {
            Some(refused @ (Errno::AGAIN | Errno::ACCESS)) => Err(refused),
            // A file system without such locks.
            _ if read_only => Ok(()),
            _ => rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive),
        },
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
        unit: VolumeUse,
        ring: Rc<Ring>,
    ) -> Result<Self, OpenError> {
        let VolumeUse { block_size, read_only, .. } = unit;
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
        let (file, faults) = (Rc::new(file), FaultLog::new(unit, path));
        Ok(Self { file, ring, faults, size, thin: !read_only, device, read_only })
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
        let failed = |error| self.failed("a read", Some(offset), &error, MediumError::Read(offset));
        let memory = read.map_err(failed)?;
        if memory.len() < len {
            let end = offset + memory.len() as u64;
            let error = io::Error::other("it ends there, before the unit does: it was cut");
            return Err(self.faults.tell("a read", Some(end), &error, MediumError::Read(end)));
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
            let other = MediumError::Write(offset);
            let failed = |error| self.failed("a write", Some(offset), &error, other);
            let written = written.map_err(failed)?;
            if written == 0 {
                let error = io::Error::other("nothing was written");
                return Err(self.faults.tell(
                    "a write",
                    Some(offset),
                    &error,
                    MediumError::NoSpace,
                ));
            }
            offset += u64::from(written);
            rest = self.ring.aligned(&[rest.slice(written as usize..)]);
        }
        Ok(())
    }

    pub(super) async fn flush(&self) -> Result<(), MediumError> {
        let flushed = self.ring.flush(&self.file).await;
        flushed.map_err(|error| self.failed("a flush", None, &error, MediumError::Flush))
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
            Err(error) => {
                let (at, other) = (Some(range.offset), MediumError::Write(range.offset));
                Err(self.failed("giving storage back or taking it", at, &error, other))
            }
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
                other => other.map_err(|errno| {
                    let error = io::Error::from(errno);
                    let seen = MediumError::Read(offset);
                    self.faults.tell("looking for holes", Some(offset), &error, seen)
                }),
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

    /// The system has failed an operation: the log is told, and the medium's error is given.
    fn failed(
        &self,
        operation: &'static str,
        offset: Option<u64>,
        error: &io::Error,
        other: MediumError,
    ) -> MediumError {
        self.faults.tell(operation, offset, error, failure(error, other))
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

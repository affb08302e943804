//! Copies a disk: between files and logical units, in any direction.
//!
//! Parts of [`PART`] bytes are read and written at the same time, up to [`PARTS`] of them. Zeroes
//! become holes in a new file. All is on stable storage when the copy ends.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::task::{JoinSet, spawn_blocking};

use crate::disk::{Disk, DiskError};

/// Bytes of a part: a whole number of blocks of any size.
const PART: u64 = 1 << 20;
/// Parts that are under way at a time.
const PARTS: usize = 16;

/// Why a copy did not end well.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A file.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A unit.
    #[error(transparent)]
    Unit(#[from] DiskError),
    /// Both ends are one file.
    #[error("{0} is the source and the destination: nothing is copied")]
    SameFile(PathBuf),
    /// The source is longer.
    #[error("the source has {from} bytes, and the unit {to}: take a larger unit")]
    TooSmall {
        /// Bytes of the source.
        from: u64,
        /// Bytes of the destination.
        to: u64,
    },
}

/// An end of a copy.
#[derive(Debug, Clone)]
pub enum CopyEnd {
    /// A file or block device.
    File(Arc<File>, PathBuf),
    /// A unit.
    Unit(Disk),
}

impl CopyEnd {
    /// Opens a file to be read.
    ///
    /// # Errors
    /// The system's.
    pub fn source(path: &Path) -> Result<Self, CopyError> {
        let file =
            File::open(path).map_err(|source| CopyError::File { path: path.into(), source })?;
        Ok(Self::File(Arc::new(file), path.into()))
    }

    /// Bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn size(&self) -> Result<u64, CopyError> {
        match self {
            // A block device says its size so too.
            Self::File(file, path) => rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))
                .map_err(|errno| CopyError::File { path: path.clone(), source: errno.into() }),
            Self::Unit(disk) => Ok(disk.capacity().bytes()),
        }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, CopyError> {
        match self {
            Self::File(file, path) => {
                let read = move |file: &File| {
                    let mut bytes = BytesMut::zeroed(len);
                    file.read_exact_at(&mut bytes, offset).map(|()| bytes.freeze())
                };
                blocking(file, path, read).await
            }
            Self::Unit(disk) => Ok(disk.read(offset, len).await?),
        }
    }

    async fn write(&self, offset: u64, bytes: Bytes) -> Result<(), CopyError> {
        match self {
            Self::File(file, path) => {
                let write = move |file: &File| {
                    // A regular file is one hole when the copy begins.
                    if is_regular(file) && bytes.iter().all(|byte| *byte == 0) {
                        return Ok(());
                    }
                    file.write_all_at(&bytes, offset)
                };
                blocking(file, path, write).await
            }
            Self::Unit(disk) => Ok(disk.write(offset, bytes, false).await?),
        }
    }

    async fn begin(&self, size: u64) -> Result<(), CopyError> {
        match self {
            Self::File(file, path) => {
                let empty = move |file: &File| {
                    if is_regular(file) {
                        file.set_len(0)?;
                        file.set_len(size)?;
                    }
                    Ok(())
                };
                blocking(file, path, empty).await
            }
            Self::Unit(disk) if disk.capacity().bytes() < size => {
                Err(CopyError::TooSmall { from: size, to: disk.capacity().bytes() })
            }
            Self::Unit(..) => Ok(()),
        }
    }

    async fn flush(&self) -> Result<(), CopyError> {
        match self {
            Self::File(file, path) => blocking(file, path, sync).await,
            Self::Unit(disk) => Ok(disk.flush().await?),
        }
    }
}

/// Waits for stable storage. A special file such as /dev/null may have none (fsync(2), EINVAL).
fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Are both ends one file?
fn same_file(from: &CopyEnd, to: &CopyEnd) -> Option<PathBuf> {
    let (CopyEnd::File(one, path), CopyEnd::File(other, _)) = (from, to) else { return None };
    let id = |file: &File| file.metadata().ok().map(|it| (it.dev(), it.ino(), it.rdev()));
    (id(one).is_some() && id(one) == id(other)).then(|| path.clone())
}

/// Works on a file in another thread.
async fn blocking<T: Send + 'static>(
    file: &Arc<File>,
    path: &Path,
    work: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
) -> Result<T, CopyError> {
    let file = Arc::clone(file);
    let done = spawn_blocking(move || work(&file)).await;
    done.unwrap_or_else(|_| Err(io::Error::other("the thread has ended")))
        .map_err(|source| CopyError::File { path: path.into(), source })
}

/// Copies all bytes. `progress` is told how many have been copied.
///
/// # Errors
/// The first of either end.
pub async fn copy(
    from: &CopyEnd,
    to: &CopyEnd,
    progress: impl Fn(u64) + 'static,
) -> Result<u64, CopyError> {
    if let Some(path) = same_file(from, to) {
        return Err(CopyError::SameFile(path));
    }
    let size = from.size()?;
    to.begin(size).await?;
    let (copied, progress) = (Rc::new(Cell::new(0)), Rc::new(progress));
    let mut parts = JoinSet::new();
    let mut offset = 0;
    while offset < size || !parts.is_empty() {
        if offset < size && parts.len() < PARTS {
            let len = (size - offset).min(PART);
            let (from, to) = (from.clone(), to.clone());
            let (copied, progress) = (Rc::clone(&copied), Rc::clone(&progress));
            parts.spawn_local(async move {
                let bytes = from.read(offset, usize::try_from(len).unwrap_or(usize::MAX)).await?;
                to.write(offset, bytes).await?;
                copied.set(copied.get() + len);
                progress(copied.get());
                Ok::<(), CopyError>(())
            });
            offset += len;
        } else if let Some(Ok(done)) = parts.join_next().await {
            done?;
        }
    }
    to.flush().await?;
    Ok(size)
}

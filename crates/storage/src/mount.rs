//! A disk as a file, by FUSE.
//!
//! ```text
//!   program ── read, write ──▶ kernel ──▶ FUSE thread ── request ──▶ task of this thread ──▶ disk
//!                                 ▲                                        │
//!                                 └──────────────── answer ────────────────┘
//! ```
//!
//! On a directory the disk is the file `disk` in it. On a regular file it is that file.
//!
//! The kernel keeps no pages of the file (FOPEN_DIRECT_IO), so what another initiator writes is
//! seen. Pages that a program maps are the exception. Requests run side by side, and
//! [`crate::Disk`] keeps writes to the same blocks in order. Requests that are under way have at
//! most [`ROOM`] bytes; [`QUEUE`] more wait behind them, and the rest in the kernel.

mod files;
mod request;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fuser::{MountOption, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use self::files::DiskFiles;
use self::request::{FileRequest, ROOM, UNIT};
use crate::disk::{Disk, DiskError};

/// Threads that take requests from the kernel.
const THREADS: usize = 2;
/// Requests that wait between these threads and ours, each of at most 1 MiB. While the queue is
/// full, the kernel gets no answer to anything.
const QUEUE: usize = 256;
/// How long requests, the last flush and the logout may take after the end.
const LAST: Duration = Duration::from_secs(10);

/// Why a disk cannot be mounted, or is no more.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point.
    #[error("{path} is no mount point: {reason}")]
    Point {
        /// The mount point.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The system does not mount it.
    #[error("cannot mount the disk at {path}: {source}")]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// The system's error, or fusermount3's.
        source: io::Error,
    },
    /// The kernel's requests.
    #[error("the mount has ended: {0}")]
    Ended(io::Error),
    /// The last flush.
    #[error("what was written last may be lost: {0}")]
    Flush(#[from] DiskError),
    /// The target is away.
    #[error(
        "the target does not answer: what was written since the last fsync, and requests that \
         are under way, may be lost"
    )]
    Away,
}

/// How a disk is mounted.
#[derive(Debug, Clone, Default)]
pub struct MountOptions {
    /// No writes.
    pub read_only: bool,
    /// Other users can reach the file, as far as its mode lets them.
    pub allow_other: bool,
    /// Programs may give storage back and make ranges zero (fallocate(2)).
    pub unmap: bool,
    /// The source that the list of mounts shows.
    pub source: String,
}

/// A mounted disk, before it is served.
#[derive(Debug)]
pub struct Mounted {
    session: Session<DiskFiles>,
    requests: mpsc::Receiver<FileRequest>,
    point: PathBuf,
}

impl Mounted {
    /// Mounts the disk.
    ///
    /// # Errors
    /// The mount point's, or the system's.
    pub fn new(disk: &Disk, point: &Path, options: &MountOptions) -> Result<Self, MountError> {
        let wrong = |reason: String| MountError::Point { path: point.to_path_buf(), reason };
        let metadata = fs::metadata(point).map_err(|error| wrong(reason(&error)))?;
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(wrong("it is neither a directory nor a regular file".to_owned()));
        }
        let read_only = options.read_only || disk.is_read_only();
        let (sender, requests) = mpsc::channel(QUEUE);
        let files = DiskFiles::new(disk, metadata.is_dir(), read_only, options.unmap, sender);
        let failed = |source| MountError::Mount { path: point.to_path_buf(), source };
        // An unmount by its path must not depend on the working directory.
        let path = fs::canonicalize(point).map_err(|error| wrong(reason(&error)))?;
        let mut config = fuser::Config::default();
        config.n_threads = Some(THREADS);
        config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        config.mount_options = vec![
            MountOption::FSName(options.source.replace(',', "%2C")),
            MountOption::Subtype("tasuki".to_owned()),
            MountOption::DefaultPermissions,
            if read_only { MountOption::RO } else { MountOption::RW },
        ];
        // The kernel believes attributes for a moment: a lost process may show only now.
        let session = Session::new(files, &path, &config).map_err(|error| {
            match Errno::from_io_error(&error) {
                Some(Errno::NOTCONN) => wrong(reason(&error)),
                _ => failed(plain(&error)),
            }
        })?;
        Ok(Self { session, requests, point: path })
    }

    /// Serves the disk until it is unmounted, or until `end`, which unmounts it. Then what was
    /// written is flushed, and the disk is closed.
    ///
    /// # Errors
    /// Of the kernel's requests, and of the last flush.
    pub async fn serve(self, disk: &Disk, end: impl Future<Output = ()>) -> Result<(), MountError> {
        let Self { mut session, mut requests, point } = self;
        let mut unmounter = session.unmount_callable();
        let (told, over) = oneshot::channel();
        let thread = std::thread::Builder::new().name("fuse".to_owned());
        let run = move || drop(told.send(session.run()));
        let _ = thread.spawn(run).map_err(MountError::Ended)?;
        let room = Arc::new(Semaphore::new(ROOM / UNIT));
        let served = tokio::select! {
            biased;
            result = over => result.unwrap_or(Ok(())).map_err(MountError::Ended),
            () = request::serve(disk, &mut requests, &room) => Ok(()),
            () = end => {
                detach(&mut unmounter, &point);
                Ok(())
            }
        };
        // The kernel's later requests fail.
        drop(requests);
        let rest = async {
            let all = u32::try_from(ROOM / UNIT).unwrap_or(u32::MAX);
            let _ = room.acquire_many(all).await;
            let flushed = disk.flush().await;
            disk.close().await;
            flushed
        };
        let flushed = timeout(LAST, rest).await;
        served?;
        flushed.map_err(|_| MountError::Away)?.map_err(MountError::Flush)
    }
}

/// Unmounts, also while programs use the file. They get ENOTCONN when this process has ended.
fn detach(unmounter: &mut fuser::SessionUnmounter, point: &Path) {
    let Err(error) = unmounter.unmount() else { return };
    tracing::warn!(%error, path = %point.display(), "the disk is in use, and unmounted anyway");
    if let Err(errno) = unmount(point, UnmountFlags::DETACH) {
        tracing::error!(%errno, path = %point.display(), "cannot unmount the disk");
    }
}

/// Why a path is no mount point.
fn reason(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOTCONN) => "a mount there has lost its process: `fusermount3 -u` or \
                                 `umount` removes it"
            .to_owned(),
        Some(Errno::NOENT) => {
            "it does not exist: make a directory or an empty file first".to_owned()
        }
        _ => error.to_string(),
    }
}

/// The library's error without its insides.
fn plain(error: &io::Error) -> io::Error {
    match error.to_string().rsplit_once(": ") {
        Some((head, errno)) if head.starts_with("Error calling mount()") => {
            io::Error::new(error.kind(), errno.to_owned())
        }
        _ => io::Error::new(error.kind(), error.to_string().trim().to_owned()),
    }
}

//! Users of their own for processes, out of systemd's range for dynamic users.
//!
//! A number is leased by a lock on a file of that name, as systemd does. Where systemd runs, the
//! files are in its directory, so that both know of each other's. The lock ends with its holder, so
//! a killed supervisor leaves no number taken. An instance in another mount namespace may see other
//! files; so a number that any process has is left out, too.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Uid, getpriority_user};

/// systemd's range (systemd.exec(5), DynamicUser=).
const RANGE: std::ops::RangeInclusive<u32> = 61_184..=65_519;

/// Where systemd has its locks.
const OF_SYSTEMD: &str = "/run/systemd/dynamic-uid";

/// How often a directory that is being removed is made again.
const TRIES: u32 = 100;

/// A user (and group) that no other process has, until this is dropped.
#[derive(Debug)]
pub struct UserLease {
    uid: u32,
    path: PathBuf,
    lock: OwnedFd,
}

impl UserLease {
    /// A free number that no process has. The lock is in `directory` where systemd has none; it is
    /// made if needed, and goes with the last lease.
    ///
    /// # Errors
    /// The system's; `AddrInUse` when all numbers are taken.
    pub fn take(directory: &Path) -> io::Result<Self> {
        let of_systemd = Path::new(OF_SYSTEMD);
        let directory = if of_systemd.is_dir() { of_systemd } else { directory };
        if directory != of_systemd {
            sweep(directory);
        }
        let count = RANGE.end() - RANGE.start() + 1;
        let mut random = [0; 4];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let first = u32::from_ne_bytes(random) % count;
        for step in 0..count {
            let uid = RANGE.start() + (first + step) % count;
            if !has_process(uid)
                && let Some(lease) = Self::lock(directory, uid)?
            {
                return Ok(lease);
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "all dynamic users are taken"))
    }

    /// `None`: another process has it.
    fn lock(directory: &Path, uid: u32) -> io::Result<Option<Self>> {
        let path = directory.join(uid.to_string());
        let lock = open(directory, &path)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        // Its last holder may have removed it between the two calls.
        let linked = rustix::fs::fstat(&lock)?.st_nlink > 0;
        Ok(linked.then_some(Self { uid, path, lock }))
    }

    /// The number.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }
}

impl Drop for UserLease {
    fn drop(&mut self) {
        // A file that stays is locked again by the next holder.
        let _ = rustix::fs::unlinkat(rustix::fs::CWD, &self.path, AtFlags::empty());
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
        if let Some(directory) = self.path.parent().filter(|it| *it != Path::new(OF_SYSTEMD)) {
            // Fails while there are other locks.
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Removes the files whose holder was killed.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let uid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        // Dropping a lease removes its file.
        drop(uid.map(|uid| UserLease::lock(directory, uid)));
    }
}

/// Opens a lock's file. The last holder of another lock may be removing the directory.
fn open(directory: &Path, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let mut tries = 0..TRIES;
    loop {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        match rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)) {
            Err(Errno::NOENT) if tries.next().is_some() => {}
            done => return Ok(done?),
        }
    }
}

/// Does a process run as this user? The kernel finds a user's processes by the user, so this costs
/// nothing for most. One that only acts for the user (its effective user) does not count.
fn has_process(uid: u32) -> bool {
    getpriority_user(Uid::from_raw(uid)) != Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_leased_twice() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("users");
        let first = UserLease::lock(&directory, 61_184).unwrap().unwrap();
        assert!(UserLease::lock(&directory, 61_184).unwrap().is_none());
        assert!(UserLease::lock(&directory, 61_185).unwrap().is_some());
        drop(first);
        assert!(!directory.exists());
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("61190"), "").unwrap();
        sweep(&directory);
        assert!(!directory.exists(), "a file without a holder is removed");
        assert_eq!(UserLease::lock(&directory, 61_184).unwrap().unwrap().uid(), 61_184);
    }

    #[test]
    fn users_with_processes() {
        assert!(has_process(rustix::process::getuid().as_raw()));
        // Not of the range, and no user that a system gives to anybody.
        assert!(!has_process(3_999_999_999));
    }
}

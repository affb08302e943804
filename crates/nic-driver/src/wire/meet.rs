//! How two ends find each other at a path: the first end listens, the second connects.
//!
//! An end that finds a listener connects. An end that finds none, or a dead one, listens itself.
//! Both may look at the same moment, so looking and listening happen under a lock of the directory,
//! which leaves no file behind. An end that may not make files there only connects.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// How often the lock is tried, and how long between.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(1);

/// The result of meeting at the path.
#[derive(Debug)]
pub(super) enum Meeting {
    /// The other end, which listens.
    Connected(OwnedFd),
    /// No peer: this end listens now.
    Listening(Listener),
}

/// A socket at a path; the file is removed when it is dropped.
pub(super) struct Listener {
    pub(super) socket: UnixListener,
    path: PathBuf,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.path).finish()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Whoever comes between this and the socket's end finds no file, and listens.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Connects to the listener at `path`, or listens there. Never waits for another process.
///
/// # Errors
/// The system's: no such directory, no right, or another process holds the lock of the directory.
pub(super) fn meet(path: &Path) -> io::Result<Meeting> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // A directory that cannot be read cannot be locked; we may still connect.
    let lock = match rustix::fs::open(directory, flags, Mode::empty()) {
        Ok(lock) => Some(lock),
        Err(Errno::ACCESS) => None,
        Err(errno) => return Err(errno.into()),
    };
    if let Some(lock) = &lock {
        take(lock)?;
    }
    match connect(path) {
        Ok(socket) => return Ok(Meeting::Connected(socket)),
        Err(Errno::NOENT) => {}
        // So it is of a file that is no socket, which is not ours to remove.
        Err(Errno::CONNREFUSED) if std::fs::symlink_metadata(path)?.file_type().is_socket() => {
            std::fs::remove_file(path)?;
        }
        Err(errno) => return Err(errno.into()),
    }
    let socket = UnixListener::bind(path)?;
    // A connecting end sends no descriptors. Before Linux 6.16 each connection sees to that.
    let _ = shm::passing::refuse_descriptors(&socket);
    socket.set_nonblocking(true)?;
    Ok(Meeting::Listening(Listener { socket, path: path.to_owned() }))
}

/// Never waits: a listener that does not accept in time has a full queue, which is EAGAIN.
fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn take(lock: &OwnedFd) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::AGAIN | Errno::INTR) if tries < TRIES => {
                tries += 1;
                std::thread::sleep(BETWEEN);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_listens_the_second_connects_and_a_dead_socket_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("w");
        let Meeting::Listening(first) = meet(&path).unwrap() else { panic!("nobody was there") };
        let Meeting::Connected(_second) = meet(&path).unwrap() else { panic!("the first listens") };
        assert!(first.socket.accept().is_ok());
        drop(first);
        assert!(!path.exists());
        // As after SIGKILL: the file without the listener.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let Meeting::Listening(third) = meet(&path).unwrap() else {
            panic!("nobody was alive there")
        };
        let Meeting::Connected(_) = meet(&path).unwrap() else { panic!("the third listens") };
        drop(third);
    }

    #[test]
    fn many_at_once_find_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("w");
        let met: Vec<Meeting> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| meet(&path).unwrap())).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let listeners = met.iter().filter(|met| matches!(met, Meeting::Listening(_))).count();
        assert_eq!(listeners, 1);
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        assert!(meet(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        assert!(meet(&directory.path().join("none/w")).is_err());
        // A held lock is not waited for.
        let lock = std::fs::File::open(directory.path()).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let error = meet(&directory.path().join("w")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}

//! How two ends find each other at a path: the first end listens, the second connects.
//!
//! An end that finds a listener connects. An end that finds none, or a dead one, listens itself.
//! Both may look at the same moment, so looking and listening happen under a lock of the directory,
//! which leaves no file behind. An end that may not make files there only connects. Nobody waits
//! for the lock: the driver tries again.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use shm::closer::ClosedLater;
use shm::passing;

/// Ends that wait in a listening socket's queue.
const BACKLOG: i32 = 128;

/// The result of meeting at the path.
#[derive(Debug)]
pub(super) enum Meeting {
    /// The other end, which listens.
    Connected(ClosedLater),
    /// No peer: this end listens now.
    Listening(Listener),
}

/// A socket at a path; the file is removed when it is dropped.
pub(super) struct Listener {
    pub(super) socket: ClosedLater,
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
/// The system's: no such directory, no right. EAGAIN when another process holds the lock of the
/// directory.
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
        rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive)?;
    }
    match connect(path) {
        // The other end may have sent descriptors already.
        Ok(socket) => return Ok(Meeting::Connected(ClosedLater::new(socket, true))),
        // A listener that does not accept in time; the lock's EAGAIN is tried again sooner.
        Err(Errno::AGAIN) => return Err(io::Error::other("it accepts nobody")),
        Err(Errno::NOENT) => {}
        // So it is of a file that is no socket, which is not ours to remove.
        Err(Errno::CONNREFUSED) if std::fs::symlink_metadata(path)?.file_type().is_socket() => {
            std::fs::remove_file(path)?;
        }
        Err(errno) => return Err(errno.into()),
    }
    let socket = listen(path)?;
    Ok(Meeting::Listening(Listener { socket, path: path.to_owned() }))
}

fn listen(path: &Path) -> Result<ClosedLater, Errno> {
    let socket = stream()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // A connecting end sends no descriptors. Before Linux 6.16 each connection sees to that.
    let later = passing::refuse_descriptors(&socket).is_err();
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(ClosedLater::new(socket, later))
}

fn stream() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Never waits: a listener that does not accept in time has a full queue, which is EAGAIN.
fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = stream()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// As a driver does: tries again while another end looks.
    fn find(path: &Path) -> Meeting {
        loop {
            match meet(path) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::yield_now();
                }
                found => return found.unwrap(),
            }
        }
    }

    #[test]
    fn the_first_listens_the_second_connects_and_a_dead_socket_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("w");
        let Meeting::Listening(first) = meet(&path).unwrap() else { panic!("nobody was there") };
        let Meeting::Connected(_second) = meet(&path).unwrap() else { panic!("the first listens") };
        assert!(rustix::net::accept(&first.socket).is_ok());
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
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| find(&path))).collect();
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

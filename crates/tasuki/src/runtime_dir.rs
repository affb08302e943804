//! Where instances are found: names, directories, sockets, the lock.
//!
//! An instance is a socket `NAME.sock`. It lies in `/run/tasuki` (root) or
//! `$XDG_RUNTIME_DIR/tasuki` (others, and root in a user namespace where /run belongs to another
//! user). Without that variable it lies in `/run/user/UID/tasuki` or, where there is none, in
//! `/tmp/tasuki-UID`. A command that makes or looks for several things at once (socket, device
//! name, addresses) holds the lock of the directory, so no lock file is left behind.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Uid;

use crate::exit::{Code, Failure};

/// Where root's instances are.
const ROOTS: &str = "/run/tasuki";

/// How long to wait for another `tasuki` that starts at the same time.
const LOCK_PATIENCE: Duration = Duration::from_secs(15);

/// The name of an instance: 1 to 32 of a-z, 0-9 and -.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InstanceName(String);

impl InstanceName {
    /// The name of the private instance of `tasuki run`.
    pub(crate) fn of_run(pid: u32) -> Self {
        Self(format!("run-{pid}"))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InstanceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = (1..=32).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !text.starts_with('-');
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err("an instance's name is 1 to 32 of a-z, 0-9 and -, and begins with none".to_owned())
        }
    }
}

/// Is the directory this user's alone, or not there yet? Anybody can make one in /tmp.
fn is_private(path: &Path, user: Uid) -> bool {
    match std::fs::symlink_metadata(path) {
        Ok(found) => found.is_dir() && found.uid() == user.as_raw() && found.mode() & 0o077 == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

impl fmt::Display for InstanceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A directory of instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuntimeDir {
    directory: PathBuf,
}

impl RuntimeDir {
    /// The directories in which this user's instances can be, the preferred one first.
    fn candidates() -> Vec<PathBuf> {
        let own = std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .map(|path| path.join("tasuki"));
        let user = rustix::process::geteuid();
        if user.is_root() {
            return [PathBuf::from(ROOTS)].into_iter().chain(own).collect();
        }
        // Where the variable is missing (cron, su) the user's directory may be there nevertheless.
        let usual = Path::new("/run/user").join(user.to_string());
        let usual = usual.is_dir().then(|| usual.join("tasuki"));
        let temporary = std::env::temp_dir().join(format!("tasuki-{user}"));
        let temporary = Some(temporary).filter(|path| is_private(path, user));
        let mut all: Vec<PathBuf> = own.into_iter().chain(usual).chain(temporary).collect();
        all.dedup();
        all
    }

    /// Makes the directory for a new instance, or takes the one there is.
    ///
    /// # Errors
    /// [`Code::Rights`] when there is none that this user can write to.
    pub(crate) fn make() -> Result<Self, Failure> {
        let mode = if rustix::process::geteuid().is_root() { 0o755 } else { 0o700 };
        let mut last = None;
        for directory in Self::candidates() {
            let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(&directory);
            let writable = || {
                rustix::fs::access(&directory, rustix::fs::Access::WRITE_OK)
                    .map_err(io::Error::from)
            };
            match made.and_then(|()| writable()) {
                Ok(()) => return Ok(Self { directory }),
                Err(error) => last = Some(format!("{}: {error}", directory.display())),
            }
        }
        let why = last.unwrap_or_else(|| "XDG_RUNTIME_DIR is not set".to_owned());
        let root = if rustix::process::geteuid().is_root() { "" } else { "run as root, or " };
        Err(Failure::new(
            Code::Rights,
            format!(
                "no directory for the instance's socket ({why}): {root}set XDG_RUNTIME_DIR to a \
                 directory of yours"
            ),
        ))
    }

    /// The socket of an instance in any of the directories. Root's is included: a user without the
    /// right to it should read that, and not that the instance does not exist.
    pub(crate) fn find(name: &InstanceName) -> Option<PathBuf> {
        let paths = Self::candidates().into_iter().chain([PathBuf::from(ROOTS)]);
        paths.map(|directory| Self { directory }.socket(name)).find(|path| path.exists())
    }

    /// The names and sockets of all instances, dead ones too, in order of name.
    pub(crate) fn list() -> Vec<(InstanceName, PathBuf)> {
        let mut all: Vec<_> =
            Self::candidates().iter().flat_map(|directory| Self::list_in(directory)).collect();
        all.sort();
        all
    }

    fn list_in(directory: &Path) -> Vec<(InstanceName, PathBuf)> {
        std::fs::read_dir(directory)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
            .filter_map(|path| Some((path.file_stem()?.to_str()?.parse().ok()?, path)))
            .collect()
    }

    /// The path of an instance's socket.
    pub(crate) fn socket(&self, name: &InstanceName) -> PathBuf {
        self.directory.join(format!("{name}.sock"))
    }

    /// The path of a background instance's messages.
    pub(crate) fn log(&self, name: &InstanceName) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }

    /// Waits for the lock, which is held until the descriptor is closed.
    ///
    /// # Errors
    /// [`Code::Internal`] when another process holds it for long.
    pub(crate) fn lock(&self) -> Result<OwnedFd, Failure> {
        let doing = || format!("lock {}", self.directory.display());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&self.directory, flags, Mode::empty())
            .map_err(|errno| Failure::system(doing(), errno))?;
        let begun = Instant::now();
        loop {
            match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(fd),
                Err(Errno::AGAIN | Errno::INTR) if begun.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(errno) => return Err(Failure::system(doing(), errno)),
            }
        }
    }

    /// Removes the sockets of instances whose supervisor was killed. Hold the lock: then no process
    /// is between making a socket and listening on it.
    fn sweep(&self) {
        for (name, path) in Self::list_in(&self.directory) {
            let dead = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
            if UnixStream::connect(&path).is_err_and(dead) {
                tracing::info!(%name, "removing the socket of a dead instance");
                // If that fails, binding says why.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Binds the instance's socket, and removes those of dead instances. Hold the lock.
    ///
    /// # Errors
    /// [`Code::AlreadyRunning`]; the system's.
    pub(crate) fn bind(&self, name: &InstanceName) -> Result<SocketFile, Failure> {
        let path = self.socket(name);
        let doing = || format!("make the socket {}", path.display());
        if UnixStream::connect(&path).is_ok() {
            return Err(Failure::new(
                Code::AlreadyRunning,
                format!("instance {name} is already running; end it with `tasuki down {name}`"),
            ));
        }
        self.sweep();
        let listener =
            UnixListener::bind(&path).map_err(|error| Failure::system(doing(), error))?;
        let file = SocketFile { listener, path: path.clone() };
        // A process that connects before this is refused by its uid.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| file.listener.set_nonblocking(true))
            .map_err(|error| Failure::system(doing(), error))?;
        Ok(file)
    }
}

/// The listening socket of an instance; its file is removed when dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
}

impl SocketFile {
    pub(crate) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, RuntimeDir) {
        let directory = tempfile::tempdir().unwrap();
        let place = RuntimeDir { directory: directory.path().to_owned() };
        (directory, place)
    }

    #[test]
    fn names() {
        for good in ["default", "a", "web-1", "0", &"x".repeat(32)] {
            assert_eq!(good.parse::<InstanceName>().unwrap().as_str(), good);
        }
        for bad in ["", "A", "a_b", "a/b", "..", "a.b", "-a", &"x".repeat(33), "ä"] {
            assert!(bad.parse::<InstanceName>().is_err(), "{bad}");
        }
        assert_eq!(InstanceName::of_run(7).to_string(), "run-7");
    }

    #[test]
    fn a_live_socket_is_refused_and_a_dead_one_replaced() {
        let (_directory, place) = place();
        let name: InstanceName = "a".parse().unwrap();
        let file = place.bind(&name).unwrap();
        assert_eq!(place.bind(&name).unwrap_err().code, Code::AlreadyRunning);
        let mode = std::fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(file);
        assert!(!place.socket(&name).exists());
        // A dead instance: the file without the listener.
        drop(UnixListener::bind(place.socket(&name)).unwrap());
        assert!(place.socket(&name).exists());
        let other = place.bind(&"b".parse().unwrap()).unwrap();
        assert!(!place.socket(&name).exists());
        assert!(place.bind(&name).is_ok());
        assert!(other.path().exists());
    }

    #[test]
    fn a_directory_that_anybody_could_have_made_is_not_believed() {
        let (directory, _place) = place();
        let user = rustix::process::geteuid();
        let path = directory.path().join("d");
        assert!(is_private(&path, user), "not there yet");
        std::fs::create_dir(&path).unwrap();
        let mode = |bits| std::fs::Permissions::from_mode(bits);
        for (bits, private) in [(0o700, true), (0o755, false), (0o770, false)] {
            std::fs::set_permissions(&path, mode(bits)).unwrap();
            assert_eq!(is_private(&path, user), private, "{bits:o}");
        }
        std::fs::set_permissions(&path, mode(0o700)).unwrap();
        assert!(!is_private(&path, Uid::from_raw(user.as_raw() + 1)), "somebody else's");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(!is_private(&link, user));
    }

    #[test]
    fn the_lock_excludes() {
        let (_directory, place) = place();
        let held = place.lock().unwrap();
        let other = rustix::fs::open(&place.directory, OFlags::RDONLY, Mode::empty()).unwrap();
        let try_lock = || rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(try_lock(), Err(Errno::AGAIN));
        drop(held);
        assert_eq!(try_lock(), Ok(()));
    }
}

//! Where instances are found: names, directories, sockets, the lock.
//!
//! An instance is two sockets, `NAME.sock` for programs and `NAME.operator.sock` for operators.
//! They lie in `/run/tasuki` (root) or `$XDG_RUNTIME_DIR/tasuki` (others, and root in a user
//! namespace where /run belongs to another user). Without that variable they lie in
//! `/run/user/UID/tasuki` or, where there is none, in `/tmp/tasuki-UID`. A command that makes or
//! looks for several things at once (socket, device name, addresses) holds the lock of the
//! directory, so no lock file is left behind.
//!
//! A variable may name a directory that others can write to. So the directory is opened once and
//! then looked at: it must be a real directory, belong to this user, and nobody else may write to
//! it. Files are made and removed relative to that descriptor. Other users cannot open root's
//! directory (mode 0711), so they cannot hold its lock; they can reach the sockets, and learn that
//! these are not theirs.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use abi::control::Audience;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use shm::passing::refuse_descriptors;

use crate::exit::{Code, Failure};

/// Connections that wait to be accepted. More wait in connect(2), so a program that makes many does
/// not have all of them before another one's.
const BACKLOG: i32 = 128;

/// Where root's instances are.
const ROOTS: &str = "/run/tasuki";

/// How the name of an instance's socket for programs ends.
const INSTANCE_SOCKET: &str = ".sock";
/// How the name of a target's socket ends.
const TARGET_SOCKET: &str = ".target.sock";

/// How long to wait for another `tasuki` that starts at the same time.
const LOCK_PATIENCE: Duration = Duration::from_secs(15);

/// The name of an instance: 1 to 32 of a-z, 0-9 and -.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceName(String);

impl InstanceName {
    /// The name of the private instance of `tasuki run`.
    pub fn of_run(pid: u32) -> Self {
        Self(format!("run-{pid}"))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
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

impl fmt::Display for InstanceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A directory of instances, which nobody but this user can write to.
#[derive(Debug)]
pub struct RuntimeDir {
    path: PathBuf,
    fd: OwnedFd,
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
        let mut all: Vec<PathBuf> = own.into_iter().chain(usual).chain([temporary]).collect();
        all.dedup();
        all
    }

    /// Makes the directory for a new instance, or takes the one there is.
    ///
    /// # Errors
    /// [`Code::Rights`] when there is none that this user alone can write to.
    pub fn make() -> Result<Self, Failure> {
        let user = rustix::process::geteuid();
        let mut last = None;
        for path in Self::candidates() {
            match Self::make_at(path.clone(), user) {
                Ok(directory) => return Ok(directory),
                Err(why) => last = Some(format!("{}: {why}", path.display())),
            }
        }
        let why = last.unwrap_or_else(|| "XDG_RUNTIME_DIR is not set".to_owned());
        let root = if user.is_root() { "" } else { "run as root, or " };
        Err(Failure::new(
            Code::Rights,
            format!(
                "no directory for the instance's socket ({why}): {root}set XDG_RUNTIME_DIR to a \
                 directory of yours"
            ),
        ))
    }

    fn make_at(path: PathBuf, user: Uid) -> Result<Self, String> {
        let mode = if user.is_root() { 0o711 } else { 0o700 };
        let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(&path);
        made.map_err(|error| error.to_string())?;
        let directory = Self::open(path, user)?;
        // Earlier versions let everybody read it, and so lock it.
        rustix::fs::fchmod(&directory.fd, Mode::from_raw_mode(mode)).map_err(|e| e.to_string())?;
        Ok(directory)
    }

    /// Opens a directory that is there.
    fn open(path: PathBuf, user: Uid) -> Result<Self, String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty()).map_err(|e| e.to_string())?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| e.to_string())?;
        if stat.st_uid != user.as_raw() {
            return Err(format!("it belongs to user {}", stat.st_uid));
        }
        if stat.st_mode & 0o022 != 0 {
            let mode = stat.st_mode & 0o7777;
            return Err(format!("others can write to it (mode {mode:o})"));
        }
        Ok(Self { path, fd })
    }

    /// The socket of an instance in any of the directories. Root's is included: a user without the
    /// right to it should read that, and not that the instance does not exist.
    /// The socket's owner is asked for when it is connected to
    /// ([`Operator::connect`](crate::operator::Operator::connect)).
    pub fn find(name: &InstanceName) -> Option<PathBuf> {
        let paths = Self::candidates().into_iter().chain([PathBuf::from(ROOTS)]);
        let programs = Audience::Programs;
        paths
            .map(|directory| directory.join(socket_name(name, programs)))
            .find(|path| path.exists())
    }

    /// The names and programs' sockets of all instances, dead ones too, in order of name.
    pub fn list() -> Vec<(InstanceName, PathBuf)> {
        Self::sockets(INSTANCE_SOCKET)
    }

    /// The names and sockets of all targets, dead ones too, in order of name.
    pub fn targets() -> Vec<(InstanceName, PathBuf)> {
        Self::sockets(TARGET_SOCKET)
    }

    /// The sockets whose names are a name and this end, in all directories.
    fn sockets(end: &str) -> Vec<(InstanceName, PathBuf)> {
        let user = rustix::process::geteuid();
        let directories = Self::candidates().into_iter().filter_map(|it| Self::open(it, user).ok());
        let mut all: Vec<_> = directories
            .flat_map(|it| {
                let names = it.names(end).into_iter();
                names.map(move |name| (name.clone(), it.path.join(format!("{name}{end}"))))
            })
            .collect();
        all.sort();
        all
    }

    /// The names before this end of a socket's name in this directory.
    fn names(&self, end: &str) -> Vec<InstanceName> {
        let entries = Dir::read_from(&self.fd).into_iter().flatten().filter_map(Result::ok);
        entries
            .filter_map(|entry| entry.file_name().to_str().ok()?.strip_suffix(end)?.parse().ok())
            .collect()
    }

    /// The path of a socket of an instance.
    pub fn socket(&self, name: &InstanceName, audience: Audience) -> PathBuf {
        self.path.join(socket_name(name, audience))
    }

    /// Makes the log file of a background process, or empties it; its path and the file.
    ///
    /// # Errors
    /// The system's.
    pub fn make_log(&self, name: &str) -> Result<(PathBuf, File), Failure> {
        let file = format!("{name}.log");
        let path = self.path.join(&file);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o644);
        let fd = rustix::fs::openat(&self.fd, file, flags | OFlags::CLOEXEC, mode)
            .map_err(|errno| Failure::output(path.display(), errno))?;
        Ok((path, fd.into()))
    }

    /// Waits for the lock, which is held until the descriptor is closed.
    ///
    /// # Errors
    /// [`Code::Internal`] when another process holds it for long.
    pub fn lock(&self) -> Result<OwnedFd, Failure> {
        let doing = || format!("lock {}", self.path.display());
        // An open file of its own: the lock ends with it.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, ".", flags, Mode::empty())
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
        for name in self.names(INSTANCE_SOCKET) {
            let path = self.socket(&name, Audience::Programs);
            let dead = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
            if UnixStream::connect(&path).is_err_and(dead) {
                tracing::info!(%name, "removing the sockets of a dead instance");
                // If that fails, binding says why.
                for audience in [Audience::Programs, Audience::Operators] {
                    let file = socket_name(&name, audience);
                    let _ = rustix::fs::unlinkat(&self.fd, file, AtFlags::empty());
                }
            }
        }
    }

    /// Binds the instance's sockets, and removes those of dead instances. Processes of `group` may
    /// connect to the programs' socket, besides the user's. Hold the lock.
    ///
    /// # Errors
    /// [`Code::AlreadyRunning`]; the system's.
    pub fn bind(
        &self,
        name: &InstanceName,
        group: Option<Gid>,
    ) -> Result<InstanceSockets, Failure> {
        if UnixStream::connect(self.socket(name, Audience::Programs)).is_ok() {
            return Err(Failure::new(
                Code::AlreadyRunning,
                format!("instance {name} is already running; end it with `tasuki down {name}`"),
            ));
        }
        self.sweep();
        // Left behind alone, it is nobody's. If this fails, binding says why.
        let left = socket_name(name, Audience::Operators);
        let _ = rustix::fs::unlinkat(&self.fd, left, AtFlags::empty());
        // An instance that has a programs' socket has operators, too.
        let operators = self.bind_one(&socket_name(name, Audience::Operators), None, false)?;
        let programs = self.bind_one(&socket_name(name, Audience::Programs), group, false)?;
        Ok(InstanceSockets { programs, operators })
    }

    /// Binds the socket by which a target is managed. Hold the lock.
    ///
    /// # Errors
    /// [`Code::AlreadyRunning`]; the system's.
    pub fn bind_target(&self, name: &InstanceName) -> Result<SocketFile, Failure> {
        let file = format!("{name}{TARGET_SOCKET}");
        match UnixStream::connect(self.path.join(&file)) {
            Ok(_) => {
                let sentence = format!(
                    "target {name} is already running; end it with `tasuki target down {name}`"
                );
                return Err(Failure::new(Code::AlreadyRunning, sentence));
            }
            // If that fails, binding says why.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = rustix::fs::unlinkat(&self.fd, &file, AtFlags::empty());
            }
            Err(_) => {}
        }
        // Its operators pass files.
        self.bind_one(&file, None, true)
    }

    fn bind_one(
        &self,
        file: &str,
        group: Option<Gid>,
        takes_descriptors: bool,
    ) -> Result<SocketFile, Failure> {
        let path = self.path.join(file);
        let failed = |error: io::Error| {
            Failure::system(format!("make the socket {}", path.display()), error)
        };
        // It listens from its making on, so it must be the user's alone from then on.
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(&path);
        rustix::process::umask(before);
        let listener = listener.map_err(failed)?;
        if !takes_descriptors {
            // Connections inherit it. Before Linux 6.16 a thread closes what they bring.
            let _ = refuse_descriptors(&listener);
        }
        self.check_socket(file, group)
            .map_err(io::Error::from)
            .and_then(|()| listener.set_nonblocking(true))
            .and_then(|()| Ok(rustix::net::listen(&listener, BACKLOG)?))
            .map_err(failed)?;
        let directory = self.fd.try_clone().map_err(failed)?;
        Ok(SocketFile { listener, path, directory })
    }

    /// Checks that the socket, which was bound by its path, lies in this very directory: another
    /// one may have taken the path meanwhile. Then sets its mode.
    fn check_socket(&self, file: &str, group: Option<Gid>) -> Result<(), Errno> {
        let stat = rustix::fs::statat(&self.fd, file, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            return Err(Errno::NOTSOCK);
        }
        if group.is_some() {
            rustix::fs::chownat(&self.fd, file, None, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        rustix::fs::chmodat(&self.fd, file, Mode::from_raw_mode(mode), AtFlags::empty())
    }
}

/// The name of a socket of an instance in its directory.
fn socket_name(name: &InstanceName, audience: Audience) -> String {
    match audience {
        Audience::Programs => format!("{name}{INSTANCE_SOCKET}"),
        Audience::Operators => format!("{name}.operator.sock"),
    }
}

/// The operators' socket of an instance whose programs' socket is given.
pub fn operators_socket(name: &InstanceName, programs: &Path) -> PathBuf {
    programs.with_file_name(socket_name(name, Audience::Operators))
}

/// The listening sockets of an instance.
#[derive(Debug)]
pub struct InstanceSockets {
    // Removed first, for it is where an instance is looked for.
    programs: SocketFile,
    operators: SocketFile,
}

impl InstanceSockets {
    /// The one for these clients.
    pub fn of(&self, audience: Audience) -> &SocketFile {
        match audience {
            Audience::Programs => &self.programs,
            Audience::Operators => &self.operators,
        }
    }
}

/// A listening socket of an instance; its file is removed when dropped.
#[derive(Debug)]
pub struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
    directory: OwnedFd,
}

impl SocketFile {
    /// The socket.
    #[must_use]
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Gone already is as good.
        if let Some(name) = self.path.file_name() {
            let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::process::geteuid;

    use super::*;

    fn place() -> (tempfile::TempDir, RuntimeDir) {
        let directory = tempfile::tempdir().unwrap();
        let place = RuntimeDir::open(directory.path().to_owned(), geteuid()).unwrap();
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
        let all = [Audience::Programs, Audience::Operators];
        let exist = || all.map(|audience| place.socket(&name, audience).exists());
        let sockets = place.bind(&name, None).unwrap();
        assert_eq!(place.bind(&name, None).unwrap_err().code, Code::AlreadyRunning);
        for audience in all {
            let mode = std::fs::metadata(sockets.of(audience).path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
            if refuse_descriptors(&one).is_ok() {
                let listener = sockets.of(audience).listener();
                assert!(!shm::passing::takes_descriptors(listener), "connections may bring some");
            }
        }
        assert_eq!(place.names(INSTANCE_SOCKET), std::slice::from_ref(&name));
        drop(sockets);
        assert_eq!(exist(), [false; 2]);
        // A dead instance: the files without the listeners.
        for audience in all {
            drop(UnixListener::bind(place.socket(&name, audience)).unwrap());
        }
        assert_eq!(exist(), [true; 2]);
        let other = place.bind(&"b".parse().unwrap(), None).unwrap();
        assert_eq!(exist(), [false; 2]);
        assert!(place.bind(&name, None).is_ok());
        assert!(other.of(Audience::Operators).path().exists());
    }

    #[test]
    fn a_group_may_connect_to_the_programs_socket_alone() {
        let (_directory, place) = place();
        // Its own group: every user may do that.
        let group = rustix::process::getegid();
        let sockets = place.bind(&"a".parse().unwrap(), Some(group)).unwrap();
        let mode = |audience| {
            std::fs::metadata(sockets.of(audience).path()).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode(Audience::Programs), mode(Audience::Operators)), (0o660, 0o600));
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let (directory, _place) = place();
        let user = geteuid();
        let path = directory.path().join("d");
        let make = |path: &Path, user| RuntimeDir::make_at(path.to_owned(), user);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let wanted = if user.is_root() { 0o711 } else { 0o700 };
        make(&path, user).unwrap();
        assert_eq!(mode(&path), wanted);
        for (bits, private) in [(0o700, true), (0o755, true), (0o770, false), (0o777, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(bits)).unwrap();
            assert_eq!(make(&path, user).is_ok(), private, "{bits:o}");
            assert!(!private || mode(&path) == wanted, "nobody else can open it to lock it");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        let others = make(&path, Uid::from_raw(user.as_raw() + 1)).unwrap_err();
        assert!(others.contains("belongs to user"), "{others}");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(make(&link, user).is_err());
    }

    #[test]
    fn a_log_is_not_written_through_a_link() {
        let (directory, place) = place();
        let name: InstanceName = "a".parse().unwrap();
        let victim = directory.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, directory.path().join("a.log")).unwrap();
        assert_eq!(place.make_log(name.as_str()).unwrap_err().code, Code::Output);
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        std::fs::remove_file(directory.path().join("a.log")).unwrap();
        let (path, _file) = place.make_log(name.as_str()).unwrap();
        assert_eq!(path, directory.path().join("a.log"));
    }

    #[test]
    fn a_directory_that_was_replaced_gets_no_socket() {
        let (directory, _place) = place();
        let (path, moved) = (directory.path().join("d"), directory.path().join("moved"));
        let place = RuntimeDir::make_at(path.clone(), geteuid()).unwrap();
        std::fs::rename(&path, moved).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(place.bind(&"a".parse().unwrap(), None).unwrap_err().code, Code::Internal);
    }

    #[test]
    fn the_lock_excludes() {
        let (_directory, place) = place();
        let held = place.lock().unwrap();
        let other = rustix::fs::open(&place.path, OFlags::RDONLY, Mode::empty()).unwrap();
        let try_lock = || rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(try_lock(), Err(Errno::AGAIN));
        drop(held);
        assert_eq!(try_lock(), Ok(()));
    }
}

//! Output files that a user names.
//!
//! A directory such as `/tmp` belongs to all users. So another user may have put a link at the
//! name, or a file: a command of root would then write where that user wants it. Each link of a
//! path has to belong to this user or to root. So has a file that is there already, if others can
//! write to its directory (as `fs.protected_regular` of Linux has it).
//!
//! The path is walked one name at a time relative to open directories. So what was looked at is
//! what is used.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, fstat, fstatfs, ftruncate, openat, readlinkat,
};
use rustix::io::Errno;

use crate::exit::{Code, Failure};

/// Links of one path, as many as Linux follows, and second looks at names.
const MOST_LINKS: u32 = 40;

/// Why a file is not written.
enum Refused {
    System(Errno),
    Foreign(String),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

/// Makes a file, or empties the one that is there.
///
/// # Errors
/// As [`open`].
pub fn create(path: &Path) -> Result<File, Failure> {
    let file = open(path)?;
    let empty = || {
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
            ftruncate(&file, 0)?;
        }
        Ok(())
    };
    empty().map_err(|errno: Errno| Failure::output(path.display(), io::Error::from(errno)))?;
    Ok(file)
}

/// Opens a file to be written. Makes it if there is none; otherwise its content stays.
///
/// # Errors
/// [`Failure::output`] with the system's reason; [`Code::Rights`]: the path leads through a link of
/// another user, or to another user's file in a directory of all.
pub fn open(path: &Path) -> Result<File, Failure> {
    match Walk::new(path).and_then(Walk::finish) {
        Ok(file) => Ok(file),
        Err(Refused::System(errno)) => Err(Failure::output(path.display(), io::Error::from(errno))),
        Err(Refused::Foreign(what)) => {
            let sentence =
                format!("cannot write to {}: {what}; choose a place that is yours", path.display());
            Err(Failure::new(Code::Rights, sentence))
        }
    }
}

/// A path on the way to its file.
struct Walk {
    /// Where the names begin.
    directory: OwnedFd,
    names: VecDeque<OsString>,
    links: u32,
}

impl Walk {
    fn new(path: &Path) -> Result<Self, Refused> {
        let mut walk =
            Self { directory: open_directory(CWD, ".")?, names: VecDeque::new(), links: 0 };
        walk.prepend(path)?;
        Ok(walk)
    }

    /// Puts the names of a path, or of a link's content, before those that are left.
    fn prepend(&mut self, path: &Path) -> Result<(), Refused> {
        if path.is_absolute() {
            self.directory = open_directory(CWD, "/")?;
        }
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => self.names.push_front(name.to_owned()),
                Component::ParentDir => self.names.push_front("..".into()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<File, Refused> {
        loop {
            let Some(name) = self.names.pop_front() else { return Err(Errno::ISDIR.into()) };
            let is_last = self.names.is_empty();
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&self.directory, &name, flags, Mode::empty()) {
                // What a link in /proc leads to has no path: only the kernel can follow it.
                Ok(found) if is_last && is_link(&found)? && self.is_in_proc()? => {
                    return self.open(&name, OFlags::empty());
                }
                Ok(found) if is_link(&found)? => self.follow(&found, &name)?,
                Ok(_) if is_last => match self.open(&name, OFlags::NOFOLLOW) {
                    // It has become a link, or gone, since it was looked at.
                    Err(Refused::System(Errno::LOOP | Errno::NOENT)) => self.again(name)?,
                    done => return done,
                },
                Ok(found) => self.directory = found,
                Err(Errno::NOENT) if is_last => {
                    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                    match openat(&self.directory, &name, flags, Mode::from_raw_mode(0o666)) {
                        // Somebody else has made it meanwhile.
                        Err(Errno::EXIST) => self.again(name)?,
                        done => return Ok(done?.into()),
                    }
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Looks at a name once more.
    fn again(&mut self, name: OsString) -> Result<(), Refused> {
        self.count()?;
        self.names.push_front(name);
        Ok(())
    }

    /// Counts what a path could do without end.
    fn count(&mut self) -> Result<(), Refused> {
        self.links += 1;
        if self.links > MOST_LINKS { Err(Errno::LOOP.into()) } else { Ok(()) }
    }

    fn is_in_proc(&self) -> Result<bool, Refused> {
        Ok(fstatfs(&self.directory)?.f_type == PROC_SUPER_MAGIC)
    }

    /// Goes where a link leads.
    fn follow(&mut self, link: &OwnedFd, name: &OsString) -> Result<(), Refused> {
        let owner = fstat(link)?.st_uid;
        if !is_trusted(owner) {
            let what = format!("{} is a link of user {owner}", name.display());
            return Err(Refused::Foreign(what));
        }
        self.count()?;
        let content = readlinkat(link, "", Vec::new())?;
        self.prepend(Path::new(&OsString::from_vec(content.into_bytes())))
    }

    /// Opens what is there.
    fn open(&self, name: &OsString, how: OFlags) -> Result<File, Refused> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY | how;
        let file = openat(&self.directory, name, flags, Mode::empty())?;
        let (stat, directory) = (fstat(&file)?, fstat(&self.directory)?);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(file.into());
        }
        let is_shared = directory.st_mode & 0o022 != 0;
        if is_shared && !is_trusted(stat.st_uid) {
            let what = format!("it is a file of user {} in a directory of all", stat.st_uid);
            return Err(Refused::Foreign(what));
        }
        Ok(file.into())
    }
}

fn open_directory(at: BorrowedFd<'_>, path: &str) -> rustix::io::Result<OwnedFd> {
    openat(at, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn is_link(file: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode) == FileType::Symlink)
}

/// This user, or root. In a user namespace root may be a user who has no number there.
fn is_trusted(owner: u32) -> bool {
    let number = |file: &str| std::fs::read_to_string(file).ok()?.trim().parse().ok();
    owner == 0
        || owner == rustix::process::geteuid().as_raw()
        || (!has_all_users() && number("/proc/sys/kernel/overflowuid") == Some(owner))
}

/// Is this the machine's own user namespace?
fn has_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Some other user.
    const OTHER: Option<u32> = Some(65_533);

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn files_are_made_emptied_and_found_through_own_links() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, inner] =
            ["file", "link", "folder/inner"].map(|name| folder.path().join(name));
        fs::create_dir(folder.path().join("folder")).unwrap();
        symlink("folder/../file", &link).unwrap();
        for path in [&file, &link, &inner] {
            create(path).unwrap().write_all(b"much").unwrap();
            create(path).unwrap().write_all(b"newer").unwrap();
            open(path).unwrap().write_all(b"new").unwrap();
            assert_eq!(text(path), "newer");
        }
        assert!(link.is_symlink());
        let made = |name: &str| create(&folder.path().join(name)).map(drop);
        assert_eq!(made("folder").unwrap_err().code, Code::Output);
        assert_eq!(made("none/file").unwrap_err().code, Code::Output);
        symlink("loop", folder.path().join("loop")).unwrap();
        assert!(made("loop").unwrap_err().sentence.contains("symbolic links"));
        create(Path::new("/dev/null")).unwrap().write_all(b"x").unwrap();
    }

    #[test]
    fn open_files_have_names_in_proc() {
        let mut pipe = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe.1));
        create(Path::new(&path)).unwrap().write_all(b"through").unwrap();
        let mut got = [0; 7];
        std::io::Read::read_exact(&mut pipe.0, &mut got).unwrap();
        assert_eq!(&got, b"through");
    }

    #[test]
    fn nothing_is_written_where_another_user_wants_it() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let [victim, link, theirs, through] =
            ["victim", "link", "theirs", "through"].map(|name| folder.path().join(name));
        fs::write(&victim, "precious").unwrap();
        fs::write(&theirs, "theirs").unwrap();
        for path in [&link, &through] {
            symlink(if *path == link { &*victim } else { folder.path() }, path).unwrap();
            std::os::unix::fs::lchown(path, OTHER, OTHER).unwrap();
        }
        std::os::unix::fs::chown(&theirs, OTHER, OTHER).unwrap();
        for path in [&link, &theirs, &through.join("new")] {
            let refused = create(path).unwrap_err();
            assert_eq!(refused.code, Code::Rights, "{}", refused.sentence);
            assert!(refused.sentence.contains("of user 65533"), "{}", refused.sentence);
        }
        assert_eq!((text(&victim), text(&theirs)), ("precious".into(), "theirs".into()));
        // In their own directory root may empty their file.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        drop(create(&theirs).unwrap());
        assert_eq!(text(&theirs), "");
    }
}

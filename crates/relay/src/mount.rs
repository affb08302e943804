//! A file over another one, for this process and its children only.
//!
//! The process enters a mount namespace of its own, and mounts its file there. All else stays as it
//! was: a later mount of the host's appears in the program's namespace, and one of the program's
//! on the host, as far as they would have without. The kernel calls this sharing
//! (mount_namespaces(7)). The mount that has the file leaves its group of peers for a moment, so
//! that the new mount reaches none of them, and joins it again.
//!
//! The file itself has no name: a mount keeps it.
//!
//! A user who may not make a mount namespace first gets a user namespace in which the user has the
//! same number, and no other user has one.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, WaitOptions, dumpable_behavior, set_dumpable_behavior, waitpid,
};
use rustix::thread::UnshareFlags;

use crate::system::errno;

/// Directories for a file that has a name for a moment.
const DIRECTORIES: [&str; 3] = ["/dev/shm", "/run", "/tmp"];

/// linux/mount.h
const OPEN_TREE_CLONE: libc::c_uint = 1;
const OPEN_TREE_CLOEXEC: libc::c_uint = libc::O_CLOEXEC.cast_unsigned();
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;
const MOVE_MOUNT_SET_GROUP: libc::c_uint = 0x100;

/// Where a file is put, and all names that this takes.
#[derive(Debug)]
pub(crate) struct Place {
    /// The file to be covered. If it is a link, the link is covered, and not the file behind it:
    /// that one may be replaced, which would end the mount.
    target: CString,
    /// The mount that the target is in.
    mount: CString,
    /// Names for a new file; the first one that can be made is taken.
    names: Vec<CString>,
}

impl Place {
    /// Over `target`, by way of a file of this name.
    ///
    /// # Errors
    /// The system's: there is no such file, or no list of mounts.
    pub(crate) fn new(target: &str, name: &str) -> io::Result<Self> {
        let target = CString::new(target)?;
        let mount = mount_of(&target)?;
        let names = DIRECTORIES.iter().map(|directory| CString::new(format!("{directory}/{name}")));
        let names = names.collect::<Result<_, _>>()?;
        Ok(Self { target, mount, names })
    }
}

/// The path of the mount that a file is in.
///
/// # Errors
/// The system's: there is no such file, or no list of mounts.
pub(crate) fn mount_of(path: &CStr) -> io::Result<CString> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statx(CWD, path, flags, StatxFlags::MNT_ID)?;
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    let mount = mount_point(&mounts, found.stx_mnt_id)
        .ok_or_else(|| io::Error::other("its mount is not in /proc/self/mountinfo"))?;
    Ok(CString::new(mount)?)
}

/// The path of a mount, in the text of /proc/self/mountinfo.
fn mount_point(mounts: &[u8], id: u64) -> Option<Vec<u8>> {
    let mut lines =
        mounts.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b' '));
    lines.find_map(|mut fields| {
        let number: u64 = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        (number == id).then(|| fields.nth(3).map(unescape))?
    })
}

/// Blanks and the like are there as `\040`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail.get(..3).filter(|_| *first == b'\\');
        let value = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match value.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

/// Puts a file with this content at the place, in a new mount namespace that this process is in
/// from now on. Returns the file, to be written.
///
/// Async-signal-safe: it neither allocates nor locks. The process has one thread.
///
/// # Errors
/// The system's. The process may be in a namespace of its own then, where all is as before.
pub(crate) fn cover(place: &Place, content: &[u8]) -> io::Result<OwnedFd> {
    let path = OFlags::PATH | OFlags::CLOEXEC;
    let before = rustix::fs::open(&*place.mount, path, Mode::empty())?;
    let _alive = present_namespace();
    let with_user = leave()?;
    if !with_user {
        propagate(&place.mount, libc::MS_PRIVATE)?;
    }
    let covered = make(place, content);
    if !with_user {
        let now = rustix::fs::open(&*place.mount, path, Mode::empty())?;
        // Fails where the mount was private. Linux has it since 5.15; before, it stays private.
        let _ = join_group(&before, &now);
    }
    covered
}

/// The mount namespace that this process is in. As long as somebody has this, its mounts are there,
/// also when the last process has left it. `None`: there is no /proc.
pub(crate) fn present_namespace() -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(c"/proc/self/ns/mnt", flags, Mode::empty()).ok()
}

fn make(place: &Place, content: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::from_raw_mode(0o644);
    let mut last = Errno::NOENT;
    for name in &place.names {
        match rustix::fs::open(&**name, flags, mode) {
            Ok(file) => {
                let shown = show(&file, place, content);
                // Nobody knows the name, and it may be gone with its directory.
                let _ = rustix::fs::unlink(&**name);
                return shown.map(|()| file);
            }
            Err(errno) => last = errno,
        }
    }
    Err(last.into())
}

fn show(file: &OwnedFd, place: &Place, content: &[u8]) -> io::Result<()> {
    // The creation mask may be stricter than programs of other users can do with.
    rustix::fs::fchmod(file, Mode::from_raw_mode(0o644))?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    let mount = clone_mount(file)?;
    let nofollow = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let target = rustix::fs::open(&*place.target, nofollow, Mode::empty())?;
    move_mount(&mount, &target, 0)
}

/// Enters a new mount namespace. True: with a user namespace.
fn leave() -> io::Result<bool> {
    // SAFETY: the flag concerns no memory or descriptor table.
    match unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) } {
        Ok(()) => return Ok(false),
        Err(Errno::PERM) => {}
        Err(errno) => return Err(errno.into()),
    }
    // `tasuki run` forbids its inspection, and so its own files in /proc are root's.
    let inspected = dumpable_behavior()?;
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let done = try_to_leave().and_then(|()| leave_with_user());
    if inspected != DumpableBehavior::Dumpable {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    done.map(|()| true)
}

/// Can a copy of this process leave? Where /proc is read-only, or AppArmor forbids a user namespace
/// its rights, a process gets one, in which it remains nobody.
fn try_to_leave() -> io::Result<()> {
    // SAFETY: no pointers. This process has one thread, and the copy makes system calls only.
    let copy = crate::system::check(unsafe { libc::fork() })?;
    let Some(copy) = Pid::from_raw(copy) else {
        let code = leave_with_user().err().map_or(0, |error| errno(&error).raw_os_error());
        // SAFETY: it does not return.
        unsafe { libc::_exit(code) }
    };
    let status = rustix::io::retry_on_intr(|| waitpid(Some(copy), WaitOptions::empty()))?;
    match status.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code)),
        None => Err(Errno::PERM.into()),
    }
}

fn leave_with_user() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: the flags concern no memory or descriptor table.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }?;
    // The kernel wants it for the group's map.
    write_once(c"/proc/self/setgroups", b"deny")?;
    map(c"/proc/self/uid_map", user)?;
    map(c"/proc/self/gid_map", group)
}

/// This number, and no other, is the same inside and outside.
fn map(path: &CStr, number: u32) -> io::Result<()> {
    let mut line = Line { bytes: [0; 32], len: 0 };
    let _ = write!(line, "{number} {number} 1");
    write_once(path, &line.bytes[..line.len])
}

/// Text in a place of its own.
struct Line {
    bytes: [u8; 32],
    len: usize,
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

fn write_once(path: &CStr, bytes: &[u8]) -> io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, bytes)?;
    Ok(())
}

/// Has a mount share what is mounted in it in this way (mount_namespaces(7)).
///
/// # Errors
/// The system's.
pub(crate) fn propagate(mount: &CStr, how: libc::c_ulong) -> io::Result<()> {
    let none = std::ptr::null();
    // SAFETY: the path is a C string; this kind of call reads no other argument.
    crate::system::check(unsafe { libc::mount(none, mount.as_ptr(), none, how, none.cast()) })?;
    Ok(())
}

/// A mount of one file, which is nowhere yet.
fn clone_mount(file: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | libc::AT_EMPTY_PATH.cast_unsigned();
    // SAFETY: the path is an empty C string.
    let tree = unsafe {
        libc::syscall(
            libc::SYS_open_tree,
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::c_ulong::from(flags),
        )
    };
    let tree = crate::system::check(libc::c_int::try_from(tree).unwrap_or(-1))?;
    // SAFETY: the call made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(tree) })
}

/// The mount `now` joins the group of peers of `before`.
///
/// # Errors
/// The system's: that one has none.
pub(crate) fn join_group(before: &OwnedFd, now: &OwnedFd) -> io::Result<()> {
    move_mount(before, now, MOVE_MOUNT_SET_GROUP)
}

fn move_mount(from: &OwnedFd, to: &OwnedFd, flags: libc::c_uint) -> io::Result<()> {
    let flags = flags | MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    // SAFETY: both paths are empty C strings.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            from.as_raw_fd(),
            c"".as_ptr(),
            to.as_raw_fd(),
            c"".as_ptr(),
            libc::c_ulong::from(flags),
        )
    };
    crate::system::check(libc::c_int::try_from(done).unwrap_or(-1)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_number() {
        let text = b"27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            41 27 0:30 /a /mnt/with\\040blank\\134 rw - tmpfs tmpfs rw\n";
        assert_eq!(mount_point(text, 27).unwrap(), b"/");
        assert_eq!(mount_point(text, 41).unwrap(), b"/mnt/with blank\\");
        assert_eq!(mount_point(text, 2), None);
    }
}

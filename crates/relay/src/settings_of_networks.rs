//! /proc/sys/net of the host, which root's programs can read and not write.
//!
//! A write would change the host, and nothing of the instance. So /proc/sys is mounted read-only
//! over itself, in a mount namespace of the program's, and all of it but `net` is mounted over that
//! as it was. Other users cannot write it anyway. The kernel shows each process the settings of its
//! own network namespace there, as before.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::UnshareFlags;

use crate::mount;
use crate::system::check;

const SETTINGS: &CStr = c"/proc/sys";
/// A setting of every network.
const ONE: &CStr = c"/proc/sys/net/ipv4/ip_forward";

/// Keeps the program of `command` from changing the host's settings, if it could.
pub fn protect(command: &mut Command) {
    let Some(protection) = Protection::new() else { return };
    // SAFETY: between fork and exec it makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(move || protection.begin()) };
}

/// All that is needed of names.
struct Protection {
    /// The mount that has the settings.
    mount: CString,
    /// The directories that stay as they are.
    others: Vec<CString>,
}

impl Protection {
    /// `None`: there is nothing to be protected, as this user may not write.
    fn new() -> Option<Self> {
        rustix::fs::access(ONE, Access::WRITE_OK).ok()?;
        let mount = mount::mount_of(SETTINGS).ok()?;
        let entries = fs::read_dir("/proc/sys").ok()?.flatten();
        let directories = entries.filter(|entry| entry.file_name() != "net");
        let others =
            directories.map(|entry| CString::new(entry.path().into_os_string().into_vec()));
        Some(Self { mount, others: others.collect::<Result<_, _>>().ok()? })
    }

    /// In the process that becomes the program.
    fn begin(&self) -> io::Result<()> {
        let path = OFlags::PATH | OFlags::CLOEXEC;
        let before = rustix::fs::open(&*self.mount, path, Mode::empty())?;
        let _alive = mount::present_namespace();
        // SAFETY: the flag concerns no memory or descriptor table.
        match unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) } {
            Ok(()) => {}
            // Root of a container, without the right to mount.
            Err(Errno::PERM) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        // So that the mounts reach nobody else.
        mount::propagate(&self.mount, libc::MS_PRIVATE)?;
        let bound = self.bind();
        let now = rustix::fs::open(&*self.mount, path, Mode::empty())?;
        // Fails where the mount was private.
        let _ = mount::join_group(&before, &now);
        bound
    }

    fn bind(&self) -> io::Result<()> {
        over_itself(SETTINGS, libc::MS_BIND)?;
        self.others.iter().try_for_each(|one| over_itself(one, libc::MS_BIND))?;
        let bare = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        over_itself(SETTINGS, libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY | bare)
    }
}

fn over_itself(path: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let none = std::ptr::null();
    // SAFETY: the paths are C strings; this kind of call reads no other argument.
    check(unsafe { libc::mount(path.as_ptr(), path.as_ptr(), none, flags, none.cast()) })?;
    Ok(())
}

//! Namespaces: an empty root, and no process, interface or name of the host.
//!
//! The process namespace is not here. It is for children only, so the supervisor makes it
//! ([`crate::supervisor::in_new_pid_namespace`]).

use std::fs;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, mount_move,
    mount_remount, unmount,
};
use rustix::process::{
    DumpableBehavior, chdir, chroot, dumpable_behavior, pivot_root, set_dumpable_behavior,
};
use rustix::thread::UnshareFlags;

use crate::role::Role;
use crate::{ffi, privilege};

/// What a process can have of its own, and the name of it.
const KINDS: [(UnshareFlags, &str); 5] = [
    (UnshareFlags::NEWNS, "mount namespace"),
    (UnshareFlags::NEWNET, "network namespace"),
    (UnshareFlags::NEWIPC, "IPC namespace"),
    (UnshareFlags::NEWUTS, "UTS namespace"),
    (UnshareFlags::NEWCGROUP, "cgroup namespace"),
];

/// Leaves the host's namespaces, and ends in an empty root. Returns what was not to be had.
pub(crate) fn leave(role: Role) -> Vec<String> {
    let mut missing = Vec::new();
    for (flag, name) in KINDS {
        if matches!(role, Role::Relay | Role::Connector) && flag == UnshareFlags::NEWNET {
            // The relay is in its own already; the connector is to stay in its caller's.
            continue;
        }
        let done = match ffi::unshare(flag) {
            Ok(()) if flag == UnshareFlags::NEWNS => empty_root(),
            other => other,
        };
        if let Err(errno) = done {
            missing.push(format!("{name} ({errno})"));
        }
    }
    missing
}

/// Begins a user namespace of this process alone, in which it has the same user, and all rights for
/// [`leave`]. A process that forbids its inspection forbids it again when it returns.
///
/// # Errors
/// The system's, where users may not make one.
pub fn begin_user() -> std::io::Result<()> {
    let inspected = dumpable_behavior()? == DumpableBehavior::Dumpable;
    // Without this, or after a change of the user, its own files in /proc are root's.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let done = begin_user_inspected();
    if !inspected {
        privilege::forbid_inspection()?;
    }
    done
}

fn begin_user_inspected() -> std::io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    ffi::unshare(UnshareFlags::NEWUSER)?;
    // Without this a user may not say which group is which.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
    fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))
}

/// Replaces the root by an empty, read-only one, in this mount namespace.
fn empty_root() -> Result<(), Errno> {
    // A directory that every Linux has; the host's is not touched.
    const PLACE: &str = "/proc";
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("tasuki", PLACE, "tmpfs", flags, c"size=4096,nr_inodes=1,mode=555")?;
    chdir(PLACE)?;
    match pivot_root(".", ".") {
        Ok(()) => unmount(".", UnmountFlags::DETACH)?,
        // The root is the kernel's first one, which cannot be replaced but covered.
        Err(Errno::INVAL) => {
            mount_move(".", "/")?;
            chroot(".")?;
        }
        Err(errno) => return Err(errno),
    }
    chdir("/")?;
    rustix::process::umask(Mode::from_raw_mode(0o777));
    mount_remount("/", flags | MountFlags::RDONLY, c"")
}

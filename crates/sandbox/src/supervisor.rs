//! The supervisor's part: process namespaces for its servers, and the capabilities that it keeps.

use std::fs::File;
use std::os::fd::AsFd as _;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags, capabilities,
    move_into_link_name_space, set_capabilities,
};

use crate::error::SandboxError;
use crate::role::DeviceKind;
use crate::{ffi, privilege};

/// What starting a server needs: of these the supervisor has only [`IN_FORCE`] in force.
const FOR_STARTS: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP);

/// Servers have other users, and a program may have: signals to them need CAP_KILL. Without
/// CAP_SYS_RESOURCE any program of the same user could keep this process from passing descriptors
/// (unix(7), ETOOMANYREFS).
const IN_FORCE: CapabilitySet = CapabilitySet::KILL.union(CapabilitySet::SYS_RESOURCE);

/// What opening a device again needs.
fn for_device(kind: DeviceKind) -> CapabilitySet {
    use CapabilitySet as Set;
    match kind {
        // The interface and its addresses; the program that chooses the queue.
        DeviceKind::Tap => Set::NET_ADMIN | Set::BPF,
        // The socket; its large buffers.
        DeviceKind::Packet => Set::NET_RAW | Set::NET_ADMIN,
        // The socket; the program on the interface; memory that cannot be swapped out.
        DeviceKind::Xdp => Set::NET_RAW | Set::NET_ADMIN | Set::BPF | Set::IPC_LOCK,
        DeviceKind::Passt | DeviceKind::Pcap => Set::empty(),
        // A path where another user may have its end.
        DeviceKind::Wire => Set::DAC_OVERRIDE | Set::DAC_READ_SEARCH,
    }
}

/// Gives up the capabilities that neither these devices nor, with `starts`, later servers need.
/// Only what devices need stays in force. Call it when the program has been started, since that
/// gets its caller's rights.
///
/// # Errors
/// The system's.
pub fn restrict(devices: &[DeviceKind], starts: bool) -> Result<(), SandboxError> {
    let failed = SandboxError::system::<Errno>;
    let sets = capabilities(None).map_err(failed("read the capabilities"))?;
    let needed = devices.iter().fold(IN_FORCE, |all, kind| all | for_device(*kind));
    let kept = needed | if starts { FOR_STARTS } else { CapabilitySet::empty() };
    if sets.effective.contains(CapabilitySet::SETPCAP) {
        privilege::bound(kept).map_err(failed("lower the bounding set"))?;
    }
    let permitted = sets.permitted & kept;
    let lowered = CapabilitySets {
        effective: permitted & needed,
        permitted,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, lowered).map_err(failed("drop capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(failed("set no_new_privs"))?;
    privilege::forbid_inspection().map_err(failed("forbid inspection"))
}

/// Runs `start`, whose children are in a process namespace of their own: the first of them is its
/// process 1. This process itself stays where it is. Where the caller may not make one, `start`
/// runs all the same.
///
/// # Errors
/// When this process cannot go back. Then later children would have no namespace to be in.
pub fn in_new_pid_namespace<T>(start: impl FnOnce() -> T) -> Result<T, SandboxError> {
    let failed = SandboxError::system::<std::io::Error>;
    let Ok(sets) = capabilities(None) else { return Ok(start()) };
    if !sets.permitted.contains(CapabilitySet::SYS_ADMIN) {
        return Ok(start());
    }
    let own = File::open("/proc/self/ns/pid").map_err(failed("open its own namespace"))?;
    let raised = CapabilitySets { effective: sets.effective | CapabilitySet::SYS_ADMIN, ..sets };
    set_capabilities(None, raised).map_err(|e| failed("raise CAP_SYS_ADMIN")(e.into()))?;
    let go_back = || move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::ProcessID));
    // Root of a user namespace may leave a process namespace that it does not own, and never
    // return. A process that is in it already finds out by entering it.
    let made = go_back().is_ok() && ffi::unshare(UnshareFlags::NEWPID).is_ok();
    let started = start();
    if made {
        go_back().map_err(|e| failed("return to its process namespace")(e.into()))?;
    }
    set_capabilities(None, sets).map_err(|e| failed("lower CAP_SYS_ADMIN")(e.into()))?;
    Ok(started)
}

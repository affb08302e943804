//! Users, capabilities and limits of this process.

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use rustix::{process, thread};

/// Becomes this user and the group of the same number, with no other group.
pub(crate) fn become_user(uid: u32) -> Result<(), Errno> {
    let (user, group) = (process::Uid::from_raw(uid), process::Gid::from_raw(uid));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)
}

/// No program that this process executes gets a capability, whatever its user or file.
///
/// Capabilities stay when the user changes, until [`drop_but`]: what comes between needs them.
pub(crate) fn lock_secure_bits() -> Result<(), Errno> {
    use CapabilitiesSecureBits as Bits;
    set_capabilities_secure_bits(
        Bits::NO_ROOT
            | Bits::NO_ROOT_LOCKED
            | Bits::NO_SETUID_FIXUP
            | Bits::NO_SETUID_FIXUP_LOCKED
            | Bits::KEEP_CAPS_LOCKED
            | Bits::NO_CAP_AMBIENT_RAISE
            | Bits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )
}

/// Keeps only these in the bounding set.
pub(crate) fn bound(keep: CapabilitySet) -> Result<(), Errno> {
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        // Past the last one that the kernel knows, it is none.
        let there = thread::capability_is_in_bounding_set(one).unwrap_or(false);
        if there && !keep.contains(one) {
            remove_capability_from_bounding_set(one)?;
        }
    }
    Ok(())
}

/// Drops every capability of this process but these, of which it may lack some.
pub(crate) fn drop_but(keep: CapabilitySet) -> Result<(), Errno> {
    let keep = keep & thread::capabilities(None)?.permitted;
    // Linux before 4.3 has no such set.
    let _ = clear_ambient_capability_set();
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: keep, permitted: keep, inheritable })
}

/// No process of the same user may look into this one, and it leaves no core. A copy (fork) has the
/// same; executing a program ends it.
///
/// # Errors
/// The system's.
pub fn forbid_inspection() -> Result<(), Errno> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// No core, no further process or thread, no message queue, no file that grows; but for `spared`.
pub(crate) fn lower_limits(spared: &[Resource]) -> Result<(), Errno> {
    let all = [Resource::Core, Resource::Nproc, Resource::Msgqueue, Resource::Fsize];
    all.into_iter()
        .filter(|resource| !spared.contains(resource))
        .try_for_each(|resource| setrlimit(resource, Rlimit { current: Some(0), maximum: Some(0) }))
}

//! Changes of user, group and root folder: a process that has inherited sockets becomes a client
//! before. Afterwards it may not reach the instance's socket any more.

#![allow(unsafe_code)]

use core::ffi::{c_char, c_int};

use libc::{gid_t, size_t, uid_t};

use crate::descriptors::TABLE;
use crate::interpose::interpose;
use crate::table::Kind;
use crate::{instance, process, real};

/// Becomes a client if there are sockets to take up. False: the call is the C library's.
fn join_first() -> bool {
    if !instance::is_wanted() || instance::known().is_some() || process::in_vfork_child() {
        return false;
    }
    if TABLE.range(0, u32::MAX).iter().any(|(_, kind)| *kind == Kind::Inherited) {
        // The first use of a socket tries again, and says why it fails.
        let _ = std::panic::catch_unwind(instance::client);
    }
    false
}

interpose! {
    fn setuid(user: uid_t) -> c_int { join_first() => Ok(real::setuid(user)) }
    fn setgid(group: gid_t) -> c_int { join_first() => Ok(real::setgid(group)) }
    fn seteuid(user: uid_t) -> c_int { join_first() => Ok(real::seteuid(user)) }
    fn setegid(group: gid_t) -> c_int { join_first() => Ok(real::setegid(group)) }
    fn setreuid(user: uid_t, effective: uid_t) -> c_int {
        join_first() => Ok(real::setreuid(user, effective))
    }
    fn setregid(group: gid_t, effective: gid_t) -> c_int {
        join_first() => Ok(real::setregid(group, effective))
    }
    fn setresuid(user: uid_t, effective: uid_t, saved: uid_t) -> c_int {
        join_first() => Ok(real::setresuid(user, effective, saved))
    }
    fn setresgid(group: gid_t, effective: gid_t, saved: gid_t) -> c_int {
        join_first() => Ok(real::setresgid(group, effective, saved))
    }
    fn setgroups(count: size_t, groups: *const gid_t) -> c_int {
        join_first() => Ok(real::setgroups(count, groups))
    }
    fn initgroups(user: *const c_char, group: gid_t) -> c_int {
        join_first() => Ok(real::initgroups(user, group))
    }
    fn chroot(path: *const c_char) -> c_int { join_first() => Ok(real::chroot(path)) }
}

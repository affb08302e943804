//! Mounts of network file systems: the kernel would use the host's network for them.
//!
//! Only root can mount one. A program that does so by a system call of its own is not seen here.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};

use rustix::io::Errno;

use crate::errno::Outcome;
use crate::instance;
use crate::interpose::interpose;

/// File systems whose servers the kernel itself talks to.
const OVER_NETWORKS: [&CStr; 13] = [
    c"nfs",
    c"nfs4",
    c"cifs",
    c"smb3",
    c"smbfs",
    c"ceph",
    c"afs",
    c"coda",
    c"ncpfs",
    c"ocfs2",
    c"gfs2",
    c"lustre",
    c"orangefs",
];
/// With these flags mount(2) makes no new file system.
const NO_NEW: c_ulong = libc::MS_BIND
    | libc::MS_MOVE
    | libc::MS_REMOUNT
    | libc::MS_SHARED
    | libc::MS_PRIVATE
    | libc::MS_SLAVE
    | libc::MS_UNBINDABLE;

/// Is it the name of such a file system?
unsafe fn is_over_network(kind: *const c_char) -> bool {
    if kind.is_null() || !instance::is_wanted() {
        return false;
    }
    // SAFETY: not null, and the program says that it is a string.
    OVER_NETWORKS.contains(&unsafe { CStr::from_ptr(kind) })
}

fn refuse<T>() -> Outcome<T> {
    instance::report(
        "tasuki: the kernel would use the host's network for this mount: mount it without `tasuki \
         run`\n",
    );
    Err(Errno::PERM)
}

interpose! {
    fn mount(
        source: *const c_char, target: *const c_char, kind: *const c_char, flags: c_ulong,
        data: *const c_void,
    ) -> c_int {
        flags & NO_NEW == 0 && is_over_network(kind) => refuse()
    }
    fn fsopen(kind: *const c_char, flags: c_uint) -> c_int {
        is_over_network(kind) => refuse()
    }
}

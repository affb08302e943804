//! The state that a forked child starts with.
//!
//! * **fork**: the child has copies of everything and may use nothing of it, since a ring has one
//!   producer. The fork handler makes its inherited sockets unusable (EBADF) and lets go of the
//!   parent's control connection. The child's first new socket makes it a client of its own.
//! * **vfork** and `posix_spawn`: see [`process`].
//! * **exec**: memory and internal descriptors (all CLOEXEC) go. Placeholders without CLOEXEC stay,
//!   as kernel sockets that are connected to nothing.

#![allow(unsafe_code)]

use crate::descriptors::TABLE;
use crate::{host, instance, placeholder, process};

/// Once per process image, before any other use: remembers the process and registers the handler.
pub(crate) fn watch() {
    process::remember();
    // SAFETY: the handler is a function of this library, which is never unloaded (LD_PRELOAD).
    let registered = unsafe { libc::pthread_atfork(None, None, Some(child)) } == 0;
    if registered {
        sockets::fork_watched();
        sockets::local_stack::set_host(host::start);
    }
}

unsafe extern "C" fn child() {
    process::remember();
    // The runtime closes its copies of descriptors through `close`, so the table must not know
    // them as internal any more.
    instance::forget();
    placeholder::forget();
    host::forget();
    TABLE.inherit();
    // A panic here could only be reported, and nothing can be reported here.
    let _ = std::panic::catch_unwind(sockets::forked);
}

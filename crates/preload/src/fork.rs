//! The state that a forked child starts with.
//!
//! * **fork**: the child has copies of everything and may use nothing of it, since a ring has one
//!   producer. Before the fork, all sockets become shared ([`sharing`]). In the child, the fork
//!   handler notes that they are inherited, makes its epoll sets ([`epoll_fork`]), and lets go of
//!   the parent's control connection. The
//!   child's first use of a socket makes it a client of its own, and takes up the socket.
//! * **vfork** and `posix_spawn`: see [`process`].
//! * **exec**: memory and internal descriptors (all CLOEXEC) go. Placeholders without CLOEXEC stay,
//!   and the new image finds those of shared sockets.

#![allow(unsafe_code)]

use crate::descriptors::TABLE;
use crate::handlers::Within;
use crate::sanitizers::Unseen;
use crate::{
    adopted, cancellation, epoll_fork, host, instance, placeholder, process, readiness_signals,
    sharing,
};

/// Once per process image, before any other use: remembers the process and registers the handler.
pub(crate) fn watch() {
    process::remember();
    sockets::remember_instance();
    cancellation::serve();
    // SAFETY: the handlers are functions of this library, which is never unloaded (LD_PRELOAD).
    let registered = unsafe { libc::pthread_atfork(Some(prepare), None, Some(child)) } == 0;
    if registered {
        sockets::fork_watched();
        sockets::local_stack::set_host(host::start);
    }
}

/// The child may use the parent's sockets, too. A panic must not keep the process from its fork.
unsafe extern "C" fn prepare() {
    let _within = Within::new();
    let _unseen = Unseen::new();
    let _ = std::panic::catch_unwind(|| {
        sharing::share(|_| true);
        epoll_fork::note();
    });
}

unsafe extern "C" fn child() {
    let _within = Within::new();
    let _unseen = Unseen::new();
    process::remember();
    // The runtime closes its copies of descriptors through `close`, so the table must not know
    // them as internal any more.
    instance::forget();
    placeholder::forget();
    adopted::forget();
    readiness_signals::forget();
    cancellation::forget();
    host::forget();
    TABLE.inherit();
    // A panic here could only be reported, and nothing can be reported here.
    let _ = std::panic::catch_unwind(|| {
        epoll_fork::inherit();
        sockets::forked();
    });
}

//! `libtasuki_preload.so`: the socket calls of unmodified programs, on Tasuki.
//!
//! Loaded with LD_PRELOAD, this library stands before the C library and exports its socket calls.
//! A call on an AF_INET stream or datagram socket goes to the runtime (crate `sockets`); every
//! other call, and every call when `TASUKI_SOCKET` is not set, goes on to the C library (`real`)
//! after one look into a lock-free table (`table`).
//!
//! * Each Tasuki socket owns a kernel descriptor, the *placeholder*, so that numbers, limits,
//!   `dup`, CLOEXEC and `fstat` stay the kernel's business. `entry` is what the shim keeps beside
//!   it.
//! * `calls` has the exported calls by theme, `poll`, `select` and `epoll` those that wait for
//!   many descriptors. The rules of POSIX without C's pointers are in `transfer`,
//!   `registrations`, `sockaddr`, `cmsg` and `time`, and are tested there.
//! * `fork` tells which process this is; `instance` is its membership in an instance; `host` the
//!   stack itself, when it is in this process (mode `library`).
//!
//! No panic crosses into the program (`errno::Return`). The calls that the runtime makes itself
//! pass through here too, but are none of AF_INET. What is not covered is listed in
//! docs/reference/limits.md.

#![cfg_attr(test, allow(dead_code, reason = "the exported calls are not exported from tests"))]

mod calls;
mod cmsg;
mod entry;
mod epoll;
mod errno;
mod fork;
mod host;
mod instance;
mod placeholder;
mod poll;
mod real;
mod registrations;
mod select;
mod signals;
mod sockaddr;
mod table;
mod time;
mod transfer;

/// Defines exported calls: `fn name(arguments) -> result { ours => body }`.
///
/// When the condition `ours` does not hold, the C library's function of the same name is called,
/// and nothing else. `body` is an [`errno::Outcome`]; it may be `unsafe` by what the call's
/// manual page asks of the program.
macro_rules! interpose {
    ($(
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty { $ours:expr => $body:expr }
    )*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
            // SAFETY: the program keeps to the call's manual page: its pointers are valid for
            // what the call does with them.
            #[allow(unused_unsafe, reason = "not every condition looks at pointers")]
            let is_ours = unsafe { $ours };
            if is_ours {
                // SAFETY: as above.
                #[allow(unused_unsafe, reason = "nor does every body")]
                return crate::errno::Return::of(move || unsafe { $body });
            }
            // SAFETY: passed on from the program.
            unsafe { crate::real::$name($($arg),*) }
        }
    )*};
}

/// Defines other names of exported calls: `fn alias(arguments) -> result = name;`.
macro_rules! alias {
    ($(fn $alias:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty = $name:ident;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $alias($($arg: $ty),*) -> $ret {
            // SAFETY: passed on from the program.
            unsafe { $name($($arg),*) }
        }
    )*};
}

pub(crate) use {alias, interpose};

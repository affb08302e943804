//! Calls that install signal handlers ([`handlers`]).

#![allow(unsafe_code)]

use core::ffi::c_int;

use libc::sighandler_t;

use crate::{handlers, instance, process, real};

macro_rules! sigaction {
    ($($name:ident)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name(
            signal: c_int,
            action: *const libc::sigaction,
            old: *mut libc::sigaction,
        ) -> c_int {
            if !instance::is_wanted() {
                // SAFETY: passed on from the program.
                return unsafe { real::$name(signal, action, old) };
            }
            let own_table = !process::in_vfork_child();
            // SAFETY: passed on from the program.
            unsafe { handlers::install(signal, action, old, own_table) }
        }
    )*};
}

/// The older functions, which differ in the flags and the mask that they choose.
macro_rules! signal {
    ($($name:ident)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
            // SAFETY: passed on from the program.
            let old = unsafe { real::$name(signal, handler) };
            if !instance::is_wanted() {
                return old;
            }
            handlers::installed(signal, handler, old, !process::in_vfork_child())
        }
    )*};
}

sigaction! { sigaction __sigaction }
signal! { signal bsd_signal ssignal sysv_signal __sysv_signal sigset }

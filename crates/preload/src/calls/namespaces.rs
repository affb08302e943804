//! unshare(2), setns(2) and clone(2): ways into a network namespace of the program's own
//! ([`departure`]).

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use crate::errno::{self, Outcome};
use crate::interpose::{alias, interpose};
use crate::{departure, instance, process, real};

/// A call that may lead to another network namespace, `surely` if it succeeds.
fn moved(surely: bool, call: impl FnOnce() -> c_int) -> Outcome<c_int> {
    departure::prepare();
    let done = errno::check(call())?;
    departure::look(surely);
    Ok(done)
}

/// A vfork child has its parent's memory, and executes soon.
fn is_ours() -> bool {
    instance::is_wanted() && !process::in_vfork_child()
}

interpose! {
    fn unshare(flags: c_int) -> c_int {
        flags & libc::CLONE_NEWNET != 0 && is_ours() => moved(true, || real::unshare(flags))
    }
    // Without a kind, the descriptor says which namespaces are meant.
    fn setns(fd: c_int, kind: c_int) -> c_int {
        (kind == 0 || kind & libc::CLONE_NEWNET != 0) && is_ours() => {
            moved(kind != 0, || real::setns(fd, kind))
        }
    }
}

/// What a child is to run.
struct Begin {
    run: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
}

/// In the child, on a copy of its parent's memory.
extern "C" fn begin_elsewhere(begin: *mut c_void) -> c_int {
    departure::note();
    process::remember();
    // SAFETY: the parent's `clone` below has passed a `Begin`, whose copy this process has.
    let Begin { run, argument } = unsafe { begin.cast::<Begin>().read() };
    run(argument)
}

// In C it is variadic: the last three arguments are there if flags say so. They are read whether
// there is one or not, as the C library's own function does.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn clone(
    run: Option<extern "C" fn(*mut c_void) -> c_int>,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_tid: *mut c_void,
    tls: *mut c_void,
    child_tid: *mut c_void,
) -> c_int {
    let own = flags & (libc::CLONE_NEWNET | libc::CLONE_VM) == libc::CLONE_NEWNET;
    let Some(run) = run.filter(|_| own && instance::is_wanted()) else {
        let run = run.map_or(core::ptr::null_mut(), |run| run as *mut c_void);
        // SAFETY: passed on from the program.
        return unsafe { real::clone(run, stack, flags, argument, parent_tid, tls, child_tid) };
    };
    let mut begin = Begin { run, argument };
    let (run, argument) = (begin_elsewhere as *mut c_void, (&raw mut begin).cast());
    // SAFETY: passed on from the program. The child has a copy of `begin` under this address, also
    // when this function has returned in the parent.
    unsafe { real::clone(run, stack, flags, argument, parent_tid, tls, child_tid) }
}

alias! {
    fn __clone(
        run: Option<extern "C" fn(*mut c_void) -> c_int>, stack: *mut c_void, flags: c_int,
        argument: *mut c_void, parent_tid: *mut c_void, tls: *mut c_void, child_tid: *mut c_void,
    ) -> c_int = clone;
}

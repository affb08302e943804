//! The system calls that no safe library has. This is the only file of the crate with `unsafe`.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::thread::UnshareFlags;

/// Closes every descriptor but the standard streams. Call it first of all in a process: no value
/// may own a descriptor yet.
///
/// # Errors
/// The system's; Linux before 5.9 has no such call.
pub fn close_inherited() -> io::Result<()> {
    // SAFETY: the call closes descriptors that were inherited. No value of this process owns one of
    // them: the caller has not opened any.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// unshare(2).
pub(crate) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    debug_assert!(!flags.contains(UnshareFlags::FILES));
    // SAFETY: only UnshareFlags::FILES endangers values of other threads, which own descriptors.
    // No caller in this crate passes it.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Has the filter checked at every system call of every thread. The process has `no_new_privs`.
pub(crate) fn filter_system_calls(program: &[libc::sock_filter]) -> io::Result<()> {
    let len = libc::c_ushort::try_from(program.len())
        .map_err(|_| io::Error::other("the filter is too long"))?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let all = libc::SECCOMP_FILTER_FLAG_TSYNC;
    // Linux before 5.16 otherwise makes a filtered process slow: it gets the mitigations for
    // processes that run foreign code. Ours run none. Linux before 4.17 does not know this flag.
    match seccomp(all | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => seccomp(all, &program),
        done => done,
    }
}

fn seccomp(flags: libc::c_ulong, program: &libc::sock_fprog) -> io::Result<()> {
    let (call, mode) = (libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER);
    // SAFETY: `program` names `len` instructions that outlive the call. The kernel copies them, and
    // writes to no memory of this process.
    match unsafe { libc::syscall(call, mode, flags, ptr::from_ref(program)) } {
        0 => Ok(()),
        1.. => Err(io::Error::other("a thread has a filter of its own")),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the kernel says about a refused system call (siginfo_t of SIGSYS, sigaction(2)). libc has
/// no such view of it.
#[repr(C)]
struct RefusedCall {
    signal: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    /// The union begins at a multiple of a pointer's size.
    at: [usize; 1],
    number: libc::c_int,
    arch: libc::c_uint,
}

/// Has `handler` called with the number of each system call that the filter refuses. It runs in a
/// signal handler: it may not allocate, lock or return.
pub(crate) fn on_refused_call(handler: fn(i32) -> !) -> io::Result<()> {
    // The first one stays.
    let _ = HANDLER.set(handler);
    // SAFETY: all bytes zero are a valid sigaction.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = refused as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // SAFETY: `action` is initialised and outlives the call; `refused` has the type that
    // SA_SIGINFO asks for.
    let done = unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

static HANDLER: OnceLock<fn(i32) -> !> = OnceLock::new();

extern "C" fn refused(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid siginfo_t, which is longer than a
    // RefusedCall.
    let number = unsafe { (*info.cast::<RefusedCall>()).number };
    if let Some(handler) = HANDLER.get() {
        handler(number);
    }
    exit_now(1);
}

/// Ends the process without running anything else. For signal handlers.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit only ends the process.
    unsafe { libc::_exit(code) }
}

/// Any system call, for the probe. Strings are passed as addresses of bytes that end with zero.
pub(crate) fn call(number: i32, arguments: [usize; 6]) -> Result<usize, Errno> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the probe is a process of one thread that makes calls given by its user, and ends. A
    // call that spoils its memory spoils nothing but the probe.
    let done = unsafe { libc::syscall(number.into(), a, b, c, d, e, f) };
    match usize::try_from(done) {
        Ok(done) => Ok(done),
        Err(_) => {
            let error = io::Error::last_os_error();
            Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_lies_where_the_kernel_writes_it() {
        // The union begins behind three ints, at a multiple of eight; the address comes first.
        assert_eq!(mem::offset_of!(RefusedCall, number), 24);
        assert!(mem::size_of::<RefusedCall>() <= mem::size_of::<libc::siginfo_t>());
    }
}

//! Owner, signal and O_ASYNC of a placeholder: the kernel keeps them, as of any file.

#![allow(unsafe_code)]

use core::ffi::c_int;

use crate::errno::{self, Outcome};
use crate::real;

/// fcntl(2)'s, which libc lacks.
const F_GETOWN_EX: c_int = 16;
const F_GETSIG: c_int = 11;
const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;

/// struct f_owner_ex.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Owner {
    pub(crate) kind: c_int,
    pub(crate) pid: libc::pid_t,
}

/// Another file takes the place of a placeholder: owner, signal and O_ASYNC go along.
#[cold]
pub(crate) fn carry_over(before: c_int, after: c_int) -> Outcome<()> {
    let (owner, signal, is_async) = settings(before)?;
    if owner.pid != 0 {
        let place = (&raw const owner) as libc::c_ulong;
        // SAFETY: the command reads one f_owner_ex.
        errno::check(unsafe { real::fcntl(after, F_SETOWN_EX, place) })?;
    }
    // SAFETY: the command takes an int.
    errno::check(unsafe { real::fcntl(after, F_SETSIG, signal.unsigned_abs().into()) })?;
    // SAFETY: the command takes no argument.
    let flags = errno::check(unsafe { real::fcntl(after, libc::F_GETFL, 0) })?;
    let flags = if is_async { flags | libc::O_ASYNC } else { flags };
    // SAFETY: the command takes an int.
    errno::check(unsafe { real::fcntl(after, libc::F_SETFL, flags.unsigned_abs().into()) })?;
    Ok(())
}

/// What the placeholder has: owner, signal, O_ASYNC.
pub(crate) fn settings(fd: c_int) -> Outcome<(Owner, c_int, bool)> {
    let mut owner = Owner::default();
    // SAFETY: the command writes one f_owner_ex.
    errno::check(unsafe { real::fcntl(fd, F_GETOWN_EX, (&raw mut owner) as libc::c_ulong) })?;
    // SAFETY: the command takes no argument.
    let signal = errno::check(unsafe { real::fcntl(fd, F_GETSIG, 0) })?;
    // SAFETY: as above.
    let flags = errno::check(unsafe { real::fcntl(fd, libc::F_GETFL, 0) })?;
    Ok((owner, signal, flags & libc::O_ASYNC != 0))
}

//! Programs that are to reach no Unix socket of the host (`tasuki run --no-host-sockets`).
//!
//! The name of a Unix socket is in memory, which a filter cannot judge. So the program makes no
//! socket that could have or use a name: only connected pairs of streams. Landlock keeps it from
//! those who have such sockets: it can neither trace nor signal a process that it has not started.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::filter;
use crate::system::check;

/// `struct landlock_ruleset_attr` (linux/landlock.h).
#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
    scoped: u64,
}

/// Abstract Unix sockets and signals of processes outside.
const SCOPES: u64 = 1 | 2;

/// Keeps the program of `command` from the host's Unix sockets.
///
/// # Errors
/// The system's: Linux before 6.12 has no such Landlock.
pub fn keep_out(command: &mut Command) -> io::Result<()> {
    let ruleset = ruleset()?;
    let begin = move || {
        rustix::thread::set_no_new_privs(true)?;
        // SAFETY: the call takes a descriptor and a number.
        let done =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) };
        check(libc::c_int::try_from(done).unwrap_or(-1))?;
        filter::install_without_unix()
    };
    // SAFETY: between fork and exec it makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(begin) };
    Ok(())
}

fn ruleset() -> io::Result<OwnedFd> {
    let rules = Ruleset { files: 0, network: 0, scoped: SCOPES };
    // SAFETY: the call reads as many bytes as `rules` has.
    let made = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const rules,
            size_of::<Ruleset>(),
            0_u32,
        )
    };
    let made = check(libc::c_int::try_from(made).unwrap_or(-1))?;
    // SAFETY: the call made it, with close-on-exec, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

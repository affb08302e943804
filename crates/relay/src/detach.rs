//! The relay's process: a copy of `tasuki run` that is no child of it.
//!
//! It executes nothing, so it is there at once. `tasuki run` makes it before it opens anything of
//! an instance: so the copy has nothing of one.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::system::check;

/// The exit code of a relay that panicked.
const PANICKED: u8 = 101;

/// Runs `serve` in a process of its own, with `line` as standard input and without any other
/// descriptor but standard error. The caller has one thread. Returns in the caller only.
///
/// # Errors
/// The system's: no process is left.
pub fn detach(line: &OwnedFd, serve: impl FnOnce() -> u8) -> io::Result<()> {
    // SAFETY: no pointers. The caller has one thread, so no lock is held in the copy.
    let first = check(unsafe { libc::fork() })?;
    let Some(first) = Pid::from_raw(first) else {
        // SAFETY: as above.
        match unsafe { libc::fork() } {
            0 => run(line, serve),
            // The first copy's end leaves the second one to init, or to the next subreaper.
            second => end(u8::from(second < 0)),
        }
    };
    let status = rustix::io::retry_on_intr(|| waitpid(Some(first), WaitOptions::empty()))?;
    match status.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        _ => Err(io::Error::from(io::ErrorKind::WouldBlock)),
    }
}

/// Runs `serve` in a child, in the same way. The caller collects it.
///
/// # Errors
/// The system's: no process is left.
pub(crate) fn child(line: &OwnedFd, serve: impl FnOnce() -> u8) -> io::Result<Pid> {
    // SAFETY: no pointers. The caller has one thread, so no lock is held in the copy.
    let child = check(unsafe { libc::fork() })?;
    match Pid::from_raw(child) {
        None => run(line, serve),
        Some(child) => Ok(child),
    }
}

fn run(line: &OwnedFd, serve: impl FnOnce() -> u8) -> ! {
    let done = catch_unwind(AssertUnwindSafe(|| match leave_caller(line) {
        Ok(()) => serve(),
        Err(_) => 1,
    }));
    end(done.unwrap_or(PANICKED));
}

/// Gives up all that the copy shares with its original. A terminal's Ctrl-C is for the program
/// only.
fn leave_caller(line: &OwnedFd) -> io::Result<()> {
    rustix::process::setpgid(None, None)?;
    rustix::process::chdir("/")?;
    rustix::stdio::dup2_stdin(line)?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::stdio::dup2_stdout(rustix::fs::open(c"/dev/null", flags, Mode::empty())?)?;
    // The frames that own descriptors are never returned to.
    sandbox::close_inherited()
}

/// Ends this process without the exit handlers of its original.
fn end(code: u8) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(code.into()) }
}

//! A relay that is a child of `tasuki run`.
//!
//! Where `tasuki run` stays while its program runs, it collects the relay. So nothing is left to
//! process 1, which in many containers waits for nobody. The relay ends with the last program. That
//! may be one in the background, which outlives `tasuki run`: the relay says so, and stays.
//!
//! ```text
//!  tasuki run ── shuts its end down ─▶ relay ── programs left? ─ no ─▶ it ends, and is collected
//!                                                   └─ yes ─▶ a byte: it is left alone
//! ```

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SendFlags;
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::detach;

/// How long a relay may take to end or to say that it stays.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// A relay that is a child of this process. It is collected when this is dropped, unless programs
/// are left.
#[derive(Debug)]
pub struct ChildRelay {
    pid: Pid,
    line: UnixStream,
}

impl ChildRelay {
    /// Starts one, which runs `serve`, as [`crate::detach()`] does. Returns the program's end of
    /// its line, too.
    ///
    /// # Errors
    /// The system's.
    pub fn start(serve: impl FnOnce() -> u8) -> io::Result<(Self, OwnedFd)> {
        let (program, line) = UnixStream::pair()?;
        let line = OwnedFd::from(line);
        let pid = detach::child(&line, serve)?;
        Ok((Self { pid, line: program.try_clone()? }, program.into()))
    }
}

impl Drop for ChildRelay {
    fn drop(&mut self) {
        // Of all copies of this end.
        let _ = self.line.shutdown(Shutdown::Write);
        let mut fds = [PollFd::from_borrowed_fd(self.line.as_fd(), PollFlags::IN)];
        let answered = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&PATIENCE)));
        if !matches!(answered, Ok(1..)) {
            return;
        }
        // The end means that the process is ending; a byte, that it stays.
        if matches!(rustix::io::read(&self.line, &mut [0]), Ok(0) | Err(_)) {
            let _ = rustix::io::retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
        }
    }
}

/// Tells the process at the other end that this relay stays.
pub(crate) fn outlive(line: &OwnedFd) {
    // It may have ended.
    let _ = rustix::net::send(line, &[0], SendFlags::NOSIGNAL);
}

//! The network namespace in which the programs were started, and callers who have left it.
//!
//! A program may leave for a network namespace of its own (unshare(2), clone(2), setns(2)). It has
//! no network there but what it makes: its sockets are the kernel's, as without Tasuki. A thread
//! changes its namespace only itself, and a caller waits for our answer. So what is found here
//! holds until then.
//!
//! /proc/THREAD/net shows the files of the thread's namespace to everybody. Each namespace has
//! files of its own, so the number of one of them tells two namespaces apart. This takes no right
//! over the program. Where /proc cannot tell, nobody has left: the sockets are the relay's.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};

/// A file that every network namespace has.
const FILE: &str = "net/dev";

/// The namespace that this process was in.
pub(crate) struct HomeNetwork {
    /// The directory of processes.
    processes: OwnedFd,
    /// The number of its file.
    file: u64,
}

impl HomeNetwork {
    /// The namespace of this process now. `None`: /proc does not tell.
    pub(crate) fn current() -> Option<Self> {
        // Callers have numbers of our process namespace; /proc may be of another one.
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        if numbers.split_whitespace().count() != 1 {
            return None;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let processes = openat(CWD, c"/proc", flags, Mode::empty()).ok()?;
        let file = number(&processes, &format!("self/{FILE}"))?;
        Some(Self { processes, file })
    }

    /// Is the thread in another namespace?
    pub(crate) fn is_left_by(&self, thread: u32) -> bool {
        let there = number(&self.processes, &format!("{thread}/{FILE}"));
        there.is_some_and(|file| file != self.file)
    }
}

fn number(processes: &OwnedFd, path: &str) -> Option<u64> {
    let found = statx(processes, path, AtFlags::empty(), StatxFlags::INO).ok()?;
    Some(found.stx_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_leaves_is_seen() {
        let home = HomeNetwork::current().unwrap();
        let itself = || u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        assert!(!home.is_left_by(itself()));
        let elsewhere = std::thread::spawn(move || {
            let flags = rustix::thread::UnshareFlags::NEWNET;
            #[expect(unsafe_code, reason = "unshare(2) of this thread")]
            // SAFETY: the flag concerns no memory or descriptor table.
            let left = unsafe { rustix::thread::unshare_unsafe(flags) };
            // Without the right there is nothing to see.
            left.is_err() || home.is_left_by(itself())
        });
        assert!(elsewhere.join().unwrap());
    }
}

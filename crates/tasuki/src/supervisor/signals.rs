//! The signals that reach the supervisor, and their senders.
//!
//! A terminal sends Ctrl-C and the like to all of its foreground process group, thus to the program
//! as well: passing them on would deliver them twice. Such signals come from the kernel. Signals
//! that a process sent to the supervisor alone are for the program and are passed on. There is one
//! exception: a terminal that hangs up signals only its session's leader. A supervisor that is that
//! leader passes the signal on.
//!
//! Signals that were ignored when the supervisor started (nohup, background jobs of scripts) stay
//! so, for the program inherits that.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use signal_hook::consts;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::exit::Failure;

const CAUGHT: [i32; 8] = [
    consts::SIGHUP,
    consts::SIGINT,
    consts::SIGQUIT,
    consts::SIGTERM,
    consts::SIGUSR1,
    consts::SIGUSR2,
    consts::SIGWINCH,
    consts::SIGALRM,
];

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedSignal {
    /// Its number.
    pub(crate) signal: i32,
    /// The process that sent it; `None`: the kernel did, for a terminal.
    pub(crate) sender: Option<i32>,
}

impl ReceivedSignal {
    /// Does it ask a process to end?
    pub(crate) fn ends(self) -> bool {
        [consts::SIGHUP, consts::SIGINT, consts::SIGQUIT, consts::SIGTERM].contains(&self.signal)
    }

    /// The signal to pass on to the program, if any.
    pub(crate) fn to_pass_on(self) -> Option<Signal> {
        let leads = || rustix::process::getsid(None) == Ok(rustix::process::getpid());
        let alone = self.sender.is_some() || (self.signal == consts::SIGHUP && leads());
        Signal::from_named_raw(self.signal).filter(|_| alone)
    }
}

impl From<Origin> for ReceivedSignal {
    fn from(origin: Origin) -> Self {
        let by_process = matches!(origin.cause, Cause::Sent(_));
        let sender = origin.process.filter(|_| by_process).map(|process| process.pid);
        Self { signal: origin.signal, sender }
    }
}

/// Catches signals from its creation on.
pub(crate) struct Signals(SignalDelivery<UnixStream, WithOrigin>);

impl Signals {
    /// Begins to catch.
    ///
    /// # Errors
    /// When the system has no socket pair left.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let caught = CAUGHT.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        UnixStream::pair()
            .and_then(|(read, write)| {
                SignalDelivery::with_pipe(read, write, WithOrigin::default(), caught)
            })
            .map(Self)
            .map_err(|error| Failure::system("catch signals", error))
    }

    /// The signals that arrived since the last call; never waits.
    pub(crate) fn arrived(&mut self) -> Vec<ReceivedSignal> {
        self.0.pending().map(ReceivedSignal::from).collect()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_read().as_fd()
    }
}

/// The mask of ignored signals out of /proc/self/status.
fn ignored(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn the_kernels_mask_is_understood() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"), 0x1001);
        assert_eq!(ignored(""), 0);
    }

    #[test]
    fn the_sender_is_known() {
        let mut signals = Signals::catch().unwrap();
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, Signal::USR2).unwrap();
        // Another thread of this process may be the one to be interrupted.
        let mut fds = [PollFd::new(&signals, PollFlags::IN)];
        let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
        while poll(&mut fds, Some(&patience)) == Err(Errno::INTR) {}
        let arrived = signals.arrived();
        let sender = Some(me.as_raw_nonzero().get());
        assert_eq!(arrived, [ReceivedSignal { signal: consts::SIGUSR2, sender }]);
        assert!(!arrived[0].ends());
        assert_eq!(arrived[0].to_pass_on(), Some(Signal::USR2));
        let by_terminal = ReceivedSignal { sender: None, signal: consts::SIGINT };
        assert!(by_terminal.ends());
        assert_eq!(by_terminal.to_pass_on(), None);
        assert!(signals.arrived().is_empty());
    }
}

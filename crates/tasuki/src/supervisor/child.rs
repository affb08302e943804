//! The program of `tasuki run`, as a child of the supervisor or of a `tasuki run --net`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::signals::Signals;
use crate::exit::{Code, Failure};

/// A running program; killed and collected when dropped before its end.
pub(super) struct Program {
    child: Child,
    pidfd: OwnedFd,
    status: Option<ExitStatus>,
}

impl Program {
    /// Starts it.
    ///
    /// # Errors
    /// [`Code::NotExecutable`] when the system cannot execute it.
    pub(super) fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command.spawn().map_err(|error| cannot_execute(command, &error))?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self { child, pidfd, status: None }),
            Err(errno) => {
                // Neither fails for a child that was not collected.
                let _ = child.kill();
                let _ = child.wait();
                Err(Failure::system("watch the program", errno))
            }
        }
    }

    /// For poll, until it has ended.
    pub(super) fn death(&self) -> Option<BorrowedFd<'_>> {
        self.status.is_none().then(|| self.pidfd.as_fd())
    }

    /// Passes a signal on, unless the program sent it itself.
    pub(super) fn signal(&self, signal: Signal, sender: Option<i32>) {
        if self.status.is_none() && sender != i32::try_from(self.child.id()).ok() {
            // It may have ended just now.
            let _ = pidfd_send_signal(&self.pidfd, signal);
        }
    }

    /// Collects it when it has ended; its exit code, 128+n for signal n.
    pub(super) fn collect(&mut self) -> Option<u8> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok()?;
        }
        self.exit_code()
    }

    /// Its exit code, if it has ended.
    pub(super) fn exit_code(&self) -> Option<u8> {
        self.status.map(exit_code)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.status.is_none() {
            // Neither fails for a child that was not collected.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Runs a program to its end. Signals to this process go on to it. Its exit code, 128+n for signal
/// n.
///
/// # Errors
/// As [`Program::start`], and the system's.
pub(crate) fn run_to_end(command: &mut Command, mut signals: Signals) -> Result<u8, Failure> {
    let mut program = Program::start(command)?;
    loop {
        for arrived in signals.arrived() {
            if let Some(signal) = arrived.to_pass_on() {
                program.signal(signal, arrived.sender);
            }
        }
        if let Some(code) = program.collect() {
            return Ok(code);
        }
        let mut fds =
            [PollFd::new(&program.pidfd, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut fds, None))
            .map_err(|errno| Failure::system("wait for the program", errno))?;
    }
}

/// Why a program that was found did not start.
pub(crate) fn cannot_execute(command: &Command, error: &std::io::Error) -> Failure {
    let name = command.get_program().to_string_lossy();
    Failure::new(Code::NotExecutable, format!("cannot execute {name}: {error}"))
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(script: &str) -> u8 {
        let mut program = Program::start(Command::new("sh").args(["-c", script])).unwrap();
        program.child.wait().unwrap();
        program.collect().unwrap()
    }

    #[test]
    fn exit_codes_and_signals() {
        assert_eq!(ended("exit 0"), 0);
        assert_eq!(ended("exit 255"), 255);
        assert_eq!(ended("kill -TERM $$"), 143);
    }

    #[test]
    fn what_cannot_be_executed() {
        let failure = Program::start(&mut Command::new("/etc/passwd")).err().unwrap();
        assert_eq!(failure.code, Code::NotExecutable);
    }

    #[test]
    fn its_own_signals_do_not_come_back() {
        let program = Program::start(Command::new("sleep").arg("30")).unwrap();
        let own = i32::try_from(program.child.id()).unwrap();
        program.signal(Signal::TERM, Some(own));
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut program = program;
        assert_eq!(program.collect(), None);
        program.signal(Signal::TERM, Some(1));
        program.child.wait().unwrap();
        assert_eq!(program.collect(), Some(143));
    }
}

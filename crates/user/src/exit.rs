//! How a command ends when it fails: one sentence and one exit code.
//!
//! The codes from 114 up are chosen beside those of `env`, `timeout` and the shells (125 to 127),
//! so a script can tell "Tasuki failed" from "the program failed".

use std::fmt;
use std::io::Write as _;

use serde::{Deserialize, Serialize};

/// The exit codes of `tasuki` itself. `tasuki run` otherwise gives the program's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// A file or pipe that the command writes to failed, or `tasuki lab diff` found a regression.
    Output = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The program would be without a filter of system calls, or without its relay.
    Unfiltered = 114,
    /// `tasuki lab` was interrupted, and can go on.
    Interrupted = 115,
    /// A passphrase opens nothing, or there is none.
    Passphrase = 116,
    /// A unit has no LUKS header, or none that can be used.
    Header = 117,
    /// The configuration file, a results file, or values that do not fit together.
    Configuration = 118,
    /// A right is missing.
    Rights = 119,
    /// An address or a device name is in use, or a unit has data.
    InUse = 120,
    /// The shim cannot get into the program.
    Unsupported = 121,
    /// No instance of that name runs.
    NoInstance = 122,
    /// An instance of that name runs already.
    AlreadyRunning = 123,
    /// Anything else that went wrong in Tasuki or the system.
    Internal = 125,
    /// The program cannot be executed.
    NotExecutable = 126,
    /// The program was not found.
    NotFound = 127,
}

/// Shown at the end of `tasuki --help` and `tasuki run --help`.
pub const HELP: &str = "\
Exit codes:
    1  an output file or pipe failed; of `tasuki lab diff`: there is a regression
    2  wrong usage
  114  the program did not start: nothing would keep it from the host's network
  115  a measurement was interrupted; `tasuki lab --continue` goes on
  116  wrong or no passphrase of an encrypted disk
  117  no LUKS header that can be used
  118  wrong configuration, or a wrong results file
  119  missing rights (/dev/net/tun, a capability for the device, another user's instance)
  120  address in use, device name taken, or a unit that has data
  121  the program cannot be run on the stack (static, setuid, other machine type, shim missing)
  122  no such instance is running
  123  an instance of that name is running already
  125  Tasuki itself failed
  126  the program cannot be executed
  127  the program was not found
`tasuki run` otherwise ends with the program's exit code, 128+n when signal n ended it.";

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Failure {
    /// Exit code.
    pub code: Code,
    /// The fault, and what to do about it.
    pub sentence: String,
}

/// Writes a line to standard error. If that fails (a pipe whose reader is gone), the command goes
/// on, and its exit code tells the result.
pub fn say(line: impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

impl Failure {
    /// With this exit code.
    pub fn new(code: Code, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into() }
    }

    /// A failed system call or the like, with the operation: "cannot {doing}: {error}".
    pub fn system(doing: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(Code::Internal, format!("cannot {doing}: {error}"))
    }

    /// Standard output or an output file failed.
    pub fn output(to: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(Code::Output, format!("cannot write to {to}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Code; 15] = [
        Code::Output,
        Code::Usage,
        Code::Unfiltered,
        Code::Interrupted,
        Code::Passphrase,
        Code::Header,
        Code::Configuration,
        Code::Rights,
        Code::InUse,
        Code::Unsupported,
        Code::NoInstance,
        Code::AlreadyRunning,
        Code::Internal,
        Code::NotExecutable,
        Code::NotFound,
    ];

    #[test]
    fn every_code_is_in_the_help() {
        for code in ALL {
            let line = format!("{:5}  ", code as u8);
            assert!(HELP.lines().any(|l| l.starts_with(&line)), "{code:?} is not in the help");
        }
    }
}

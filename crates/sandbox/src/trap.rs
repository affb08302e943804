//! The sentence about a system call that the filter refuses.
//!
//! The filter answers a call outside of its list with SIGSYS, and the call is not made. The handler
//! writes one sentence with the call's name to standard error, and ends the process. It runs within
//! a signal: it formats into an array, and makes two system calls that every role may make.

use std::fmt::{self, Write as _};
use std::sync::OnceLock;

use syscalls::Sysno;

use crate::error::SandboxError;
use crate::ffi;

/// The exit code of a process that made a call outside of its filter's list: 128 + SIGSYS.
pub const EXIT_CODE: i32 = 159;

/// The process's name in the sentence.
static NAME: OnceLock<String> = OnceLock::new();

/// From now on a refused call is reported, as one of `name`.
pub(crate) fn install(name: String) -> Result<(), SandboxError> {
    // The first name stays.
    let _ = NAME.set(name);
    ffi::on_refused_call(report).map_err(SandboxError::system("handle SIGSYS"))
}

fn report(number: i32) -> ! {
    let mut line = Line::default();
    let name = NAME.get().map_or("", String::as_str);
    // Writing into the array does not fail: what does not fit is left out.
    let _ = sentence(&mut line, name, number);
    // Standard error may be closed.
    let _ = rustix::io::write(rustix::stdio::stderr(), line.bytes());
    ffi::exit_now(EXIT_CODE)
}

fn sentence(into: &mut Line, process: &str, number: i32) -> fmt::Result {
    let call = usize::try_from(number).ok().and_then(Sysno::new).map_or("?", |call| call.name());
    writeln!(
        into,
        "tasuki: the process {process} made the system call {call} ({number}), which its sandbox \
         does not allow: it ends"
    )
}

/// Text in an array.
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Line {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 256], len: 0 }
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(process: &str, number: i32) -> String {
        let mut line = Line::default();
        sentence(&mut line, process, number).unwrap();
        String::from_utf8(line.bytes().to_vec()).unwrap()
    }

    #[test]
    fn the_sentence_names_the_call() {
        let number = Sysno::openat.id();
        let line = said("nic:tap", number);
        assert!(
            line.contains(&format!("nic:tap made the system call openat ({number})")),
            "{line}"
        );
        assert!(line.ends_with("it ends\n"));
        assert!(said("inet", 99_999).contains("call ? (99999)"));
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(said(&"x".repeat(1000), 1).len(), 256);
    }
}

//! Tries of what a sandbox leaves, for tests: system calls written as in strace.
//!
//! `openat(-100,"/etc/passwd",0)` makes this call and yields its result or error. A call without
//! parentheses has zeros as arguments.

use std::ffi::CString;
use std::fmt;
use std::str::FromStr;

use syscalls::Sysno;

use crate::ffi;

/// A system call with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    call: Sysno,
    arguments: Vec<Argument>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Argument {
    Number(i64),
    Text(CString),
}

impl Try {
    /// Makes the call. A child that it begins ends at once.
    ///
    /// # Errors
    /// The system's.
    pub fn make(&self) -> std::io::Result<usize> {
        let mut arguments = [0; 6];
        for (into, argument) in arguments.iter_mut().zip(&self.arguments) {
            *into = match argument {
                Argument::Number(number) => number.cast_unsigned() as usize,
                Argument::Text(text) => text.as_ptr() as usize,
            };
        }
        let begins = matches!(self.call, Sysno::clone | Sysno::clone3);
        match ffi::call(self.call.id(), arguments) {
            Ok(0) if begins => ffi::exit_now(0),
            done => Ok(done?),
        }
    }
}

impl FromStr for Try {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, arguments) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => {
                let inside = rest.strip_suffix(')');
                (name, inside.ok_or_else(|| format!("{text:?} lacks its closing parenthesis"))?)
            }
        };
        let call =
            Sysno::from_str(name).map_err(|_| format!("there is no system call {name:?}"))?;
        let arguments = arguments.split(',').map(str::trim).filter(|word| !word.is_empty());
        let arguments = arguments.map(str::parse).collect::<Result<Vec<_>, _>>()?;
        match arguments.len() {
            0..=6 => Ok(Self { call, arguments }),
            more => Err(format!("a system call has at most 6 arguments, {name} got {more}")),
        }
    }
}

impl FromStr for Argument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        if let Some(inside) = quoted {
            let inside = CString::new(inside).map_err(|error| error.to_string())?;
            return Ok(Self::Text(inside));
        }
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).map(u64::cast_signed),
            None => text.parse(),
        };
        number.map(Self::Number).map_err(|error| format!("{text:?} is no argument: {error}"))
    }
}

impl fmt::Display for Try {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.call.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read() {
        let read: Try = "openat(-100,\"/etc/passwd\",0x80000)".parse().unwrap();
        assert_eq!(read.call, Sysno::openat);
        assert_eq!(
            read.arguments,
            [
                Argument::Number(-100),
                Argument::Text(c"/etc/passwd".to_owned()),
                Argument::Number(0x80000)
            ]
        );
        assert_eq!("fork".parse::<Try>().unwrap().arguments, []);
        for wrong in ["frok", "kill(1", "kill(x)", "kill(1,2,3,4,5,6,7)"] {
            assert!(wrong.parse::<Try>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_call_is_made() {
        let pid = "getpid".parse::<Try>().unwrap().make().unwrap();
        assert_eq!(pid, std::process::id() as usize);
        let error = "close(-1)".parse::<Try>().unwrap().make().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}

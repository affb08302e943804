//! Programs that filter their own system calls, which are left to the relay.
//!
//! sshd's child that talks to a client before login is killed at a system call that OpenSSH does
//! not expect of it. The library makes such calls. So in these programs it stands aside, as long as
//! a relay answers their calls of socket(2): they never get a socket of the host's network.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};

use abi::control::INTRODUCTION;

use crate::errno;
use crate::real;

/// Names of executables. Since OpenSSH 9.8 sshd is three of them.
const PROGRAMS: [&[u8]; 3] = [b"sshd", b"sshd-session", b"sshd-auth"];

/// Is this process such a program, with a relay? Allocates nothing.
#[cold]
pub(crate) fn stands_aside() -> bool {
    // SAFETY: no pointers.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const c_char;
    if path.is_null() {
        return false;
    }
    // SAFETY: the kernel's vector names a C string, which stays for the process's life.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    is_one(path) && has_relay()
}

fn is_one(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next().is_some_and(|name| PROGRAMS.contains(&name))
}

/// Only a relay answers this call, with a connection to the instance, which is not used.
pub(crate) fn has_relay() -> bool {
    let (kind, protocol) = INTRODUCTION;
    let (kind, protocol) = (kind.cast_signed() | libc::SOCK_CLOEXEC, protocol.cast_signed());
    // SAFETY: no pointers.
    let fd: c_int = unsafe { real::socket(libc::AF_INET, kind, protocol) };
    let there = errno::check(fd).is_ok();
    if there {
        // SAFETY: made above, and known to no other code.
        unsafe { real::close(fd) };
    }
    there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_file() {
        for path in ["/usr/sbin/sshd", "sshd", "./sshd-session", "/usr/lib/openssh/sshd-auth"] {
            assert!(is_one(path.as_bytes()), "{path}");
        }
        for path in ["/usr/bin/ssh", "/sshd/", "/opt/sshd/bin/other", "", "sshd2"] {
            assert!(!is_one(path.as_bytes()), "{path}");
        }
        assert!(!has_relay(), "this test runs without one");
    }
}

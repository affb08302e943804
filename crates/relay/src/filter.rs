//! The filter of system calls that programs get, and the call that installs it.
//!
//! The filter decides by numbers in registers alone, which a program cannot change afterwards. All
//! processes that a program starts have it as well, and nobody can take it away.
//!
//! | call | verdict |
//! |---|---|
//! | socket(AF_INET or AF_INET6) | the relay answers |
//! | socket(AF_NETLINK) | the relay looks at it first |
//! | socket(AF_UNIX, AF_ALG) | made |
//! | socket of another family | EAFNOSUPPORT: it might reach the host's network |
//! | bind, listen | the relay looks at it first |
//! | setsockopt of SO_BINDTODEVICE, SO_BINDTOIFINDEX | EPERM: the instance chooses the interface |
//! | io_uring_setup | ENOSYS: its sockets would not be seen |
//! | a socket call of another calling convention (32 bits, x32) | ENOSYS |
//! | all others | made |

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::sock_filter;

/// The audit architecture of this build's system calls.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;
/// Numbers from here on are x32's, on x86-64.
const X32: u32 = 0x4000_0000;
/// Calls of 32-bit programs that make sockets: socketcall(2) and socket(2) of i386, socket(2) of
/// ARM.
const OTHER: [u32; 2] = if cfg!(target_arch = "x86_64") { [102, 359] } else { [281, 281] };
/// The same number for every processor.
const URING: u32 = libc::SYS_io_uring_setup as u32;
/// As on every processor.
const SO_BINDTOIFINDEX: u32 = 62;

/// Offsets in seccomp_data.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };
const SECOND_ARGUMENT: u32 = FIRST_ARGUMENT + 8;
const THIRD_ARGUMENT: u32 = FIRST_ARGUMENT + 16;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;

const fn errno(number: libc::c_int) -> u32 {
    libc::SECCOMP_RET_ERRNO | number.cast_unsigned()
}

const fn load(offset: u32) -> sock_filter {
    let code = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    sock_filter { code, jt: 0, jf: 0, k: offset }
}

/// Instruction `at`: goes to `target` if the loaded number is `value`, otherwise to the next one.
const fn equal(at: u8, value: u32, target: u8) -> sock_filter {
    jump(libc::BPF_JEQ, at, value, target)
}

const fn jump(how: u32, at: u8, value: u32, target: u8) -> sock_filter {
    let code = (libc::BPF_JMP | how | libc::BPF_K) as u16;
    sock_filter { code, jt: target - at - 1, jf: 0, k: value }
}

const fn answer(verdict: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: verdict }
}

/// The places of the last instructions.
const NATIVE: u8 = 7;
const FAMILY: u8 = 15;
const OPTION: u8 = 22;
const OPTION_NAME: u8 = 25;
const NOTIFIED: u8 = 29;
const NO_CALL: u8 = 30;
const ALLOWED: u8 = 31;
const LOOKED_AT: u8 = 32;
const NOT_PERMITTED: u8 = 33;
/// Instructions.
const LENGTH: usize = 34;

/// The program; see the module. Most calls are none of these, so they are allowed first.
const fn program(notified: u32, looked_at: u32) -> [sock_filter; LENGTH] {
    [
        load(ARCHITECTURE),
        equal(1, ARCH, NATIVE),
        load(NUMBER),
        equal(3, OTHER[0], NO_CALL),
        equal(4, OTHER[1], NO_CALL),
        equal(5, URING, NO_CALL),
        answer(ALLOW),
        load(NUMBER),
        jump(libc::BPF_JGE, 8, X32, NO_CALL),
        equal(9, libc::SYS_socket as u32, FAMILY),
        equal(10, libc::SYS_bind as u32, LOOKED_AT),
        equal(11, libc::SYS_listen as u32, LOOKED_AT),
        equal(12, URING, NO_CALL),
        equal(13, libc::SYS_setsockopt as u32, OPTION),
        answer(ALLOW),
        load(FIRST_ARGUMENT),
        equal(16, libc::AF_INET as u32, NOTIFIED),
        equal(17, libc::AF_INET6 as u32, NOTIFIED),
        equal(18, libc::AF_UNIX as u32, ALLOWED),
        equal(19, libc::AF_NETLINK as u32, LOOKED_AT),
        equal(20, libc::AF_ALG as u32, ALLOWED),
        answer(errno(libc::EAFNOSUPPORT)),
        load(SECOND_ARGUMENT),
        equal(23, libc::SOL_SOCKET as u32, OPTION_NAME),
        answer(ALLOW),
        load(THIRD_ARGUMENT),
        equal(26, libc::SO_BINDTODEVICE as u32, NOT_PERMITTED),
        equal(27, SO_BINDTOIFINDEX, NOT_PERMITTED),
        answer(ALLOW),
        answer(notified),
        answer(errno(libc::ENOSYS)),
        answer(ALLOW),
        answer(looked_at),
        answer(errno(libc::EPERM)),
    ]
}

static NOTIFYING: [sock_filter; LENGTH] = program(NOTIFY, NOTIFY);
static REFUSING: [sock_filter; LENGTH] = program(errno(libc::ENETDOWN), ALLOW);

/// Installs the filter in this thread, for good. Returns the relay's end.
///
/// Without the right to filter others (CAP_SYS_ADMIN in its user namespace) the thread first sets
/// `no_new_privs`: setuid programs then run without the rights of their owner.
///
/// Async-signal-safe: it may run between fork and exec.
///
/// # Errors
/// The system's: EBUSY when a filter with such an end is there already (`tasuki run` inside of
/// another); EINVAL where the kernel is older than 5.19.
pub fn install() -> io::Result<OwnedFd> {
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let listener = set(&NOTIFYING, flags)?;
    // SAFETY: the call made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// As [`install`], for an instance without a relay: a call that the relay would answer fails with
/// ENETDOWN.
///
/// # Errors
/// The system's.
pub fn install_refusing() -> io::Result<()> {
    set(&REFUSING, 0).map(drop)
}

fn set(program: &'static [sock_filter], flags: libc::c_ulong) -> io::Result<libc::c_int> {
    let program =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let set = || {
        // SAFETY: the kernel copies the program, which is a constant.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        }
    };
    let mut done = set();
    if done < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EACCES) {
        rustix::thread::set_no_new_privs(true)?;
        done = set();
    }
    crate::system::check(libc::c_int::try_from(done).unwrap_or(-1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict of a filter, as the kernel runs it.
    fn verdict(program: &[sock_filter], arch: u32, number: u32, arguments: [u32; 3]) -> u32 {
        const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        const LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
        let (mut at, mut loaded) = (0, 0);
        loop {
            let one = program[at];
            at += 1;
            let jumps = match u32::from(one.code) {
                LOAD => {
                    loaded = match one.k {
                        NUMBER => number,
                        ARCHITECTURE => arch,
                        FIRST_ARGUMENT => arguments[0],
                        SECOND_ARGUMENT => arguments[1],
                        THIRD_ARGUMENT => arguments[2],
                        other => panic!("loads {other}"),
                    };
                    continue;
                }
                EQUAL => loaded == one.k,
                LEAST => loaded >= one.k,
                _ => return one.k,
            };
            at += usize::from(if jumps { one.jt } else { one.jf });
        }
    }

    #[test]
    fn verdicts() {
        let ask = |number: libc::c_long, argument: libc::c_int| {
            let (number, arguments) = (number as u32, [argument.cast_unsigned(), 0, 0]);
            (
                verdict(&NOTIFYING, ARCH, number, arguments),
                verdict(&REFUSING, ARCH, number, arguments),
            )
        };
        let refused = errno(libc::ENETDOWN);
        for family in [libc::AF_INET, libc::AF_INET6] {
            assert_eq!(ask(libc::SYS_socket, family), (NOTIFY, refused));
        }
        assert_eq!(ask(libc::SYS_socket, libc::AF_NETLINK), (NOTIFY, ALLOW));
        for family in [libc::AF_UNIX, libc::AF_ALG] {
            assert_eq!(ask(libc::SYS_socket, family), (ALLOW, ALLOW));
        }
        let unknown = errno(libc::EAFNOSUPPORT);
        for family in [0, libc::AF_PACKET, libc::AF_XDP, libc::AF_VSOCK, 43, -1] {
            assert_eq!(ask(libc::SYS_socket, family), (unknown, unknown), "{family}");
        }
        for call in [libc::SYS_bind, libc::SYS_listen] {
            assert_eq!(ask(call, 3), (NOTIFY, ALLOW));
        }
        assert_eq!(ask(libc::SYS_io_uring_setup, 1).0, errno(libc::ENOSYS));
        for call in [libc::SYS_read, libc::SYS_connect, libc::SYS_execve, libc::SYS_accept4, 0] {
            assert_eq!(ask(call, libc::AF_INET), (ALLOW, ALLOW), "{call}");
        }
    }

    #[test]
    fn options_that_choose_an_interface() {
        let ask = |level: libc::c_int, name: u32| {
            let number = libc::SYS_setsockopt as u32;
            verdict(&NOTIFYING, ARCH, number, [3, level.cast_unsigned(), name])
        };
        for name in [libc::SO_BINDTODEVICE as u32, SO_BINDTOIFINDEX] {
            assert_eq!(ask(libc::SOL_SOCKET, name), errno(libc::EPERM));
            assert_eq!(ask(libc::SOL_TCP, name), ALLOW);
        }
        assert_eq!(ask(libc::SOL_SOCKET, libc::SO_REUSEADDR as u32), ALLOW);
    }

    #[test]
    fn calls_of_other_conventions() {
        let none = errno(libc::ENOSYS);
        let other = ARCH ^ 0x8000_0000;
        for number in OTHER.into_iter().chain([URING]) {
            assert_eq!(verdict(&NOTIFYING, other, number, [2, 0, 0]), none);
        }
        assert_eq!(verdict(&NOTIFYING, other, 3, [2, 0, 0]), ALLOW);
        let x32 = X32 + libc::SYS_socket as u32;
        assert_eq!(verdict(&NOTIFYING, ARCH, x32, [2, 0, 0]), none);
    }
}

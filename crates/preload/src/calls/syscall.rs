//! syscall(2): socket calls that a program makes through the C library's function of that name.
//!
//! They go on to the exported call of the same name, which says whether they concern Tasuki. All
//! other numbers go to the kernel at once. Each number has a verdict (`tests`). System calls
//! without the C library are not seen here ([`own_calls`](crate::own_calls)).

#![allow(unsafe_code)]

use core::ffi::{c_int, c_long, c_void};

use libc::{size_t, socklen_t};

use crate::{instance, real};

mod different;

/// An argument as the called function's type.
macro_rules! from {
    ($argument:expr, int) => {
        #[expect(clippy::cast_possible_truncation, reason = "the kernel reads an int")]
        {
            $argument as c_int
        }
    };
    ($argument:expr, unsigned) => {
        from!($argument, int).cast_unsigned()
    };
    ($argument:expr, length) => {
        $argument.cast_unsigned() as size_t
    };
    ($argument:expr, name_length) => {
        from!($argument, int).cast_unsigned() as socklen_t
    };
    ($argument:expr, pointer) => {
        ($argument as *mut c_void).cast()
    };
    ($argument:expr, request) => {
        $argument.cast_unsigned()
    };
}

/// Defines the exported calls that have a number: `$numbers`, and `$function`, which makes the call
/// that has the number.
macro_rules! dispatch {
    ($function:ident, $numbers:ident; $($id:ident => $call:ident($($kind:ident),*);)*) => {
        #[cfg(test)]
        const $numbers: &[c_long] = &[$(libc::$id),*];

        fn $function(number: c_long, arguments: [c_long; 6]) -> Option<c_long> {
            match number {
                $(libc::$id => {
                    let mut arguments = arguments.into_iter();
                    let mut next = || arguments.next().unwrap_or(0);
                    // SAFETY: the arguments are the program's, in the order of the system call,
                    // which is that of the C function.
                    Some(unsafe { libc::$call($(from!(next(), $kind)),*) } as c_long)
                })*
                _ => None,
            }
        }
    };
}

// Calls that only old architectures have.
#[cfg(target_arch = "x86_64")]
dispatch! { old, OLD;
    SYS_poll => poll(pointer, request, int);
    SYS_select => select(int, pointer, pointer, pointer, pointer);
    SYS_dup2 => dup2(int, int);
    SYS_epoll_create => epoll_create(int);
    SYS_epoll_wait => epoll_wait(int, pointer, int, int);
}

#[cfg(not(target_arch = "x86_64"))]
fn old(_: c_long, _: [c_long; 6]) -> Option<c_long> {
    None
}

dispatch! { same, SAME;
    SYS_read => read(int, pointer, length);
    SYS_write => write(int, pointer, length);
    SYS_readv => readv(int, pointer, int);
    SYS_writev => writev(int, pointer, int);
    SYS_sendto => sendto(int, pointer, length, int, pointer, name_length);
    SYS_recvfrom => recvfrom(int, pointer, length, int, pointer, pointer);
    SYS_sendmsg => sendmsg(int, pointer, int);
    SYS_recvmsg => recvmsg(int, pointer, int);
    SYS_sendmmsg => sendmmsg(int, pointer, unsigned, int);
    SYS_recvmmsg => recvmmsg(int, pointer, unsigned, int, pointer);
    SYS_socket => socket(int, int, int);
    SYS_connect => connect(int, pointer, name_length);
    SYS_bind => bind(int, pointer, name_length);
    SYS_listen => listen(int, int);
    SYS_accept => accept(int, pointer, pointer);
    SYS_accept4 => accept4(int, pointer, pointer, int);
    SYS_shutdown => shutdown(int, int);
    SYS_getsockname => getsockname(int, pointer, pointer);
    SYS_getpeername => getpeername(int, pointer, pointer);
    SYS_getsockopt => getsockopt(int, int, int, pointer, pointer);
    SYS_setsockopt => setsockopt(int, int, int, pointer, name_length);
    SYS_sendfile => sendfile(int, int, pointer, length);
    SYS_splice => splice(int, pointer, int, pointer, length, unsigned);
    SYS_close => close(int);
    SYS_close_range => close_range(unsigned, unsigned, int);
    SYS_dup => dup(int);
    SYS_dup3 => dup3(int, int, int);
    SYS_fcntl => fcntl(int, int, request);
    SYS_ioctl => ioctl(int, request, request);
    SYS_epoll_create1 => epoll_create1(int);
    SYS_epoll_ctl => epoll_ctl(int, int, int, pointer);
    SYS_execve => execve(pointer, pointer, pointer);
    SYS_unshare => unshare(int);
    SYS_setns => setns(int, int);
    SYS_mount => mount(pointer, pointer, pointer, request, pointer);
}

type Call = unsafe fn([c_long; 6]) -> Option<c_long>;

/// Calls whose arguments differ from those of the C function.
const DIFFERENT: &[(c_long, Call)] = &[
    (libc::SYS_ppoll, different::ppoll),
    (libc::SYS_pselect6, different::pselect6),
    (libc::SYS_epoll_pwait, different::epoll_pwait),
    (libc::SYS_epoll_pwait2, different::epoll_pwait2),
    (libc::SYS_preadv2, different::preadv2),
    (libc::SYS_pwritev2, different::pwritev2),
];

/// The result of a call that may concern Tasuki; `None` for all others.
fn exported(number: c_long, arguments: [c_long; 6]) -> Option<c_long> {
    old(number, arguments).or_else(|| same(number, arguments)).or_else(|| {
        let (_, call) = DIFFERENT.iter().find(|(other, _)| *other == number)?;
        // SAFETY: the arguments are the program's, in the order of the system call.
        unsafe { call(arguments) }
    })
}

// In C it is variadic; see calls/control.rs. The seventh argument is read whether there is one or
// not, as the C library's own function does.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if instance::is_wanted()
        && let Some(result) = exported(number, [a, b, c, d, e, f])
    {
        return result;
    }
    // SAFETY: passed on from the program.
    unsafe { real::syscall(number, a, b, c, d, e, f) }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

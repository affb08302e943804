//! syscall(2): socket calls that a program makes through the C library's function of that name.
//!
//! They go on to the exported call of the same name, which says whether they concern Tasuki. All
//! other numbers go to the kernel at once. System calls without the C library are not seen here.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_long, c_void};

use libc::{size_t, socklen_t};

use crate::{instance, real};

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

/// The exported call that has this number, made with the arguments.
macro_rules! dispatch {
    ($number:expr, $arguments:expr; $($id:ident => $call:ident($($kind:ident),*);)*) => {
        match $number {
            $(libc::$id => {
                let mut arguments = $arguments.into_iter();
                let mut next = || arguments.next().unwrap_or(0);
                // SAFETY: the arguments are the program's, in the order of the system call, which
                // is that of the C function.
                Some(unsafe { libc::$call($(from!(next(), $kind)),*) } as c_long)
            })*
            _ => None,
        }
    };
}

/// The result of a call that may concern Tasuki; `None` for all others.
fn exported(number: c_long, arguments: [c_long; 6]) -> Option<c_long> {
    #[cfg(target_arch = "x86_64")]
    let old = dispatch! { number, arguments;
        SYS_poll => poll(pointer, request, int);
        SYS_dup2 => dup2(int, int);
        SYS_epoll_wait => epoll_wait(int, pointer, int, int);
    };
    #[cfg(not(target_arch = "x86_64"))]
    let old = None;
    old.or_else(|| {
        dispatch! { number, arguments;
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
            SYS_dup => dup(int);
            SYS_dup3 => dup3(int, int, int);
            SYS_fcntl => fcntl(int, int, request);
            SYS_ioctl => ioctl(int, request, request);
            SYS_epoll_ctl => epoll_ctl(int, int, int, pointer);
            SYS_unshare => unshare(int);
            SYS_setns => setns(int, int);
            SYS_mount => mount(pointer, pointer, pointer, request, pointer);
        }
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

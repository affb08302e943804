//! Calls within which the C library reads, writes, binds or duplicates by calls of its own, which
//! no library sees.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use libc::{pid_t, sockaddr_in};
use rustix::io::Errno;

use super::msg::note_passed;
use crate::descriptors::{TABLE, is_socket, release};
use crate::errno::{self, Outcome};
use crate::interpose::{alias, interpose};
use crate::{instance, process, real};

/// Ports of bindresvport(3), as the C library chooses them.
const RESERVED: core::ops::Range<u16> = 512..1024;

/// bindresvport(3): binds to a port of root's, from one that differs by process on.
unsafe fn bind_reserved(fd: c_int, addr: *mut sockaddr_in) -> Outcome<c_int> {
    // SAFETY: a sockaddr_in is plain integers.
    let mut any: sockaddr_in = unsafe { core::mem::zeroed() };
    // SAFETY: the program says that it is null or points to an address.
    let addr = match unsafe { addr.as_mut() } {
        Some(addr) if c_int::from(addr.sin_family) != libc::AF_INET => {
            return Err(Errno::AFNOSUPPORT);
        }
        Some(addr) => addr,
        None => &mut any,
    };
    addr.sin_family = u16::try_from(libc::AF_INET).unwrap_or(0);
    let count = u32::from(RESERVED.end - RESERVED.start);
    let first = shm::fork::pid() % count;
    for at in 0..count {
        let offset = u16::try_from((first + at) % count).unwrap_or(0);
        addr.sin_port = (RESERVED.end - 1 - offset).to_be();
        let len = libc::socklen_t::try_from(size_of::<sockaddr_in>()).unwrap_or(0);
        // SAFETY: the pointer is to a live address of this length.
        let done = errno::check(unsafe { libc::bind(fd, (&raw const *addr).cast(), len) });
        if done != Err(Errno::ADDRINUSE) {
            return done;
        }
    }
    Err(Errno::ADDRINUSE)
}

/// backtrace_symbols_fd(3): a line for each place. What cannot be written is lost.
unsafe fn print_symbols(places: *const *mut c_void, count: c_int, fd: c_int) -> Outcome<()> {
    // SAFETY: the program says that so many places are there.
    let symbols = unsafe { backtrace_symbols(places, count) };
    if symbols.is_null() {
        return Err(errno::last());
    }
    // SAFETY: the C library has made so many strings.
    let all = unsafe { core::slice::from_raw_parts(symbols, usize::try_from(count).unwrap_or(0)) };
    for symbol in all {
        // SAFETY: as above.
        let symbol = unsafe { CStr::from_ptr(*symbol) };
        let line = [symbol.to_bytes(), b"\n"].concat();
        // SAFETY: the line has so many bytes.
        unsafe { libc::write(fd, line.as_ptr().cast(), line.len()) };
    }
    // SAFETY: the C library has made it for this.
    unsafe { libc::free(symbols.cast()) };
    Ok(())
}

unsafe extern "C" {
    fn backtrace_symbols(places: *const *mut c_void, count: c_int) -> *mut *mut c_char;
}

/// The whole of a value, or EIO, as the C library has it.
fn whole(moved: libc::ssize_t) -> Outcome<c_int> {
    match usize::try_from(moved) {
        Ok(len) if len == size_of::<u64>() => Ok(0),
        Ok(_) => Err(Errno::IO),
        Err(_) => Err(errno::last()),
    }
}

/// The C library has put other files under the standard numbers.
fn forget_standard() {
    (0..=2).for_each(|fd| release(TABLE.take(fd)));
}

/// Is a standard number a socket?
fn has_standard() -> bool {
    instance::is_wanted() && !process::in_vfork_child() && (0..=2).any(is_socket)
}

interpose! {
    fn bindresvport(fd: c_int, addr: *mut sockaddr_in) -> c_int {
        is_socket(fd) => bind_reserved(fd, addr)
    }
    fn backtrace_symbols_fd(places: *const *mut c_void, count: c_int, fd: c_int) -> () {
        is_socket(fd) => print_symbols(places, count, fd)
    }
    fn eventfd_read(fd: c_int, value: *mut u64) -> c_int {
        is_socket(fd) => whole(libc::read(fd, value.cast(), size_of::<u64>()))
    }
    fn eventfd_write(fd: c_int, value: u64) -> c_int {
        is_socket(fd) => whole(libc::write(fd, (&raw const value).cast(), size_of::<u64>()))
    }
    fn daemon(stay: c_int, keep_open: c_int) -> c_int {
        keep_open == 0 && has_standard() => {
            let done = errno::check(real::daemon(stay, keep_open))?;
            forget_standard();
            Ok(done)
        }
    }
    fn login_tty(fd: c_int) -> c_int {
        has_standard() => {
            let done = errno::check(real::login_tty(fd))?;
            forget_standard();
            Ok(done)
        }
    }
    fn forkpty(
        fd: *mut c_int, name: *mut c_char, terminal: *const libc::termios,
        size: *const libc::winsize,
    ) -> pid_t {
        has_standard() => {
            let child = errno::check(real::forkpty(fd, name, terminal, size))?;
            if child == 0 {
                forget_standard();
            }
            Ok(child)
        }
    }
    fn pidfd_getfd(process: c_int, fd: c_int, flags: c_uint) -> c_int {
        instance::is_wanted() => {
            let new = errno::check(real::pidfd_getfd(process, fd, flags))?;
            note_passed(new);
            Ok(new)
        }
    }
}

alias! {
    fn __backtrace_symbols_fd(places: *const *mut c_void, count: c_int, fd: c_int) -> ()
        = backtrace_symbols_fd;
}

//! Programs that make system calls of their own, past the C library.
//!
//! Runtimes of Zig and of some Rust libraries get sockets from the C library, and wait for them by
//! an instruction of their own. This library does not see such a call; the kernel would look at a
//! placeholder. So before a process gets its first socket, the code of its executable and of its
//! libraries is searched for system calls that wait, send or receive ([`code`]). If there are
//! any, the relay makes the sockets of this process: they are the kernel's, and every call on them
//! works.
//!
//! A library that is loaded later is searched before the next socket. Sockets that were made before
//! keep to this library; what a call past it finds there is told in `placeholder`.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use rustix::io::Errno;

use crate::self_filtering::has_relay;
use crate::{errno, instance, real};

#[cfg(any(test, target_arch = "aarch64"))]
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "its tests run everywhere"))]
mod aarch64;
mod loaded;
#[cfg(any(test, target_arch = "x86_64"))]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "its tests run everywhere"))]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as code;
#[cfg(target_arch = "x86_64")]
use x86_64 as code;

use loaded::Loaded;

/// Calls by which a program waits for sockets, sends or receives.
const ON_SOCKETS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
];

/// Folders of the system's libraries, which call the C library.
const SYSTEM: [&[u8]; 5] = [b"lib", b"lib64", b"x86_64-linux-gnu", b"aarch64-linux-gnu", b"libx32"];
/// Beginnings of the names of libraries that make system calls and are known: the C library, its
/// loader, the kernel's own, and those of compilers that look at the calls of a program.
const KNOWN: [&[u8]; 7] =
    [b"libc.so", b"ld-linux", b"linux-", b"libasan.", b"liblsan.", b"libtsan.", b"libubsan."];

/// Has the code calls that must be the kernel's? In the executable those count, too, whose number
/// is not known. Libraries have such for waits by futex(2).
fn calls(text: &[u8], is_executable: bool) -> bool {
    memchr::memmem::find_iter(text, &code::INSTRUCTION)
        .filter(|at| at.is_multiple_of(code::ALIGNMENT))
        .any(|at| match code::loaded(&text[..at]) {
            Some(Loaded::Number(number)) => ON_SOCKETS.contains(&number.into()),
            Some(Loaded::Unknown) => is_executable,
            None => false,
        })
}

/// Not known, or something was loaded since.
const UNKNOWN: u8 = 0;
/// A thread looks.
const LOOKING: u8 = 1;
/// All code calls the C library.
const NONE: u8 = 2;
/// The relay makes the sockets.
const RELAYED: u8 = 3;
/// There are such calls, and no relay.
const WITHOUT_RELAY: u8 = 4;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Where the code begins that was searched.
static SEARCHED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// A library may have been loaded.
pub(crate) fn note_loading() {
    for before in [NONE, LOOKING] {
        let _ = STATE.compare_exchange(before, UNKNOWN, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Is the next socket to be the relay's?
#[inline]
pub(crate) fn need_relay() -> bool {
    match STATE.load(Ordering::Acquire) {
        NONE | WITHOUT_RELAY => false,
        RELAYED => true,
        _ => look(),
    }
}

/// `tasuki-bench` waits for its sockets by libc alone, and measures this library. The system calls
/// in its code are for pipes and files.
fn is_measuring_program() -> bool {
    // SAFETY: no pointers.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const core::ffi::c_char;
    // SAFETY: the kernel's vector names a C string, which stays for the process's life.
    let name = (!path.is_null()).then(|| unsafe { core::ffi::CStr::from_ptr(path) }.to_bytes());
    name.is_some_and(|path| path.rsplit(|byte| *byte == b'/').next() == Some(b"tasuki-bench"))
}

/// A relay that lacks a namespace or device gives every socket this error. This library's sockets
/// are better than none: most of the program's calls may be the C library's.
fn relay_makes_sockets() -> bool {
    // SAFETY: no pointers.
    let fd = unsafe { real::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    match errno::check(fd) {
        Ok(fd) => {
            // SAFETY: made above, and known to no other code.
            unsafe { real::close(fd) };
            true
        }
        Err(error) => error != Errno::NETDOWN,
    }
}

#[cold]
fn look() -> bool {
    STATE.store(LOOKING, Ordering::Release);
    let found = match !is_measuring_program() && loaded_code_calls() {
        false => NONE,
        true if has_relay() && relay_makes_sockets() => RELAYED,
        true => WITHOUT_RELAY,
    };
    if found == WITHOUT_RELAY {
        instance::report(
            "tasuki: this program makes system calls of its own, which need --intercept auto or \
             seccomp and a relay: it may miss what happens on its sockets\n",
        );
    }
    if found == NONE {
        // A library that was loaded meanwhile is left to the next look.
        let _ = STATE.compare_exchange(LOOKING, found, Ordering::AcqRel, Ordering::Relaxed);
    } else {
        STATE.store(found, Ordering::Release);
    }
    found == RELAYED
}

/// A search through what is loaded.
struct Search {
    /// `None`: another thread searches, or did when this process was forked.
    searched: Option<MutexGuard<'static, Vec<usize>>>,
    is_executable: bool,
    found: bool,
}

fn loaded_code_calls() -> bool {
    let searched = match SEARCHED.try_lock() {
        Ok(searched) => Some(searched),
        Err(TryLockError::Poisoned(searched)) => Some(searched.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    let mut search = Search { searched, is_executable: true, found: false };
    // SAFETY: `one_object` gets the search back, which lives as long as the call.
    unsafe { libc::dl_iterate_phdr(Some(one_object), (&raw mut search).cast()) };
    search.found
}

/// Searches one object, the first of which is the executable. It stays loaded meanwhile.
unsafe extern "C" fn one_object(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the loader gives a valid object.
    let info = unsafe { &*info };
    // SAFETY: see `loaded_code_calls`.
    let search = unsafe { &mut *search.cast::<Search>() };
    let is_executable = core::mem::take(&mut search.is_executable);
    // SAFETY: the loader's names are strings.
    if !is_executable && (info.dlpi_name.is_null() || unsafe { is_known(info.dlpi_name) }) {
        return 0;
    }
    // SAFETY: the loader gives as many headers.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let code = libc::PF_R | libc::PF_X;
    for header in
        headers.iter().filter(|it| it.p_type == libc::PT_LOAD && it.p_flags & code == code)
    {
        // Addresses of this object, which wrap.
        let begin = info.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
        if is_own(begin, header.p_filesz as usize) || !search.is_new(begin) {
            continue;
        }
        // SAFETY: the loader has mapped the segment, readable, as its header says.
        let text =
            unsafe { core::slice::from_raw_parts(begin as *const u8, header.p_filesz as usize) };
        search.found |= calls(text, is_executable);
    }
    search.found.into()
}

impl Search {
    fn is_new(&mut self, begin: usize) -> bool {
        let Some(searched) = &mut self.searched else { return true };
        let is_new = !searched.contains(&begin);
        if is_new {
            searched.push(begin);
        }
        is_new
    }
}

/// Is this code of this library?
fn is_own(begin: usize, len: usize) -> bool {
    let here: fn() -> bool = need_relay;
    (begin..begin.saturating_add(len)).contains(&(here as usize))
}

/// # Safety
/// `name` is a string.
unsafe fn is_known(name: *const core::ffi::c_char) -> bool {
    // SAFETY: passed on from the caller.
    is_known_path(unsafe { CStr::from_ptr(name) }.to_bytes())
}

/// Is it a library that is not searched?
fn is_known_path(path: &[u8]) -> bool {
    let mut names = path.rsplit(|byte| *byte == b'/');
    let file = names.next().unwrap_or(path);
    let rest = &path[..path.len() - file.len()];
    let of_system = rest.starts_with(b"/lib") || rest.starts_with(b"/usr/lib");
    let folder = names.next().unwrap_or_default();
    file.is_empty()
        || KNOWN.iter().any(|known| file.starts_with(known))
        || (of_system && SYSTEM.contains(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call with this number, as a compiler has it.
    fn code(number: u32) -> Vec<u8> {
        if cfg!(target_arch = "x86_64") {
            [&[0x90, 0xb8][..], &number.to_le_bytes(), &code::INSTRUCTION, &[0xc3]].concat()
        } else {
            let load = 0xd280_0008 | number << 5;
            [&load.to_le_bytes()[..], &code::INSTRUCTION].concat()
        }
    }

    #[test]
    fn calls_on_sockets_count() {
        for number in ON_SOCKETS {
            let number = u32::try_from(*number).unwrap();
            assert!(calls(&code(number), false), "{number}");
        }
        for number in [libc::SYS_futex, libc::SYS_ioctl, libc::SYS_openat, libc::SYS_close] {
            let number = u32::try_from(number).unwrap();
            assert!(!calls(&code(number), true), "{number}");
        }
    }

    #[test]
    fn libraries_of_the_system_are_known() {
        for known in [
            "linux-vdso.so.1",
            "/lib64/ld-linux-x86-64.so.2",
            "/opt/glibc/lib/libc.so.6",
            "/lib/x86_64-linux-gnu/libm.so.6",
            "/usr/lib64/libz.so.1",
            "/opt/gcc/libasan.so.8",
        ] {
            assert!(is_known_path(known.as_bytes()), "{known}");
        }
        for other in [
            "/usr/lib/python3/dist-packages/x.so",
            "./x.so",
            "/usr/local/lib/libx.so",
            "/home/me/lib/libx.so",
            "x.so",
        ] {
            assert!(!is_known_path(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_program_without_such_calls() {
        assert!(!need_relay(), "the test calls the C library");
        note_loading();
        assert!(!need_relay());
    }
}

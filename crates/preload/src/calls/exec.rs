//! Other programs in this process's place, or beside it: sockets that are to survive become shared.
//!
//! A program that inherits a socket needs the library and the instance's name. Servers clear the
//! environment before they execute themselves anew. So where sockets are passed on, the two
//! variables are, too, unless the program has given them a value.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;

use crate::descriptors::{TABLE, is_socket};
use crate::errno::{self, Outcome};
use crate::handlers::outside;
use crate::interpose::interpose;
use crate::table::Kind;
use crate::variadic::{ArgumentList, variadic};
use crate::{instance, process, real, sharing};

static PRELOAD: &CStr = c"LD_PRELOAD";

/// Does a new program inherit this descriptor?
fn survives(fd: c_int) -> bool {
    // SAFETY: the command takes no argument.
    let flags = unsafe { real::fcntl(fd, libc::F_GETFD, 0) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// An environment for a new program: the program's strings, and those that are added.
struct Environment {
    all: Vec<*const c_char>,
    _added: Vec<CString>,
}

impl Environment {
    /// # Safety
    /// `given` is null or an array of strings that ends with null.
    unsafe fn new(given: *const *const c_char) -> Self {
        let mut all = Vec::new();
        let mut at = given;
        // SAFETY: the caller says that the array ends with null.
        while !at.is_null() && unsafe { !(*at).is_null() } {
            // SAFETY: as above.
            all.push(unsafe { *at });
            // SAFETY: the end was not reached.
            at = unsafe { at.add(1) };
        }
        let mut added = Vec::new();
        let library = own_path().map(|path| (PRELOAD.to_bytes(), path));
        let name = sockets::named_instance().map(|path| (sockets::ENV.as_bytes(), path));
        for (variable, value) in library.into_iter().chain(name) {
            // SAFETY: the caller says that these are strings.
            let mut strings = all.iter().map(|one| unsafe { CStr::from_ptr(*one) }.to_bytes());
            let is_it =
                |one: &[u8]| one.strip_prefix(variable).is_some_and(|v| v.starts_with(b"="));
            if !strings.any(is_it) {
                added.extend(CString::new([variable, b"=", &value.into_vec()].concat()));
            }
        }
        all.extend(added.iter().map(|one| one.as_ptr()));
        all.push(null());
        Self { all, _added: added }
    }
}

/// The path of this library.
fn own_path() -> Option<OsString> {
    // SAFETY: an all-zero Dl_info is a value of it; dladdr only writes to it.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: the address is one of this library's; `info` has room.
    let found = unsafe { libc::dladdr((&raw const PRELOAD).cast::<c_void>(), &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives a string, which lives as long as the library.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(OsString::from_vec(path.to_bytes().to_vec()))
}

/// A vfork child executes without the edge of a call: it does not return through it, and what the
/// edge notes of the thread would stay noted in the parent's memory.
fn is_ours() -> bool {
    instance::is_wanted() && !process::in_vfork_child()
}

/// Makes sockets shared that a new program inherits, and calls `exec` with its environment.
unsafe fn execute(
    given: *const *const c_char,
    exec: impl FnOnce(*const *const c_char) -> c_int,
) -> Outcome<c_int> {
    let passed_on = |&(fd, _): &(c_int, Kind)| is_socket(fd) && survives(fd);
    if !TABLE.range(0, u32::MAX).iter().any(passed_on) {
        return errno::check(outside(|| exec(given)));
    }
    sharing::share(survives);
    // SAFETY: passed on from the program.
    let environment = unsafe { Environment::new(given) };
    errno::check(outside(|| exec(environment.all.as_ptr())))
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

type Actions = libc::posix_spawn_file_actions_t;
type Attributes = libc::posix_spawnattr_t;

interpose! {
    fn execve(
        path: *const c_char, argv: *const *const c_char, envp: *const *const c_char,
    ) -> c_int {
        is_ours() => execute(envp, |envp| real::execve(path, argv, envp))
    }
    fn execv(path: *const c_char, argv: *const *const c_char) -> c_int {
        is_ours() => execute(environ, |envp| real::execve(path, argv, envp))
    }
    fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int {
        is_ours() => execute(environ, |envp| real::execvpe(file, argv, envp))
    }
    fn execvpe(
        file: *const c_char, argv: *const *const c_char, envp: *const *const c_char,
    ) -> c_int {
        is_ours() => execute(envp, |envp| real::execvpe(file, argv, envp))
    }
    fn fexecve(fd: c_int, argv: *const *const c_char, envp: *const *const c_char) -> c_int {
        is_ours() => execute(envp, |envp| real::fexecve(fd, argv, envp))
    }
    fn posix_spawn(
        pid: *mut libc::pid_t, path: *const c_char, actions: *const Actions,
        attributes: *const Attributes, argv: *const *mut c_char, envp: *const *mut c_char,
    ) -> c_int {
        instance::is_wanted() => {
            sharing::share(survives);
            Ok(outside(|| real::posix_spawn(pid, path, actions, attributes, argv, envp)))
        }
    }
    fn posix_spawnp(
        pid: *mut libc::pid_t, file: *const c_char, actions: *const Actions,
        attributes: *const Attributes, argv: *const *mut c_char, envp: *const *mut c_char,
    ) -> c_int {
        instance::is_wanted() => {
            sharing::share(survives);
            Ok(outside(|| real::posix_spawnp(pid, file, actions, attributes, argv, envp)))
        }
    }
    fn posix_spawn_file_actions_adddup2(actions: *mut Actions, fd: c_int, new: c_int) -> c_int {
        is_socket(fd) => {
            sharing::share(|wanted| wanted == fd);
            Ok(real::posix_spawn_file_actions_adddup2(actions, fd, new))
        }
    }
}

/// Arguments that [`with_arguments`] takes without memory of the heap: the vfork child that makes
/// the call would leave it to its parent.
const USUAL_ARGUMENTS: usize = 128;

/// Calls `exec` with the strings of a list, up to its null.
///
/// # Safety
/// The list's pointers are strings, and then null.
unsafe fn with_arguments(
    list: &mut ArgumentList,
    exec: impl FnOnce(&mut ArgumentList, *const *const c_char) -> c_int,
) -> c_int {
    let mut usual = [null::<c_char>(); USUAL_ARGUMENTS];
    for at in 0..USUAL_ARGUMENTS {
        // SAFETY: the end was not reached.
        usual[at] = unsafe { list.next() };
        if usual[at].is_null() {
            return exec(list, usual.as_ptr());
        }
    }
    let mut all = usual.to_vec();
    loop {
        // SAFETY: as above.
        let next = unsafe { list.next() };
        all.push(next);
        if next.is_null() {
            return exec(list, all.as_ptr());
        }
    }
}

unsafe extern "C-unwind" fn execute_list(path: *const c_char, list: *mut ArgumentList) -> c_int {
    // SAFETY: the list is that of the program's arguments.
    let list = unsafe { &mut *list };
    // SAFETY: passed on from the program.
    let exec = |_: &mut ArgumentList, argv| unsafe { execv(path, argv) };
    // SAFETY: the program says that its arguments end with null.
    unsafe { with_arguments(list, exec) }
}

unsafe extern "C-unwind" fn execute_found(file: *const c_char, list: *mut ArgumentList) -> c_int {
    // SAFETY: as in `execute_list`.
    let list = unsafe { &mut *list };
    // SAFETY: passed on from the program.
    let exec = |_: &mut ArgumentList, argv| unsafe { execvp(file, argv) };
    // SAFETY: as in `execute_list`.
    unsafe { with_arguments(list, exec) }
}

unsafe extern "C-unwind" fn execute_with(path: *const c_char, list: *mut ArgumentList) -> c_int {
    // SAFETY: as in `execute_list`.
    let list = unsafe { &mut *list };
    let exec = |list: &mut ArgumentList, argv| {
        // SAFETY: the program says that its environment comes behind the null.
        let environment = unsafe { list.next() };
        // SAFETY: passed on from the program.
        unsafe { execve(path, argv, environment) }
    };
    // SAFETY: as in `execute_list`.
    unsafe { with_arguments(list, exec) }
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn execl(path: *const c_char) -> c_int {
    variadic!(execute_list, "8", "rsi")
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn execlp(file: *const c_char) -> c_int {
    variadic!(execute_found, "8", "rsi")
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn execle(path: *const c_char) -> c_int {
    variadic!(execute_with, "8", "rsi")
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn execl(path: *const c_char) -> c_int {
    variadic!(execute_list, "8", "x1")
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn execlp(file: *const c_char) -> c_int {
    variadic!(execute_found, "8", "x1")
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn execle(path: *const c_char) -> c_int {
    variadic!(execute_with, "8", "x1")
}

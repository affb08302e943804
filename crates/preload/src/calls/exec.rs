//! Other programs in this process's place, or beside it: sockets that are to survive become shared.
//!
//! A program that inherits a socket needs the library and the instance's name. Servers clear the
//! environment before they execute themselves anew. So where sockets are passed on, the two
//! variables are, too, unless the program has given them a value.
//!
//! A child of `vfork` decides only there which of its descriptors survive: it lifts close-on-exec,
//! closes and duplicates by calls that change its own descriptors. So its sockets become shared at
//! the very `exec`, each by a pair that is for the new program alone (`sharing::share_in_child`).
//! The memory is its parent's: it leaves nothing allocated there.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use libc::FILE;

use crate::descriptors::{TABLE, is_socket};
use crate::edge::Return;
use crate::errno::{self, Outcome};
use crate::handlers::{Within, outside};
use crate::interpose::{interpose, trace};
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

/// A variable with its value, `NAME=value`.
struct Variable {
    text: CString,
    /// Bytes up to the sign.
    name: usize,
}

/// The variables that a program needs to use the sockets which it inherits.
fn variables() -> &'static [Variable] {
    static ALL: OnceLock<Vec<Variable>> = OnceLock::new();
    ALL.get_or_init(|| {
        let library = own_path().map(|path| (PRELOAD.to_bytes(), path));
        let name = sockets::named_instance().map(|path| (sockets::ENV.as_bytes(), path));
        let all = library.into_iter().chain(name).filter_map(|(variable, value)| {
            let text = CString::new([variable, b"=", &value.into_vec()].concat()).ok()?;
            Some(Variable { text, name: variable.len() + 1 })
        });
        all.collect()
    })
}

/// The strings of an environment.
///
/// # Safety
/// `given` is null or an array of strings that ends with null, as long as the iterator lives.
unsafe fn strings<'a>(given: *const *const c_char) -> impl Iterator<Item = &'a CStr> {
    let mut at = given;
    core::iter::from_fn(move || {
        // SAFETY: the caller says that the array ends with null; its end was not reached.
        let string = unsafe { at.as_ref().filter(|string| !string.is_null()) }?;
        // SAFETY: as above.
        at = unsafe { at.add(1) };
        // SAFETY: the caller says that these are strings.
        Some(unsafe { CStr::from_ptr(*string) })
    })
}

/// The [`variables`] that an environment lacks.
///
/// # Safety
/// As [`strings`].
unsafe fn lacking(given: *const *const c_char) -> impl Iterator<Item = *const c_char> {
    let lacks = move |variable: &&Variable| {
        let name = variable.text.to_bytes().get(..variable.name).unwrap_or_default();
        // SAFETY: passed on from the caller.
        !unsafe { strings(given) }.any(|one| one.to_bytes().starts_with(name))
    };
    variables().iter().filter(lacks).map(|variable| variable.text.as_ptr())
}

/// The environment of a new program that inherits sockets: the program's strings, and those that
/// are added.
///
/// # Safety
/// As [`strings`].
unsafe fn environment(given: *const *const c_char) -> Vec<*const c_char> {
    // SAFETY: passed on from the caller.
    let all = unsafe { strings(given) }.map(CStr::as_ptr);
    // SAFETY: as above.
    all.chain(unsafe { lacking(given) }).chain([null()]).collect()
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
    if !passes_on() {
        return errno::check(outside(|| exec(given)));
    }
    sharing::share(survives);
    // SAFETY: passed on from the program.
    let environment = unsafe { environment(given) };
    errno::check(outside(|| exec(environment.as_ptr())))
}

/// Does a new program inherit a socket?
fn passes_on() -> bool {
    let passed_on = |&(fd, _): &(c_int, Kind)| is_socket(fd) && survives(fd);
    TABLE.range(0, u32::MAX).iter().any(passed_on)
}

/// Strings of an environment that [`execute_in_child`] extends without memory of the heap: the
/// child would leave it to its parent. With more strings nothing is added.
const USUAL_STRINGS: usize = 512;

/// [`execute`] in a child of `vfork`.
unsafe fn execute_in_child(
    given: *const *const c_char,
    exec: impl FnOnce(*const *const c_char) -> c_int,
) -> c_int {
    let within = Within::new();
    let share = || sharing::share_survivors_in_child(survives);
    let passes_on = catch_unwind(AssertUnwindSafe(share)).unwrap_or(false);
    drop(within);
    // SAFETY: passed on from the program.
    if !passes_on || unsafe { lacking(given) }.next().is_none() {
        return exec(given);
    }
    // SAFETY: as above.
    unsafe { execute_extended(given, exec) }
}

/// Calls `exec` with an environment that has what the given one lacks.
#[inline(never)]
unsafe fn execute_extended(
    given: *const *const c_char,
    exec: impl FnOnce(*const *const c_char) -> c_int,
) -> c_int {
    let mut all = [null::<c_char>(); USUAL_STRINGS + 1];
    // SAFETY: passed on from the program.
    let strings = unsafe { strings(given) }.map(CStr::as_ptr);
    // SAFETY: as above.
    let mut strings = strings.chain(unsafe { lacking(given) });
    all.iter_mut().take(USUAL_STRINGS).zip(&mut strings).for_each(|(to, from)| *to = from);
    let extended = if strings.next().is_none() { all.as_ptr() } else { given };
    exec(extended)
}

/// Exported calls that execute a program: `fn name(arguments) { environment => real call }`.
macro_rules! executes {
    ($(
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) { $given:expr => |$with:ident| $exec:expr }
    )*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> c_int {
            // SAFETY: the C library's variable, or an argument.
            #[allow(unused_unsafe, reason = "arguments are not unsafe to read")]
            let given: *const *const c_char = unsafe { $given };
            // SAFETY: passed on from the program.
            let exec = |$with: *const *const c_char| unsafe { $exec };
            if is_ours() {
                trace!($name($($arg),*));
                // SAFETY: passed on from the program.
                return Return::of(move || unsafe { execute(given, exec) });
            }
            if instance::is_wanted() {
                // SAFETY: passed on from the program.
                return unsafe { execute_in_child(given, exec) };
            }
            // SAFETY: passed on from the program.
            unsafe { real::$name($($arg),*) }
        }
    )*};
}

/// [`execute`] for calls that begin another process. `actions`: it duplicates descriptors itself.
unsafe fn spawn(
    given: *const *mut c_char,
    actions: *const Actions,
    spawn: impl FnOnce(*const *mut c_char) -> c_int,
) -> Outcome<c_int> {
    sharing::share(survives);
    let by_action = !actions.is_null() && sharing::has_passed_on();
    if !by_action && !passes_on() {
        return Ok(outside(|| spawn(given)));
    }
    // SAFETY: passed on from the program.
    let environment = unsafe { environment(given.cast()) };
    Ok(outside(|| spawn(environment.as_ptr().cast())))
}

/// Makes sockets shared that a process which the C library begins inherits. False: the call is the
/// C library's.
fn pass_on() -> bool {
    if is_ours() {
        let _within = Within::new();
        let _ = catch_unwind(|| sharing::share(survives));
    }
    false
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

type Actions = libc::posix_spawn_file_actions_t;
type Attributes = libc::posix_spawnattr_t;

executes! {
    fn execve(path: *const c_char, argv: *const *const c_char, envp: *const *const c_char) {
        envp => |envp| real::execve(path, argv, envp)
    }
    fn execv(path: *const c_char, argv: *const *const c_char) {
        environ => |envp| real::execve(path, argv, envp)
    }
    fn execvp(file: *const c_char, argv: *const *const c_char) {
        environ => |envp| real::execvpe(file, argv, envp)
    }
    fn execvpe(file: *const c_char, argv: *const *const c_char, envp: *const *const c_char) {
        envp => |envp| real::execvpe(file, argv, envp)
    }
    fn fexecve(fd: c_int, argv: *const *const c_char, envp: *const *const c_char) {
        envp => |envp| real::fexecve(fd, argv, envp)
    }
    fn execveat(
        folder: c_int, path: *const c_char, argv: *const *const c_char,
        envp: *const *const c_char, flags: c_int,
    ) {
        envp => |envp| real::execveat(folder, path, argv, envp, flags)
    }
}

interpose! {
    fn posix_spawn(
        pid: *mut libc::pid_t, path: *const c_char, actions: *const Actions,
        attributes: *const Attributes, argv: *const *mut c_char, envp: *const *mut c_char,
    ) -> c_int {
        instance::is_wanted() => spawn(envp, actions, |envp| {
            real::posix_spawn(pid, path, actions, attributes, argv, envp)
        })
    }
    fn posix_spawnp(
        pid: *mut libc::pid_t, file: *const c_char, actions: *const Actions,
        attributes: *const Attributes, argv: *const *mut c_char, envp: *const *mut c_char,
    ) -> c_int {
        instance::is_wanted() => spawn(envp, actions, |envp| {
            real::posix_spawnp(pid, file, actions, attributes, argv, envp)
        })
    }
    fn posix_spawn_file_actions_adddup2(actions: *mut Actions, fd: c_int, new: c_int) -> c_int {
        is_socket(fd) => {
            sharing::share_passed_on(fd);
            Ok(real::posix_spawn_file_actions_adddup2(actions, fd, new))
        }
    }
    fn system(command: *const c_char) -> c_int {
        pass_on() => Ok(real::system(command))
    }
    fn popen(command: *const c_char, kind: *const c_char) -> *mut FILE {
        pass_on() => Ok(real::popen(command, kind))
    }
    fn wordexp(words: *const c_char, place: *mut c_void, flags: c_int) -> c_int {
        pass_on() => Ok(real::wordexp(words, place, flags))
    }
}

/// The name that programs built long ago use.
#[allow(non_snake_case, reason = "the C library's name")]
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn _IO_popen(command: *const c_char, kind: *const c_char) -> *mut FILE {
    // SAFETY: passed on from the program.
    unsafe { popen(command, kind) }
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

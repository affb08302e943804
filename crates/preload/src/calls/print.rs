//! dprintf and its relatives: the C library writes for them without a call that is seen.
//!
//! In C these are variadic, and Rust has no way to write such a function. So a few instructions
//! make a `va_list` of the registers, as each architecture's calling convention has it.

#![allow(unsafe_code)]

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

use crate::descriptors::is_socket;
use crate::errno::{self, Outcome};
use crate::interpose::interpose;

unsafe extern "C" {
    fn vasprintf(place: *mut *mut c_char, format: *const c_char, list: *mut c_void) -> c_int;
    fn __vasprintf_chk(
        place: *mut *mut c_char,
        flag: c_int,
        format: *const c_char,
        list: *mut c_void,
    ) -> c_int;
}

/// Formats with `print`, and writes all of it. As the C library does, what it could not write is an
/// error.
fn print(fd: c_int, print: impl FnOnce(*mut *mut c_char) -> c_int) -> Outcome<c_int> {
    let mut text = null_mut();
    let len = errno::check(print(&raw mut text))?;
    let whole = usize::try_from(len).unwrap_or(0);
    let (mut done, mut outcome) = (0, Ok(len));
    while done < whole {
        let rest = text.wrapping_add(done);
        // SAFETY: the C library has made so many bytes.
        let now = unsafe { libc::write(fd, rest.cast(), whole - done) };
        match usize::try_from(now) {
            Ok(now @ 1..) => done += now,
            _ => {
                outcome = Err(errno::last());
                break;
            }
        }
    }
    // SAFETY: the C library has made it for this.
    unsafe { libc::free(text.cast()) };
    outcome
}

interpose! {
    fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int {
        is_socket(fd) => print(fd, |place| vasprintf(place, format, list))
    }
    fn __vdprintf_chk(
        fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void,
    ) -> c_int {
        is_socket(fd) => print(fd, |place| __vasprintf_chk(place, flag, format, list))
    }
}

unsafe extern "C-unwind" fn print_list(
    fd: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    // SAFETY: passed on from the program.
    unsafe { vdprintf(fd, format, list) }
}

unsafe extern "C-unwind" fn print_list_checked(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    // SAFETY: passed on from the program.
    unsafe { __vdprintf_chk(fd, flag, format, list) }
}

/// Calls a function with the `va_list` of a variadic function's arguments, in place of them.
/// `$named` bytes of the general registers hold named arguments; `$list` is the register behind.
#[cfg(target_arch = "x86_64")]
macro_rules! variadic {
    ($target:ident, $named:literal, $list:literal) => {
        // 0: the va_list; 32: six general and eight vector registers; 216: the return address.
        naked_asm!(
            "sub rsp, 216",
            "mov [rsp + 32], rdi",
            "mov [rsp + 40], rsi",
            "mov [rsp + 48], rdx",
            "mov [rsp + 56], rcx",
            "mov [rsp + 64], r8",
            "mov [rsp + 72], r9",
            "test al, al",
            "je 2f",
            "movaps [rsp + 80], xmm0",
            "movaps [rsp + 96], xmm1",
            "movaps [rsp + 112], xmm2",
            "movaps [rsp + 128], xmm3",
            "movaps [rsp + 144], xmm4",
            "movaps [rsp + 160], xmm5",
            "movaps [rsp + 176], xmm6",
            "movaps [rsp + 192], xmm7",
            "2:",
            concat!("mov dword ptr [rsp], ", $named),
            "mov dword ptr [rsp + 4], 48",
            "lea rax, [rsp + 224]",
            "mov [rsp + 8], rax",
            "lea rax, [rsp + 32]",
            "mov [rsp + 16], rax",
            concat!("mov ", $list, ", rsp"),
            "call {target}",
            "add rsp, 216",
            "ret",
            target = sym $target,
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! variadic {
    ($target:ident, $named:literal, $list:literal) => {
        // 16: the va_list; 48: general registers; 112: vector registers; 240: the stack.
        naked_asm!(
            "stp x29, x30, [sp, -240]!",
            "mov x29, sp",
            "stp x0, x1, [sp, 48]",
            "stp x2, x3, [sp, 64]",
            "stp x4, x5, [sp, 80]",
            "stp x6, x7, [sp, 96]",
            "stp q0, q1, [sp, 112]",
            "stp q2, q3, [sp, 144]",
            "stp q4, q5, [sp, 176]",
            "stp q6, q7, [sp, 208]",
            "add x9, sp, 240",
            "str x9, [sp, 16]",
            "add x10, sp, 112",
            "str x10, [sp, 24]",
            "str x9, [sp, 32]",
            concat!("mov w9, ", $named, " - 64"),
            "str w9, [sp, 40]",
            "mov w9, -128",
            "str w9, [sp, 44]",
            concat!("add ", $list, ", sp, 16"),
            "bl {target}",
            "ldp x29, x30, [sp], 240",
            "ret",
            target = sym $target,
        )
    };
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    variadic!(print_list, "16", "rdx")
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char) -> c_int {
    variadic!(print_list_checked, "24", "rcx")
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    variadic!(print_list, "16", "x2")
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char) -> c_int {
    variadic!(print_list_checked, "24", "x3")
}

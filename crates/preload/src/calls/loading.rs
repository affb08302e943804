//! dlopen: libraries that a program loads may make system calls of their own ([`own_calls`]).
//!
//! The C library searches libraries as the caller's file says, and knows the caller by the address
//! that it returns to. So the exported call jumps to the C library's, with its arguments and this
//! address as they were.

#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};

use crate::{own_calls, real};

/// Returns the address of the C library's function.
extern "C" fn before() -> *mut c_void {
    own_calls::note_loading();
    real::dlopen()
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        before = sym before,
    )
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "bl {before}",
        "mov x16, x0",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "br x16",
        before = sym before,
    )
}

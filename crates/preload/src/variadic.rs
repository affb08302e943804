//! Variadic functions, which Rust has no way to write: a few instructions make a `va_list` of the
//! registers, as each architecture's calling convention has it.

#![allow(unsafe_code)]

use core::ffi::c_void;

/// Calls a function with the `va_list` of a variadic function's arguments, in place of them.
/// `$named` bytes of the general registers hold named arguments; `$list` is the register behind.
#[cfg(target_arch = "x86_64")]
macro_rules! variadic {
    ($target:ident, $named:literal, $list:literal) => {
        // 0: the va_list; 32: six general and eight vector registers; 216: the return address.
        core::arch::naked_asm!(
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
        core::arch::naked_asm!(
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

pub(crate) use variadic;

/// A `va_list`. `general` says where the next argument is among the saved registers.
#[repr(C)]
pub(crate) struct ArgumentList {
    /// From their begin, bytes. From 48 on it is in none.
    #[cfg(target_arch = "x86_64")]
    general: u32,
    #[cfg(target_arch = "x86_64")]
    vector: u32,
    #[cfg(target_arch = "x86_64")]
    overflow: *const *const c_void,
    #[cfg(target_arch = "x86_64")]
    saved: *const u8,
    #[cfg(target_arch = "aarch64")]
    stack: *const *const c_void,
    #[cfg(target_arch = "aarch64")]
    general_end: *const u8,
    #[cfg(target_arch = "aarch64")]
    vector_end: *const u8,
    /// From their end, bytes below 0. From 0 on it is in none.
    #[cfg(target_arch = "aarch64")]
    general: i32,
    #[cfg(target_arch = "aarch64")]
    vector: i32,
}

impl ArgumentList {
    /// The next argument, a pointer.
    ///
    /// # Safety
    /// There is one.
    #[cfg(target_arch = "x86_64")]
    pub(crate) unsafe fn next<T>(&mut self) -> *const T {
        let place = if self.general < 48 {
            let place = self.saved.wrapping_add(self.general as usize).cast();
            self.general += 8;
            place
        } else {
            let place = self.overflow;
            self.overflow = place.wrapping_add(1);
            place
        };
        // SAFETY: the caller says that there is one; it lies there.
        unsafe { *place }.cast()
    }

    /// The next argument, a pointer.
    ///
    /// # Safety
    /// There is one.
    #[cfg(target_arch = "aarch64")]
    pub(crate) unsafe fn next<T>(&mut self) -> *const T {
        let place = if self.general < 0 {
            let place = self.general_end.wrapping_offset(self.general as isize).cast();
            self.general += 8;
            place
        } else {
            let place = self.stack;
            self.stack = place.wrapping_add(1);
            place
        };
        // SAFETY: the caller says that there is one; it lies there.
        unsafe { *place }.cast()
    }
}

//! System calls in code of x86-64: `syscall` behind instructions that load its number.
//!
//! Code of x86-64 can be read from an instruction's begin only, and large programs have the two
//! bytes of `syscall` in numbers and distances. So a place counts only if a run of simple
//! instructions leads to it, of which the first loads RAX.

use super::loaded::Loaded;

/// `syscall`.
pub(super) const INSTRUCTION: [u8; 2] = [0x0f, 0x05];
/// A call can begin at any byte.
pub(super) const ALIGNMENT: usize = 1;
/// Bytes before a call in which the number is loaded.
const REACH: usize = 48;

/// Decodes one simple instruction: its length, and the number if it loads RAX.
fn decode(code: &[u8]) -> Option<(usize, Option<Loaded>)> {
    let rex = code.first().copied().filter(|byte| byte & 0xf0 == 0x40);
    let prefix = usize::from(rex.is_some());
    let rex = rex.unwrap_or(0);
    let (wide, reg_high, rm_high) = (rex & 8 != 0, rex & 4 != 0, rex & 1 != 0);
    let code = code.get(prefix..)?;
    let into = |is_rax: bool| is_rax.then_some(Loaded::Unknown);
    let (len, loaded) = match *code.first()? {
        // mov to a register, from a number in the instruction.
        opcode @ 0xb8..=0xbf => {
            let len = if wide { 9 } else { 5 };
            let is_rax = opcode == 0xb8 && !rm_high;
            (len, number(code, 1)?.filter(|_| is_rax))
        }
        0xc7 => {
            let modrm = *code.get(1)?;
            let is_rax = modrm == 0xc0 && !rm_high;
            let len = 1 + operands(code)?;
            (len + 4, number(code, len)?.filter(|_| is_rax))
        }
        // xor and sub of a register with itself are zero.
        0x31 | 0x33 | 0x29 | 0x2b if code.get(1) == Some(&0xc0) && !reg_high && !rm_high => {
            (2, Some(Loaded::Number(0)))
        }
        // mov, movsxd to a register.
        0x63 | 0x8b => {
            let is_rax = code.get(1)? & 0x38 == 0 && !reg_high;
            (1 + operands(code)?, into(is_rax))
        }
        // mov from a register.
        0x89 => {
            let is_rax = code.get(1)? & 0xc7 == 0xc0 && !rm_high;
            (1 + operands(code)?, into(is_rax))
        }
        // add, or, and, sub, xor, cmp, test; mov of a byte; lea.
        0x01 | 0x03 | 0x09 | 0x0b | 0x21 | 0x23 | 0x29 | 0x2b | 0x31 | 0x33 | 0x39 | 0x3b
        | 0x85 | 0x88 | 0x8d => (1 + operands(code)?, None),
        // With a number in the instruction: add and the like, shifts, mov of a byte.
        0x83 | 0xc1 | 0xc6 => (2 + operands(code)?, None),
        0x81 => (5 + operands(code)?, None),
        // push and pop.
        0x50..=0x5f => (1, None),
        // movzx, movsx, cmov.
        0x0f if matches!(code.get(1)?, 0xb6 | 0xb7 | 0xbe | 0xbf | 0x40..=0x4f) => {
            (2 + operands(&code[1..])?, None)
        }
        _ => return None,
    };
    Some((prefix + len, loaded))
}

fn number(code: &[u8], at: usize) -> Option<Option<Loaded>> {
    let bytes = code.get(at..at + 4)?.first_chunk()?;
    Some(Some(Loaded::Number(u32::from_le_bytes(*bytes))))
}

/// Bytes of an instruction's operands behind its opcode: ModRM, SIB, the distance.
fn operands(code: &[u8]) -> Option<usize> {
    let modrm = *code.get(1)?;
    let (mode, rm) = (modrm >> 6, modrm & 7);
    let with_sib = mode != 3 && rm == 4;
    let no_base = with_sib && mode == 0 && code.get(2)? & 7 == 5;
    let distance = match (mode, rm) {
        (1, _) => 1,
        (2, _) | (0, 5) => 4,
        _ if no_base => 4,
        _ => 0,
    };
    Some(1 + usize::from(with_sib) + distance)
}

/// The number that the call behind `before` has. `None`: no code leads there.
pub(super) fn loaded(before: &[u8]) -> Option<Loaded> {
    // The longest run: one that begins inside of an instruction may have lost a prefix.
    let first = before.len().saturating_sub(REACH);
    (first..before.len()).find_map(|at| run(&before[at..]))
}

/// What `code` has loaded at its end, if it is a run of simple instructions and begins by loading.
fn run(code: &[u8]) -> Option<Loaded> {
    let (len, first) = decode(code)?;
    let mut last = first?;
    let mut at = len;
    while at < code.len() {
        let (len, next) = decode(&code[at..])?;
        last = next.unwrap_or(last);
        at += len;
    }
    (at == code.len()).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(before: &[u8]) -> Option<Loaded> {
        loaded(&[&[0xcc; 60], before].concat())
    }

    #[test]
    fn numbers_in_front_of_a_call() {
        let number = |number| Some(Loaded::Number(number));
        // mov $281,%eax; mov %rcx,%r10; xor %r8d,%r8d
        let wait = [0xb8, 0x19, 1, 0, 0, 0x49, 0x89, 0xca, 0x45, 0x31, 0xc0];
        assert_eq!(known(&wait), number(281));
        // mov $400h,%edx; xor %eax,%eax; mov %r15,%rdi
        let read = [0xba, 0, 4, 0, 0, 0x31, 0xc0, 0x4c, 0x89, 0xff];
        assert_eq!(known(&read), number(0));
        // mov $1,%rax, as assemblers have it; mov 16(%rsp),%rsi; movzwl %dx,%edi
        let write = [0x48, 0xc7, 0xc0, 1, 0, 0, 0, 0x48, 0x8b, 0x74, 0x24, 16, 0x0f, 0xb7, 0xfa];
        assert_eq!(known(&write), number(1));
    }

    #[test]
    fn numbers_out_of_registers_and_memory() {
        // mov 40(%rsp),%rax
        assert_eq!(known(&[0x48, 0x8b, 0x44, 0x24, 0x28]), Some(Loaded::Unknown));
        // mov -40(%rbp),%rax; mov -48(%rbp),%rdi
        let stack = [0x48, 0x8b, 0x45, 0xd8, 0x48, 0x8b, 0x7d, 0xd0];
        assert_eq!(known(&stack), Some(Loaded::Unknown));
        // mov %rdi,%rax; mov %rsi,%rdi
        assert_eq!(known(&[0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7]), Some(Loaded::Unknown));
        // A number before, which is replaced.
        let replaced = [0xb8, 1, 0, 0, 0, 0x48, 0x89, 0xf8];
        assert_eq!(known(&replaced), Some(Loaded::Unknown));
    }

    #[test]
    fn bytes_that_are_no_call() {
        // lea -2(%rip),%rdi, call, test: the call's distance has the bytes.
        assert_eq!(known(&[0x48, 0x8d, 0x3d, 0x7c, 0xfe, 0x0c, 1, 0xe8]), None);
        // mov (%rip),%rax, of which they are the distance.
        assert_eq!(known(&[0x48, 0x8b, 0x05]), None);
        assert_eq!(known(&[0xb8]), None);
        // RAX has the result of a call.
        assert_eq!(known(&[0xe8, 1, 2, 3, 4, 0x48, 0x89, 0xc7]), None);
        assert_eq!((loaded(&[]), loaded(&[0x48]), loaded(&[0xff; 100])), (None, None, None));
    }

    #[test]
    fn all_bytes_are_decoded_without_a_panic() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                for third in [0, 4, 5, 0x24, 0x48, 0x85, 0xc0, 0xff] {
                    for len in 0..4 {
                        let code = [first, second, third];
                        let _ = decode(&code[..len]);
                    }
                }
            }
        }
    }
}

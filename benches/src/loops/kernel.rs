//! The loops of the kernel: BPF programs that take the number of steps out of the frame that they
//! are run with.
//!
//! The kernel's verifier follows each step of a loop, so the program bounds their number. Verifying
//! takes the longer the more steps are allowed: about half a second for 4,096.

use std::os::fd::{AsFd as _, OwnedFd};

use nic_driver::bpf::{Instruction, TestRun, socket_filter, test_run};
use rustix::io::Errno;

use super::kind::{DIVISOR, LoopKind};

/// Bytes of a frame: an Ethernet header, the steps, and as many more as an Ethernet frame has.
const FRAME: usize = 60;
/// The EtherType for experiments (IEEE 802), so that the kernel looks for no header behind it.
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];
/// The places of EtherType and steps.
const ETHERTYPE: usize = 12;
const STEPS: usize = 14;
/// Registers: the result, the steps that are wanted and those that are done, the next number, one
/// that is kept for a moment, and the frame, from where loads take it.
const RESULT: u8 = 0;
const NEXT: u8 = 1;
const WANTED: u8 = 2;
const KEPT: u8 = 4;
const DONE: u8 = 5;
const CONTEXT: u8 = 6;

/// A program in the kernel.
pub(super) struct LoopProgram(OwnedFd);

/// Why the kernel's side cannot be measured: the machine's reasons.
#[derive(Debug)]
pub(super) struct NoProgram(Errno);

impl std::fmt::Display for NoProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match self.0 {
            Errno::PERM | Errno::ACCESS => {
                "running BPF programs takes CAP_BPF: measure as root".to_owned()
            }
            Errno::NOSYS => "this kernel has no bpf(2)".to_owned(),
            Errno::INVAL => {
                "its BPF verifier refuses loops, which Linux 5.3 and later allow to root".to_owned()
            }
            other => format!("running a BPF program: {other}"),
        };
        write!(f, "The kernel's loops are not measured: {why}.")
    }
}

impl LoopProgram {
    /// The loop with at most so many steps. It has run once.
    ///
    /// # Errors
    /// The system's: no rights, no bpf(2), a verifier that allows no loops.
    pub(super) fn load(kind: LoopKind, most: u32) -> Result<Self, NoProgram> {
        let program = socket_filter(&instructions(kind, most)).map(Self).map_err(NoProgram)?;
        program.run(1, 1).map_err(NoProgram)?;
        Ok(program)
    }

    /// So many loops of so many steps.
    pub(super) fn run(&self, steps: u32, repeats: u32) -> Result<TestRun, Errno> {
        let mut frame = [0; FRAME];
        frame[ETHERTYPE..STEPS].copy_from_slice(&EXPERIMENT);
        frame[STEPS..STEPS + 4].copy_from_slice(&steps.to_be_bytes());
        test_run(self.0.as_fd(), &frame, repeats)
    }
}

/// Codes of instructions, as in Linux's `linux/bpf.h`: the class with the operation, and whether
/// the other operand is a register.
mod code {
    /// 64 bits.
    pub(super) const ADD: u8 = 0x07;
    pub(super) const ADD_REGISTER: u8 = 0x0f;
    pub(super) const MOVE: u8 = 0xb7;
    pub(super) const MOVE_REGISTER: u8 = 0xbf;
    /// 32 bits.
    pub(super) const MODULO_32: u8 = 0x94;
    pub(super) const XOR_REGISTER_32: u8 = 0xac;
    /// Jumps: equal, greater, less than a register.
    pub(super) const IF_EQUAL: u8 = 0x15;
    pub(super) const IF_GREATER: u8 = 0x25;
    pub(super) const IF_LESS_REGISTER: u8 = 0xad;
    pub(super) const EXIT: u8 = 0x95;
    /// r0 = four bytes of the frame, as a big-endian number.
    pub(super) const LOAD_FRAME: u8 = 0x20;
}

/// The work of one step.
fn step(kind: LoopKind) -> Vec<Instruction> {
    match kind {
        LoopKind::Fibonacci => vec![
            of_registers(code::MOVE_REGISTER, KEPT, NEXT),
            of_registers(code::ADD_REGISTER, NEXT, RESULT),
            of_registers(code::MOVE_REGISTER, RESULT, KEPT),
        ],
        LoopKind::Modulo => vec![
            of_registers(code::XOR_REGISTER_32, RESULT, DONE),
            of_number(code::MODULO_32, RESULT, DIVISOR.cast_signed()),
        ],
    }
}

/// The program. More steps than `most` are none, so that the verifier knows an end.
fn instructions(kind: LoopKind, most: u32) -> Vec<Instruction> {
    let step = step(kind);
    let count = step.len() as i16;
    // Behind the work of a step are its counter and the jump back.
    let over = count + 2;
    let begin = [
        of_registers(code::MOVE_REGISTER, CONTEXT, 1),
        of_number(code::LOAD_FRAME, 0, 0),
        of_registers(code::MOVE_REGISTER, WANTED, 0),
        of_number(code::MOVE, RESULT, 0),
        of_number(code::MOVE, NEXT, 1),
        of_number(code::MOVE, DONE, 0),
        jump(of_number(code::IF_GREATER, WANTED, most.cast_signed()), over + 1),
        jump(of_number(code::IF_EQUAL, WANTED, 0), over),
    ];
    let end = [
        of_number(code::ADD, DONE, 1),
        jump(of_registers(code::IF_LESS_REGISTER, DONE, WANTED), -over),
        of_number(code::EXIT, 0, 0),
    ];
    begin.into_iter().chain(step).chain(end).collect()
}

fn of_number(code: u8, to: u8, immediate: i32) -> Instruction {
    Instruction { code, registers: to, offset: 0, immediate }
}

fn of_registers(code: u8, to: u8, from: u8) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset: 0, immediate: 0 }
}

/// So many instructions further, from the next one on.
fn jump(instruction: Instruction, offset: i16) -> Instruction {
    Instruction { offset, ..instruction }
}

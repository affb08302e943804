//! bpf(2) for the back ends. `xdp` needs a map with one socket, a program of six instructions, and
//! the program's attachment to an interface, which lasts as long as its descriptor. `tap` needs a
//! program that chooses the queue of a frame. Measurements load programs that only compute, and
//! have the kernel run them ([`test_run`]).
//!
//! The attributes are those of Linux's `linux/bpf.h` (`union bpf_attr`), as far as they are used;
//! the kernel takes the rest as zero.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

/// Commands.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const LINK_CREATE: libc::c_int = 28;
/// Types of map, of program, of attachment.
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_SOCKET_FILTER: u32 = 1;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// How a program is attached: to the interface's driver (`XDP_FLAGS_DRV_MODE`), or to the kernel's
/// generic path for drivers that cannot run it (`XDP_FLAGS_SKB_MODE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    Driver = 1 << 2,
    Generic = 1 << 1,
}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct TestRunAttributes {
    prog_fd: u32,
    /// Written by the kernel.
    result: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    /// Written by the kernel.
    duration: u32,
}

/// One call; its result.
fn bpf<T>(command: libc::c_int, attributes: &mut T) -> Result<libc::c_long, Errno> {
    let size = mem::size_of::<T>();
    // SAFETY: the kernel reads and writes `size` bytes of `attributes` at most. The types above are
    // those that it expects for these commands, and have numbers only, so whatever it writes is a
    // value of theirs. Addresses in it are of values that the callers keep alive and that the
    // kernel only reads.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size) };
    if done < 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(done)
}

/// As [`bpf`], for commands that make a descriptor, closed on exec as all of bpf(2)'s are.
fn bpf_fd<T>(command: libc::c_int, attributes: &mut T) -> Result<OwnedFd, Errno> {
    let fd = bpf(command, attributes)? as libc::c_int;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

fn address<T: ?Sized>(value: &T) -> u64 {
    (&raw const *value).cast::<u8>() as u64
}

/// A map from an interface's receive queue to a socket, with queue 0 in it.
pub(crate) fn socket_map(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut create =
        MapCreate { map_type: MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: 1 };
    let map = bpf_fd(MAP_CREATE, &mut create)?;
    let (queue, socket) = (0_u32, number(socket));
    let mut update = MapUpdate {
        map_fd: map.as_raw_fd().cast_unsigned(),
        pad: 0,
        key: address(&queue),
        value: address(&socket),
        flags: 0,
    };
    bpf(MAP_UPDATE_ELEM, &mut update).map(|_| map)
}

/// One instruction: code, destination (low) and source register (high), offset, immediate.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Instruction {
    /// The operation.
    pub code: u8,
    /// Destination in the low four bits, source in the high ones.
    pub registers: u8,
    /// Of a jump or an access to memory.
    pub offset: i16,
    /// A constant.
    pub immediate: i32,
}

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS);`: frames of the map's queue go to
/// its socket. Frames of another queue, or of a queue without a socket, go to the host.
fn instructions(map: i32) -> [Instruction; 6] {
    let op =
        |code, registers, offset, immediate| Instruction { code, registers, offset, immediate };
    [
        // r2 = *(u32 *)(r1 + 16): rx_queue_index of struct xdp_md.
        op(0x61, 0x12, 16, 0),
        // r1 = map, in two slots; source register 1: the immediate is a map's descriptor.
        op(0x18, 0x11, 0, map),
        op(0, 0, 0, 0),
        // r3 = XDP_PASS
        op(0xb7, 0x03, 0, 2),
        // call bpf_redirect_map
        op(0x85, 0, 0, 51),
        // exit, with what it returned
        op(0x95, 0, 0, 0),
    ]
}

/// The program for this map.
pub(crate) fn program(map: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    load(PROG_TYPE_XDP, &instructions(map.as_raw_fd()))
}

/// A program that the kernel runs with a frame, and whose result is a number.
///
/// # Errors
/// The system's: `PERM` without the right to, `INVAL` or `ACCESS` if the verifier refuses it.
pub fn socket_filter(instructions: &[Instruction]) -> Result<OwnedFd, Errno> {
    load(PROG_TYPE_SOCKET_FILTER, instructions)
}

/// What the kernel tells of runs of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestRun {
    /// The program's result.
    pub result: u32,
    /// Nanoseconds of a run, the mean of all.
    pub nanos: u32,
}

/// Has the kernel run a socket filter so many times with this frame, which begins with an Ethernet
/// header. The program sees it from behind that header.
///
/// # Errors
/// The system's: `INVAL` for a frame that is shorter than an Ethernet header, `INTR` if a signal
/// came meanwhile.
pub fn test_run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> Result<TestRun, Errno> {
    let mut run = TestRunAttributes {
        prog_fd: number(program),
        result: 0,
        data_size_in: frame.len() as u32,
        data_size_out: 0,
        data_in: address(frame),
        data_out: 0,
        repeat,
        duration: 0,
    };
    bpf(PROG_TEST_RUN, &mut run)?;
    Ok(TestRun { result: run.result, nanos: run.duration })
}

fn load(prog_type: u32, instructions: &[Instruction]) -> Result<OwnedFd, Errno> {
    let mut load = ProgLoad {
        prog_type,
        count: instructions.len() as u32,
        instructions: address(instructions),
        license: address(c"Dual MIT/GPL".to_bytes_with_nul()),
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
    };
    bpf_fd(PROG_LOAD, &mut load)
}

/// Attaches the program to an interface for the life of the descriptor.
pub(crate) fn attach(
    program: BorrowedFd<'_>,
    interface: u32,
    hook: Hook,
) -> Result<OwnedFd, Errno> {
    let mut create = LinkCreate {
        prog_fd: number(program),
        ifindex: interface,
        attach_type: ATTACH_XDP,
        flags: hook as u32,
    };
    bpf_fd(LINK_CREATE, &mut create)
}

//! The functions of `tasuki.h`.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use sockets::{Client, ConnectError, Errno, Wait};

use crate::address;
use crate::ring::{CallOptions, CompletionResult, Operation, Ring};

/// `struct tsk_sqe`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sqe {
    opcode: u8,
    flags: u8,
    prio: u8,
    pad: u8,
    sock: i32,
    addr: u64,
    addr2: u64,
    len: u32,
    level: i32,
    optname: i32,
    pad2: u32,
    user_data: u64,
}

/// `struct tsk_cqe`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cqe {
    user_data: u64,
    res: i32,
    flags: u32,
}

const _: () = assert!(size_of::<Sqe>() == 48 && size_of::<Cqe>() == 16);

const NONBLOCK: u8 = 1;

/// `struct tsk`; it keeps each call's entry, for the pointers in it.
pub(crate) struct Tsk(Ring<Sqe>);

fn options(sqe: &Sqe) -> CallOptions {
    CallOptions { sock: sqe.sock, nonblock: sqe.flags & NONBLOCK != 0, prio: sqe.prio }
}

fn negative(errno: Errno) -> c_int {
    -errno.raw_os_error()
}

/// The caller's bytes at `addr`.
///
/// # Safety
/// `addr` must be readable for `len` bytes for as long as the slice is used, or 0.
unsafe fn bytes<'a>(addr: u64, len: usize) -> Result<&'a [u8], Errno> {
    let at = std::ptr::with_exposed_provenance::<u8>(usize::try_from(addr).unwrap_or(0));
    if at.is_null() && len > 0 {
        return Err(Errno::FAULT);
    }
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: not null, and the caller promises that it is readable for `len` bytes.
    Ok(unsafe { std::slice::from_raw_parts(at, len) })
}

/// The caller's room at `addr`.
///
/// # Safety
/// `addr` must be 0, or writable for `len` bytes that no other thread accesses while the slice is
/// used.
unsafe fn room<'a>(addr: u64, len: usize) -> Result<&'a mut [u8], Errno> {
    let at = std::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(addr).unwrap_or(0));
    if len == 0 {
        return Ok(&mut []);
    }
    if at.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: not null, and the caller promises that it is writable for `len` bytes.
    Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
}

/// Copies `from` to the caller's `addr`, as far as `room`; a null pointer gets nothing.
///
/// # Safety
/// `addr` must be writable for `room` bytes, or 0.
unsafe fn put(addr: u64, room: usize, from: &[u8]) {
    let at = std::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(addr).unwrap_or(0));
    if !at.is_null() {
        // SAFETY: the caller promises room, and no memory of ours is a caller's buffer.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), at, from.len().min(room)) };
    }
}

/// Writes an address, truncated to the room, and its full length, as accept(2).
///
/// # Safety
/// As the entry's pointers are documented.
unsafe fn put_address(sqe: &Sqe, addr: SocketAddr) {
    if sqe.addr == 0 || sqe.addr2 == 0 {
        return;
    }
    // SAFETY: addr2 points to the caller's socklen_t.
    let Ok(room) = (unsafe { bytes(sqe.addr2, size_of::<u32>()) }) else { return };
    let room = room.first_chunk().map_or(0, |room| u32::from_ne_bytes(*room));
    let (whole, len) = address::encode(addr);
    // SAFETY: addr has the room that addr2 says.
    unsafe { put(sqe.addr, room as usize, &whole[..len]) };
    let len = u32::try_from(len).unwrap_or(0).to_ne_bytes();
    // SAFETY: as above.
    unsafe { put(sqe.addr2, len.len(), &len) };
}

/// The operation of an entry.
///
/// # Safety
/// As the entry's pointers are documented.
unsafe fn op<'a>(sqe: &Sqe) -> Result<Operation<'a>, Errno> {
    let len = usize::try_from(sqe.len).unwrap_or(usize::MAX);
    let address = || {
        // SAFETY: addr is readable for len bytes; more than an address has are not looked at.
        let bytes = unsafe { bytes(sqe.addr, len.min(address::MOST)) }?;
        address::decode(bytes)
    };
    let (level, name) = (sqe.level, sqe.optname);
    Ok(match sqe.opcode {
        0 => Operation::Nop,
        1 => Operation::Socket { domain: sqe.sock, kind: sqe.len },
        2 => Operation::Bind(address()?),
        3 => Operation::Listen { backlog: sqe.len },
        4 => Operation::Connect(address()?),
        5 => Operation::Accept,
        // SAFETY: addr is readable for len bytes.
        6 => Operation::Send(unsafe { bytes(sqe.addr, len) }?),
        7 => Operation::Recv,
        8 => Operation::Shutdown { how: sqe.len },
        9 => Operation::Close,
        10 => Operation::GetSockOpt { level, name },
        // SAFETY: addr is readable for len bytes.
        11 => Operation::SetSockOpt { level, name, value: unsafe { bytes(sqe.addr, len) }? },
        12 => Operation::GetSockName,
        13 => Operation::GetPeerName,
        _ => return Err(Errno::INVAL),
    })
}

/// `tsk_open`.
///
/// # Safety
/// `tsk` must be writable; `path` a string, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn tsk_open(tsk: *mut *mut Tsk, path: *const c_char) -> c_int {
    if tsk.is_null() {
        return negative(Errno::FAULT);
    }
    let client = if path.is_null() {
        sockets::instance()
    } else {
        // SAFETY: not null, and so a string.
        let path = unsafe { CStr::from_ptr(path) };
        Client::connect(Path::new(OsStr::from_bytes(path.to_bytes())))
    };
    let client = match client {
        Ok(client) => client,
        Err(ConnectError::NotNamed | ConnectError::Unreachable { .. }) => {
            return negative(Errno::NOENT);
        }
        Err(ConnectError::Refused { .. }) => return negative(Errno::ACCESS),
        Err(_) => return negative(Errno::PROTO),
    };
    match Ring::open(client) {
        Ok(ring) => {
            // SAFETY: it is writable.
            unsafe { tsk.write(Box::into_raw(Box::new(Tsk(ring)))) };
            0
        }
        Err(errno) => negative(errno),
    }
}

/// The caller's ring, if this is its thread.
///
/// # Safety
/// `tsk` must come from `tsk_open` and not have been closed, or be null.
unsafe fn ring<'a>(tsk: *mut Tsk) -> Result<&'a mut Ring<Sqe>, Errno> {
    // SAFETY: it came from a box that is not freed, and one thread at a time uses it: the others
    // read nothing but which thread that is, which never changes.
    let Tsk(ring) = unsafe { tsk.as_mut() }.ok_or(Errno::FAULT)?;
    if ring.is_mine() { Ok(ring) } else { Err(Errno::INVAL) }
}

/// `tsk_close`.
///
/// # Safety
/// As `tsk_open` gave it, and not used afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn tsk_close(tsk: *mut Tsk) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { ring(tsk) } {
        Ok(_) => {
            // SAFETY: it came from a box, and this is its last use.
            drop(unsafe { Box::from_raw(tsk) });
            0
        }
        Err(errno) => negative(errno),
    }
}

/// `tsk_submit`.
///
/// # Safety
/// `sqes` must be `count` entries whose pointers are as documented.
#[unsafe(no_mangle)]
unsafe extern "C" fn tsk_submit(tsk: *mut Tsk, sqes: *const Sqe, count: c_uint) -> c_int {
    // SAFETY: as the caller promises.
    let ring = match unsafe { ring(tsk) } {
        Ok(ring) => ring,
        Err(errno) => return negative(errno),
    };
    if sqes.is_null() && count > 0 {
        return negative(Errno::FAULT);
    }
    let mut taken = 0;
    let mut error = None;
    for n in 0..count as usize {
        // SAFETY: within the caller's entries.
        let at = unsafe { sqes.add(n) };
        // SAFETY: as above.
        let sqe = unsafe { at.read() };
        let known = sqe.flags & !NONBLOCK == 0 && sqe.pad == 0 && sqe.pad2 == 0;
        // SAFETY: the entry's pointers are as documented.
        let submitted = match unsafe { op(&sqe) } {
            _ if !known => Err(Errno::INVAL),
            Ok(op) => ring.submit(&op, options(&sqe), sqe.user_data, sqe),
            Err(errno) => Err(errno),
        };
        if let Err(errno) = submitted {
            error = Some(errno);
            break;
        }
        taken += 1;
    }
    ring.flush();
    match error {
        Some(errno) if taken == 0 => negative(errno),
        _ => taken,
    }
}

/// The time that is left, from a `struct timespec`.
fn limit(timeout: &libc::timespec) -> Result<Duration, Errno> {
    let seconds = u64::try_from(timeout.tv_sec).map_err(|_| Errno::INVAL)?;
    match u32::try_from(timeout.tv_nsec) {
        Ok(nanos @ ..1_000_000_000) => Ok(Duration::new(seconds, nanos)),
        _ => Err(Errno::INVAL),
    }
}

/// `tsk_wait`.
///
/// # Safety
/// `cqes` must have room for `max` entries. `timeout` must be a time or null. The memory that the
/// outstanding calls point to must still be valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn tsk_wait(
    tsk: *mut Tsk,
    cqes: *mut Cqe,
    min: c_uint,
    max: c_uint,
    timeout: *const libc::timespec,
) -> c_int {
    // SAFETY: as the caller promises.
    let ring = match unsafe { ring(tsk) } {
        Ok(ring) => ring,
        Err(errno) => return negative(errno),
    };
    // SAFETY: null or a time.
    let wait = match unsafe { timeout.as_ref() }.map(limit) {
        None => Wait::Forever,
        Some(Ok(left)) => Wait::Until(Instant::now() + left.min(Duration::from_secs(1 << 30))),
        Some(Err(errno)) => return negative(errno),
    };
    if cqes.is_null() && max > 0 {
        return negative(Errno::FAULT);
    }
    let (min, mut taken) = (min.min(max), 0);
    loop {
        let waited = ring.wait(min.saturating_sub(taken), wait);
        while taken < max {
            let Some((user_data, outcome, sqe)) = ring.next() else { break };
            // SAFETY: its pointers are as documented.
            let Some(res) = (unsafe { settle(ring, &outcome, &sqe) }) else { continue };
            // SAFETY: within the caller's room.
            let at = unsafe { cqes.add(taken as usize) };
            // SAFETY: as above.
            unsafe { at.write(Cqe { user_data, res, flags: 0 }) };
            taken += 1;
        }
        let over = matches!(wait, Wait::Until(end) if Instant::now() >= end);
        match waited {
            Err(errno) if taken == 0 => return negative(errno),
            _ if taken >= min || ring.is_idle() || waited.is_err() => break,
            _ if over && taken == 0 => return negative(Errno::TIME),
            _ if over => break,
            _ => {}
        }
    }
    c_int::try_from(taken).unwrap_or(c_int::MAX)
}

/// Writes a call's results to the places that its entry names, and returns its result number.
/// `None`: the call goes on.
///
/// # Safety
/// The entry's pointers must be as documented.
unsafe fn settle(ring: &mut Ring<Sqe>, outcome: &CompletionResult, sqe: &Sqe) -> Option<i32> {
    match *outcome {
        CompletionResult::Number(number) => Some(number),
        CompletionResult::Address(number, addr) => {
            // SAFETY: as the caller promises.
            unsafe { put_address(sqe, addr) };
            Some(number)
        }
        CompletionResult::Option(len, part) => {
            let value = &part[..usize::try_from(len).unwrap_or(0).min(part.len())];
            // SAFETY: addr is writable for len bytes.
            unsafe { put(sqe.addr, sqe.len as usize, value) };
            Some(len)
        }
        CompletionResult::Receive => {
            // SAFETY: addr is writable for len bytes, and the caller leaves them alone meanwhile.
            let received = match unsafe { room(sqe.addr, sqe.len as usize) } {
                Ok(into) => ring.receive(sqe.sock, into),
                Err(errno) => Some(negative(errno)),
            };
            if received.is_none()
                && let Err(errno) = ring.submit(&Operation::Recv, options(sqe), sqe.user_data, *sqe)
            {
                return Some(negative(errno));
            }
            received
        }
    }
}

/// `tsk_cancel`.
///
/// # Safety
/// As `tsk_open` gave it.
#[unsafe(no_mangle)]
unsafe extern "C" fn tsk_cancel(tsk: *mut Tsk, user_data: u64) -> c_int {
    // SAFETY: as the caller promises.
    let cancelled = unsafe { ring(tsk) }.and_then(|ring| ring.cancel(user_data));
    cancelled.map_or_else(negative, |()| 0)
}

/// `tsk_client`.
///
/// # Safety
/// As `tsk_open` gave it.
#[unsafe(no_mangle)]
unsafe extern "C" fn tsk_client(tsk: *const Tsk) -> c_int {
    // SAFETY: as the caller promises; nothing is written.
    unsafe { ring(tsk.cast_mut()) }.map_or_else(negative, |ring| ring.number().into())
}

//! splice(2) between a Tasuki socket and a pipe, by copies.
//!
//! From a socket: the bytes are looked at, the pipe takes as many as it has room for, and those are
//! taken from the socket. Into a socket: tee(2) copies the pipe's bytes, the socket takes some, and
//! those are read off the pipe. So no byte is lost, however little the receiving side takes.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd as _, BorrowedFd};

use libc::{size_t, ssize_t};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};
use sockets::{SocketKind, asleep, cancellable};

use super::io::{receive_bufs, send_bufs};
use crate::descriptors::{is_socket, socket};
use crate::errno::Outcome;
use crate::interpose::interpose;

/// Bytes of one call: what a pipe holds that no program has changed.
const MOST: usize = 1 << 16;

/// SPLICE_F_MOVE, NONBLOCK, MORE and GIFT.
const KNOWN: c_uint = 0xF;

fn splice_any(
    (input, in_offset): (c_int, *mut i64),
    (out, out_offset): (c_int, *mut i64),
    len: usize,
    flags: c_uint,
) -> Outcome<usize> {
    if flags & !KNOWN != 0 {
        return Err(Errno::INVAL);
    }
    let flags = SpliceFlags::from_bits_retain(flags);
    if len == 0 {
        return Ok(0);
    }
    if input < 0 || out < 0 {
        return Err(Errno::BADF);
    }
    let pipe = if is_socket(input) { out } else { input };
    // SAFETY: not -1; it is the program's business not to close it meanwhile.
    let pipe = unsafe { BorrowedFd::borrow_raw(pipe) };
    let is_pipe = rustix::fs::fstat(pipe)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo);
    let (pipe_offset, offset) =
        if is_socket(input) { (out_offset, in_offset) } else { (in_offset, out_offset) };
    let mode = rustix::fs::fcntl_getfl(pipe)?;
    let access = if is_socket(input) { OFlags::WRONLY } else { OFlags::RDONLY };
    if ![access, OFlags::RDWR].contains(&(mode & OFlags::ACCMODE)) {
        return Err(Errno::BADF);
    }
    if !is_pipe || is_socket(input) && is_socket(out) {
        return Err(Errno::INVAL);
    }
    if !pipe_offset.is_null() {
        return Err(Errno::SPIPE);
    }
    if !offset.is_null() {
        return Err(Errno::INVAL);
    }
    let waits = !flags.contains(SpliceFlags::NONBLOCK) && !mode.contains(OFlags::NONBLOCK);
    if is_socket(input) {
        from_socket(input, pipe, len.min(MOST), waits)
    } else {
        into_socket(pipe, out, len.min(MOST), waits, flags.contains(SpliceFlags::MORE))
    }
}

/// Waits until the pipe is ready, or says that it is not.
///
/// # Errors
/// EAGAIN when it is not and the call must not wait; EINTR.
fn ready(pipe: BorrowedFd<'_>, events: PollFlags, waits: bool) -> Outcome<()> {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let limit = if waits { None } else { Some(&none) };
    match cancellable(|| asleep(false, || poll(&mut [PollFd::new(&pipe, events)], limit)))? {
        Some(0) | None => Err(Errno::AGAIN),
        _ => Ok(()),
    }
}

fn from_socket(fd: c_int, pipe: BorrowedFd<'_>, len: usize, waits: bool) -> Outcome<usize> {
    ready(pipe, PollFlags::OUT, waits)?;
    let entry = socket(fd)?;
    let mut bytes = vec![0; len];
    let datagram = entry.socket.kind() != SocketKind::Stream;
    let peek = if datagram { 0 } else { libc::MSG_PEEK };
    let seen = receive_bufs(fd, &mut [IoSliceMut::new(&mut bytes)], peek)?.len;
    if seen == 0 {
        return Ok(0);
    }
    loop {
        // The pipe was ready, so it takes a page at least without waiting.
        let vector = [IoSlice::new(&bytes[..seen])];
        match rustix::io::pwritev2(pipe, &vector, u64::MAX, ReadWriteFlags::NOWAIT) {
            Ok(taken) if !datagram => {
                let discard = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
                let rest = &mut [IoSliceMut::new(&mut bytes[..taken])];
                return receive_bufs(fd, rest, discard).map(|_| taken);
            }
            Err(Errno::AGAIN) => ready(pipe, PollFlags::OUT, waits)?,
            other => return other,
        }
    }
}

fn into_socket(
    pipe: BorrowedFd<'_>,
    fd: c_int,
    len: usize,
    waits: bool,
    more: bool,
) -> Outcome<usize> {
    ready(pipe, PollFlags::IN, waits)?;
    let there = usize::try_from(rustix::io::ioctl_fionread(pipe)?).unwrap_or(MOST).min(len);
    if there == 0 {
        // All writers are gone.
        return Ok(0);
    }
    let mut bytes = vec![0; there];
    let (copy, copied) = pipe_with(PipeFlags::CLOEXEC)?;
    let there = tee(pipe, copied.as_fd(), there, SpliceFlags::NONBLOCK)?;
    let there = rustix::io::read(&copy, &mut bytes[..there])?;
    let flags = if more { libc::MSG_MORE } else { 0 };
    let sent = send_bufs(fd, &[IoSlice::new(&bytes[..there])], flags, None)?;
    let mut taken = 0;
    while taken < sent {
        match rustix::io::read(pipe, &mut bytes[..sent - taken])? {
            0 => break,
            now => taken += now,
        }
    }
    Ok(sent)
}

interpose! {
    fn splice(
        input: c_int, in_offset: *mut i64, out: c_int, out_offset: *mut i64,
        len: size_t, flags: c_uint,
    ) -> ssize_t {
        is_socket(input) || is_socket(out) =>
            splice_any((input, in_offset), (out, out_offset), len, flags)
    }
}

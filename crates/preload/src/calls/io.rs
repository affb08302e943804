//! Bytes in one direction: read, write, send, recv and their relatives, sendfile.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::net::SocketAddr;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use libc::{iovec, off_t, size_t, sockaddr, socklen_t, ssize_t};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use sockets::Received;

use super::host_loopback;
use crate::descriptors::{is_socket, socket};
use crate::errno::{self, Outcome};
use crate::interpose::{alias, interpose};
use crate::open_socket::OpenSocket;
use crate::pointers::{can_read, can_write};
use crate::retaking::SharedEndpoint;
use crate::sockaddr::{LONGEST, copy_in, copy_out, room_for};
use crate::{real, signals, transfer};

/// Most bytes of one call, as in Linux (MAX_RW_COUNT).
const MOST_BYTES: usize = 0x7FFF_F000;
/// Most buffers of one call, as in Linux (UIO_MAXIOV).
pub(super) const MOST_BUFFERS: usize = 1024;
/// The flags of preadv2 and pwritev2 that mean nothing to a socket, and RWF_NOWAIT.
const KNOWN_RWF: c_int =
    libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_NOWAIT | libc::RWF_APPEND;
/// Bytes that sendfile reads at a time.
const FILE_PART: usize = 1 << 16;

/// The program's bytes, to be sent.
///
/// # Safety
/// `buf` is null or points to `len` readable bytes that no thread writes during the call.
unsafe fn readable<'a>(buf: *const c_void, len: usize) -> Outcome<IoSlice<'a>> {
    if len == 0 {
        return Ok(IoSlice::new(&[]));
    }
    if !can_read(buf, len) {
        return Err(Errno::FAULT);
    }
    // SAFETY: not null, and the caller says that the bytes are readable.
    let bytes = unsafe { core::slice::from_raw_parts(buf.cast(), len.min(MOST_BYTES)) };
    Ok(IoSlice::new(bytes))
}

/// The program's room, to be received into.
///
/// # Safety
/// `buf` is null or points to `len` writable bytes that no other thread touches during the call.
unsafe fn writable<'a>(buf: *mut c_void, len: usize) -> Outcome<IoSliceMut<'a>> {
    if len == 0 {
        return Ok(IoSliceMut::new(&mut []));
    }
    if !can_write(buf) {
        return Err(Errno::FAULT);
    }
    // SAFETY: not null, and the caller says that the bytes are writable. They may be
    // uninitialised; they are only written.
    let bytes = unsafe { core::slice::from_raw_parts_mut(buf.cast(), len.min(MOST_BYTES)) };
    Ok(IoSliceMut::new(bytes))
}

/// The `iovec`s at `iov`.
///
/// # Errors
/// EINVAL for too many, or a negative length; EFAULT for a null pointer, and for bytes that no
/// program can have.
///
/// # Safety
/// `iov` is null or points to `count` of them.
unsafe fn vectors<'a>(iov: *const iovec, count: usize) -> Outcome<&'a [iovec]> {
    if count > MOST_BUFFERS {
        return Err(Errno::INVAL);
    }
    if count == 0 {
        return Ok(&[]);
    }
    if !can_read(iov, count * size_of::<iovec>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: not null, and the caller says that so many are there.
    let iov = unsafe { core::slice::from_raw_parts(iov, count) };
    for one in iov {
        isize::try_from(one.iov_len).map_err(|_| Errno::INVAL)?;
        // Beyond the addresses of programs.
        let end = one.iov_base.addr().checked_add(one.iov_len).ok_or(Errno::FAULT)?;
        isize::try_from(end).map_err(|_| Errno::FAULT)?;
    }
    Ok(iov)
}

/// [`readable`] for each of [`vectors`].
///
/// # Safety
/// As those.
pub(super) unsafe fn all_readable<'a>(
    iov: *const iovec,
    count: usize,
) -> Outcome<Vec<IoSlice<'a>>> {
    // SAFETY: passed on from the caller.
    let iov = unsafe { vectors(iov, count) }?;
    // SAFETY: passed on from the caller.
    iov.iter().map(|one| unsafe { readable(one.iov_base, one.iov_len) }).collect()
}

/// [`writable`] for each of [`vectors`].
///
/// # Safety
/// As those.
pub(super) unsafe fn all_writable<'a>(
    iov: *const iovec,
    count: usize,
) -> Outcome<Vec<IoSliceMut<'a>>> {
    // SAFETY: passed on from the caller.
    let iov = unsafe { vectors(iov, count) }?;
    // SAFETY: passed on from the caller.
    iov.iter().map(|one| unsafe { writable(one.iov_base, one.iov_len) }).collect()
}

/// Sends, with SIGPIPE where POSIX has it.
pub(super) fn send_bufs(
    fd: c_int,
    bufs: &[IoSlice<'_>],
    flags: c_int,
    to: Option<SocketAddr>,
) -> Outcome<usize> {
    let entry = socket(fd)?;
    let wait = entry.send_wait(flags & libc::MSG_DONTWAIT != 0);
    let sent = match entry.is_shared() {
        false => transfer::send(&*entry, bufs, flags, to, wait),
        true => transfer::send(&SharedEndpoint::new(fd, entry), bufs, flags, to, wait),
    };
    if sent.sigpipe {
        signals::raise_sigpipe();
    }
    sent.outcome
}

/// Receives.
pub(super) fn receive_bufs(
    fd: c_int,
    bufs: &mut [IoSliceMut<'_>],
    flags: c_int,
) -> Outcome<Received> {
    let entry = socket(fd)?;
    let wait = entry.receive_wait(flags & libc::MSG_DONTWAIT != 0);
    match entry.is_shared() {
        false => transfer::receive(&*entry, bufs, flags, wait),
        true => transfer::receive(&SharedEndpoint::new(fd, entry), bufs, flags, wait),
    }
}

/// The result of a receiving call. With MSG_TRUNC it is a datagram's full length.
pub(super) fn result_len(received: &Received, flags: c_int) -> usize {
    if flags & libc::MSG_TRUNC != 0 { received.full_len } else { received.len }
}

unsafe fn send_one(
    fd: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    to: Option<SocketAddr>,
) -> Outcome<usize> {
    // SAFETY: passed on from the program.
    let buf = unsafe { readable(buf, len) }?;
    send_bufs(fd, &[buf], flags, to)
}

unsafe fn send_to(
    fd: c_int,
    (buf, len): (*const c_void, usize),
    flags: c_int,
    (addr, addr_len): (*const sockaddr, socklen_t),
) -> Outcome<usize> {
    // SAFETY: passed on from the program.
    let to = unsafe { destination(fd, addr, addr_len, flags) }?;
    if leads_to_host(fd, to)? {
        // SAFETY: passed on from the program.
        return result(unsafe { real::sendto(fd, buf, len, flags, addr, addr_len) });
    }
    // SAFETY: passed on from the program.
    unsafe { send_one(fd, buf, len, flags, to) }
}

/// Does a datagram to this destination lead to the host? Then `fd` is a kernel socket now.
pub(super) fn leads_to_host(fd: c_int, to: Option<SocketAddr>) -> Outcome<bool> {
    let Some(to) = to else { return Ok(false) };
    let entry = socket(fd)?;
    let leads = host_loopback::leads_to(&entry, to);
    if leads {
        host_loopback::exchange(fd, &entry)?;
    }
    Ok(leads)
}

/// The result of one of the C library's own calls that count bytes.
pub(super) fn result(done: libc::ssize_t) -> Outcome<usize> {
    usize::try_from(done).map_err(|_| errno::last())
}

/// The destination of a datagram, or of a stream with MSG_FASTOPEN. Any other stream ignores the
/// address, as on Linux.
///
/// # Safety
/// `addr` is null or points to `len` readable bytes.
pub(super) unsafe fn destination(
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
    flags: c_int,
) -> Outcome<Option<SocketAddr>> {
    let entry = socket(fd)?;
    // As on Linux, a stream's destination is given once.
    let connects = flags & libc::MSG_FASTOPEN != 0;
    let stream = entry.socket.kind() == sockets::SocketKind::Stream;
    if addr.is_null() || stream && !connects {
        let impossible = !addr.is_null() && room_for(len, LONGEST + 1)? > LONGEST;
        return if impossible { Err(Errno::INVAL) } else { Ok(None) };
    }
    // SAFETY: passed on from the caller.
    unsafe { copy_in(addr, len) }?.to_send(entry.socket.family())
}

unsafe fn receive_one(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> Outcome<usize> {
    // SAFETY: passed on from the program.
    let buf = unsafe { writable(buf, len) }?;
    let received = receive_bufs(fd, &mut [buf], flags)?;
    Ok(result_len(&received, flags))
}

unsafe fn receive_from(
    fd: c_int,
    (buf, len): (*mut c_void, usize),
    flags: c_int,
    (addr, addr_len): (*mut sockaddr, *mut socklen_t),
) -> Outcome<usize> {
    // SAFETY: passed on from the program.
    let buf = unsafe { writable(buf, len) }?;
    let entry = socket(fd)?;
    let received = receive_bufs(fd, &mut [buf], flags)?;
    if let Some(from) = received.from {
        // SAFETY: passed on from the program.
        unsafe { copy_out(from, entry.socket.family(), addr, addr_len) }?;
    } else if !addr.is_null() {
        if !can_write(addr_len) {
            return Err(Errno::FAULT);
        }
        // SAFETY: not null, and the program says that it is valid.
        let addr_len = unsafe { &mut *addr_len };
        room_for(*addr_len, LONGEST)?;
        // A stream gives no address.
        *addr_len = 0;
    }
    Ok(result_len(&received, flags))
}

unsafe fn read_one(fd: c_int, buf: *mut c_void, len: usize) -> Outcome<usize> {
    if len == 0 {
        // As on Linux: read asks nothing of the socket then, but recv does.
        return Ok(0);
    }
    // SAFETY: passed on from the program.
    unsafe { receive_one(fd, buf, len, 0) }
}

unsafe fn read_vectors(fd: c_int, iov: *const iovec, count: c_int, flags: c_int) -> Outcome<usize> {
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    // SAFETY: passed on from the program.
    let mut bufs = unsafe { all_writable(iov, count) }?;
    if bufs.iter().all(|buf| buf.is_empty()) {
        return Ok(0);
    }
    Ok(receive_bufs(fd, &mut bufs, flags)?.len)
}

unsafe fn write_vectors(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    flags: c_int,
) -> Outcome<usize> {
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    // SAFETY: passed on from the program.
    let bufs = unsafe { all_readable(iov, count) }?;
    if bufs.iter().all(|buf| buf.is_empty()) {
        // As on Linux: writev asks nothing of the socket then, but write does.
        return Ok(0);
    }
    send_bufs(fd, &bufs, flags, None)
}

/// The MSG flags of preadv2 and pwritev2 at `offset`.
///
/// # Errors
/// ESPIPE for a position, EINVAL for a negative one but -1, EOPNOTSUPP for unknown flags.
fn flags_at(offset: off_t, flags: c_int) -> Outcome<c_int> {
    match offset {
        -1 if flags & !KNOWN_RWF != 0 => Err(Errno::OPNOTSUPP),
        -1 if flags & libc::RWF_NOWAIT != 0 => Ok(libc::MSG_DONTWAIT),
        -1 => Ok(0),
        0.. => Err(Errno::SPIPE),
        _ => Err(Errno::INVAL),
    }
}

/// sendfile(2) to a Tasuki socket: to a stream without a copy in this process.
unsafe fn send_file(out: c_int, input: c_int, offset: *mut off_t, count: usize) -> Outcome<usize> {
    if input < 0 {
        return Err(Errno::BADF);
    }
    if is_socket(input) {
        return Err(Errno::INVAL);
    }
    // SAFETY: not -1; it is the program's business not to close it meanwhile.
    let file = unsafe { BorrowedFd::borrow_raw(input) };
    // SAFETY: the program says that it is null or points to an offset.
    let offset = unsafe { offset.as_mut() };
    let entry = socket(out)?;
    let begin = match &offset {
        Some(offset) => u64::try_from(**offset).map_err(|_| Errno::INVAL)?,
        // A file without seek cannot be sent, as on Linux.
        None => rustix::fs::tell(file).map_err(|_| unseekable(file))?,
    };
    let outcome = send_from(out, &entry, file, begin, count.min(MOST_BYTES));
    let end = begin + outcome.map_or(0, |sent| sent as u64);
    match offset {
        Some(offset) => *offset = off_t::try_from(end).unwrap_or(off_t::MAX),
        None => drop(rustix::fs::seek(file, SeekFrom::Start(end))),
    }
    outcome
}

/// EBADF for a file that cannot be read, else EINVAL.
fn unseekable(file: BorrowedFd<'_>) -> Errno {
    match rustix::fs::fcntl_getfl(file) {
        Ok(mode) if mode & OFlags::ACCMODE != OFlags::WRONLY => Errno::INVAL,
        Ok(_) | Err(_) => Errno::BADF,
    }
}

fn send_from(
    out: c_int,
    entry: &OpenSocket,
    file: BorrowedFd<'_>,
    begin: u64,
    count: usize,
) -> Outcome<usize> {
    // Of a shared socket the parts must be sent again if it moves.
    if entry.socket.kind() != sockets::SocketKind::Stream || entry.is_shared() {
        return send_parts_of(out, file, begin, count);
    }
    let sent = entry.socket.send_file(file, begin, count, entry.send_wait(false));
    if sent == Err(Errno::PIPE) {
        signals::raise_sigpipe();
    }
    sent
}

/// The bytes of a file in sends, or datagrams, of [`FILE_PART`].
fn send_parts_of(out: c_int, file: BorrowedFd<'_>, begin: u64, count: usize) -> Outcome<usize> {
    let mut buffer = vec![0; count.min(FILE_PART)];
    let mut sent = 0;
    while sent < count {
        let room = buffer.len().min(count - sent);
        let now =
            rustix::io::pread(file, &mut buffer[..room], begin + sent as u64).and_then(|read| {
                match read {
                    0 => Ok(0),
                    read => send_bufs(out, &[IoSlice::new(&buffer[..read])], 0, None),
                }
            });
        match now {
            Ok(0) => break,
            Ok(now) => sent += now,
            Err(errno) if sent == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(sent)
}

interpose! {
    fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t {
        is_socket(fd) => read_one(fd, buf, len)
    }
    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
        is_socket(fd) => read_vectors(fd, iov, count, 0)
    }
    fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
        is_socket(fd) => send_one(fd, buf, len, 0, None)
    }
    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
        is_socket(fd) => write_vectors(fd, iov, count, 0)
    }
    fn preadv2(
        fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int,
    ) -> ssize_t {
        is_socket(fd) => read_vectors(fd, iov, count, flags_at(offset, flags)?)
    }
    fn pwritev2(
        fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int,
    ) -> ssize_t {
        is_socket(fd) => write_vectors(fd, iov, count, flags_at(offset, flags)?)
    }
    fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        is_socket(fd) => send_one(fd, buf, len, flags, None)
    }
    fn sendto(
        fd: c_int, buf: *const c_void, len: size_t, flags: c_int,
        addr: *const sockaddr, addr_len: socklen_t,
    ) -> ssize_t {
        is_socket(fd) => send_to(fd, (buf, len), flags, (addr, addr_len))
    }
    fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        is_socket(fd) => receive_one(fd, buf, len, flags)
    }
    fn recvfrom(
        fd: c_int, buf: *mut c_void, len: size_t, flags: c_int,
        addr: *mut sockaddr, addr_len: *mut socklen_t,
    ) -> ssize_t {
        is_socket(fd) => receive_from(fd, (buf, len), flags, (addr, addr_len))
    }
    // With _FORTIFY_SOURCE; the C library's own end the program when the buffer is too small.
    fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t) -> ssize_t {
        is_socket(fd) && len <= size => read_one(fd, buf, len)
    }
    fn __recv_chk(
        fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int,
    ) -> ssize_t {
        is_socket(fd) && len <= size => receive_one(fd, buf, len, flags)
    }
    fn __recvfrom_chk(
        fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int,
        addr: *mut sockaddr, addr_len: *mut socklen_t,
    ) -> ssize_t {
        is_socket(fd) && len <= size => receive_from(fd, (buf, len), flags, (addr, addr_len))
    }
    fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        is_socket(out) || is_socket(input) => send_file(out, input, offset, count)
    }
}

alias! {
    fn preadv64v2(
        fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int,
    ) -> ssize_t = preadv2;
    fn pwritev64v2(
        fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int,
    ) -> ssize_t = pwritev2;
    fn __read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t = read;
    fn __write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t = write;
    fn __send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t = send;
    fn sendfile64(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t
        = sendfile;
}

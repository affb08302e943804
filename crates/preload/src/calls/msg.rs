//! Messages: sendmsg, recvmsg, and many of them at a time.
//!
//! [`crate::cmsg`] reads and writes the control messages. Kernel sockets pass descriptors
//! (SCM_RIGHTS): sockets that are passed on become shared before, and the receiver notes which of
//! its new descriptors are such sockets.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint};
use core::net::SocketAddr;
use std::io::IoSliceMut;
use std::time::{Instant, SystemTime};

use libc::{mmsghdr, msghdr, socklen_t, ssize_t, timespec};
use rustix::io::Errno;
use sockets::{Family, Received, SocketKind};

use super::io::{
    MOST_BUFFERS, all_readable, all_writable, destination, leads_to_host, receive_bufs, result,
    result_len, send_bufs,
};
use crate::cmsg::StampForm;
use crate::descriptors::{TABLE, is_socket, socket};
use crate::edge::Return;
use crate::errno::Outcome;
use crate::interpose::{interpose, trace};
use crate::open_socket::OpenSocket;
use crate::pointers::{can_fill, can_read};
use crate::table::Kind;
use crate::{adopted, cmsg, instance, poll, real, sharing, sockaddr, time, transfer};

/// Bytes of the longest address that a message can have.
const LONGEST: socklen_t = 128;
/// Most messages of one sendmmsg, as in Linux (UIO_MAXIOV).
const MOST_MESSAGES: usize = 1024;

unsafe fn send_message(fd: c_int, msg: *const msghdr, flags: c_int) -> Outcome<usize> {
    if !can_read(msg, size_of::<msghdr>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the program says that it points to a message.
    let msg = unsafe { &*msg };
    // The kernel reads an `int`.
    sockaddr::room_for(if msg.msg_name.is_null() { 0 } else { msg.msg_namelen }, 0)?;
    // SAFETY: passed on from the program.
    let to = unsafe { destination(fd, msg.msg_name.cast(), msg.msg_namelen.min(LONGEST), flags) }?;
    if leads_to_host(fd, to)? {
        // SAFETY: passed on from the program.
        return result(unsafe { real::sendmsg(fd, msg, flags) });
    }
    // SAFETY: passed on from the program.
    let bufs = unsafe { all_readable(msg.msg_iov, buffer_count(msg)?) }?;
    let entry = socket(fd)?;
    // SAFETY: passed on from the program.
    let control = unsafe { control(msg) }?;
    if control.is_empty() || entry.socket.kind() == SocketKind::Stream {
        return send_bufs(fd, &bufs, flags, to);
    }
    let said = cmsg::parse(control, entry.socket.family())?;
    let how = transfer::send_flags(flags);
    if how.urgent {
        // As Linux.
        return Err(Errno::OPNOTSUPP);
    }
    let wait = entry.send_wait(flags & libc::MSG_DONTWAIT != 0);
    entry.socket.send_message(&bufs, how, to, &said, wait)
}

/// How many buffers the message has.
///
/// # Errors
/// EMSGSIZE for too many.
fn buffer_count(msg: &msghdr) -> Outcome<usize> {
    if msg.msg_iovlen > MOST_BUFFERS { Err(Errno::MSGSIZE) } else { Ok(msg.msg_iovlen) }
}

/// The bytes of a message's control buffer.
///
/// # Errors
/// EFAULT when there is no memory.
///
/// # Safety
/// The buffer is null or has as many bytes as the message says, which no other thread touches.
unsafe fn control<'a>(msg: &msghdr) -> Outcome<&'a mut [u8]> {
    let (place, len) = (msg.msg_control, msg.msg_controllen);
    if !place.is_null() && !can_read(place, len) {
        return Err(Errno::FAULT);
    }
    Ok(match (place.is_null(), isize::try_from(len)) {
        // SAFETY: not null, no longer than a slice can be, and the caller says that it is there.
        (false, Ok(_)) => unsafe { core::slice::from_raw_parts_mut(place.cast(), len) },
        _ => &mut [],
    })
}

unsafe fn receive_message(fd: c_int, msg: *mut msghdr, flags: c_int) -> Outcome<usize> {
    if !can_fill(msg) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the program says that it points to a message, which no other thread touches.
    let msg = unsafe { &mut *msg };
    // SAFETY: passed on from the program.
    let mut bufs = unsafe { all_writable(msg.msg_iov, buffer_count(msg)?) }?;
    sockaddr::room_for(if msg.msg_name.is_null() { 0 } else { msg.msg_namelen }, 0)?;
    let entry = socket(fd)?;
    if flags & libc::MSG_ERRQUEUE != 0 {
        // SAFETY: passed on from the program.
        return unsafe { receive_error(&entry, msg, &mut bufs, flags) };
    }
    let received = receive_bufs(fd, &mut bufs, flags)?;
    // SAFETY: passed on from the program.
    unsafe { put_name(msg, received.from, entry.socket.family()) }?;
    // SAFETY: passed on from the program.
    let mut room = cmsg::Room::new(unsafe { control(msg) }?);
    if entry.stamps() != StampForm::None && lacks_time(&entry, &received, flags) {
        room.tell_time(entry.stamps(), SystemTime::now());
    }
    if let Some(how) = &received.ancillary {
        room.tell(how, entry.socket.family());
    }
    if entry.tells_unread() {
        room.tell_unread(unread(&entry));
    }
    let (used, cut) = (room.used, room.cut);
    msg.msg_controllen = used;
    msg.msg_flags = if received.full_len > received.len { libc::MSG_TRUNC } else { 0 };
    msg.msg_flags |= if cut { libc::MSG_CTRUNC } else { 0 };
    // As Linux: it was urgent.
    msg.msg_flags |= flags & (libc::MSG_OOB | libc::MSG_CMSG_CLOEXEC);
    Ok(result_len(&received, flags))
}

/// Is the time of what was received not known? A stream does not say when its bytes came. A
/// datagram does, if it came after the program asked for times. Otherwise the time is that of the
/// call, as Linux does with such datagrams.
#[cold]
fn lacks_time(entry: &OpenSocket, received: &Received, flags: c_int) -> bool {
    match entry.socket.kind() {
        SocketKind::Stream => received.len > 0 && flags & libc::MSG_OOB == 0,
        _ => !received.ancillary.as_ref().is_some_and(|how| how.asked.has_any(cmsg::TIMES)),
    }
}

/// The bytes that are left to be read. At the end of the stream 1, as on Linux: a program reads
/// once more.
#[cold]
fn unread(entry: &OpenSocket) -> usize {
    match entry.socket.readable_len() {
        0 => (entry.socket.readiness().events & sockets::poll::RDHUP != 0).into(),
        len => len,
    }
}

/// Receives an entry of the error queue.
///
/// # Safety
/// The message's buffers for the address and for control messages are there, as it says.
#[cold]
unsafe fn receive_error(
    entry: &OpenSocket,
    msg: &mut msghdr,
    bufs: &mut [IoSliceMut<'_>],
    flags: c_int,
) -> Outcome<usize> {
    let family = entry.socket.family();
    let error = entry.socket.take_queued_error().map_err(|errno| match errno {
        // Another process uses the socket at this moment.
        Errno::STALE => Errno::AGAIN,
        other => other,
    })?;
    let received = transfer::error_packet(&error, bufs);
    // SAFETY: passed on from the caller.
    unsafe { put_name(msg, received.from, family) }?;
    // SAFETY: passed on from the caller.
    let mut room = cmsg::Room::new(unsafe { control(msg) }?);
    room.tell_error(&error, family);
    msg.msg_controllen = room.used;
    msg.msg_flags = libc::MSG_ERRQUEUE | flags & libc::MSG_CMSG_CLOEXEC;
    msg.msg_flags |= if room.cut { libc::MSG_CTRUNC } else { 0 };
    msg.msg_flags |= if error.payload.len() > received.len { libc::MSG_TRUNC } else { 0 };
    Ok(received.len)
}

unsafe fn put_name(msg: &mut msghdr, from: Option<SocketAddr>, family: Family) -> Outcome<()> {
    match from {
        // SAFETY: the program says that there is room for `msg_namelen` bytes.
        Some(from) => unsafe {
            sockaddr::copy_out(from, family, msg.msg_name.cast(), &raw mut msg.msg_namelen)
        },
        None => {
            msg.msg_namelen = 0;
            Ok(())
        }
    }
}

/// The messages at `vec`.
///
/// # Safety
/// `vec` is null or points to `count` messages that no other thread touches.
unsafe fn messages<'a>(vec: *mut mmsghdr, count: c_uint) -> Outcome<&'a mut [mmsghdr]> {
    let count = usize::try_from(count).unwrap_or(MOST_MESSAGES).min(MOST_MESSAGES);
    match (count, !can_read(vec, count * size_of::<mmsghdr>())) {
        (0, _) => Ok(&mut []),
        (_, true) => Err(Errno::FAULT),
        // SAFETY: not null, and the caller says that so many are there.
        (count, false) => Ok(unsafe { core::slice::from_raw_parts_mut(vec, count) }),
    }
}

/// Does `one` for each message until one fails. The messages before it count.
fn for_each(
    messages: &mut [mmsghdr],
    mut one: impl FnMut(&mut msghdr, usize) -> Outcome<usize>,
) -> Outcome<c_int> {
    let mut done = 0;
    for (at, message) in messages.iter_mut().enumerate() {
        match one(&mut message.msg_hdr, at) {
            Ok(len) => message.msg_len = c_uint::try_from(len).unwrap_or(c_uint::MAX),
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
        done += 1;
    }
    Ok(done)
}

unsafe fn send_messages(
    fd: c_int,
    vec: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> Outcome<c_int> {
    // SAFETY: passed on from the program.
    let messages = unsafe { messages(vec, count) }?;
    // SAFETY: passed on from the program.
    for_each(messages, |msg, _| unsafe { send_message(fd, msg, flags) })
}

unsafe fn receive_messages(
    fd: c_int,
    vec: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *const timespec,
) -> Outcome<c_int> {
    // SAFETY: passed on from the program.
    let deadline = unsafe { poll::deadline(timeout) }?;
    // As Linux: a pending error comes first, whatever there is to be received.
    let entry = socket(fd)?;
    if flags & libc::MSG_ERRQUEUE == 0
        && let Some(errno) = entry.socket.take_error()
    {
        return Err(errno);
    }
    // SAFETY: passed on from the program.
    let messages = unsafe { messages(vec, count) }?;
    for_each(messages, |msg, at| {
        let flags = flags_of_message(flags, at, deadline)?;
        // SAFETY: passed on from the program.
        unsafe { receive_message(fd, msg, flags) }
    })
}

/// recvmmsg's flags for its message number `at`. As on Linux, the timeout is looked at between
/// messages only.
///
/// # Errors
/// EAGAIN when the time is over.
fn flags_of_message(flags: c_int, at: usize, deadline: Option<Instant>) -> Outcome<c_int> {
    if at > 0 && time::passed(deadline) {
        return Err(Errno::AGAIN);
    }
    let wait_for_one = flags & libc::MSG_WAITFORONE != 0;
    let dont_wait = if wait_for_one && at > 0 { libc::MSG_DONTWAIT } else { 0 };
    Ok((flags & !libc::MSG_WAITFORONE) | dont_wait)
}

/// Calls `each` with the descriptors of a message of a kernel socket.
///
/// # Safety
/// `msg` is null or points to a message, whose control buffer is as long as it says.
unsafe fn passed_descriptors(msg: *const msghdr, mut each: impl FnMut(c_int)) {
    if !can_read(msg, size_of::<msghdr>()) {
        return;
    }
    // SAFETY: as the caller says.
    let Some(message) = (unsafe { msg.as_ref() }) else { return };
    let (place, len) = (message.msg_control, message.msg_controllen);
    if place.is_null() || !instance::is_wanted() || !can_read(place, len) {
        return;
    }
    // SAFETY: the buffer is there, and these walk within its length.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(msg) };
    // SAFETY: not null, so within the buffer.
    while let Some(part) = unsafe { header.as_ref() } {
        if (part.cmsg_level, part.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: the header is there, and its data follows.
            let data = unsafe { libc::CMSG_DATA(header) }.cast::<c_int>();
            // SAFETY: no pointers.
            let head = unsafe { libc::CMSG_LEN(0) } as usize;
            for at in 0..part.cmsg_len.saturating_sub(head) / size_of::<c_int>() {
                // SAFETY: within the message's length.
                let place = unsafe { data.add(at) };
                // SAFETY: as above.
                each(unsafe { place.read_unaligned() });
            }
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(msg, header) };
    }
}

/// Makes sockets shared that a message passes to another process. False.
unsafe fn share_passed(msg: *const msghdr) -> bool {
    let mut passed = Vec::new();
    // SAFETY: passed on from the program.
    unsafe {
        passed_descriptors(msg, |fd| {
            if TABLE.kind(fd) == Kind::Socket {
                passed.push(fd);
            }
        });
    }
    if !passed.is_empty() {
        sharing::share(|fd| passed.contains(&fd));
    }
    false
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    if is_socket(fd) {
        trace!(recvmsg(fd, msg, flags));
        // SAFETY: passed on from the program.
        return Return::of(move || unsafe { receive_message(fd, msg, flags) });
    }
    // SAFETY: passed on from the program. A thread may be cancelled in it.
    let done = unsafe { real::recvmsg(fd, msg, flags) };
    if done >= 0 {
        // SAFETY: the kernel has filled it.
        unsafe { passed_descriptors(msg, note_passed) };
    }
    done
}

/// A message has brought a descriptor.
pub(super) fn note_passed(fd: c_int) {
    if adopted::is_marked(fd) {
        TABLE.take(fd);
        TABLE.put_inherited(fd);
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    vec: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if is_socket(fd) {
        // SAFETY: passed on from the program.
        return Return::of(move || unsafe { receive_messages(fd, vec, count, flags, timeout) });
    }
    // SAFETY: as in recvmsg.
    let done = unsafe { real::recvmmsg(fd, vec, count, flags, timeout) };
    let received = c_uint::try_from(done).unwrap_or(0);
    // SAFETY: the kernel has filled so many messages.
    for message in unsafe { messages(vec, received) }.unwrap_or_default() {
        // SAFETY: as above.
        unsafe { passed_descriptors(&raw const message.msg_hdr, note_passed) };
    }
    done
}

/// [`share_passed`] for the messages of sendmmsg.
unsafe fn share_all_passed(vec: *mut mmsghdr, count: c_uint) -> bool {
    // SAFETY: passed on from the program.
    let all = unsafe { messages(vec, count) }.unwrap_or_default();
    // SAFETY: passed on from the program.
    all.iter().any(|message| unsafe { share_passed(&raw const message.msg_hdr) })
}

interpose! {
    fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
        is_socket(fd) || share_passed(msg) => send_message(fd, msg, flags)
    }
    fn sendmmsg(fd: c_int, vec: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        is_socket(fd) || share_all_passed(vec, count) => send_messages(fd, vec, count, flags)
    }
}

#[cfg(test)]
mod tests {
    use core::mem::zeroed;
    use core::time::Duration;

    use super::*;

    #[test]
    fn recvmmsg_flags() {
        let one = libc::MSG_WAITFORONE | libc::MSG_PEEK;
        assert_eq!(flags_of_message(one, 0, None), Ok(libc::MSG_PEEK));
        assert_eq!(flags_of_message(one, 1, None), Ok(libc::MSG_PEEK | libc::MSG_DONTWAIT));
        assert_eq!(flags_of_message(0, 1, None), Ok(0));
        let over = time::after(Duration::ZERO);
        assert_eq!(flags_of_message(0, 0, over), Ok(0));
        assert_eq!(flags_of_message(0, 1, over), Err(Errno::AGAIN));
    }

    #[test]
    fn messages_before_an_error_count() {
        // SAFETY: an mmsghdr is integers and pointers that may be null.
        let mut messages: [mmsghdr; 3] = unsafe { zeroed() };
        let two = |_: &mut msghdr, at: usize| if at < 2 { Ok(at + 5) } else { Err(Errno::AGAIN) };
        assert_eq!(for_each(&mut messages, two), Ok(2));
        assert_eq!(messages.map(|message| message.msg_len), [5, 6, 0]);
        assert_eq!(for_each(&mut messages, |_, _| Err(Errno::AGAIN)), Err(Errno::AGAIN));
        assert_eq!(for_each(&mut [], |_, _| Err(Errno::AGAIN)), Ok(0));
    }
}

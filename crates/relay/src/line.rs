//! The line by which a program's filter reaches its relay.
//!
//! The program's process installs the filter itself, between fork and exec. It sends the filter's
//! end over a socket pair to the relay, which `tasuki run` has started before.

#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::filter;

/// Gives the process of `command` the filter, right before it becomes the program, and sends the
/// filter's end over `line`. Where the system refuses, `required` says whether the program starts
/// all the same; a sentence on standard error says what that means.
pub fn attach(command: &mut Command, line: OwnedFd, required: bool) {
    let begin = move || match filter::install() {
        Ok(end) => send(&line, end.as_fd()).inspect_err(|_| say(GONE, "\n")),
        Err(error) if required => Err(error),
        Err(error) => {
            report(&error);
            Ok(())
        }
    };
    // SAFETY: between fork and exec it makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(begin) };
}

/// Gives the process of `command` a filter that refuses what the library does not make: without an
/// end, since there is no relay. Where the system refuses the filter, a sentence says so.
pub fn refuse(command: &mut Command) {
    let begin = || {
        if let Err(error) = filter::install_refusing() {
            report(&error);
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(begin) };
}

/// Its own message, on the same standard error, says why.
const GONE: &str = "tasuki: the relay has ended, so the program does not start";

/// Two sentences; the errors that have words of their own are the usual ones.
fn report(error: &io::Error) {
    let why = match error.raw_os_error() {
        Some(libc::EBUSY) => {
            "tasuki: this process has a filter of system calls with a relay already"
        }
        Some(libc::EINVAL) => "tasuki: the kernel has no filter with a relay (Linux 5.19 has)",
        _ => "tasuki: the system refuses a filter of system calls",
    };
    let so =
        ": programs that make system calls without libc use that one's network, or the host's\n";
    say(why, so);
}

/// With one system call, and no buffer.
fn say(why: &str, so: &str) {
    let parts = [IoSlice::new(why.as_bytes()), IoSlice::new(so.as_bytes())];
    // SAFETY: standard error is used for this one write only; if it is closed, the write fails.
    let stderr = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    let _ = rustix::io::writev(stderr, &parts);
}

fn send(line: &OwnedFd, end: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [end];
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(line, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for the filter's end. `None`: there is no program, or it has no filter.
pub fn receive(line: &OwnedFd) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(line, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    });
    received.ok()?;
    ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })
}

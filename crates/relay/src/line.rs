//! The line by which a program's filter reaches its relay.
//!
//! The program's process installs the filter itself, between fork and exec. It sends the filter's
//! end over a socket pair to the relay, which `tasuki run` has started before.

#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::filter;
use crate::resolver::ResolverFile;

/// Longest path of an instance's socket: more than unix(7) takes.
const LONGEST_PATH: usize = 256;

/// What the relay of a program gets from the program's process.
#[derive(Debug)]
pub struct ProgramEnds {
    /// The socket of the program's instance.
    pub instance: PathBuf,
    /// The filter's end.
    pub calls: OwnedFd,
    /// The file that the program sees as /etc/resolv.conf, to be written.
    pub resolver: Option<OwnedFd>,
}

/// Gives the process of `command` the filter, right before it becomes the program, and sends the
/// filter's end over `line`, with the path of its `instance`. Where the system refuses, `required`
/// says whether the program starts all the same; a sentence on standard error says what that means.
/// The program sees `resolver` as /etc/resolv.conf, where the system lets it.
pub fn attach(
    command: &mut Command,
    line: OwnedFd,
    instance: &Path,
    required: bool,
    resolver: Option<ResolverFile>,
) {
    let instance = instance.as_os_str().as_bytes().to_vec();
    let begin = move || {
        let shown = resolver.as_ref().and_then(|file| match file.show() {
            Ok(shown) => Some(shown),
            Err(_) => {
                say(NOT_SHOWN, ": the program asks the host's name servers\n");
                None
            }
        });
        match filter::install() {
            Ok(end) => send(&line, &instance, end.as_fd(), shown.as_ref().map(AsFd::as_fd))
                .inspect_err(|_| say(GONE, "\n")),
            Err(error) if required => Err(error),
            Err(error) => {
                report(&error);
                Ok(())
            }
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

/// Before the sentence says what that means.
const NOT_SHOWN: &str = "tasuki: the system lets this user put no file over /etc/resolv.conf";

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

fn send(
    line: &OwnedFd,
    instance: &[u8],
    end: BorrowedFd<'_>,
    resolver: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let both = [end, resolver.unwrap_or(end)];
    let fds = if resolver.is_some() { &both[..] } else { &both[..1] };
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    sendmsg(line, &[IoSlice::new(instance)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for the filter's end. `None`: there is no program, or it has no filter.
pub fn receive(line: &OwnedFd) -> Option<ProgramEnds> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut path = [0; LONGEST_PATH];
    let mut parts = [IoSliceMut::new(&mut path)];
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(line, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    });
    let bytes = received.ok()?.bytes;
    let instance = PathBuf::from(OsStr::from_bytes(path.get(..bytes)?));
    ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => {
            let (calls, resolver) = (fds.next()?, fds.next());
            Some(ProgramEnds { instance: instance.clone(), calls, resolver })
        }
        _ => None,
    })
}

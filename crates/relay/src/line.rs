//! The line by which a program's filter reaches its relay.
//!
//! The program's process installs the filter itself, between fork and exec. It sends the filter's
//! end over a socket pair to the relay, which `tasuki run` has started before. It becomes the
//! program when the relay answers: no process of the program's user can look into the relay then.
//!
//! A program never starts without a filter. What it lacks, it lacks in network.

#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

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

/// How a program gets its filter and reaches its relay.
#[derive(Debug)]
pub struct Attachment {
    /// The program's end of the line.
    pub line: OwnedFd,
    /// The socket of the program's instance.
    pub instance: PathBuf,
    /// The program sees it as /etc/resolv.conf, where the system lets it.
    pub resolver: Option<ResolverFile>,
    /// It is to be the relay that makes the program's sockets, and not only what is left to it.
    pub required: bool,
    /// The exit code of a process that does not become the program.
    pub not_started: u8,
}

/// Gives the process of `command` the filter, right before it becomes the program, and sends the
/// filter's end over the line. The program starts when its relay says that no process of the same
/// user can look into it any more.
///
/// Where the system refuses this filter, the program gets one that refuses all calls but the
/// library's. Where it refuses that as well, or the relay has ended, there is no program: a
/// sentence on standard error says why.
pub fn attach(command: &mut Command, with: Attachment) {
    let Attachment { line, instance, resolver, required, not_started } = with;
    let instance = instance.into_os_string().into_vec();
    let begin = move || {
        let shown = resolver.as_ref().and_then(|file| match file.show() {
            Ok(shown) => Some(shown),
            Err(_) => {
                say(NOT_SHOWN, ": the program asks the host's name servers\n");
                None
            }
        });
        match filter::install() {
            Ok(end) => {
                let sent = send(&line, &instance, end.as_fd(), shown.as_ref().map(AsFd::as_fd));
                drop(end);
                if sent.is_err() || !is_released(&line) {
                    say(GONE, "\n");
                    end_process(not_started);
                }
            }
            Err(error) if required => {
                say(why(&error), NO_PROGRAM);
                end_process(not_started);
            }
            Err(error) => refuse_others(&error, not_started),
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(begin) };
}

/// Gives the process of `command` a filter that refuses what the library does not make: without an
/// end, since there is no relay. Where the system refuses the filter, there is no program, as with
/// [`attach`].
pub fn refuse(command: &mut Command, not_started: u8) {
    let begin = move || {
        if let Err(error) = filter::install_refusing() {
            say(why(&error), NO_PROGRAM);
            end_process(not_started);
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(begin) };
}

/// Has the program end with this process, whatever ends it. A program that changes its user, or
/// executes one that gains rights, takes this back (prctl(2), PR_SET_PDEATHSIG).
pub fn end_with_caller(command: &mut Command) {
    let caller = rustix::process::getpid();
    let begin = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The caller may have ended just before.
        if getppid() == Some(caller) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(begin) };
}

/// A filter without a relay, because of `error`.
fn refuse_others(error: &io::Error, not_started: u8) {
    if filter::install_refusing().is_err() {
        say(why(error), NO_PROGRAM);
        end_process(not_started);
    }
    say(why(error), NO_OTHERS);
}

/// Its own message, on the same standard error, says why.
const GONE: &str = "tasuki: the relay has ended, so the program does not start";

/// Before the sentence says what that means.
const NOT_SHOWN: &str = "tasuki: the system lets this user put no file over /etc/resolv.conf";

/// After [`why`].
const NO_PROGRAM: &str = ", so the program does not start: it could use the host's network (with \
                          --intercept preload it may)\n";
const NO_OTHERS: &str =
    ": calls that the preloaded library does not make have no network (ENETDOWN)\n";

/// The begin of a sentence; the errors that have words of their own are the usual ones.
fn why(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EBUSY) => {
            "tasuki: this process has a filter of system calls with a relay already"
        }
        Some(libc::EINVAL) => "tasuki: the kernel has no filter with a relay (Linux 5.19 has)",
        _ => "tasuki: the system refuses this process a filter of system calls (seccomp)",
    }
}

/// Ends a process that was to become the program.
fn end_process(code: u8) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(code.into()) }
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

/// Waits until the relay says that it is out of the program's reach. False: it has ended.
fn is_released(line: &OwnedFd) -> bool {
    matches!(rustix::io::retry_on_intr(|| rustix::io::read(line, &mut [0])), Ok(1))
}

/// Lets the program start, which waits for it.
///
/// # Errors
/// EPIPE: its process has ended.
pub(crate) fn release(line: &OwnedFd) -> io::Result<()> {
    rustix::net::send(line, &[0], SendFlags::NOSIGNAL)?;
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

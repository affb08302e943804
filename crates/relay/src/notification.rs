//! Notifications of seccomp(2): a program has made a call, and waits for our answer.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;

use libc::{seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp};
use rustix::io::Errno;

use crate::call::{Notification, is_introduction};
use crate::home::HomeNetwork;
use crate::system::{check, errno};
use crate::trace::{Answer, CallTrace};

/// The end at which calls are notified.
pub(crate) struct NotificationSocket {
    fd: OwnedFd,
    trace: Option<CallTrace>,
    /// Where the programs were started.
    home: Option<HomeNetwork>,
}

impl NotificationSocket {
    /// `trace` gets a line for each call. This process is where the programs were started.
    pub(crate) fn new(fd: OwnedFd, trace: Option<CallTrace>) -> Self {
        Self { fd, trace, home: HomeNetwork::current() }
    }

    /// Another descriptor of it, for waiting.
    ///
    /// # Errors
    /// EMFILE.
    pub(crate) fn try_clone(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// The next call. `None`: it was given up before it was read.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn receive(&self) -> io::Result<Option<Notification>> {
        // SAFETY: numbers, for which zero is a value; the kernel wants them zero.
        let mut raw: seccomp_notif = unsafe { core::mem::zeroed() };
        // SAFETY: the call writes one seccomp_notif.
        let done = check(unsafe {
            libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut raw)
        });
        match done {
            Ok(_) => Ok(Some(Notification {
                id: raw.id,
                begun: Instant::now(),
                thread: raw.pid,
                left: self.home.as_ref().is_some_and(|home| home.is_left_by(raw.pid)),
                call: raw.data.nr.into(),
                arguments: raw.data.args,
            })),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The kernel makes the call as it is.
    pub(crate) fn let_through(&self, call: &Notification) {
        self.trace(call, &Answer::LetThrough);
        self.send(call, (0, 0), libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
    }

    /// The call returns 0, or fails with this number.
    pub(crate) fn answer(&self, call: &Notification, result: Result<(), Errno>) {
        self.trace(call, &Answer::Done(result));
        let error = result.err().map_or(0, |errno| -errno.raw_os_error());
        self.send(call, (0, error), 0);
    }

    /// The call returns a new descriptor of the program, a duplicate of `fd`. It fails as dup(2)
    /// does, with EMFILE for one.
    ///
    /// `fd` is closed before the call returns: another copy would keep what the program closes.
    pub(crate) fn answer_with(&self, call: &Notification, fd: OwnedFd, close_on_exec: bool) {
        let add = seccomp_notif_addfd {
            id: call.id,
            flags: 0,
            srcfd: fd.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
        };
        // SAFETY: the call reads one seccomp_notif_addfd.
        let done = check(unsafe {
            libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const add)
        });
        drop(fd);
        match done {
            Ok(number) => {
                // A connection to the instance is the library's affair.
                if !is_introduction(call) {
                    self.trace(call, &Answer::Descriptor(number));
                }
                self.send(call, (number.into(), 0), 0);
            }
            Err(error) => self.answer(call, Err(errno(&error))),
        }
    }

    fn trace(&self, call: &Notification, answer: &Answer) {
        if let Some(trace) = &self.trace {
            trace.line(call, answer);
        }
    }

    /// A caller that was killed meanwhile needs no answer, so errors do not matter.
    fn send(&self, call: &Notification, (val, error): (i64, i32), flags: u32) {
        let reply = seccomp_notif_resp { id: call.id, val, error, flags };
        // SAFETY: the call reads one seccomp_notif_resp.
        let _ = check(unsafe {
            libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const reply)
        });
    }
}

impl AsFd for NotificationSocket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

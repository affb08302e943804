//! The registrations of an epoll set: level, edge, one shot.
//!
//! A registration is named by descriptor number *and* open socket, as the kernel's is by open file.
//! An edge is a change of the socket's `version`, which the server counts up with every event. As
//! with the kernel, an edge reports all that is ready, not only what is new.

use core::ffi::c_int;

use rustix::io::Errno;
use sockets::Readiness;

use crate::errno::Outcome;

/// `EPOLLERR | EPOLLHUP`, reported even if not requested.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();
const EDGE: u32 = libc::EPOLLET.cast_unsigned();
const ONE_SHOT: u32 = libc::EPOLLONESHOT.cast_unsigned();

/// Of several sets with the same source one is woken: here all are, which Linux allows too.
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE.cast_unsigned();
/// All that may be asked for beside EPOLLEXCLUSIVE.
const WITH_EXCLUSIVE: u32 = ALWAYS
    | EDGE
    | EXCLUSIVE
    | (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLWAKEUP).cast_unsigned();

/// Something that can be watched.
pub(crate) trait Source: Clone {
    /// The events that it is ready for.
    fn readiness(&self) -> Readiness;
    /// Is this the same open file?
    fn is(&self, other: &Self) -> bool;
}

/// The events and user data given to `epoll_ctl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interest {
    /// Events and flags.
    pub(crate) events: u32,
    /// Given back unchanged.
    pub(crate) data: u64,
}

struct Registration<S> {
    fd: c_int,
    source: S,
    interest: Interest,
    /// False after a one-shot report, until modified.
    armed: bool,
    /// The version that an edge-triggered report was made for.
    reported: Option<u32>,
    /// The version that was last looked at.
    seen: u32,
}

impl<S: Source> Registration<S> {
    /// Events to report now, 0 for none.
    fn due(&self, now: Readiness) -> u32 {
        let old_edge = self.interest.events & EDGE != 0 && self.reported == Some(now.version);
        let wanted = (self.interest.events & !(EDGE | ONE_SHOT)) | ALWAYS;
        if self.armed && !old_edge { now.events & wanted } else { 0 }
    }
}

/// The registrations of one set.
pub(crate) struct Registrations<S> {
    list: Vec<Registration<S>>,
    /// Where the next look begins, so that no socket starves when more are ready than there is room
    /// for.
    next: usize,
}

impl<S> Default for Registrations<S> {
    fn default() -> Self {
        Self { list: Vec::new(), next: 0 }
    }
}

impl<S: Source> Registrations<S> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// EPOLL_CTL_ADD.
    ///
    /// # Errors
    /// EINVAL for events that EPOLLEXCLUSIVE does not allow, EEXIST when it is there already.
    pub(crate) fn add(&mut self, fd: c_int, source: &S, interest: Interest) -> Outcome<()> {
        if interest.events & EXCLUSIVE != 0 && interest.events & !WITH_EXCLUSIVE != 0 {
            return Err(Errno::INVAL);
        }
        if self.find(fd, source).is_ok() {
            return Err(Errno::EXIST);
        }
        let source = source.clone();
        self.list.push(Registration { fd, source, interest, armed: true, reported: None, seen: 0 });
        Ok(())
    }

    /// EPOLL_CTL_MOD: arms again. An edge that was reported counts as new.
    ///
    /// # Errors
    /// ENOENT when it is not there, EINVAL when it has or gets EPOLLEXCLUSIVE.
    pub(crate) fn modify(&mut self, fd: c_int, source: &S, interest: Interest) -> Outcome<()> {
        if interest.events & EXCLUSIVE != 0 {
            return Err(Errno::INVAL);
        }
        let at = self.find(fd, source)?;
        let registration = &mut self.list[at];
        if registration.interest.events & EXCLUSIVE != 0 {
            return Err(Errno::INVAL);
        }
        registration.interest = interest;
        registration.armed = true;
        registration.reported = None;
        Ok(())
    }

    /// EPOLL_CTL_DEL.
    ///
    /// # Errors
    /// ENOENT when it is not there.
    pub(crate) fn delete(&mut self, fd: c_int, source: &S) -> Outcome<()> {
        let at = self.find(fd, source)?;
        self.list.remove(at);
        Ok(())
    }

    /// Removes all registrations of a closed socket.
    pub(crate) fn forget(&mut self, source: &S) {
        self.list.retain(|registration| !registration.source.is(source));
    }

    /// Reports at most `room` ready sources, and remembers the versions seen. Returns the number of
    /// reports.
    pub(crate) fn collect(&mut self, room: usize, mut report: impl FnMut(u32, u64)) -> usize {
        let count = self.list.len();
        let begin = if self.next < count { self.next } else { 0 };
        let mut reports = 0;
        for at in (begin..count).chain(0..begin) {
            if reports == room {
                break;
            }
            let registration = &mut self.list[at];
            let now = registration.source.readiness();
            registration.seen = now.version;
            let events = registration.due(now);
            if events != 0 {
                report(events, registration.interest.data);
                registration.reported = Some(now.version);
                registration.armed = registration.interest.events & ONE_SHOT == 0;
                reports += 1;
                self.next = at + 1;
            }
        }
        reports
    }

    /// Is there something to report? Takes nothing away, but remembers the versions seen.
    pub(crate) fn is_ready(&mut self) -> bool {
        let mut ready = false;
        for registration in &mut self.list {
            let now = registration.source.readiness();
            registration.seen = now.version;
            ready |= registration.due(now) != 0;
        }
        ready
    }

    /// The sources that a sleep must watch: the armed ones, with the versions last seen.
    pub(crate) fn watched(&self) -> Vec<(S, u32)> {
        let armed = self.list.iter().filter(|registration| registration.armed);
        armed.map(|registration| (registration.source.clone(), registration.seen)).collect()
    }

    fn find(&self, fd: c_int, source: &S) -> Outcome<usize> {
        let same = |it: &Registration<S>| it.fd == fd && it.source.is(source);
        self.list.iter().position(same).ok_or(Errno::NOENT)
    }
}

#[cfg(test)]
mod tests;

//! The registrations of an epoll set: level, edge, one shot.
//!
//! A registration is named by descriptor number *and* open socket, as the kernel's is by open file.
//! An edge is a change of the socket's `version`, which the server counts up with every event. As
//! with the kernel, an edge reports all that is ready, not only what is new.

use core::ffi::c_int;
use std::collections::VecDeque;

use rustix::io::Errno;
use sockets::Readiness;

use crate::errno::Outcome;

/// `EPOLLERR | EPOLLHUP`, reported even if not requested.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();
const EDGE: u32 = libc::EPOLLET.cast_unsigned();
const OUT: u32 = libc::EPOLLOUT.cast_unsigned();
/// Numbers of removed registrations that may lie among the candidates, beside twice the others.
const MOST_STALE: usize = 64;
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
    /// A small number by which its news are known. Another source may have had it before.
    fn place(&self) -> u16;
    /// The threads with these bits get news of its next change.
    fn notify(&self, threads: u64);
    /// May it become ready to send without news?
    fn lacks_memory(&self) -> bool;
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
    /// Its ticket among the candidates, 0 if it is none.
    ticket: u64,
    /// The threads that get news of its next change, or have news of it that they did not take.
    notified: u64,
    /// The next registration of the same place.
    next: Option<usize>,
}

impl<S: Source> Registration<S> {
    /// Events to report now, 0 for none.
    fn due(&self, now: Readiness) -> u32 {
        let old_edge = self.interest.events & EDGE != 0 && self.reported == Some(now.version);
        let wanted = (self.interest.events & !(EDGE | ONE_SHOT)) | ALWAYS;
        if self.armed && !old_edge { now.events & wanted } else { 0 }
    }

    /// Remembers a look. 1 if it found something new to report, otherwise 0.
    fn see(&mut self, now: Readiness, events: u32) -> u32 {
        let is_new = events != 0 && self.seen != now.version;
        self.seen = now.version;
        is_new.into()
    }

    /// Is it not ready because the sending pool is empty?
    fn waits_for_memory(&self, now: Readiness) -> bool {
        self.interest.events & OUT & !now.events != 0 && self.source.lacks_memory()
    }
}

/// The registrations of one set.
///
/// *Candidates* are those that a thread must look at. All others were looked at, and each thread of
/// `threads` gets news of their next change. News make a registration a candidate again. So a wait
/// looks at what changed, and at what was ready.
pub(crate) struct Registrations<S> {
    list: Vec<Option<Registration<S>>>,
    free: Vec<usize>,
    len: usize,
    /// By place: the first registration.
    places: Vec<Option<usize>>,
    /// With their tickets. One whose ticket is another is none any more.
    candidates: VecDeque<(usize, u64)>,
    tickets: u64,
    /// The threads that have waited by news.
    threads: u64,
    /// Where the next look at all begins, so that no socket starves when more are ready than there
    /// is room for.
    next: usize,
    /// Where there was a registration.
    member: usize,
    /// Looks that found a member ready for something new, counted.
    edges: u32,
}

impl<S> Default for Registrations<S> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            free: Vec::new(),
            len: 0,
            places: Vec::new(),
            candidates: VecDeque::new(),
            tickets: 0,
            threads: 0,
            next: 0,
            member: 0,
            edges: 0,
        }
    }
}

impl<S: Source> Registrations<S> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// One of the sources.
    pub(crate) fn any(&mut self) -> Option<&S> {
        if self.list.get(self.member).is_none_or(Option::is_none) {
            self.member = self.list.iter().position(Option::is_some)?;
        }
        self.list[self.member].as_ref().map(|registration| &registration.source)
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
        let place = usize::from(source.place());
        if self.places.len() <= place {
            self.places.resize(place + 1, None);
        }
        let registration = Registration {
            fd,
            source: source.clone(),
            interest,
            armed: true,
            reported: None,
            seen: 0,
            ticket: 0,
            notified: 0,
            next: self.places[place],
        };
        let at = self.free.pop().unwrap_or(self.list.len());
        match self.list.get_mut(at) {
            Some(empty) => *empty = Some(registration),
            None => self.list.push(Some(registration)),
        }
        self.places[place] = Some(at);
        self.len += 1;
        self.look_again(at);
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
        let Some(registration) = &mut self.list[at] else { return Err(Errno::NOENT) };
        if registration.interest.events & EXCLUSIVE != 0 {
            return Err(Errno::INVAL);
        }
        registration.interest = interest;
        registration.armed = true;
        registration.reported = None;
        self.look_again(at);
        Ok(())
    }

    /// All of them, by number. One that has made its one report asks for no events.
    pub(crate) fn all(&self) -> impl Iterator<Item = (c_int, Interest)> {
        self.list.iter().flatten().map(|one| {
            let Interest { events, data } = one.interest;
            let events = if one.armed { events } else { 0 };
            (one.fd, Interest { events, data })
        })
    }

    /// EPOLL_CTL_DEL.
    ///
    /// # Errors
    /// ENOENT when it is not there.
    pub(crate) fn delete(&mut self, fd: c_int, source: &S) -> Outcome<()> {
        let at = self.find(fd, source)?;
        self.remove(at);
        Ok(())
    }

    /// Removes all registrations of a closed socket.
    pub(crate) fn forget(&mut self, source: &S) {
        let mut next = self.first_of(source.place());
        while let Some(at) = next {
            let Some(registration) = &self.list[at] else { break };
            next = registration.next;
            if registration.source.is(source) {
                self.remove(at);
            }
        }
    }

    fn first_of(&self, place: u16) -> Option<usize> {
        self.places.get(usize::from(place)).copied().flatten()
    }

    fn remove(&mut self, at: usize) {
        let Some(removed) = self.list[at].take() else { return };
        let place = usize::from(removed.source.place());
        if self.places[place] == Some(at) {
            self.places[place] = removed.next;
        } else {
            let mut before = self.places[place];
            while let Some(index) = before {
                let Some(registration) = &mut self.list[index] else { break };
                if registration.next == Some(at) {
                    registration.next = removed.next;
                    break;
                }
                before = registration.next;
            }
        }
        self.free.push(at);
        self.len -= 1;
    }

    /// Makes a registration a candidate.
    fn look_again(&mut self, at: usize) {
        let Some(registration) = self.list[at].as_mut().filter(|it| it.ticket == 0) else { return };
        self.tickets += 1;
        registration.ticket = self.tickets;
        self.candidates.push_back((at, self.tickets));
        // Removed ones leave their tickets behind.
        if self.candidates.len() > 2 * self.len + MOST_STALE {
            let list = &self.list;
            let there = |&(at, ticket): &(usize, u64)| {
                list[at].as_ref().is_some_and(|it| it.ticket == ticket)
            };
            self.candidates.retain(there);
        }
    }

    /// The sources of a place changed, and the threads with these bits have taken the news.
    pub(crate) fn on_news(&mut self, place: u16, threads: u64) {
        let mut next = self.first_of(place);
        while let Some(at) = next {
            let Some(registration) = &mut self.list[at] else { break };
            next = registration.next;
            registration.notified &= !threads;
            self.look_again(at);
        }
    }

    /// Reports at most `room` ready sources to a thread that has taken its news, by its bit. Looks
    /// at candidates only. Returns the number of reports.
    pub(crate) fn collect_news(
        &mut self,
        thread: u64,
        room: usize,
        mut report: impl FnMut(u32, u64),
    ) -> usize {
        self.join(thread);
        // Later tickets are of those that this wait has looked at.
        let last = self.tickets;
        let mut reports = 0;
        while let Some(&(at, ticket)) = self.candidates.front().filter(|(_, it)| *it <= last) {
            if reports == room {
                break;
            }
            self.candidates.pop_front();
            let Some((registration, now, events)) = self.look_at((at, ticket)) else { continue };
            if events != 0 {
                report(events, registration.interest.data);
                registration.reported = Some(now.version);
                registration.armed = registration.interest.events & ONE_SHOT == 0;
                reports += 1;
            }
            let again = match events {
                0 => registration.waits_for_memory(now),
                _ => registration.armed && registration.interest.events & EDGE == 0,
            };
            if again {
                self.look_again(at);
            }
        }
        reports
    }

    /// Looks at a candidate, if it still is one: its registration, state, and the events to report.
    #[inline]
    fn look_at(
        &mut self,
        (at, ticket): (usize, u64),
    ) -> Option<(&mut Registration<S>, Readiness, u32)> {
        let threads = self.threads;
        let registration = self.list[at].as_mut().filter(|it| it.ticket == ticket)?;
        registration.ticket = 0;
        if !registration.armed {
            return None;
        }
        // Before the look: a change after it is news.
        let missing = threads & !registration.notified;
        if missing != 0 {
            registration.source.notify(missing);
            registration.notified = threads;
        }
        let now = registration.source.readiness();
        let events = registration.due(now);
        self.edges = self.edges.wrapping_add(registration.see(now, events));
        Some((registration, now, events))
    }

    /// The thread waits by news from now on.
    fn join(&mut self, thread: u64) {
        if self.threads & thread == 0 {
            // Another thread may have news of any of them.
            self.threads |= thread;
            (0..self.list.len()).for_each(|at| self.look_again(at));
        }
    }

    /// Is there something to report to a thread that has taken its news, by its bit? Looks at
    /// candidates only, and takes nothing away.
    pub(crate) fn is_ready_by_news(&mut self, thread: u64) -> bool {
        self.join(thread);
        let last = self.tickets;
        let mut ready = false;
        while let Some(&(at, ticket)) = self.candidates.front().filter(|(_, it)| *it <= last) {
            self.candidates.pop_front();
            let Some((registration, now, events)) = self.look_at((at, ticket)) else { continue };
            if events != 0 || registration.waits_for_memory(now) {
                self.look_again(at);
            }
            ready |= events != 0;
        }
        ready
    }

    /// Changes whenever a look by news finds a member ready for something new.
    pub(crate) fn edges(&self) -> u32 {
        self.edges
    }

    /// Looks at all sources. Reports at most `room` ready ones, and remembers the versions seen.
    /// Returns the number of reports.
    pub(crate) fn collect(&mut self, room: usize, mut report: impl FnMut(u32, u64)) -> usize {
        let count = self.list.len();
        let begin = if self.next < count { self.next } else { 0 };
        let mut reports = 0;
        for at in (begin..count).chain(0..begin) {
            if reports == room {
                break;
            }
            let Some(registration) = &mut self.list[at] else { continue };
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
        for registration in self.list.iter_mut().flatten() {
            let now = registration.source.readiness();
            registration.seen = now.version;
            ready |= registration.due(now) != 0;
        }
        ready
    }

    /// The sources that a sleep must watch: the armed ones, with the versions last seen.
    pub(crate) fn watched(&self) -> Vec<(S, u32)> {
        let armed = self.list.iter().flatten().filter(|registration| registration.armed);
        armed.map(|registration| (registration.source.clone(), registration.seen)).collect()
    }

    fn find(&self, fd: c_int, source: &S) -> Outcome<usize> {
        let mut next = self.first_of(source.place());
        while let Some(at) = next {
            let Some(registration) = &self.list[at] else { break };
            if registration.fd == fd && registration.source.is(source) {
                return Ok(at);
            }
            next = registration.next;
        }
        Err(Errno::NOENT)
    }
}

#[cfg(test)]
mod tests;

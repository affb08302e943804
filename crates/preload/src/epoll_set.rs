//! The Tasuki members of one open epoll file.
//!
//! The epoll descriptor stays the kernel's, with the kernel's members in it. Tasuki sockets are
//! registered here.
//!
//! Another thread's `epoll_ctl` must wake the threads that sleep in the set. The *kick* does it, an
//! eventfd inside the kernel's set. It stays readable until all threads that slept at that moment
//! have seen it. Each kick adds one token per sleeper. A sleeper takes as many tokens as there were
//! kicks in its sleep; the last one drains the eventfd.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use libc::epoll_event;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use sockets::{NewsReader, poll};

use crate::errno::{self, Outcome};
use crate::open_socket::{OpenSocket, SocketWatcher, attend};
use crate::registrations::{Interest, Registrations};
use crate::{instance, real};

/// The kick's user data: the address of a private static, which no object of the program can have.
static KICK_MARK: u8 = 0;

pub(crate) fn kick_data() -> u64 {
    (&raw const KICK_MARK) as u64
}

/// A set in a set. The kernel's set has it too, and reports its kernel members.
struct NestedSet {
    fd: c_int,
    set: Weak<EpollSet>,
    interest: Interest,
    /// False after a one-shot report, until modified.
    armed: bool,
    /// What [`EpollSet::look_by_news`] or the versions of its members, summed, told when an
    /// edge-triggered report was made.
    reported: Option<u32>,
}

impl NestedSet {
    /// Is it to be reported, to a thread that has taken its news? Remembers that it was.
    fn report(&mut self, news: Option<&NewsReader>) -> bool {
        let Some(set) = self.set.upgrade().filter(|_| self.armed) else { return false };
        let (ready, version) = match news {
            Some(news) => set.look_by_news(news.bit()),
            None => {
                let (ready, watched) = set.look();
                let sum = |sum: u32, (_, version): &(_, u32)| sum.wrapping_add(*version);
                (ready, watched.iter().fold(0, sum))
            }
        };
        let has = |flag: c_int| self.interest.events & flag.cast_unsigned() != 0;
        let old_edge = has(libc::EPOLLET) && self.reported == Some(version);
        if !ready || old_edge || self.interest.events & poll::IN == 0 {
            return false;
        }
        self.reported = Some(version);
        self.armed = !has(libc::EPOLLONESHOT);
        true
    }
}

/// The Tasuki side of one open epoll file.
#[derive(Default)]
pub(crate) struct EpollSet {
    state: Mutex<EpollState>,
    /// Registered Tasuki sockets, and sets in this set.
    members: AtomicUsize,
    /// Has the kernel's set ever had a member of the program's?
    kernel_members: AtomicBool,
    /// Are there inherited members that were not taken up yet?
    has_inherited: AtomicBool,
}

/// A member of a set that a forked child inherits.
#[derive(Debug, Clone)]
pub(crate) struct InheritedMember {
    pub(crate) fd: c_int,
    /// The cookie of its placeholder: the number may be another socket's by now.
    pub(crate) cookie: u64,
    pub(crate) interest: Interest,
}

#[derive(Default)]
pub(crate) struct EpollState {
    /// See [`EpollSet::inheriting`].
    inherited: Vec<InheritedMember>,
    pub(crate) registrations: Registrations<Arc<OpenSocket>>,
    nested: Vec<NestedSet>,
    kick: Option<Kick>,
    sleepers: u64,
    /// Kicks so far.
    kicks: u64,
    /// Kicks that sleepers have yet to see, over all of them.
    tokens: u64,
    /// The last wait had no room left for the kernel's events: they go first this time.
    pub(crate) kernel_first: bool,
}

/// An eventfd under an internal number, in the kernel's set.
pub(crate) struct Kick {
    fd: OwnedFd,
    /// Takes the number out of the table.
    forget: fn(c_int),
}

impl Kick {
    /// In the set of `epfd`. `install` marks its number as the shim's own, `forget` undoes that.
    pub(crate) fn new(
        epfd: c_int,
        install: impl FnOnce(c_int) -> Outcome<()>,
        forget: fn(c_int),
    ) -> Outcome<Self> {
        let low = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let fd = rustix::io::fcntl_dupfd_cloexec(&low, instance::own_fd_floor()).unwrap_or(low);
        let events = libc::EPOLLIN.cast_unsigned();
        let mut event = epoll_event { events, u64: kick_data() };
        // SAFETY: the event is a live local; the kernel judges the descriptors.
        let added =
            unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
        errno::check(added)?;
        install(fd.as_raw_fd())?;
        Ok(Self { fd, forget })
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }

    fn drain(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl Drop for Kick {
    fn drop(&mut self) {
        (self.forget)(self.fd.as_raw_fd());
    }
}

impl EpollState {
    /// Reports at most `room` sets in this set that are ready.
    pub(crate) fn collect_nested(
        &mut self,
        news: Option<&NewsReader>,
        room: usize,
        mut report: impl FnMut(u32, u64),
    ) {
        let ready = self
            .nested
            .iter_mut()
            .filter_map(|nested| nested.report(news).then_some((poll::IN, nested.interest.data)));
        ready.take(room).for_each(|(events, data)| report(events, data));
    }

    fn count(&self) -> usize {
        self.registrations.len() + self.nested.len() + self.inherited.len()
    }

    /// Wakes all threads that sleep in this set.
    fn kick(&mut self) {
        if self.sleepers > 0 {
            self.kicks += 1;
            self.tokens += self.sleepers;
            if let Some(kick) = &self.kick {
                kick.ring();
            }
        }
    }
}

/// Counts a thread as a sleeper of a set.
pub(crate) struct Sleeping<'a> {
    set: &'a EpollSet,
    kicks: u64,
}

impl Drop for Sleeping<'_> {
    fn drop(&mut self) {
        let mut state = self.set.state();
        state.sleepers -= 1;
        state.tokens -= state.kicks - self.kicks;
        let was_kicked = state.kicks != self.kicks;
        if let Some(kick) = state.kick.as_ref().filter(|_| was_kicked && state.tokens == 0) {
            kick.drain();
        }
    }
}

impl EpollSet {
    /// A forked child's set in the place of its parent's, with the same members. They are taken up
    /// when the child first waits in it.
    pub(crate) fn inheriting(inherited: Vec<InheritedMember>) -> Self {
        Self {
            members: AtomicUsize::new(inherited.len()),
            has_inherited: AtomicBool::new(!inherited.is_empty()),
            // The kernel's set is the parent's, with the parent's members.
            kernel_members: AtomicBool::new(true),
            state: Mutex::new(EpollState { inherited, ..EpollState::default() }),
        }
    }

    /// What a forked child inherits of its members, by the cookies of their numbers.
    pub(crate) fn members_to_inherit(
        &self,
        cookie_of: impl Fn(c_int) -> Option<u64>,
    ) -> Vec<InheritedMember> {
        let state = self.state();
        let known = state.registrations.all().filter_map(|(fd, interest)| {
            Some(InheritedMember { fd, cookie: cookie_of(fd)?, interest })
        });
        // A child that has not waited itself.
        let inherited = state.inherited.iter().cloned();
        known.chain(inherited).collect()
    }

    /// Are there inherited members that were not taken up yet?
    #[inline]
    pub(crate) fn has_inherited(&self) -> bool {
        self.has_inherited.load(Ordering::Relaxed)
    }

    /// The inherited members, to be taken up by the caller.
    pub(crate) fn take_inherited(&self) -> Vec<InheritedMember> {
        let mut state = self.state();
        let inherited = core::mem::take(&mut state.inherited);
        self.has_inherited.store(false, Ordering::Relaxed);
        self.members.store(state.count(), Ordering::Release);
        inherited
    }

    /// EPOLL_CTL operation `op` on a member that is inherited. It stays the parent's until the
    /// child waits. `None`: it is none of them.
    pub(crate) fn control_inherited(
        &self,
        (op, fd): (c_int, c_int),
        interest: Option<Interest>,
    ) -> Option<Outcome<()>> {
        let mut state = self.state();
        let at = state.inherited.iter().position(|member| member.fd == fd)?;
        Some(match (op, interest) {
            (libc::EPOLL_CTL_ADD, Some(_)) => Err(Errno::EXIST),
            (libc::EPOLL_CTL_MOD, Some(interest)) => {
                state.inherited[at].interest = interest;
                Ok(())
            }
            (libc::EPOLL_CTL_DEL, _) => {
                state.inherited.remove(at);
                self.has_inherited.store(!state.inherited.is_empty(), Ordering::Relaxed);
                self.members.store(state.count(), Ordering::Release);
                Ok(())
            }
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, None) => Err(Errno::FAULT),
            _ => Err(Errno::INVAL),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, EpollState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Are there Tasuki sockets in it?
    pub(crate) fn has_members(&self) -> bool {
        self.members.load(Ordering::Acquire) > 0
    }

    /// Counts the calling thread as a sleeper as long as the value lives. To be had before the
    /// last look.
    pub(crate) fn sleeping(&self) -> Sleeping<'_> {
        let mut state = self.state();
        state.sleepers += 1;
        Sleeping { set: self, kicks: state.kicks }
    }

    /// Is a Tasuki member ready? Also returns the members that a sleep must watch.
    pub(crate) fn look(&self) -> (bool, Vec<(Arc<OpenSocket>, u32)>) {
        let mut state = self.state();
        let mut ready = state.registrations.is_ready();
        let mut watched = state.registrations.watched();
        for set in state.nested.iter().filter_map(|nested| nested.set.upgrade()) {
            let (other_ready, others) = set.look();
            ready |= other_ready;
            watched.extend(others);
        }
        (ready, watched)
    }

    /// Is a Tasuki member ready? For a thread that has taken its news, by its bit. Looks only at
    /// members that may be. Also gives a number that changes with each new event.
    pub(crate) fn look_by_news(&self, thread: u64) -> (bool, u32) {
        let mut state = self.state();
        let mut ready = state.registrations.is_ready_by_news(thread);
        let mut version = state.registrations.edges();
        for set in state.nested.iter().filter_map(|nested| nested.set.upgrade()) {
            let (other_ready, other_version) = set.look_by_news(thread);
            ready |= other_ready;
            version = version.wrapping_add(other_version);
        }
        (ready, version)
    }

    /// One of the members, of sets in this set, too.
    fn any(&self) -> Option<Arc<OpenSocket>> {
        let mut state = self.state();
        if let Some(any) = state.registrations.any() {
            return Some(Arc::clone(any));
        }
        let mut sets = state.nested.iter().filter_map(|nested| nested.set.upgrade());
        sets.find_map(|set| set.any())
    }

    /// The sets in this set, and those in them.
    pub(crate) fn nested(&self) -> Vec<Arc<Self>> {
        let mut all = Vec::new();
        for set in self.state().nested.iter().filter_map(|nested| nested.set.upgrade()) {
            all.extend(set.nested());
            all.push(set);
        }
        all
    }

    /// The kernel has done EPOLL_CTL operation `op` on the set `inner`: the same here.
    pub(crate) fn nest(&self, (op, fd): (c_int, c_int), inner: &Arc<Self>, interest: Interest) {
        let mut state = self.state();
        let same = |nested: &NestedSet| {
            nested.fd == fd && core::ptr::eq(nested.set.as_ptr(), Arc::as_ptr(inner))
        };
        state.nested.retain(|nested| nested.set.strong_count() > 0 && !same(nested));
        if op != libc::EPOLL_CTL_DEL {
            let set = Arc::downgrade(inner);
            state.nested.push(NestedSet { fd, set, interest, armed: true, reported: None });
        }
        self.members.store(state.count(), Ordering::Release);
        state.kick();
    }

    /// The calling thread as a reader of its members' news. `None`: it must look at all of them.
    pub(crate) fn news_reader(&self) -> Option<NewsReader> {
        self.any()?.socket.news_reader()
    }

    /// Has the kernel's set ever had a member of the program's?
    pub(crate) fn has_kernel_members(&self) -> bool {
        self.kernel_members.load(Ordering::Relaxed)
    }

    /// The kernel's set has a member of the program's.
    pub(crate) fn note_kernel_member(&self) {
        self.kernel_members.store(true, Ordering::Relaxed);
    }

    /// Called before a wait ends without a result. True: the stack worked, which may have changed a
    /// member.
    pub(crate) fn attend(&self) -> bool {
        match self.any() {
            Some(any) => any.socket.attend(),
            None => attend(&self.watched()),
        }
    }

    /// The members that a sleep must watch.
    pub(crate) fn watched(&self) -> Vec<(Arc<OpenSocket>, u32)> {
        let state = self.state();
        let mut watched = state.registrations.watched();
        for set in state.nested.iter().filter_map(|nested| nested.set.upgrade()) {
            watched.extend(set.watched());
        }
        watched
    }

    /// EPOLL_CTL operation `op` on a Tasuki member. `kick` makes the set's kick, when it needs one.
    pub(crate) fn control(
        self: &Arc<Self>,
        (op, fd): (c_int, c_int),
        socket: &Arc<OpenSocket>,
        interest: Option<Interest>,
        kick: impl FnOnce() -> Outcome<Kick>,
    ) -> Outcome<()> {
        let mut state = self.state();
        match (op, interest) {
            (libc::EPOLL_CTL_ADD, Some(interest)) => {
                if state.kick.is_none() {
                    state.kick = Some(kick()?);
                }
                state.registrations.add(fd, socket, interest)?;
            }
            (libc::EPOLL_CTL_MOD, Some(interest)) => {
                state.registrations.modify(fd, socket, interest)?;
            }
            (libc::EPOLL_CTL_DEL, _) => state.registrations.delete(fd, socket)?,
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, None) => return Err(Errno::FAULT),
            _ => return Err(Errno::INVAL),
        }
        self.members.store(state.count(), Ordering::Release);
        state.kick();
        drop(state);
        if op == libc::EPOLL_CTL_ADD {
            let weak: Weak<Self> = Arc::downgrade(self);
            socket.watched_by(weak);
            if socket.is_closed() {
                self.forget(socket);
            }
        }
        Ok(())
    }
}

impl SocketWatcher for EpollSet {
    fn on_news(&self, place: u16, threads: u64) {
        self.state().registrations.on_news(place, threads);
    }

    fn forget(&self, socket: &Arc<OpenSocket>) {
        let mut state = self.state();
        state.registrations.forget(socket);
        self.members.store(state.count(), Ordering::Release);
    }
}

//! The Tasuki members of one open epoll file.
//!
//! The epoll descriptor stays the kernel's, with the kernel's members in it. Tasuki sockets are
//! registered here.
//!
//! Another thread's `epoll_ctl` must wake the threads that sleep in the set. The *kick* does it:
//! this library's descriptor that is always ready becomes a member of the kernel's set, until all
//! threads that slept at that moment have seen it. Each kick adds one token per sleeper. A sleeper
//! takes as many tokens as there were kicks in its sleep; the last one removes the member.
//!
//! A wait by a system call of the program's own asks the kernel alone. So before the first wait by
//! this library the kernel's set has an *alarm*: the same descriptor, with the user data of a
//! Tasuki member. Such a wait ends at once with EPOLLHUP of this member, instead of never.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use libc::epoll_event;
use rustix::io::Errno;
use sockets::{NewsReader, poll};

use crate::errno::Outcome;
use crate::open_socket::{OpenSocket, SocketWatcher, attend};
use crate::registrations::{Interest, Registrations};
use crate::{always_ready, real};

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
    /// Has this library waited in it?
    waited: AtomicBool,
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
    alarm: Option<SetAlarm>,
    sleepers: u64,
    /// A number of the epoll file in which they sleep.
    sleep_on: c_int,
    /// Kicks so far.
    kicks: u64,
    /// Kicks that sleepers have yet to see, over all of them.
    tokens: u64,
    /// The last wait had no room left for the kernel's events: they go first this time.
    pub(crate) kernel_first: bool,
}

/// Makes the descriptor that is always ready a member of the kernel's set of `epfd`, or removes it.
/// Where it is a member already, or none, nothing changes. `data` is its user data.
fn control_ready(epfd: c_int, op: c_int, data: u64) {
    let Some(ready) = always_ready::number() else { return };
    let mut event = epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: data };
    // SAFETY: the event is a live local; the kernel judges the descriptors.
    let _ = unsafe { real::epoll_ctl(epfd, op, ready, &raw mut event) };
}

/// The alarm in a set in which this library has not waited yet.
#[derive(Debug, Clone, Copy)]
struct SetAlarm {
    epfd: c_int,
    /// Of the member for which it stands.
    data: u64,
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
            control_ready(self.sleep_on, libc::EPOLL_CTL_ADD, kick_data());
        }
    }

    /// After a change of the members: the alarm stands for one of them.
    fn set_alarm(&mut self, epfd: c_int) {
        let mut all = self.registrations.all().map(|(_, interest)| interest.data);
        let (before, first) = (self.alarm, all.next());
        let kept = before.is_some_and(|alarm| all.chain(first).any(|data| data == alarm.data));
        match (before, first) {
            (Some(_), Some(_)) if kept => return,
            (None, None) => return,
            (None, Some(data)) => control_ready(epfd, libc::EPOLL_CTL_ADD, data),
            (Some(_), Some(data)) => control_ready(epfd, libc::EPOLL_CTL_MOD, data),
            (Some(_), None) => control_ready(epfd, libc::EPOLL_CTL_DEL, 0),
        }
        self.alarm = first.map(|data| SetAlarm { epfd, data });
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
        if was_kicked && state.tokens == 0 {
            control_ready(state.sleep_on, libc::EPOLL_CTL_DEL, 0);
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
            waited: AtomicBool::new(true),
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

    /// This library waits in it from now on, or leaves it to a forked child: no alarm.
    #[inline]
    pub(crate) fn end_alarm(&self) {
        if !self.waited.load(Ordering::Relaxed) {
            let mut state = self.state();
            self.waited.store(true, Ordering::Relaxed);
            if let Some(alarm) = state.alarm.take() {
                control_ready(alarm.epfd, libc::EPOLL_CTL_DEL, 0);
            }
        }
    }

    /// Counts the calling thread as a sleeper in `epfd` as long as the value lives. To be had
    /// before the last look.
    pub(crate) fn sleeping(&self, epfd: c_int) -> Sleeping<'_> {
        self.end_alarm();
        let mut state = self.state();
        state.sleepers += 1;
        state.sleep_on = epfd;
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

    /// The sets in this set, and those in them, with their numbers.
    pub(crate) fn nested(&self) -> Vec<(c_int, Arc<Self>)> {
        let mut all = Vec::new();
        let state = self.state();
        let sets = state.nested.iter().filter_map(|one| Some((one.fd, one.set.upgrade()?)));
        for (fd, set) in sets {
            all.extend(set.nested());
            all.push((fd, set));
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

    /// EPOLL_CTL operation `op` of the epoll file `epfd` on a Tasuki member.
    pub(crate) fn control(
        self: &Arc<Self>,
        epfd: c_int,
        (op, fd): (c_int, c_int),
        socket: &Arc<OpenSocket>,
        interest: Option<Interest>,
    ) -> Outcome<()> {
        let mut state = self.state();
        match (op, interest) {
            (libc::EPOLL_CTL_ADD, Some(interest)) => {
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
        if !self.waited.load(Ordering::Relaxed) {
            state.set_alarm(epfd);
        }
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
        if let Some(alarm) = state.alarm {
            state.set_alarm(alarm.epfd);
        }
    }
}

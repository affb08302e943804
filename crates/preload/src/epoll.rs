//! epoll over Tasuki and kernel descriptors mixed.
//!
//! The epoll descriptor stays the kernel's, with the kernel's members in it. Tasuki sockets are
//! registered here, per open epoll file ([`EpollSet`]). A wait reports what is ready here and
//! asks the kernel for the rest; if nothing is ready anywhere it sleeps on the sockets' words and
//! on the epoll descriptor itself, which is readable when the kernel has events.
//!
//! Another thread's `epoll_ctl` must wake those who sleep. The *kick* does it, an eventfd inside
//! the kernel's set. It stays readable until all who slept at that moment have seen it: each kick
//! adds one token per sleeper, a sleeper takes as many as there were kicks in its sleep, the last
//! one drains.
//!
//! Every epoll file of a program that runs on Tasuki has a set from its creation, so that waits
//! that began before the first Tasuki socket came are counted as sleepers too.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::mem::size_of;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use libc::{epoll_event, sigset_t, timespec};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::io::Errno;

use crate::entry::{self, Entry, Held, TABLE};
use crate::errno::{self, Outcome};
use crate::registrations::{Interest, Registrations};
use crate::table::Kind;
use crate::{fork, instance, interpose, real, signals, time};

/// Linux's limit on `maxevents`.
const MOST_EVENTS: usize = i32::MAX as usize / size_of::<epoll_event>();
/// The kick's user data: the address of a private static, which no object of the program can have.
static KICK_MARK: u8 = 0;

fn kick_data() -> u64 {
    (&raw const KICK_MARK) as u64
}

/// The Tasuki side of one open epoll file.
#[derive(Default)]
pub(crate) struct EpollSet {
    state: Mutex<State>,
    /// Registered Tasuki sockets.
    members: AtomicUsize,
    /// Has the kernel's set ever had a member of the program's?
    kernel_members: AtomicBool,
}

#[derive(Default)]
struct State {
    registrations: Registrations<Arc<Entry>>,
    kick: Option<Kick>,
    sleepers: u64,
    /// Kicks so far.
    kicks: u64,
    /// Kicks that sleepers have yet to see, over all of them.
    tokens: u64,
    /// The last wait had no room left for the kernel's events: they go first this time.
    kernel_first: bool,
}

/// An eventfd under an internal number, in the kernel's set.
struct Kick(OwnedFd);

impl Kick {
    fn new(epfd: c_int) -> Outcome<Self> {
        let low = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let fd = rustix::io::fcntl_dupfd_cloexec(&low, instance::own_fd_floor()).unwrap_or(low);
        let events = libc::EPOLLIN.cast_unsigned();
        let mut event = epoll_event { events, u64: kick_data() };
        // SAFETY: the event is a live local; the kernel judges the descriptors.
        let added =
            unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
        errno::check(added)?;
        entry::install(fd.as_raw_fd(), Held::Internal)?;
        Ok(Self(fd))
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn drain(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl Drop for Kick {
    fn drop(&mut self) {
        TABLE.take(self.0.as_raw_fd());
    }
}

impl State {
    /// Wakes all who sleep in this set.
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
    fn state(&self) -> MutexGuard<'_, State> {
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

    /// Is a Tasuki member ready? And what a sleep must watch.
    pub(crate) fn look(&self) -> (bool, Vec<(Arc<Entry>, u32)>) {
        let mut state = self.state();
        let ready = state.registrations.is_ready();
        (ready, state.registrations.watched())
    }

    /// Removes a closed socket.
    pub(crate) fn forget(&self, entry: &Arc<Entry>) {
        let mut state = self.state();
        state.registrations.forget(entry);
        self.members.store(state.registrations.len(), Ordering::Release);
    }

    fn control(
        self: &Arc<Self>,
        (epfd, op, fd): (c_int, c_int, c_int),
        entry: &Arc<Entry>,
        interest: Option<Interest>,
    ) -> Outcome<()> {
        let mut state = self.state();
        match (op, interest) {
            (libc::EPOLL_CTL_ADD, Some(interest)) => {
                if state.kick.is_none() {
                    state.kick = Some(Kick::new(epfd)?);
                }
                state.registrations.add(fd, entry, interest)?;
            }
            (libc::EPOLL_CTL_MOD, Some(interest)) => {
                state.registrations.modify(fd, entry, interest)?;
            }
            (libc::EPOLL_CTL_DEL, _) => state.registrations.delete(fd, entry)?,
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, None) => return Err(Errno::FAULT),
            _ => return Err(Errno::INVAL),
        }
        self.members.store(state.registrations.len(), Ordering::Release);
        state.kick();
        drop(state);
        if op == libc::EPOLL_CTL_ADD {
            entry.watched_by(self);
            if entry.is_closed() {
                self.forget(entry);
            }
        }
        Ok(())
    }
}

/// Makes a new epoll file known.
fn created(epfd: c_int) -> Outcome<c_int> {
    if epfd >= 0 && !fork::in_vfork_child() {
        // Beyond the table there are no Tasuki sockets to watch either.
        let _ = entry::install(epfd, Held::Epoll(Arc::default()));
    }
    errno::check(epfd)
}

/// The set of `epfd`, made now if `epfd` is an epoll file of unknown origin (inherited through
/// exec).
fn set_of(epfd: c_int, member: c_int) -> Outcome<Arc<EpollSet>> {
    match TABLE.get(epfd) {
        Some(Held::Epoll(set)) => return Ok(set),
        Some(Held::Socket(_) | Held::Internal) => return Err(Errno::INVAL),
        None => {}
    }
    // Only an epoll file answers ENOENT; a placeholder is never in one.
    // SAFETY: the kernel judges the descriptors; EPOLL_CTL_DEL takes no event.
    let probe =
        unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, member, core::ptr::null_mut()) };
    match errno::check(probe) {
        Err(Errno::NOENT) => {}
        Err(other) => return Err(other),
        Ok(_) => return Err(Errno::INVAL),
    }
    let set = Arc::new(EpollSet::default());
    set.kernel_members.store(true, Ordering::Relaxed);
    entry::install(epfd, Held::Epoll(Arc::clone(&set)))?;
    Ok(set)
}

interpose! {
    fn epoll_create(size: c_int) -> c_int {
        instance::is_wanted() => created(real::epoll_create(size))
    }
    fn epoll_create1(flags: c_int) -> c_int {
        instance::is_wanted() => created(real::epoll_create1(flags))
    }
    fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        instance::is_wanted() => control(epfd, op, fd, event)
    }
    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
        is_known(epfd) => wait(epfd, Events::new(events, max)?, time::from_millis(timeout), None)
    }
    fn epoll_pwait(
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t,
    ) -> c_int {
        is_known(epfd) => {
            let timeout = time::from_millis(timeout);
            wait(epfd, Events::new(events, max)?, timeout, mask.as_ref())
        }
    }
    fn epoll_pwait2(
        epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        is_known(epfd) => {
            let timeout = timeout.as_ref().copied().map(time::from_timespec).transpose()?;
            wait(epfd, Events::new(events, max)?, timeout, mask.as_ref())
        }
    }
}

fn is_known(epfd: c_int) -> bool {
    TABLE.kind(epfd) == Kind::Epoll
}

unsafe fn control(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> Outcome<c_int> {
    match TABLE.get(fd) {
        Some(Held::Socket(entry)) => {
            let set = set_of(epfd, fd)?;
            // SAFETY: the caller says that it is null or points to an event.
            let event = unsafe { event.as_ref() };
            let interest = event.map(|event| Interest { events: event.events, data: event.u64 });
            set.control((epfd, op, fd), &entry, interest)?;
            return Ok(0);
        }
        _ if matches!(TABLE.kind(fd), Kind::Inherited | Kind::Internal) => {
            return Err(Errno::BADF);
        }
        _ => {}
    }
    // SAFETY: passed on from the caller.
    let outcome = errno::check(unsafe { real::epoll_ctl(epfd, op, fd, event) });
    if let (Ok(_), libc::EPOLL_CTL_ADD, Some(Held::Epoll(set))) = (outcome, op, TABLE.get(epfd)) {
        set.kernel_members.store(true, Ordering::Relaxed);
    }
    outcome
}

/// Where events go: the program's array, filled from the front.
struct Events {
    array: *mut epoll_event,
    room: usize,
    count: usize,
}

impl Events {
    fn new(array: *mut epoll_event, max: c_int) -> Outcome<Self> {
        let room = usize::try_from(max).map_err(|_| Errno::INVAL)?;
        match room {
            0 => Err(Errno::INVAL),
            room if room > MOST_EVENTS => Err(Errno::INVAL),
            _ if array.is_null() => Err(Errno::FAULT),
            room => Ok(Self { array, room, count: 0 }),
        }
    }

    fn left(&self) -> usize {
        self.room - self.count
    }

    fn push(&mut self, events: u32, data: u64) {
        if self.left() > 0 {
            // SAFETY: the program said that `room` events fit, and `count` is below that.
            let place = unsafe { self.array.add(self.count) };
            // SAFETY: as above; unaligned, for the array is the program's.
            unsafe { place.write_unaligned(epoll_event { events, u64: data }) };
            self.count += 1;
        }
    }

    /// Appends the kernel's events, waiting for `timeout` (`None`: for ever). Says whether the
    /// kick was among them; it is not reported.
    fn add_kernels(
        &mut self,
        epfd: c_int,
        timeout: Option<Duration>,
        mask: Option<&sigset_t>,
    ) -> Outcome<bool> {
        if self.left() == 0 {
            return Ok(false);
        }
        // SAFETY: `count` is at most `room`.
        let array = unsafe { self.array.add(self.count) };
        let found = wait_in_kernel(epfd, array, self.left(), timeout, mask)?;
        let mut kicked = false;
        let mut kept = 0;
        for at in 0..found {
            // SAFETY: the kernel has written `found` events there.
            let from = unsafe { array.add(at) };
            // SAFETY: as above.
            let event = unsafe { from.read_unaligned() };
            if event.u64 == kick_data() {
                kicked = true;
                continue;
            }
            // SAFETY: `kept` is at most `at`.
            let to = unsafe { array.add(kept) };
            // SAFETY: as above.
            unsafe { to.write_unaligned(event) };
            kept += 1;
        }
        self.count += kept;
        Ok(kicked)
    }
}

fn wait_in_kernel(
    epfd: c_int,
    array: *mut epoll_event,
    room: usize,
    timeout: Option<Duration>,
    mask: Option<&sigset_t>,
) -> Outcome<usize> {
    let room = c_int::try_from(room).unwrap_or(c_int::MAX);
    let mask = mask.map_or(core::ptr::null(), core::ptr::from_ref);
    let spec = timeout.map(|left| timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let spec = spec.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: `room` events fit at `array`; the other pointers are null or to live values.
    let outcome = errno::check(unsafe { real::epoll_pwait2(epfd, array, room, spec, mask) });
    let outcome = match outcome {
        Err(Errno::NOSYS) => {
            let millis = timeout.map_or(-1, |left| {
                c_int::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
            });
            // SAFETY: as above.
            errno::check(unsafe { real::epoll_pwait(epfd, array, room, millis, mask) })
        }
        outcome => outcome,
    };
    outcome.map(|count| usize::try_from(count).unwrap_or(0))
}

fn wait(
    epfd: c_int,
    mut events: Events,
    timeout: Option<Duration>,
    mask: Option<&sigset_t>,
) -> Outcome<c_int> {
    let Some(Held::Epoll(set)) = TABLE.get(epfd) else { return Err(Errno::BADF) };
    let deadline = timeout.and_then(time::after);
    let mut kernel_ready = false;
    loop {
        let sleeping = set.sleeping();
        if !set.has_members() {
            let left = deadline.map(time::left);
            let kicked = events.add_kernels(epfd, left, mask)?;
            if kicked && events.count == 0 && !time::passed(deadline) {
                continue;
            }
            break;
        }
        collect(&set, epfd, &mut events)?;
        let over = time::passed(deadline);
        if over && events.count == 0 {
            let watched = set.state().registrations.watched();
            if entry::attend(&watched) {
                collect(&set, epfd, &mut events)?;
            }
        }
        if events.count > 0 || kernel_ready || over {
            if set.kernel_members.load(Ordering::Relaxed) {
                events.add_kernels(epfd, Some(Duration::ZERO), None)?;
            }
            if events.count > 0 || over {
                break;
            }
        }
        let watched = set.state().registrations.watched();
        kernel_ready = signals::under_mask(mask, || sleep(epfd, &watched, deadline))?;
        drop(sleeping);
    }
    Ok(c_int::try_from(events.count).unwrap_or(c_int::MAX))
}

/// What is ready of the Tasuki members; the kernel's before, if their turn is overdue.
fn collect(set: &EpollSet, epfd: c_int, events: &mut Events) -> Outcome<()> {
    let mut state = set.state();
    if core::mem::take(&mut state.kernel_first) {
        events.add_kernels(epfd, Some(Duration::ZERO), None)?;
    }
    let room = events.left();
    state.registrations.collect(room, |ready, data| events.push(ready, data));
    state.kernel_first = room > 0 && events.left() == 0;
    Ok(())
}

/// Sleeps until there may be something; true if the kernel has events.
fn sleep(epfd: c_int, watched: &[(Arc<Entry>, u32)], deadline: Option<Instant>) -> Outcome<bool> {
    // SAFETY: an epoll file that the program closes while it waits in it is its own mistake; the
    // kernel then says POLLNVAL. The number is not -1: it is in the table.
    let epfd = unsafe { BorrowedFd::borrow_raw(epfd) };
    let mut kernel = [PollFd::from_borrowed_fd(epfd, PollFlags::IN)];
    entry::wait_any(watched, &mut kernel, deadline)?;
    Ok(!kernel[0].revents().is_empty())
}

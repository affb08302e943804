//! epoll over Tasuki and kernel descriptors mixed.
//!
//! A wait reports what is ready of the Tasuki members ([`EpollSet`]) and asks the kernel for the
//! rest. It looks at members that have news, and at those that were ready before. If nothing is
//! ready anywhere it sleeps until the thread has news, or the epoll descriptor itself is readable:
//! then the kernel has events. Of sets in the set it looks at the same members. A thread that
//! shares its slot looks at all members and sleeps on their words.
//!
//! Every epoll file of a program that runs on Tasuki has a set from its creation. So waits that
//! began before the first Tasuki socket came are counted as sleepers too.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::mem::size_of;
use core::time::Duration;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use libc::{epoll_event, sigset_t, timespec};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use sockets::{NewsReader, PollCall, asleep, cancellable};

use crate::descriptors::{Descriptor, TABLE, install, socket};
use crate::epoll_fork::cookie_of;
use crate::epoll_set::{EpollSet, InheritedMember, kick_data};
use crate::errno::{self, Outcome};
use crate::interpose::interpose;
use crate::open_socket::{OpenSocket, wait_any};
use crate::registrations::Interest;
use crate::table::Kind;
use crate::{host, instance, pointers, process, real, signals, time};

/// Linux's limit on `maxevents`.
const MOST_EVENTS: usize = i32::MAX as usize / size_of::<epoll_event>();
/// Makes a new epoll file known.
fn created(epfd: c_int) -> Outcome<c_int> {
    if epfd >= 0 && !process::in_vfork_child() {
        // Beyond the table there are no Tasuki sockets to watch either.
        let _ = install(epfd, Descriptor::Epoll(Arc::default()));
    }
    errno::check(epfd)
}

/// The set of `epfd`, made now if `epfd` is an epoll file of unknown origin (inherited through
/// exec).
fn set_of(epfd: c_int, member: c_int) -> Outcome<Arc<EpollSet>> {
    match TABLE.get(epfd) {
        Some(Descriptor::Epoll(set)) => return Ok(set),
        Some(Descriptor::Socket(_) | Descriptor::Internal) => return Err(Errno::INVAL),
        None => {}
    }
    // Only an epoll file answers ENOENT: a placeholder is never a member of one. SAFETY: the kernel
    // judges the descriptors; EPOLL_CTL_DEL takes no event.
    let probe =
        unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, member, core::ptr::null_mut()) };
    match errno::check(probe) {
        Err(Errno::NOENT) => {}
        Err(other) => return Err(other),
        Ok(_) => return Err(Errno::INVAL),
    }
    let set = Arc::new(EpollSet::default());
    set.note_kernel_member();
    install(epfd, Descriptor::Epoll(Arc::clone(&set)))?;
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

pub(crate) fn is_known(epfd: c_int) -> bool {
    TABLE.kind(epfd) == Kind::Epoll
}

/// Takes up the members that this process has inherited with a set: the parent loses connections
/// that it does not share with the child.
#[cold]
pub(crate) fn take_up_members(epfd: c_int, set: &Arc<EpollSet>) {
    for InheritedMember { fd, cookie, interest } in set.take_inherited() {
        // Closed meanwhile, or another one.
        if cookie_of(fd) != Some(cookie) {
            continue;
        }
        if let Ok(socket) = socket(fd) {
            let add = (libc::EPOLL_CTL_ADD, fd);
            let _ = set.control(epfd, add, &socket, Some(interest));
        }
    }
}

unsafe fn control(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> Outcome<c_int> {
    if op != libc::EPOLL_CTL_DEL && !pointers::can_read(event, size_of::<epoll_event>()) {
        return Err(Errno::FAULT);
    }
    if let Some(Descriptor::Epoll(set)) = TABLE.get(epfd)
        && set.has_inherited()
    {
        // SAFETY: the caller says that it is null or points to an event.
        let event = unsafe { event.as_ref() };
        let interest = event.map(|event| Interest { events: event.events, data: event.u64 });
        if let Some(done) = set.control_inherited((op, fd), interest) {
            return done.map(|()| 0);
        }
    }
    if TABLE.kind(fd) == Kind::Inherited {
        socket(fd)?;
    }
    match TABLE.get(fd) {
        Some(Descriptor::Socket(socket)) => {
            let set = set_of(epfd, fd)?;
            // SAFETY: the caller says that it is null or points to an event.
            let event = unsafe { event.as_ref() };
            let interest = event.map(|event| Interest { events: event.events, data: event.u64 });
            set.control(epfd, (op, fd), &socket, interest)?;
            return Ok(0);
        }
        _ if TABLE.kind(fd) == Kind::Internal => return Err(Errno::BADF),
        _ => {}
    }
    // SAFETY: passed on from the caller.
    let outcome = errno::check(unsafe { real::epoll_ctl(epfd, op, fd, event) });
    if let (Ok(_), Some(Descriptor::Epoll(inner)), Some(Descriptor::Epoll(set))) =
        (outcome, TABLE.get(fd), TABLE.get(epfd))
    {
        // SAFETY: the caller says that it is null or points to an event.
        let event = unsafe { event.as_ref() };
        let interest = event.map(|event| Interest { events: event.events, data: event.u64 });
        set.nest((op, fd), &inner, interest.unwrap_or(Interest { events: 0, data: 0 }));
    }
    if let (Ok(_), libc::EPOLL_CTL_ADD, Some(Descriptor::Epoll(set))) =
        (outcome, op, TABLE.get(epfd))
    {
        set.note_kernel_member();
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
            _ if !pointers::can_write(array) => Err(Errno::FAULT),
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

    /// Appends the kernel's events, waiting for `timeout` (`None`: for ever). Returns whether the
    /// kick was among them; the kick is not reported.
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
        let wait = || wait_in_kernel(epfd, array, self.left(), timeout, mask);
        let found = match timeout {
            Some(Duration::ZERO) => wait()?,
            _ => asleep(false, wait)?.unwrap_or(0),
        };
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
    let Some(Descriptor::Epoll(set)) = TABLE.get(epfd) else { return Err(Errno::BADF) };
    if set.has_inherited() {
        take_up_members(epfd, &set);
    }
    let deadline = timeout.and_then(time::after);
    let mut kernel_ready = false;
    loop {
        let sleeping = set.sleeping(epfd);
        // What changes in a set in this set wakes this thread too.
        let nested = set.nested();
        let sleeping_there: Vec<_> = nested.iter().map(|(fd, set)| set.sleeping(*fd)).collect();
        if !set.has_members() {
            let left = deadline.map(time::left);
            let kicked = cancellable(|| events.add_kernels(epfd, left, mask))?;
            if kicked && events.count == 0 && !time::passed(deadline) {
                continue;
            }
            break;
        }
        let news = set.news_reader();
        collect(&set, epfd, &mut events, news.as_ref())?;
        let over = time::passed(deadline);
        if over && events.count == 0 && set.attend() {
            collect(&set, epfd, &mut events, news.as_ref())?;
        }
        if events.count > 0 || kernel_ready || over {
            if set.has_kernel_members() {
                events.add_kernels(epfd, Some(Duration::ZERO), None)?;
            }
            if events.count > 0 || over {
                break;
            }
        }
        kernel_ready = match &news {
            Some(news) => signals::under_mask(mask, host::has_stack(), |call| {
                sleep_for_news(epfd, news, deadline, call)
            })?,
            None => {
                let watched = set.watched();
                signals::under_mask(mask, host::has_stack(), |call| {
                    sleep(epfd, &watched, deadline, call)
                })?
            }
        };
        drop((sleeping, sleeping_there));
    }
    Ok(c_int::try_from(events.count).unwrap_or(c_int::MAX))
}

/// Reports the ready Tasuki members. The kernel's events come first if they are overdue.
fn collect(
    set: &EpollSet,
    epfd: c_int,
    events: &mut Events,
    news: Option<&NewsReader>,
) -> Outcome<()> {
    if let Some(news) = news {
        news.pass_on();
    }
    let mut state = set.state();
    if core::mem::take(&mut state.kernel_first) {
        events.add_kernels(epfd, Some(Duration::ZERO), None)?;
    }
    let room = events.left();
    match news {
        Some(news) => {
            let report = |ready, data| events.push(ready, data);
            state.registrations.collect_news(news.bit(), room, report);
        }
        None => {
            state.registrations.collect(room, |ready, data| events.push(ready, data));
        }
    }
    state.collect_nested(news, events.left(), |ready, data| events.push(ready, data));
    state.kernel_first = room > 0 && events.left() == 0;
    Ok(())
}

/// Sleeps until the thread has news; true if the kernel has events.
fn sleep_for_news(
    epfd: c_int,
    news: &NewsReader,
    deadline: Option<Instant>,
    call: Option<PollCall<'_>>,
) -> Outcome<bool> {
    // SAFETY: as in `sleep`.
    let epfd = unsafe { BorrowedFd::borrow_raw(epfd) };
    let mut kernel = [PollFd::from_borrowed_fd(epfd, PollFlags::IN)];
    news.sleep(&mut kernel, deadline, call)?;
    Ok(!kernel[0].revents().is_empty())
}

/// Sleeps until there may be something; true if the kernel has events.
fn sleep(
    epfd: c_int,
    watched: &[(Arc<OpenSocket>, u32)],
    deadline: Option<Instant>,
    call: Option<PollCall<'_>>,
) -> Outcome<bool> {
    // SAFETY: if the program closes the epoll file while it waits in it, that is its own mistake,
    // and the kernel reports POLLNVAL. The number is not -1, because it is in the table.
    let epfd = unsafe { BorrowedFd::borrow_raw(epfd) };
    let mut kernel = [PollFd::from_borrowed_fd(epfd, PollFlags::IN)];
    wait_any(watched, &mut kernel, deadline, call)?;
    Ok(!kernel[0].revents().is_empty())
}

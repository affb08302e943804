//! poll over Tasuki and kernel descriptors mixed; select is built on it.
//!
//! A look reads the readiness of Tasuki sockets from memory and asks the kernel for the others,
//! without waiting. When nothing is ready, one sleep waits for both kinds ([`sockets::wait_any`]):
//! for the sockets' versions as of the look, and for the kernel's descriptors. An epoll descriptor
//! with Tasuki members counts as both.
//!
//! A socket that has moved to another process is taken back when nothing is ready. If that process
//! takes it again meanwhile, as two that read and write one connection do (rsync), the next try is
//! a pause later, so that they do not only pass it to and fro.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_short};
use core::mem::size_of;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::{nfds_t, pollfd, sigset_t, size_t, timespec};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use sockets::PollCall;

use crate::descriptors::{Descriptor, TABLE, socket};
use crate::epoll::take_up_members;
use crate::epoll_set::EpollSet;
use crate::errno::{self, Outcome};
use crate::interpose::{alias, interpose};
use crate::open_socket::{OpenSocket, attend, wait_any};
use crate::retaking::PAUSES;
use crate::table::Kind;
use crate::{host, pointers, signals, time};

/// More than any process can have open.
const MOST_FDS: nfds_t = 1 << 24;
/// Reported even if not requested.
const ALWAYS: c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

/// The object of one `pollfd`. Kernel descriptors are in a list of their own.
enum Item {
    /// A negative number: no events, ever.
    Nothing,
    /// A number that is no descriptor for the program.
    Invalid,
    /// Place in the kernel's list.
    Kernel(usize),
    /// A Tasuki socket.
    Socket(Arc<OpenSocket>),
    /// An epoll descriptor with Tasuki members, and its place in the kernel's list.
    Set(Arc<EpollSet>, usize),
}

struct Poll<'a> {
    fds: &'a mut [pollfd],
    items: Vec<Item>,
    kernel: Vec<PollFd<'static>>,
    /// Sockets and the versions that they had at the last look.
    watched: Vec<(Arc<OpenSocket>, u32)>,
    /// When sockets may be taken back again that have moved, and the pause after that.
    take_back: Option<(Instant, Duration)>,
}

/// Is it a socket that has moved to another process?
fn is_moved(item: &Item) -> bool {
    matches!(item, Item::Socket(open) if open.socket.is_moved())
}

impl<'a> Poll<'a> {
    fn new(fds: &'a mut [pollfd]) -> Self {
        let mut kernel = Vec::new();
        let mut ask_kernel = |fd: &pollfd| {
            // SAFETY: not -1, see below. If the program closes it meanwhile, the kernel reports
            // POLLNVAL.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd.fd) };
            let events = PollFlags::from_bits_retain(fd.events.cast_unsigned());
            kernel.push(PollFd::from_borrowed_fd(borrowed, events));
            kernel.len() - 1
        };
        let items = fds
            .iter()
            .map(|fd| match (TABLE.kind(fd.fd), fd.fd) {
                (_, ..0) => Item::Nothing,
                (Kind::Kernel, _) => Item::Kernel(ask_kernel(fd)),
                (Kind::Internal, _) => Item::Invalid,
                (Kind::Inherited, _) => socket(fd.fd).map_or(Item::Invalid, Item::Socket),
                (Kind::Socket | Kind::Epoll, _) => match TABLE.get(fd.fd) {
                    Some(Descriptor::Socket(entry)) => Item::Socket(entry),
                    Some(Descriptor::Epoll(set)) => {
                        if set.has_inherited() {
                            take_up_members(fd.fd, &set);
                        }
                        Item::Set(set, ask_kernel(fd))
                    }
                    Some(Descriptor::Internal) => Item::Invalid,
                    None => Item::Kernel(ask_kernel(fd)),
                },
            })
            .collect();
        Self { fds, items, kernel, watched: Vec::new(), take_back: None }
    }

    /// Looks at the Tasuki side; true if something there is ready.
    fn look(&mut self) -> bool {
        self.watched.clear();
        let mut found = false;
        for (fd, item) in self.fds.iter_mut().zip(&self.items) {
            fd.revents = match item {
                Item::Nothing | Item::Kernel(_) => 0,
                Item::Invalid => libc::POLLNVAL,
                Item::Socket(entry) => {
                    let now = entry.socket.readiness();
                    self.watched.push((Arc::clone(entry), now.version));
                    revents(now.events, fd.events)
                }
                Item::Set(set, _) => {
                    let (ready, watched) = set.look();
                    self.watched.extend(watched);
                    if ready { fd.events & (libc::POLLIN | libc::POLLRDNORM) } else { 0 }
                }
            };
            found |= fd.revents != 0;
        }
        found
    }

    /// Has one of the sockets moved to another process?
    fn has_moved(&self) -> bool {
        self.items.iter().any(is_moved)
    }

    /// Takes back the sockets that have moved, unless it is too early; true if it has.
    fn take_back(&mut self) -> bool {
        if !self.has_moved() {
            return false;
        }
        let now = Instant::now();
        let (at, pause) = self.take_back.unwrap_or((now, PAUSES[0]));
        if now < at {
            return false;
        }
        self.take_back = Some((now + pause, (pause * 2).min(PAUSES[1])));
        for (fd, item) in self.fds.iter().zip(&mut self.items) {
            if is_moved(item) {
                *item = socket(fd.fd).map_or(Item::Invalid, Item::Socket);
            }
        }
        true
    }

    /// The moment of the next try to take sockets back. `None`: no socket had moved at the last
    /// look, and a move since then changes a version.
    fn next_take_back(&self) -> Option<Instant> {
        self.take_back.filter(|_| self.has_moved()).map(|(at, _)| at)
    }

    /// Asks the kernel about its own, without waiting. If nothing is ready, a pending signal that
    /// `mask` lets in is EINTR.
    fn ask_kernel(&mut self, mask: Option<&sigset_t>) -> Outcome<()> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match mask {
            Some(mask) => signals::poll_under(mask, &mut self.kernel, Some(&now)).map(drop),
            None if self.kernel.is_empty() => Ok(()),
            None => rustix::event::poll(&mut self.kernel, Some(&now)).map(drop),
        }
    }

    /// Puts the kernel's answers to the others; the number of descriptors with events.
    fn answer(&mut self) -> c_int {
        for (fd, item) in self.fds.iter_mut().zip(&self.items) {
            if let Item::Kernel(at) | Item::Set(_, at) = item {
                let events = self.kernel[*at].revents().bits().cast_signed();
                fd.revents |= events;
            }
        }
        let count = self.fds.iter().filter(|fd| fd.revents != 0).count();
        c_int::try_from(count).unwrap_or(c_int::MAX)
    }

    /// Sleeps; true if the kernel has something.
    fn sleep(&mut self, deadline: Option<Instant>, call: Option<PollCall<'_>>) -> Outcome<bool> {
        wait_any(&self.watched, &mut self.kernel, deadline, call)?;
        Ok(self.kernel.iter().any(|fd| !fd.revents().is_empty()))
    }

    /// The epoll sets, and the sets in them, with their numbers.
    fn sets(&self) -> Vec<(c_int, Arc<EpollSet>)> {
        let mut all = Vec::new();
        for (fd, item) in self.fds.iter().zip(&self.items) {
            if let Item::Set(set, _) = item {
                all.extend(set.nested());
                all.push((fd.fd, Arc::clone(set)));
            }
        }
        all
    }
}

/// A socket's events as poll reports them to a caller that requested `wanted`.
fn revents(events: u32, wanted: c_short) -> c_short {
    // The bits of epoll and poll are the same, and poll's fit into 16.
    let events = u16::try_from(events & 0xFFFF).unwrap_or(0).cast_signed();
    events & (wanted | ALWAYS)
}

/// Do any of `fds` need more than the kernel's poll?
pub(crate) fn concerns_us(fds: &[pollfd]) -> bool {
    fds.iter().any(|fd| TABLE.kind(fd.fd) != Kind::Kernel)
}

/// poll(2) on `fds` until `deadline`, sleeping under `mask`.
///
/// # Errors
/// EINTR, and what poll(2) gives for the kernel's descriptors.
pub(crate) fn wait(
    fds: &mut [pollfd],
    deadline: Option<Instant>,
    mask: Option<&sigset_t>,
) -> Outcome<c_int> {
    let mut poll = Poll::new(fds);
    let sets = poll.sets();
    loop {
        let sleeping: Vec<_> = sets.iter().map(|(fd, set)| set.sleeping(*fd)).collect();
        let found = poll.look() || (poll.take_back() && poll.look());
        if found || time::passed(deadline) {
            let found = found || (attend(&poll.watched) && poll.look());
            poll.ask_kernel(mask.filter(|_| !found))?;
            return Ok(poll.answer());
        }
        // A socket that was taken back may have moved again before it was looked at.
        let until = [deadline, poll.next_take_back()].into_iter().flatten().min();
        if signals::under_mask(mask, host::has_stack(), |call| poll.sleep(until, call))? {
            poll.look();
            return Ok(poll.answer());
        }
        drop(sleeping);
    }
}

/// Is a call with this array for us?
pub(crate) unsafe fn is_ours(fds: *const pollfd, count: nfds_t) -> bool {
    // The kernel refuses an array that is not there.
    if !(1..=MOST_FDS).contains(&count)
        || !pointers::can_read(fds, count_of(count) * size_of::<pollfd>())
    {
        return false;
    }
    // SAFETY: the program says that so many are there to be read.
    concerns_us(unsafe { core::slice::from_raw_parts(fds, count_of(count)) })
}

unsafe fn poll_until(
    fds: *mut pollfd,
    count: nfds_t,
    deadline: Option<Instant>,
    mask: *const sigset_t,
) -> Outcome<c_int> {
    if !pointers::can_write(fds) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the program says that so many are there, for this call to read and write.
    let fds = unsafe { core::slice::from_raw_parts_mut(fds, count_of(count)) };
    // SAFETY: the program says that it is null or points to a set.
    wait(fds, deadline, unsafe { mask.as_ref() })
}

fn count_of(count: nfds_t) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The moment when the time at `timeout` has passed. Null is for ever.
///
/// # Errors
/// EINVAL for an invalid time.
pub(crate) unsafe fn deadline(timeout: *const timespec) -> Outcome<Option<Instant>> {
    if !timeout.is_null() && !pointers::can_read(timeout, size_of::<timespec>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller says that it is null or points to a timespec.
    let timeout = unsafe { timeout.as_ref() };
    Ok(timeout.copied().map(time::from_timespec).transpose()?.and_then(time::after))
}

fn fits(count: nfds_t, size: size_t) -> bool {
    size / size_of::<pollfd>() >= count_of(count)
}

interpose! {
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        is_ours(fds, count) => {
            let deadline = time::from_millis(timeout).and_then(time::after);
            poll_until(fds, count, deadline, core::ptr::null())
        }
    }
    fn ppoll(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        is_ours(fds, count) => poll_until(fds, count, deadline(timeout)?, mask)
    }
    // With _FORTIFY_SOURCE; the C library's own end the program when the array is too small.
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, size: size_t) -> c_int {
        fits(count, size) => errno::check(poll(fds, count, timeout))
    }
    fn __ppoll_chk(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        size: size_t,
    ) -> c_int {
        fits(count, size) => errno::check(ppoll(fds, count, timeout, mask))
    }
}

alias! {
    fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int = poll;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_reported_to_who_asked() {
        use sockets::poll::{ERR, HUP, IN, OUT, RDHUP, RDNORM};
        let all = IN | OUT | RDHUP | RDNORM;
        assert_eq!(revents(all, libc::POLLIN), libc::POLLIN);
        assert_eq!(revents(all, libc::POLLRDHUP | libc::POLLOUT), libc::POLLRDHUP | libc::POLLOUT);
        assert_eq!(revents(all | ERR | HUP, 0), libc::POLLERR | libc::POLLHUP);
        assert_eq!(revents(0, libc::POLLIN), 0);
        // A flag above poll's 16 bits is none of its events.
        assert_eq!(revents(1 << 30, -1), 0);
    }

    fn pollfd(fd: c_int, events: c_short) -> pollfd {
        pollfd { fd, events, revents: -1 }
    }

    #[test]
    fn kernel_descriptors_as_the_kernel_has_them() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let raw = |fd: &std::os::fd::OwnedFd| std::os::fd::AsRawFd::as_raw_fd(fd);
        let mut fds = [
            pollfd(raw(&reader), libc::POLLIN),
            pollfd(-1, libc::POLLIN),
            pollfd(raw(&writer), libc::POLLOUT),
        ];
        assert!(!concerns_us(&fds));
        assert_eq!(wait(&mut fds, None, None), Ok(1));
        assert_eq!(fds.map(|fd| fd.revents), [0, 0, libc::POLLOUT]);
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(wait(&mut fds, None, None), Ok(2));
        assert_eq!(fds.map(|fd| fd.revents), [libc::POLLIN, 0, libc::POLLOUT]);
    }

    #[test]
    fn inherited_sockets_are_no_descriptors() {
        let fd = 70_000;
        TABLE.put_inherited(fd);
        let mut fds = [pollfd(fd, libc::POLLIN)];
        assert!(concerns_us(&fds));
        assert_eq!(wait(&mut fds, None, None), Ok(1));
        assert_eq!(fds[0].revents, libc::POLLNVAL);
        TABLE.take(fd);
    }

    #[test]
    fn a_poll_ends_at_its_deadline() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let mut fds = [pollfd(std::os::fd::AsRawFd::as_raw_fd(&reader), libc::POLLIN)];
        let mut poll = Poll::new(&mut fds);
        let _ = poll.look();
        // Nothing ever comes: a wait that is longer than that does not end.
        assert_eq!(wait(&mut fds, time::after(core::time::Duration::ZERO), None), Ok(0));
    }
}

//! select and pselect, as a poll of the descriptors that their sets name.
//!
//! Sets are as long as `nfds` says, not FD_SETSIZE bits: programs with many descriptors allocate
//! longer ones.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_short};

use std::time::Instant;

use libc::{fd_set, pollfd, sigset_t, timespec, timeval};
use rustix::io::Errno;

use crate::descriptors::TABLE;
use crate::errno::Outcome;
use crate::interpose::{alias, interpose};
use crate::table::Kind;
use crate::{pointers, poll, time};

// Which events make a descriptor a member of which set, as Linux has it.
const READ: c_short =
    libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR;
const WRITE: c_short = libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND | libc::POLLERR;
const EXCEPT: c_short = libc::POLLPRI;
/// The events requested by each of the three sets.
const ASK: [c_short; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
/// The events that count for each of the three sets.
const COUNTS: [c_short; 3] = [READ, WRITE, EXCEPT];
const WORD: usize = 64;
/// More descriptors than any process can have.
const MOST_FDS: usize = 1 << 24;

/// The program's sets, copied.
struct Sets {
    /// Words of the read, write and exception set; `None` where the program gave none.
    words: [Option<Vec<u64>>; 3],
    /// The descriptors named in any of them, ascending.
    fds: Vec<c_int>,
}

impl Sets {
    fn new(count: usize, words: [Option<Vec<u64>>; 3]) -> Self {
        let named = |fd: &usize| words.iter().flatten().any(|words| has(words, *fd));
        let fds = (0..count).filter(named).filter_map(|fd| c_int::try_from(fd).ok()).collect();
        Self { words, fds }
    }

    /// The descriptors and events to poll.
    fn pollfds(&self) -> Vec<pollfd> {
        let ask = |fd: usize| {
            let asked = self.words.iter().zip(ASK).filter(|(words, _)| is_in(words, fd));
            asked.fold(0, |events, (_, ask)| events | ask)
        };
        let pollfd = |&fd: &c_int| pollfd { fd, events: ask(number(fd)), revents: 0 };
        self.fds.iter().map(pollfd).collect()
    }

    /// The sets of ready descriptors, and how many members they have together.
    fn ready(&self, polled: &[pollfd]) -> ([Option<Vec<u64>>; 3], c_int) {
        let mut total = 0;
        let mut ready = self.words.clone();
        for ((asked, ready), counts) in self.words.iter().zip(&mut ready).zip(COUNTS) {
            let Some(ready) = ready else { continue };
            ready.fill(0);
            for (&fd, polled) in self.fds.iter().zip(polled) {
                if polled.revents & counts != 0 && is_in(asked, number(fd)) {
                    ready[number(fd) / WORD] |= 1 << (number(fd) % WORD);
                    total += 1;
                }
            }
        }
        (ready, total)
    }
}

fn number(fd: c_int) -> usize {
    usize::try_from(fd).unwrap_or(0)
}

fn has(words: &[u64], fd: usize) -> bool {
    words.get(fd / WORD).is_some_and(|word| word >> (fd % WORD) & 1 == 1)
}

fn is_in(words: &Option<Vec<u64>>, fd: usize) -> bool {
    words.as_ref().is_some_and(|words| has(words, fd))
}

pub(crate) type Pointers = [*mut fd_set; 3];

/// The words of the program's sets.
unsafe fn copy_in(count: usize, sets: Pointers) -> [Option<Vec<u64>>; 3] {
    sets.map(|set| {
        let words = set.cast::<u64>().cast_const();
        // SAFETY: the program says that a set is null or has bits for `count` descriptors, in
        // longs.
        (!set.is_null()).then(|| {
            // SAFETY: see above.
            unsafe { core::slice::from_raw_parts(words, count.div_ceil(WORD)) }.to_vec()
        })
    })
}

unsafe fn copy_out(sets: Pointers, from: &[Option<Vec<u64>>; 3]) {
    for (set, words) in sets.into_iter().zip(from) {
        if let Some(words) = words {
            // SAFETY: as in `copy_in`, from where these words came.
            unsafe { core::ptr::copy_nonoverlapping(words.as_ptr(), set.cast(), words.len()) };
        }
    }
}

/// Does `fd` need more than the kernel's select? Epoll descriptors may have Tasuki members.
fn is_special(fd: c_int) -> bool {
    TABLE.kind(fd) != Kind::Kernel
}

/// Is a call with these sets for us?
pub(crate) unsafe fn is_ours(count: c_int, sets: Pointers) -> bool {
    let Ok(count) = usize::try_from(count) else { return false };
    if count > MOST_FDS {
        return false;
    }
    let bytes = count.div_ceil(WORD) * size_of::<u64>();
    // The kernel refuses a set that is not there.
    if sets.into_iter().any(|set| !set.is_null() && !pointers::can_read(set, bytes)) {
        return false;
    }
    (0..count.div_ceil(WORD)).any(|at| {
        let mut named = sets.into_iter().filter(|set| !set.is_null()).fold(0, |named, set| {
            // SAFETY: as in `copy_in`.
            let word = unsafe { set.cast::<u64>().add(at) };
            // SAFETY: as above.
            named | unsafe { word.read() }
        });
        let mut found = false;
        while named != 0 && !found {
            let fd = at * WORD + named.trailing_zeros() as usize;
            found = fd < count && is_special(c_int::try_from(fd).unwrap_or(-1));
            named &= named - 1;
        }
        found
    })
}

unsafe fn wait(
    count: c_int,
    sets: Pointers,
    deadline: Option<Instant>,
    mask: Option<&sigset_t>,
) -> Outcome<c_int> {
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    // SAFETY: passed on from the caller.
    let asked = Sets::new(count, unsafe { copy_in(count, sets) });
    let mut fds = asked.pollfds();
    loop {
        poll::wait(&mut fds, deadline, mask)?;
        if fds.iter().any(|fd| fd.revents & libc::POLLNVAL != 0) {
            return Err(Errno::BADF);
        }
        let (ready, total) = asked.ready(&fds);
        if total > 0 || time::passed(deadline) {
            // SAFETY: passed on from the caller.
            unsafe { copy_out(sets, &ready) };
            return Ok(total);
        }
        // Poll reports hang-ups and errors that select does not count for the sets these are in.
        // Such a state lasts, so polling for them again would never sleep.
        for fd in fds.iter_mut().filter(|fd| fd.revents != 0) {
            fd.fd = -1;
        }
    }
}

unsafe fn select_with(count: c_int, sets: Pointers, timeout: *mut timeval) -> Outcome<c_int> {
    // SAFETY: the program says that it is null or points to a timeval.
    let timeout = unsafe { timeout.as_mut() };
    let limit = timeout.as_deref().copied().map(time::from_timeval).transpose()?;
    let deadline = limit.and_then(time::after);
    // SAFETY: passed on from the program.
    let outcome = unsafe { wait(count, sets, deadline, None) };
    if let (Some(timeout), Some(deadline)) = (timeout, deadline) {
        // As Linux does; POSIX leaves it open.
        *timeout = time::to_timeval(time::left(deadline));
    }
    outcome
}

interpose! {
    fn select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        is_ours(count, [read, write, except]) => {
            select_with(count, [read, write, except], timeout)
        }
    }
    fn pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        is_ours(count, [read, write, except]) => {
            wait(count, [read, write, except], poll::deadline(timeout)?, mask.as_ref())
        }
    }
}

alias! {
    fn __select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int = select;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(fds: &[usize], words: usize) -> Option<Vec<u64>> {
        let mut set = vec![0; words];
        for fd in fds {
            set[fd / WORD] |= 1 << (fd % WORD);
        }
        Some(set)
    }

    #[test]
    fn sets_name_descriptors_beyond_fd_setsize() {
        let sets = Sets::new(2001, [set(&[3, 2000], 32), set(&[3], 32), None]);
        assert_eq!(sets.fds, [3, 2000]);
        let events: Vec<_> = sets.pollfds().iter().map(|fd| (fd.fd, fd.events)).collect();
        assert_eq!(events, [(3, libc::POLLIN | libc::POLLOUT), (2000, libc::POLLIN)]);
        // Bits from `count` on are not looked at.
        assert_eq!(Sets::new(2000, [set(&[3, 2000], 32), None, None]).fds, [3]);
    }

    #[test]
    fn answers_by_linuxs_table() {
        let sets = Sets::new(8, [set(&[1, 2], 1), set(&[2, 3], 1), set(&[4], 1)]);
        let mut fds = sets.pollfds();
        for (fd, revents) in
            fds.iter_mut().zip([libc::POLLHUP, libc::POLLERR, libc::POLLHUP, libc::POLLPRI])
        {
            fd.revents = revents;
        }
        let (ready, total) = sets.ready(&fds);
        assert_eq!(ready, [set(&[1, 2], 1), set(&[2], 1), set(&[4], 1)]);
        assert_eq!(total, 4);
    }

    #[test]
    fn a_select_on_kernel_descriptors() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let raw = |fd: &std::os::fd::OwnedFd| std::os::fd::AsRawFd::as_raw_fd(fd);
        let (r, w) = (raw(&reader), raw(&writer));
        let mut read = set(&[number(r)], 16).unwrap();
        let mut write = set(&[number(w)], 16).unwrap();
        let sets = [read.as_mut_ptr().cast(), write.as_mut_ptr().cast(), core::ptr::null_mut()];
        // SAFETY: the sets have 1,024 bits and no descriptor of a test is that high.
        assert!(!unsafe { is_ours(1024, sets) });
        // SAFETY: as above.
        assert_eq!(unsafe { wait(1024, sets, None, None) }, Ok(1));
        assert_eq!((Some(read), Some(write)), (set(&[], 16), set(&[number(w)], 16)));
    }
}

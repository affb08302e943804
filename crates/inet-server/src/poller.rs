//! What the server waits for when it has nothing to do: one epoll set.
//!
//! Bells are edge-triggered, so that waking costs no read: each write to an eventfd is a new edge,
//! and what woke us is found by looking at all rings anyway. The supervisor's line is
//! level-triggered. Companions put their own descriptors in, under numbers from [`COMPANIONS`] on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use shm::descriptors::keep;

/// A bell of programs or drivers.
pub(crate) const BELL: u64 = 0;
/// The supervisor's line.
pub(crate) const CONTROL: u64 = 1;
/// The first companion's first number.
pub(crate) const COMPANIONS: u64 = 16;

/// Most descriptors reported by one wait; more are reported by the next.
const EVENTS: usize = 16;

/// The epoll set.
pub(crate) struct Poller {
    set: OwnedFd,
}

impl Poller {
    /// An empty set.
    pub(crate) fn new() -> io::Result<Self> {
        let set = keep(epoll::create(CreateFlags::CLOEXEC)?);
        Ok(Self { set })
    }

    fn add(&self, fd: impl AsFd, data: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.set, fd, EventData::new_u64(data), flags)?)
    }

    /// Wakes when an eventfd is written.
    pub(crate) fn add_bell(&self, fd: impl AsFd) -> io::Result<()> {
        self.add(fd, BELL, EventFlags::IN | EventFlags::ET)
    }

    /// The set itself, for companions.
    pub(crate) fn set(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Wakes while the supervisor has something to say, or is gone.
    pub(crate) fn add_control(&self, fd: impl AsFd) -> io::Result<()> {
        self.add(fd, CONTROL, EventFlags::IN)
    }

    /// Forgets a descriptor. Its other copies, in other processes, stay open, so closing ours is
    /// not enough.
    pub(crate) fn remove(&self, fd: impl AsFd) {
        // It is in the set, or the set does not care.
        let _ = epoll::delete(&self.set, fd);
    }

    /// Waits at most `timeout`, or for ever; calls `report` with the number and the flags of each
    /// descriptor that is ready.
    pub(crate) fn wait(
        &self,
        timeout: Option<Duration>,
        report: &mut dyn FnMut(u64, EventFlags),
    ) -> io::Result<()> {
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS];
        match epoll::wait(&self.set, &mut events, timeout.as_ref()) {
            Ok(count) => {
                let reported = events.iter().take(count);
                reported.for_each(|event| report(event.data.u64(), event.flags));
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

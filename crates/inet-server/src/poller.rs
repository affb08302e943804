//! The epoll set that the server waits for when it has nothing to do.
//!
//! Bells are edge-triggered: each write to an eventfd is a new edge. So a wake-up costs no read;
//! the server looks at all rings anyway. The control connection is level-triggered. Companions add
//! their own descriptors, under numbers from [`COMPANIONS`] on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use shm::descriptors::keep;

/// A bell of programs or drivers.
pub(crate) const BELL: u64 = 0;
/// The control connection.
pub(crate) const CONTROL: u64 = 1;
/// The set of the ends of shared sockets.
pub(crate) const SHARED: u64 = 2;
/// The timer of measured sleeps ([`shm::Spin::timer`]).
pub(crate) const TIMER: u64 = 3;
/// The first companion's first number.
pub(crate) const COMPANIONS: u64 = 16;

/// Most descriptors that one wait reports; the next wait reports more.
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

    /// Adds an eventfd: each write to it wakes the server.
    pub(crate) fn add_bell(&self, fd: impl AsFd) -> io::Result<()> {
        self.add(fd, BELL, EventFlags::IN | EventFlags::ET)
    }

    /// Adds the timer of measured sleeps.
    pub(crate) fn add_timer(&self, fd: impl AsFd) -> io::Result<()> {
        self.add(fd, TIMER, EventFlags::IN | EventFlags::ET)
    }

    /// The set itself, for companions.
    pub(crate) fn set(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Adds the control connection: it wakes the server while there is a message, or when the
    /// supervisor is gone.
    pub(crate) fn add_control(&self, fd: impl AsFd) -> io::Result<()> {
        self.add(fd, CONTROL, EventFlags::IN)
    }

    /// Adds the set of the ends of shared sockets: it wakes the server while one has hung up.
    pub(crate) fn add_shared(&self, fd: impl AsFd) -> io::Result<()> {
        self.add(fd, SHARED, EventFlags::IN)
    }

    /// Removes a descriptor. To close it is not enough: other processes keep copies of it open.
    pub(crate) fn remove(&self, fd: impl AsFd) {
        // A descriptor that is not in the set needs no removal.
        let _ = epoll::delete(&self.set, fd);
    }

    /// Waits at most `timeout`, or for ever. Calls `report` with the ready descriptors' events.
    pub(crate) fn wait(
        &self,
        timeout: Option<Duration>,
        report: impl FnOnce(&[Event]),
    ) -> io::Result<()> {
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS];
        match epoll::wait(&self.set, &mut events, timeout.as_ref()) {
            Ok(count) => {
                report(events.get(..count).unwrap_or_default());
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

//! The epoll set that the server waits for when it has nothing to do.
//!
//! Bells are edge-triggered: each write to an eventfd is a new edge. So a wake-up costs no read;
//! the server looks at all rings anyway. The control connection is level-triggered. Companions add
//! their own descriptors, under numbers from [`COMPANIONS`] on.
//!
//! A second set has a descriptor of each client that hangs up when the program ends. Nothing waits
//! for it: see [`Poller::ended`].

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

/// The epoll sets.
pub(crate) struct Poller {
    set: OwnedFd,
    ends: OwnedFd,
}

impl Poller {
    /// Empty sets.
    pub(crate) fn new() -> io::Result<Self> {
        let set = || Ok::<_, io::Error>(keep(epoll::create(CreateFlags::CLOEXEC)?));
        Ok(Self { set: set()?, ends: set()? })
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

    /// Adds our end of a doorbell of a client, whose other end the program's process holds. It
    /// hangs up when the program executes another one, too.
    pub(crate) fn add_end(&self, fd: impl AsFd, client: u16) -> io::Result<()> {
        // A hang-up is reported without being asked for.
        let data = EventData::new_u64(client.into());
        Ok(epoll::add(&self.ends, fd, data, EventFlags::empty())?)
    }

    /// Adds a descriptor of a client's process, which is readable once that has ended. The
    /// supervisor may hold a copy of the doorbell's other end for a moment, none of the process.
    pub(crate) fn add_process(&self, fd: impl AsFd, client: u16) -> io::Result<()> {
        Ok(epoll::add(&self.ends, fd, EventData::new_u64(client.into()), EventFlags::IN)?)
    }

    /// Removes what [`add_end`](Self::add_end) or [`add_process`](Self::add_process) has added.
    pub(crate) fn remove_end(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.ends, fd);
    }

    /// Clients whose program has ended. The kernel closes the descriptors of a process before its
    /// parent learns of its end. Remove them before the next call.
    pub(crate) fn ended(&self) -> Vec<u16> {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS];
        let count = epoll::wait(&self.ends, &mut events, Some(&Timespec::default()));
        let events = events.get(..count.unwrap_or(0)).unwrap_or_default();
        events.iter().filter_map(|event| u16::try_from(event.data.u64()).ok()).collect()
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

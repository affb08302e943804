//! What the server waits for when it has nothing to do: one epoll set.
//!
//! Bells are edge-triggered, so that waking costs no read: each write to an eventfd is a new edge,
//! and what woke us is found by looking at all rings anyway. The supervisor's line and a
//! companion's descriptors are level-triggered.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

const BELL: u64 = 0;
const OTHER: u64 = 1;
const LINE: u64 = 2;

/// Most descriptors reported by one wait; more are reported by the next.
const EVENTS: usize = 16;

/// What ended a sleep; none of them if the time was over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Woken {
    /// A program or a driver rang.
    pub(crate) bell: bool,
    /// A companion's descriptor is readable.
    pub(crate) companion: bool,
    /// The supervisor has something to say, or is gone.
    pub(crate) line: bool,
}

/// The epoll set.
pub(crate) struct Poller {
    set: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    /// An empty set.
    pub(crate) fn new() -> io::Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { set, events: Vec::with_capacity(EVENTS) })
    }

    fn add(&self, fd: impl AsFd, data: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.set, fd, EventData::new_u64(data), flags)?)
    }

    /// Wakes when an eventfd is written.
    pub(crate) fn add_bell(&self, fd: impl AsFd) -> io::Result<()> {
        self.add(fd, BELL, EventFlags::IN | EventFlags::ET)
    }

    /// Wakes while a companion's descriptor is readable.
    pub(crate) fn add_companion(&self, fd: impl AsFd) -> io::Result<()> {
        self.add(fd, OTHER, EventFlags::IN)
    }

    /// Wakes while the supervisor has something to say, or is gone.
    pub(crate) fn add_line(&self, fd: impl AsFd) -> io::Result<()> {
        self.add(fd, LINE, EventFlags::IN)
    }

    /// Forgets a descriptor. Its other copies, in other processes, stay open, so closing ours is
    /// not enough.
    pub(crate) fn remove(&self, fd: impl AsFd) {
        // It is in the set, or the set does not care.
        let _ = epoll::delete(&self.set, fd);
    }

    /// Waits at most `timeout`, or for ever.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Woken> {
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.set, room, timeout.as_ref()) {
            Ok(_) => {
                let any = |what| self.events.iter().any(|event| event.data.u64() == what);
                Ok(Woken { bell: any(BELL), companion: any(OTHER), line: any(LINE) })
            }
            Err(rustix::io::Errno::INTR) => Ok(Woken::default()),
            Err(errno) => Err(errno.into()),
        }
    }
}

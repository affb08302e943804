//! A driver that works in the inet server's thread (modes `fused` and `library`), as the inet
//! server drives it.

use std::os::fd::BorrowedFd;

use rustix::event::epoll::EventFlags;

/// A driver in the inet server's process.
pub trait Companion: Send {
    /// Does a bounded amount of work; false when there was nothing to do.
    ///
    /// # Errors
    /// One sentence, when the driver cannot go on; the server ends.
    fn step(&mut self) -> Result<bool, String>;
    /// The half of [`Companion::step`] that sends; false when there was nothing to send.
    ///
    /// # Errors
    /// As [`Companion::step`].
    fn send(&mut self) -> Result<bool, String>;
    /// Makes the next step ask the device, although epoll did not report the device.
    fn ask(&mut self);
    /// Announces sleep and looks for work once more. True when the thread may sleep, false when
    /// there is work after all.
    fn prepare_sleep(&mut self) -> bool;
    /// Says that the thread is awake again, if it has slept.
    fn awake(&mut self);
    /// Adds the driver's descriptors to the server's epoll set, under the numbers from `first` on,
    /// at most [`EPOLL_NUMBERS`]. The server calls it once, at the start.
    ///
    /// # Errors
    /// One sentence, when the system refuses; the server ends.
    fn watch_in(&mut self, set: BorrowedFd<'_>, first: u64) -> Result<(), String>;
    /// Says that the epoll set reported `name`, one of the driver's numbers.
    fn woken(&mut self, name: u64, flags: EventFlags);
}

/// Numbers in an epoll set that one companion may use.
pub const EPOLL_NUMBERS: u64 = 16;

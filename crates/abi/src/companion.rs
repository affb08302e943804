//! What the inet server asks of a driver that works in its own thread (modes `fused` and
//! `library`).

use std::os::fd::BorrowedFd;

use rustix::event::epoll::EventFlags;

/// A driver in the inet server's process.
pub trait Companion: Send {
    /// Does a bounded amount of work; false when there was nothing to do.
    ///
    /// # Errors
    /// One sentence, when it cannot go on; the server ends.
    fn step(&mut self) -> Result<bool, String>;
    /// The half of [`Companion::step`] that sends; false when there was nothing to send.
    ///
    /// # Errors
    /// As [`Companion::step`].
    fn send(&mut self) -> Result<bool, String>;
    /// The next step asks the device although nothing reported it.
    fn ask(&mut self);
    /// Announces sleep and looks for work once more; true when the thread may sleep, false when
    /// there is work after all.
    fn prepare_sleep(&mut self) -> bool;
    /// The thread is awake again, if it has slept.
    fn awake(&mut self);
    /// Puts what wakes it into the server's epoll set, under the numbers from `first` on, at most
    /// [`NAMES`]. Called once, at the start.
    ///
    /// # Errors
    /// One sentence, when the system refuses; the server ends.
    fn watch_in(&mut self, set: BorrowedFd<'_>, first: u64) -> Result<(), String>;
    /// The set reported the number `name`, one of its own.
    fn woken(&mut self, name: u64, flags: EventFlags);
}

/// Numbers in an epoll set that one companion may use.
pub const NAMES: u64 = 16;

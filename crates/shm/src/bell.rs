//! The bell (doorbell) wakes a consumer that sleeps. It costs no system call while the consumer is
//! awake.
//!
//! The consumer owns a word with one of four states: awake, asleep on a futex (the word itself),
//! asleep in poll on a descriptor, or driving. A driving consumer does the producer's work until it
//! finds itself rung (mode `library`). The protocol serves any data that producers publish, such as
//! ring slots and state words.
//!
//! Producer ([`Ringer::ring`]):
//! 1. publishes;
//! 2. fence;
//! 3. reads the word. If it says "asleep", changes it to "awake"; the producer that made the change
//!    wakes the consumer.
//!
//! Consumer ([`Sleeper`]):
//! 1. drains all there is;
//! 2. writes "asleep" into the word ([`Sleeper::announce`]);
//! 3. fence;
//! 4. looks again. If it finds something, it calls [`Sleeper::awake`] and goes back to 1;
//! 5. sleeps. The sleep ends at once if the futex word is no longer "asleep", or if the descriptor
//!    has been written.
//!
//! Both fences are sequentially consistent, so at least one of two things is true: the producer
//! sees "asleep", or the consumer, looking again, sees the published data. No wake-up is lost, and
//! several producers may share a bell. The model check is `loom_models`.
//!
//! Some events are worth a wake-up only at times. A producer that has finished a frame rings with
//! [`Ringer::ring_completion`]. That call leaves a consumer asleep that announced
//! [`Sleep::FdQuiet`]. Such a consumer looks again only for the other events; the proof is the
//! same.
//!
//! The descriptor is an eventfd where both sides trust each other. An untrusted sleeper gets a
//! socket instead ([`doorbell`]). An eventfd is one file for all its holders: an untrusted sleeper
//! could make it blocking and fill it, and the ringer would wait for ever.
//!
//! The word lies in shared memory. A hostile peer can make its own reader oversleep or wake for
//! nothing, and no more.

use std::io;
use std::time::Duration;

use rustix::event::EventfdFlags;
use rustix::fd::AsFd;
use rustix::io::Errno;

use crate::sync::{
    Ordering, OwnedFd, Word32, eventfd_write, fence, futex_wait, futex_wake, socket_write,
};

const AWAKE: u32 = 0;
const ASLEEP_FUTEX: u32 = 1;
const ASLEEP_FD: u32 = 2;
const DRIVING: u32 = 3;
const ASLEEP_FD_QUIET: u32 = 4;

/// How a consumer is going to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sleep {
    /// In [`Sleeper::wait_futex`].
    Futex,
    /// In poll or epoll, with the bell's descriptor among those that it waits for.
    Fd,
    /// As [`Sleep::Fd`], and completions do not wake it ([`Ringer::ring_completion`]).
    FdQuiet,
    /// Not asleep: it does the producer's work and checks [`Sleeper::is_rung`]. Ringing it costs no
    /// system call.
    Driving,
}

impl Sleep {
    fn word(self) -> u32 {
        match self {
            Self::Futex => ASLEEP_FUTEX,
            Self::Fd => ASLEEP_FD,
            Self::FdQuiet => ASLEEP_FD_QUIET,
            Self::Driving => DRIVING,
        }
    }
}

/// The consumer's side of a bell.
#[derive(Debug, Clone)]
pub struct Sleeper {
    word: Word32,
}

impl Sleeper {
    /// The side that sleeps, on its word (0 in a new region: awake).
    #[must_use]
    pub fn new(word: Word32) -> Self {
        Self { word }
    }

    /// Says that this consumer is about to sleep. It must look once more for work afterwards, and
    /// either sleep or call [`Sleeper::awake`].
    pub fn announce(&self, how: Sleep) {
        self.word.swap(how.word(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Is going to sleep in another way than announced. False: it was rung since.
    #[must_use]
    pub fn change(&self, from: Sleep, to: Sleep) -> bool {
        let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
        self.word.compare_exchange(from.word(), to.word(), success, failure).is_ok()
    }

    /// Has a producer rung since the announcement?
    #[must_use]
    pub fn is_rung(&self) -> bool {
        self.word.load(Ordering::SeqCst) == AWAKE
    }

    /// Says that this consumer is awake: there was work after all, or it has slept.
    pub fn awake(&self) {
        // A swap and no store, here and in `announce`, so it comes after any write of a producer.
        self.word.swap(AWAKE, Ordering::AcqRel);
    }

    /// Ends the sleep on the word from another thread of the consumer's own process, or keeps it
    /// from beginning. Call it after publishing, as [`Ringer::ring`]. One that sleeps in poll is
    /// left alone.
    pub fn rouse(&self) {
        fence(Ordering::SeqCst);
        if self.word.load(Ordering::Relaxed) != ASLEEP_FUTEX {
            return;
        }
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.word.compare_exchange(ASLEEP_FUTEX, AWAKE, success, failure).is_ok() {
            futex_wake(&self.word);
        }
    }

    /// Sleeps on the word until a producer rings, for at most `timeout`. Returns at once if one has
    /// rung since [`Sleeper::announce`]. It may return without a reason. The word is awake
    /// afterwards.
    ///
    /// # Errors
    /// [`Errno::INTR`] when a signal came, [`Errno::TIMEDOUT`] when the time is over.
    pub fn wait_futex(&self, timeout: Option<Duration>) -> Result<(), Errno> {
        let waited = futex_wait(&self.word, ASLEEP_FUTEX, timeout);
        self.awake();
        match waited {
            Ok(()) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

/// A producer's side of a bell.
#[derive(Debug)]
pub struct Ringer {
    word: Word32,
    fd: OwnedFd,
    write: fn(&OwnedFd),
}

impl Ringer {
    /// The side that wakes: the consumer's word, and its eventfd ([`eventfd`]).
    #[must_use]
    pub fn new(word: Word32, fd: OwnedFd) -> Self {
        Self { word, fd, write: eventfd_write }
    }

    /// The side that wakes an untrusted consumer, by the consumer's word and our end of its
    /// [`doorbell`].
    #[must_use]
    pub fn for_untrusted(word: Word32, end: OwnedFd) -> Self {
        Self { word, fd: end, write: socket_write }
    }

    /// Wakes the consumer if it sleeps. Call it after publishing. True if that took a system call.
    /// Never blocks. A word with a value that no sleeper writes is left alone.
    #[expect(clippy::must_use_candidate, reason = "the result is for counters only")]
    #[inline]
    pub fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        match self.word.load(Ordering::Relaxed) {
            ASLEEP_FUTEX | ASLEEP_FD | ASLEEP_FD_QUIET | DRIVING => self.wake(),
            _ => false,
        }
    }

    /// As [`Ringer::ring`], for news that need not wake a consumer that announced
    /// [`Sleep::FdQuiet`]. Such a consumer is left asleep.
    #[expect(clippy::must_use_candidate, reason = "the result is for counters only")]
    pub fn ring_completion(&self) -> bool {
        fence(Ordering::SeqCst);
        match self.word.load(Ordering::Relaxed) {
            ASLEEP_FUTEX | ASLEEP_FD | DRIVING => self.wake(),
            _ => false,
        }
    }

    fn wake(&self) -> bool {
        // Of several producers the one that takes the announcement wakes the sleeper. It acts on
        // the value taken here: the sleeper may have changed how it sleeps without checking its
        // work again.
        let state = self.word.swap(AWAKE, Ordering::AcqRel);
        match state {
            ASLEEP_FUTEX => futex_wake(&self.word),
            ASLEEP_FD | ASLEEP_FD_QUIET => (self.write)(&self.fd),
            _ => return false,
        }
        true
    }
}

/// The descriptor. That of a [`doorbell`]'s ringer hangs up when the sleeper's end is closed.
#[cfg(not(loom))]
impl AsFd for Ringer {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A new bell for an untrusted sleeper: the ringer's end ([`Ringer::for_untrusted`]) and the
/// sleeper's. Both are closed on exec.
///
/// The sleeper's end is blocking, so the sleeper can sleep in recv(2). That call also ends when the
/// ringer dies, and is restarted after a signal.
///
/// The ringer never waits, and it receives nothing: the sleeper's send(2) fails with EPIPE. A
/// descriptor that a sleeper had sent would be closed together with the ringer's end. Such a close
/// can take as long as the sender chose (SO_LINGER).
///
/// # Errors
/// The system's, such as too many open files.
pub fn doorbell() -> io::Result<(std::os::fd::OwnedFd, std::os::fd::OwnedFd)> {
    use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let (ringer, sleeper) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ringer, true)?;
    shutdown(&ringer, Shutdown::Read)?;
    Ok((ringer, sleeper))
}

/// A new eventfd for a bell: nonblocking, closed on exec.
///
/// # Errors
/// The system's, such as too many open files.
pub fn eventfd() -> io::Result<std::os::fd::OwnedFd> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    rustix::event::eventfd(0, flags).map_err(io::Error::from)
}

/// Drains a bell's descriptor, so that poll sleeps again. Never waits. The consumer calls it when
/// poll reported the descriptor as readable, and before it drains its work.
///
/// `false`: the other end of a doorbell's socket is gone. An eventfd has no other end.
pub fn drain(fd: impl AsFd) -> bool {
    use rustix::net::{RecvFlags, recv};
    let mut rung = [0_u8; 8];
    // Bytes left in a doorbell's socket wake once more. EAGAIN: there was nothing.
    match recv(fd.as_fd(), &mut rung, RecvFlags::DONTWAIT) {
        Ok((0, _)) => false,
        Err(Errno::NOTSOCK) => {
            // An eventfd; one read takes its whole count.
            let _ = rustix::io::read(fd.as_fd(), &mut rung);
            true
        }
        Ok(_) | Err(_) => true,
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

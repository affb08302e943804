//! Driving: the stack is in this very process (mode `library`), and whoever wants something of it
//! does its work.
//!
//! The instance answers `Hello` with the servers' ends of its lines instead of a welcome. Whoever
//! loads this library has said with [`set_host`] what becomes of them: a [`Drive`], the stack of
//! this process. From then on [`crate::Client`] is admitted as to any other instance, and all is as
//! elsewhere, regions, rings and words, but for two things. Where the server would be rung, the
//! caller does its work ([`Drive::work`]). And a thread that waits works until its own bell has
//! rung; only when there is nothing to do it sleeps, on what would wake a server.
//!
//! Small sends are *collected*: while bytes of a stream are on their way, a send only leaves its
//! own for whoever works next ([`Drive::post`]), until they are [`COLLECTED`] or a full queue.
//!
//! One thread at a time sleeps so, in the *seat*. The others sleep on their own bells, which
//! whoever works will ring, and one of them is *nudged* when the seat is free.

use std::fmt::Debug;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use abi::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shm::{Channel, Message, Sleep, Sleeper, TryRecv};

use crate::client::{Client, move_high};
use crate::error::ConnectError;
use crate::wait::Wait;

/// The longest sleep for an answer without a look at everything.
const SLICE: Duration = Duration::from_secs(1);

/// So many bytes are worth the stack's work at once: what one super-segment holds.
pub(crate) const COLLECTED: u64 = 64 * 1024;

/// The stack inside this process.
pub trait Drive: Send + Sync + Debug {
    /// Does what there is to do, in the calling thread, until there is no more, it has been much,
    /// or, after some of it, `enough` says so. Does nothing in a signal handler that came in the
    /// middle of it.
    fn work(&self, enough: &mut dyn FnMut() -> bool);

    /// There is work that need not be done by the caller: somebody else will begin with it in
    /// microseconds, if no call has done it before. `false`: the caller has to, since the stack has
    /// not worked for so long that nobody knows what its peers have answered.
    fn post(&self) -> bool;

    /// Takes the seat. `false`: somebody has it, and `nudge` is written when it becomes free.
    fn take_seat(&self, nudge: &Arc<OwnedFd>) -> bool;

    /// Leaves the seat, or the line for it.
    fn leave_seat(&self, nudge: &Arc<OwnedFd>);

    /// In the seat only: looks again for a while before a sleep. True: there is work, or `enough`
    /// says so.
    fn spin(&self, enough: &mut dyn FnMut() -> bool) -> bool;

    /// In the seat only: sleeps until something happens or a timer of the stack is due, at most
    /// `most`.
    ///
    /// # Errors
    /// EINTR; EDEADLK in a signal handler that came in the middle of [`Drive::work`].
    fn wait(&self, most: Option<Duration>) -> Result<(), Errno>;

    /// As [`Drive::wait`], and until poll(2) reports something for `fds`.
    ///
    /// # Errors
    /// As there, and poll(2)'s.
    fn wait_with(&self, fds: &mut [PollFd<'_>], most: Option<Duration>) -> Result<(), Errno>;

    /// Has [`Drive::wait`] end when `bell` is rung.
    fn watch(&self, bell: BorrowedFd<'_>);

    /// After EINTR: were the handlers of all signals installed with SA_RESTART?
    fn restarts(&self) -> bool;

    /// Is the stack gone?
    fn is_over(&self) -> bool;

    /// The process ends and has said goodbye: stays until nothing of it is under way any more, or
    /// for the time that an instance has patience.
    fn finish(&self);
}

/// Makes the stack of this process out of the servers' ends of an instance's lines: the inet
/// server's, then each driver's.
pub type Host = fn(Vec<OwnedFd>) -> Result<Arc<dyn Drive>, String>;

static HOST: OnceLock<Host> = OnceLock::new();

/// Says what becomes of an instance's stack that is to be in this process. Without, such an
/// instance refuses it. The first call counts.
pub fn set_host(host: Host) {
    // A second one is not wanted.
    let _ = HOST.set(host);
}

/// Takes the stack into this process.
pub(crate) fn host(lines: Vec<OwnedFd>) -> Result<Arc<dyn Drive>, ConnectError> {
    let refused = |message: String| ConnectError::Refused { message };
    let host = HOST.get().ok_or_else(|| {
        refused(
            "in mode library only programs of `tasuki run` can use it, through the preloaded \
             library"
                .to_owned(),
        )
    })?;
    host(lines).map_err(refused)
}

/// The next message of a channel, which somebody else sends after asking the stack in this process.
pub(crate) fn recv(
    channel: &mut Channel,
    drive: Option<&dyn Drive>,
) -> Result<Option<Message>, shm::ChannelError> {
    let Some(drive) = drive else { return channel.recv() };
    let seat = Visit::new(drive).map_err(shm::ChannelError::System)?;
    loop {
        drive.work(&mut || false);
        match channel.try_recv()? {
            TryRecv::Message(message) => return Ok(Some(message)),
            TryRecv::Ended => return Ok(None),
            TryRecv::Empty => {}
        }
        // Neither a signal nor anything else that poll has to say is of interest.
        let _ = seat.wait_with(&mut [PollFd::new(channel, PollFlags::IN)], Some(SLICE));
    }
}

/// The seat, or a place in the line for it, of a thread that waits without a bell.
pub struct Visit<'a> {
    drive: &'a dyn Drive,
    nudge: Arc<OwnedFd>,
}

impl<'a> Visit<'a> {
    /// # Errors
    /// The system's, when it has no descriptor left.
    pub fn new(drive: &'a dyn Drive) -> Result<Self, Errno> {
        let nudge = shm::eventfd().map_err(|_| Errno::NFILE)?;
        Ok(Self { drive, nudge: Arc::new(move_high(nudge)) })
    }

    /// As [`Drive::wait_with`], also while another thread has the seat.
    ///
    /// # Errors
    /// As there.
    pub fn wait_with(&self, fds: &mut [PollFd<'_>], most: Option<Duration>) -> Result<(), Errno> {
        if self.drive.take_seat(&self.nudge) {
            self.drive.wait_with(fds, most)
        } else {
            wait_in_line(&self.nudge, fds, most)
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.drive.leave_seat(&self.nudge);
    }
}

/// Waits for the nudge, or until poll(2) reports something for `fds`.
fn wait_in_line(
    nudge: &OwnedFd,
    fds: &mut [PollFd<'_>],
    most: Option<Duration>,
) -> Result<(), Errno> {
    let mut all = Vec::with_capacity(fds.len() + 1);
    all.push(PollFd::new(nudge, PollFlags::IN));
    all.extend(fds.iter().cloned());
    let most = most.and_then(|most| Timespec::try_from(most).ok());
    poll(&mut all, most.as_ref())?;
    shm::drain(nudge);
    refresh(fds, all.get(1..).unwrap_or_default())
}

/// One thread's part of it.
#[derive(Debug)]
pub(crate) struct Driver {
    drive: Arc<dyn Drive>,
    nudge: Arc<OwnedFd>,
}

impl Driver {
    /// For a thread whose bell is heard at `bell`.
    pub(crate) fn new(drive: &Arc<dyn Drive>, bell: &OwnedFd) -> Result<Self, Errno> {
        let nudge = move_high(shm::eventfd().map_err(|_| Errno::NFILE)?);
        drive.watch(bell.as_fd());
        Ok(Self { drive: Arc::clone(drive), nudge: Arc::new(nudge) })
    }

    /// The descriptor by which it is nudged.
    pub(crate) fn nudge(&self) -> RawFd {
        self.nudge.as_raw_fd()
    }

    /// Works, and sleeps when there is nothing to do, until `bell` has rung (it was announced as
    /// [`Sleep::Driving`]), poll(2) reports something for `kernel`, or `wait` is over. The bell is
    /// heard at `fd`.
    ///
    /// # Errors
    /// EINTR, and poll(2)'s own.
    pub(crate) fn until_rung(
        &self,
        client: &Client,
        bell: &Sleeper,
        fd: &OwnedFd,
        kernel: &mut [PollFd<'_>],
        wait: Wait,
    ) -> Result<(), Errno> {
        let mut seated = false;
        let done = loop {
            self.drive.work(&mut || bell.is_rung());
            seated = seated || self.drive.take_seat(&self.nudge);
            let look_again = seated && !bell.is_rung() && !wait.is_over();
            if look_again && self.drive.spin(&mut || bell.is_rung()) {
                continue;
            }
            if wait.is_over() || self.drive.is_over() || !bell.change(Sleep::Driving, Sleep::Fd) {
                break Ok(());
            }
            client.count_sleep();
            let left = wait.deadline().map(|at| at.saturating_duration_since(Instant::now()));
            let slept = self.sleep(seated, fd, kernel, left);
            let rung = !bell.change(Sleep::Fd, Sleep::Driving);
            if rung {
                shm::drain(fd);
            }
            match slept {
                Err(Errno::INTR) if wait == Wait::Forever && self.drive.restarts() => {}
                Err(errno) => break Err(errno),
                Ok(()) if rung || kernel.iter().any(|fd| !fd.revents().is_empty()) => {
                    break Ok(());
                }
                Ok(()) => {}
            }
        };
        self.drive.leave_seat(&self.nudge);
        done
    }

    fn sleep(
        &self,
        seated: bool,
        bell: &OwnedFd,
        kernel: &mut [PollFd<'_>],
        most: Option<Duration>,
    ) -> Result<(), Errno> {
        match (seated, kernel.is_empty()) {
            (true, true) => self.drive.wait(most),
            (true, false) => self.drive.wait_with(kernel, most),
            (false, _) => {
                // The bell is read when its word says that it was rung.
                let mut all = Vec::with_capacity(kernel.len() + 1);
                all.push(PollFd::new(bell, PollFlags::IN));
                all.extend(kernel.iter().cloned());
                wait_in_line(&self.nudge, &mut all, most)?;
                refresh(kernel, all.get(1..).unwrap_or_default())
            }
        }
    }
}

/// What was reported of copies cannot be put into `fds`; it is still there to be asked for.
///
/// # Errors
/// poll(2)'s.
pub fn refresh(fds: &mut [PollFd<'_>], copies: &[PollFd<'_>]) -> Result<(), Errno> {
    if copies.iter().any(|fd| !fd.revents().is_empty()) {
        poll(fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map(drop)
    } else {
        fds.iter_mut().for_each(PollFd::clear_revents);
        Ok(())
    }
}

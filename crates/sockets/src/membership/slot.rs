//! Thread slots: each thread's call rings and bell, and how threads sleep.
//!
//! When the instance gives no more slots, threads *share* them. So a slot's rings are behind a
//! lock, which the only user of a slot finds free, and results are sorted by tag.
//!
//! A shared bell has a leader. The first thread to sleep sleeps on the bell; the others, its
//! followers, sleep on `epoch`. The leader counts `epoch` up whenever it stops sleeping, for any
//! reason. Then all look again, and one of them leads. A follower starts to look only after the
//! leader has announced its sleep: both happen under `leader`'s lock. So a ring meant for a
//! follower either finds the bell announced and wakes the leader, or is older than the follower's
//! look.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use abi::Errno;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, recv};
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};
use shm::{ReadinessBitmap, Sleep, Sleeper, Word32};

use super::local_thread::LocalStackThread;
use super::rings::Rings;
use super::server::ServerHandle;
use crate::cancellation::asleep;
use crate::local_stack::refresh;
use crate::lock::lock;
use crate::wait::{PollCall, Wait, far_away, timespec};

/// How long a follower polls descriptors before it looks again: it cannot poll the leader's bell.
const SHARED_POLL: Duration = Duration::from_millis(5);

/// One slot, this process's side of it.
#[derive(Debug)]
pub(crate) struct ThreadSlot {
    number: u16,
    word: Word32,
    bell: Sleeper,
    fd: OwnedFd,
    pub(crate) rings: Mutex<Rings>,
    /// Threads that use this slot.
    pub(super) users: AtomicU32,
    /// In mode `library`.
    local: Option<LocalStackThread>,
    /// The thread that sleeps on the bell ([`this_thread`]).
    leader: Mutex<Option<usize>>,
    epoch: AtomicU32,
    /// Sockets that changed while the slot's bit was in their `waiters`.
    pub(crate) news: ReadinessBitmap,
    /// A reactor reads the slot's news bitmap.
    news_taken: AtomicBool,
}

/// How a thread sleeps.
pub(crate) enum SleepRole {
    /// Announced on the bell.
    Leader,
    /// Sleeps while `epoch` is this.
    Follower(u32),
}

impl ThreadSlot {
    pub(super) fn new(server: &ServerHandle, number: u16, fd: OwnedFd) -> Result<Self, Errno> {
        let (region, layout) = (server.region(), server.layout());
        let made = (|| {
            let word = layout.thread_bell(region, number)?;
            let rings = Rings::attach(server.number(), region, layout, number)?;
            Ok::<_, shm::OutOfRange>((word, rings, layout.news(region, number)?))
        })();
        let (word, rings, news) = made.map_err(|_| server.fault())?;
        let local = server.stack().map(|stack| LocalStackThread::new(stack, &fd)).transpose()?;
        local.iter().for_each(|local| server.own(local.wakeup()));
        Ok(Self {
            local,
            number,
            bell: Sleeper::new(word.clone()),
            word,
            fd,
            rings: Mutex::new(rings),
            users: AtomicU32::new(0),
            leader: Mutex::new(None),
            epoch: AtomicU32::new(0),
            news,
            news_taken: AtomicBool::new(false),
        })
    }

    /// The slot's bit in `waiters` words.
    pub(crate) fn bit(&self) -> u64 {
        1_u64.checked_shl(self.number.into()).unwrap_or(0)
    }

    /// The stack runs in this process, and while its threads wait (mode `library`).
    pub(super) fn drives_stack(&self) -> bool {
        self.local.is_some()
    }

    /// Sleeps until the bell rings or until `wait`'s deadline. `look_again` runs after each
    /// announcement. If it is true, the thread does not sleep.
    ///
    /// # Errors
    /// EINTR; ENETDOWN when the instance is gone. The end of the time is no error.
    pub(crate) fn sleep(
        &self,
        server: &ServerHandle,
        wait: Wait,
        mut look_again: impl FnMut() -> bool,
    ) -> Result<(), Errno> {
        server.check_memory()?;
        server.ring_deferred();
        let how = if self.drives_stack() { Sleep::Driving } else { Sleep::Futex };
        let role = self.take_role(how);
        let slept = match (&role, &self.local) {
            _ if look_again() => Ok(()),
            (SleepRole::Leader, Some(local)) => {
                local.until_rung(server, &self.bell, &self.fd, &mut [], wait)
            }
            _ => self.sleep_in(server, &role, wait),
        };
        self.leave_role(&role);
        match slept {
            Err(Errno::TIMEDOUT) => server.look()?,
            other => return other,
        }
        if wait.is_over() || matches!(role, SleepRole::Follower(_)) {
            return Ok(());
        }
        match wait.deadline() {
            None => self.sleep_on_fd(server, look_again),
            deadline => self.poll(server, (&mut [], &poll), deadline, look_again),
        }
    }

    /// Sleeps until the bell rings or the server is gone. A signal whose handler was installed with
    /// SA_RESTART does not end it.
    fn sleep_on_fd(
        &self,
        server: &ServerHandle,
        look_again: impl FnOnce() -> bool,
    ) -> Result<(), Errno> {
        let role = self.take_role(Sleep::Fd);
        let slept = match role {
            _ if look_again() => Ok(1),
            SleepRole::Leader => {
                server.count_sleep();
                let slept = asleep(true, || recv(&self.fd, &mut [0_u8; 8], RecvFlags::empty()));
                slept.map(|slept| slept.map_or(1, |(len, _)| len))
            }
            // Another thread leads meanwhile: the next round follows it.
            SleepRole::Follower(_) => Ok(1),
        };
        self.leave_role(&role);
        // The end: the server has let go of this thread's bell.
        if slept? == 0 { server.look() } else { Ok(()) }
    }

    fn sleep_in(&self, server: &ServerHandle, role: &SleepRole, wait: Wait) -> Result<(), Errno> {
        server.count_sleep();
        let (word, expected): (&AtomicU32, u32) = match role {
            // The value that the announcement wrote, or 0 if the bell has rung since.
            SleepRole::Leader => match self.word.load(Ordering::SeqCst) {
                0 => return Ok(()),
                announced => (&self.word, announced),
            },
            SleepRole::Follower(seen) => (&self.epoch, *seen),
        };
        let end = slice_end(wait.deadline(), server.futex_sleep());
        let slept = match wait.deadline() {
            None => asleep(true, || restartable_sleep(word, expected, end)),
            Some(_) => asleep(false, || plain_sleep(word, expected, end)),
        };
        slept.map(drop)
    }

    /// [`ThreadSlot::sleep`] that ends as well when poll(2) reports something for `kernel`. The
    /// thread sleeps in `call`, in mode `library` in poll(2).
    ///
    /// # Errors
    /// As there, and poll(2)'s own.
    pub(crate) fn poll(
        &self,
        server: &ServerHandle,
        (kernel, call): (&mut [PollFd<'_>], PollCall<'_>),
        deadline: Option<Instant>,
        look_again: impl FnOnce() -> bool,
    ) -> Result<(), Errno> {
        let control = server.watch_control().ok_or_else(|| server.fault())?;
        server.ring_deferred();
        let role = self.take_role(match self.local {
            Some(_) => Sleep::Driving,
            None => Sleep::Fd,
        });
        if let (SleepRole::Leader, Some(local)) = (&role, &self.local) {
            let wait = match deadline {
                _ if look_again() => Wait::No,
                Some(deadline) => Wait::Until(deadline),
                None => Wait::Until(far_away()),
            };
            let slept = local.until_rung(server, &self.bell, &self.fd, kernel, wait);
            self.leave_role(&role);
            slept?;
            poll(kernel, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
            return server.look();
        }
        let ready = look_again();
        if !ready {
            server.count_sleep();
        }
        let (deadline, own) = match role {
            _ if ready => (Some(Instant::now()), None),
            SleepRole::Leader => (deadline, Some(PollFd::new(&self.fd, PollFlags::IN))),
            SleepRole::Follower(_) => (Some(slice_end(deadline, SHARED_POLL)), None),
        };
        let mut all = Vec::with_capacity(kernel.len() + 2);
        all.push(control.poll_fd());
        all.extend(own);
        let ours = all.len();
        all.extend(kernel.iter().cloned());
        // Any signal ends poll(2).
        let polled = asleep(false, || call(&mut all, timespec(deadline).as_ref()));
        self.leave_role(&role);
        polled?;
        let (ours, theirs) = all.split_at(ours);
        refresh(kernel, theirs)?;
        if ours.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
            shm::drain(&self.fd);
        }
        let server_ended = ours.first().is_some_and(|fd| !fd.revents().is_empty());
        if server_ended { Err(server.fault()) } else { Ok(()) }
    }

    /// The slot's news bitmap, for one reactor at a time.
    ///
    /// # Errors
    /// ENOBUFS when a thread with which this slot is shared has them.
    pub(crate) fn take_news_words(&self) -> Result<ReadinessBitmap, Errno> {
        if self.news_taken.swap(true, Ordering::SeqCst) {
            return Err(Errno::NOBUFS);
        }
        Ok(self.news.clone())
    }

    /// Has the slot's bitmap one reader, the thread that asks?
    pub(crate) fn has_own_news(&self) -> bool {
        self.users.load(Ordering::SeqCst) == 1 && !self.news_taken.load(Ordering::SeqCst)
    }

    /// The reactor is gone.
    pub(crate) fn give_back_news(&self) {
        self.news_taken.store(false, Ordering::SeqCst);
    }

    /// Readable once the bell has rung after [`ThreadSlot::announce_fd`].
    pub(crate) fn bell_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Announces that this thread sleeps on [`ThreadSlot::bell_fd`] until [`ThreadSlot::awake`].
    /// `None`: another thread sleeps on it.
    pub(crate) fn announce_fd(&self) -> Option<SleepRole> {
        Some(self.take_role(Sleep::Fd)).filter(|role| matches!(role, SleepRole::Leader))
    }

    /// The thread does not sleep any more.
    pub(crate) fn awake(&self, role: &SleepRole) {
        self.leave_role(role);
    }

    /// Ends the sleep of a thread of this process in [`ThreadSlot::sleep`].
    pub(crate) fn wake(&self) {
        self.bell.rouse();
    }

    fn take_role(&self, how: Sleep) -> SleepRole {
        let me = this_thread();
        let mut leader = lock(&self.leader);
        // A thread that left its last sleep by siglongjmp still leads, and does so again.
        if leader.is_some_and(|leader| leader != me) {
            return SleepRole::Follower(self.epoch.load(Ordering::SeqCst));
        }
        *leader = Some(me);
        self.bell.announce(how);
        SleepRole::Leader
    }

    fn leave_role(&self, role: &SleepRole) {
        if matches!(role, SleepRole::Follower(_)) {
            return;
        }
        let mut leader = lock(&self.leader);
        // A signal handler that slept meanwhile led in this thread's place, and has left.
        if *leader != Some(this_thread()) {
            return;
        }
        self.bell.awake();
        *leader = None;
        self.epoch.fetch_add(1, Ordering::SeqCst);
        drop(leader);
        if self.users.load(Ordering::SeqCst) > 1 {
            // Cannot fail for a mapped word.
            let _ = futex::wake(&self.epoch, futex::Flags::empty(), u32::MAX >> 1);
        }
    }
}

thread_local! {
    static IDENTITY: u8 = const { 0 };
}

/// Tells threads apart while they live: the address of a thread's own variable.
fn this_thread() -> usize {
    IDENTITY.try_with(|identity| std::ptr::from_ref(identity).addr()).unwrap_or(0)
}

/// poll(2), as a [`PollCall`].
pub(crate) fn poll(fds: &mut [PollFd<'_>], limit: Option<&Timespec>) -> Result<usize, Errno> {
    rustix::event::poll(fds, limit)
}

fn slice_end(deadline: Option<Instant>, slice: Duration) -> Instant {
    let end = Instant::now() + slice;
    deadline.map_or(end, |deadline| deadline.min(end))
}

/// Sleeps while `word` is `expected`. A signal whose handler was installed with SA_RESTART does not
/// end the sleep: the kernel restarts futex_waitv then, unlike FUTEX_WAIT with a time limit.
fn restartable_sleep(word: &AtomicU32, expected: u32, until: Instant) -> Result<(), Errno> {
    let left = until.saturating_duration_since(Instant::now());
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::try_from(now).map_err(|_| Errno::TIMEDOUT)?;
    let end = futex::Timespec::try_from(now + left).map_err(|_| Errno::TIMEDOUT)?;
    let mut waiter = futex::Wait::new();
    waiter.val = expected.into();
    waiter.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
    waiter.flags = futex::WaitFlags::SIZE_U32;
    let flags = futex::WaitvFlags::empty();
    match futex::waitv(&[waiter], flags, Some(&end), ClockId::Monotonic) {
        // Before Linux 5.16, or not allowed by a filter that does not know it.
        Err(Errno::NOSYS | Errno::PERM) => plain_sleep(word, expected, until),
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Sleeps while `word` is `expected`; any signal ends it.
fn plain_sleep(word: &AtomicU32, expected: u32, until: Instant) -> Result<(), Errno> {
    let left = timespec(Some(until));
    match futex::wait(word, futex::Flags::empty(), expected, left.as_ref()) {
        Ok(()) | Err(Errno::AGAIN) => Ok(()),
        Err(errno) => Err(errno),
    }
}

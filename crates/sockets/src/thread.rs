//! Thread slots: each thread's call rings and bell, and how threads sleep.
//!
//! A thread takes a slot when it first needs one and keeps it until it ends; then the slot waits in
//! a free list for the next thread. The instance is asked for another slot only when the list is
//! empty.
//!
//! When it gives no more, threads *share* slots. So a slot's rings are behind a lock, which its one
//! user finds free, and results are sorted by tag. A shared bell has a leader: the first to sleep
//! sleeps on the bell, the others on `epoch`, which the leader counts up whenever it stops
//! sleeping, for whatever reason; then all look again and one of them leads. A follower starts to
//! look only once the leader has announced (both happen under `leader`'s lock), so a ring that is
//! meant for a follower either finds the bell announced and wakes the leader, or is older than the
//! follower's look.

use std::cell::RefCell;
use std::ops::Deref;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use abi::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};
use shm::{Marks, Sleep, Sleeper, Word32};

use crate::batch;
use crate::bells;
use crate::client::{Client, lock};
use crate::drive::Driver;
use crate::rings::Rings;
use crate::wait::{Wait, timespec};

/// How long a thread sleeps on its futex, which is the quickest to wake from and hears nothing of
/// the instance's end. Who waits longer then sleeps on the bell's descriptor, which does, for as
/// long as it takes.
const SLICE: Duration = Duration::from_secs(1);
/// Longer than anybody waits.
const FAR: Duration = Duration::from_secs(1 << 30);
/// The same where the bell is another thread's and cannot be polled.
const SHARED_POLL: Duration = Duration::from_millis(5);

/// One slot, this process's side of it.
#[derive(Debug)]
pub(crate) struct ThreadSlot {
    number: u16,
    word: Word32,
    bell: Sleeper,
    fd: OwnedFd,
    pub(crate) rings: Mutex<Rings>,
    users: AtomicU32,
    /// In mode `library`.
    driver: Option<Driver>,
    /// The thread that sleeps on the bell ([`this_thread`]).
    leader: Mutex<Option<usize>>,
    epoch: AtomicU32,
    /// A reactor reads the news words.
    news_taken: AtomicBool,
}

pub(crate) enum Role {
    /// Announced on the bell.
    Leader,
    /// Sleeps while `epoch` is this.
    Follower(u32),
}

impl ThreadSlot {
    fn new(client: &Client, number: u16, fd: OwnedFd) -> Result<Self, Errno> {
        let (region, layout) = (client.region(), client.layout());
        let made = (|| {
            let word = layout.thread_bell(region, number)?;
            let rings = Rings::attach(client.number(), region, layout, number)?;
            Ok::<_, shm::OutOfRange>((word, rings))
        })();
        let (word, rings) = made.map_err(|_| client.fault())?;
        let driver = client.drive().map(|drive| Driver::new(drive, &fd)).transpose()?;
        driver.iter().for_each(|driver| client.own(driver.nudge()));
        Ok(Self {
            driver,
            number,
            bell: Sleeper::new(word.clone()),
            word,
            fd,
            rings: Mutex::new(rings),
            users: AtomicU32::new(0),
            leader: Mutex::new(None),
            epoch: AtomicU32::new(0),
            news_taken: AtomicBool::new(false),
        })
    }

    /// The slot's bit in `waiters` words.
    pub(crate) fn bit(&self) -> u64 {
        1_u64.checked_shl(self.number.into()).unwrap_or(0)
    }

    /// Sleeps until the bell rings or until `wait`'s deadline. `look_again` runs after each
    /// announcement; true: do not sleep.
    ///
    /// # Errors
    /// EINTR; ENETDOWN when the instance is gone. The end of the time is no error.
    pub(crate) fn sleep(
        &self,
        client: &Client,
        wait: Wait,
        mut look_again: impl FnMut() -> bool,
    ) -> Result<(), Errno> {
        client.check_memory()?;
        bells::pay(client);
        let how = if self.driver.is_some() { Sleep::Driving } else { Sleep::Futex };
        let role = self.take_role(how);
        let slept = match (&role, &self.driver) {
            _ if look_again() => Ok(()),
            (Role::Leader, Some(driver)) => {
                driver.until_rung(client, &self.bell, &self.fd, &mut [], wait)
            }
            _ => self.sleep_in(client, &role, wait),
        };
        self.leave_role(&role);
        match slept {
            Err(Errno::TIMEDOUT) => client.look()?,
            other => return other,
        }
        if wait.is_over() || matches!(role, Role::Follower(_)) {
            return Ok(());
        }
        match wait.deadline() {
            None => self.doze(client, look_again),
            deadline => self.poll(client, &mut [], deadline, look_again),
        }
    }

    /// Sleeps until the bell rings or the server is gone. A signal whose handler was installed with
    /// SA_RESTART does not end it.
    fn doze(&self, client: &Client, look_again: impl FnOnce() -> bool) -> Result<(), Errno> {
        let role = self.take_role(Sleep::Fd);
        let slept = match role {
            _ if look_again() => Ok(1),
            Role::Leader => {
                client.count_sleep();
                recv(&self.fd, &mut [0_u8; 8], RecvFlags::empty()).map(|(len, _)| len)
            }
            // Another thread leads meanwhile: the next round follows it.
            Role::Follower(_) => Ok(1),
        };
        self.leave_role(&role);
        // The end: the server has let go of this thread's bell.
        if slept? == 0 { client.look() } else { Ok(()) }
    }

    fn sleep_in(&self, client: &Client, role: &Role, wait: Wait) -> Result<(), Errno> {
        client.count_sleep();
        let (word, expected): (&AtomicU32, u32) = match role {
            // What the announcement wrote; 0 if the bell has rung since.
            Role::Leader => match self.word.load(Ordering::SeqCst) {
                0 => return Ok(()),
                announced => (&self.word, announced),
            },
            Role::Follower(seen) => (&self.epoch, *seen),
        };
        match wait.deadline() {
            None => restartable_sleep(word, expected, slice_end(None, SLICE)),
            deadline => plain_sleep(word, expected, slice_end(deadline, SLICE)),
        }
    }

    /// [`ThreadSlot::sleep`] that ends as well when poll(2) reports something for `kernel`.
    ///
    /// # Errors
    /// As there, and poll(2)'s own.
    pub(crate) fn poll(
        &self,
        client: &Client,
        kernel: &mut [PollFd<'_>],
        deadline: Option<Instant>,
        look_again: impl FnOnce() -> bool,
    ) -> Result<(), Errno> {
        let line = client.watched_line().ok_or_else(|| client.fault())?;
        bells::pay(client);
        let role = self.take_role(match self.driver {
            Some(_) => Sleep::Driving,
            None => Sleep::Fd,
        });
        if let (Role::Leader, Some(driver)) = (&role, &self.driver) {
            let wait = match deadline {
                _ if look_again() => Wait::No,
                Some(deadline) => Wait::Until(deadline),
                None => Wait::Until(Instant::now() + FAR),
            };
            let slept = driver.until_rung(client, &self.bell, &self.fd, kernel, wait);
            self.leave_role(&role);
            slept?;
            poll(kernel, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
            return client.look();
        }
        let ready = look_again();
        if !ready {
            client.count_sleep();
        }
        let (deadline, own) = match role {
            _ if ready => (Some(Instant::now()), None),
            Role::Leader => (deadline, Some(PollFd::new(&self.fd, PollFlags::IN))),
            Role::Follower(_) => (Some(slice_end(deadline, SHARED_POLL)), None),
        };
        let mut all = Vec::with_capacity(kernel.len() + 2);
        all.push(line.poll_fd());
        all.extend(own);
        let ours = all.len();
        all.extend(kernel.iter().cloned());
        let polled = poll(&mut all, timespec(deadline).as_ref());
        self.leave_role(&role);
        polled?;
        let (ours, theirs) = all.split_at(ours);
        if theirs.iter().any(|fd| !fd.revents().is_empty()) {
            // What was reported of copies cannot be put into `kernel`; it is still there to be
            // asked for.
            poll(kernel, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        } else {
            kernel.iter_mut().for_each(PollFd::clear_revents);
        }
        if ours.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
            shm::drain(&self.fd);
        }
        let line_ended = ours.first().is_some_and(|fd| !fd.revents().is_empty());
        if line_ended { Err(client.fault()) } else { Ok(()) }
    }

    /// The slot's news words, for one reactor at a time.
    ///
    /// # Errors
    /// ENOBUFS when a thread with which this slot is shared has them.
    pub(crate) fn take_news_words(&self, client: &Client) -> Result<Marks, Errno> {
        if self.news_taken.swap(true, Ordering::SeqCst) {
            return Err(Errno::NOBUFS);
        }
        client.layout().news(client.region(), self.number).map_err(|_| client.fault())
    }

    /// The reactor is gone.
    pub(crate) fn give_back_news(&self) {
        self.news_taken.store(false, Ordering::SeqCst);
    }

    /// Readable once the bell has rung after [`ThreadSlot::announce_fd`].
    pub(crate) fn bell_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Says that this thread is going to sleep on [`ThreadSlot::bell_fd`], until
    /// [`ThreadSlot::awake`]. `None`: another thread sleeps on it.
    pub(crate) fn announce_fd(&self) -> Option<Role> {
        Some(self.take_role(Sleep::Fd)).filter(|role| matches!(role, Role::Leader))
    }

    /// The thread does not sleep any more.
    pub(crate) fn awake(&self, role: &Role) {
        self.leave_role(role);
    }

    /// Ends the sleep of a thread of this process in [`ThreadSlot::sleep`].
    pub(crate) fn rouse(&self) {
        self.bell.rouse();
    }

    fn take_role(&self, how: Sleep) -> Role {
        let me = this_thread();
        let mut leader = lock(&self.leader);
        // A thread that left its last sleep by siglongjmp still leads, and does so again.
        if leader.is_some_and(|leader| leader != me) {
            return Role::Follower(self.epoch.load(Ordering::SeqCst));
        }
        *leader = Some(me);
        self.bell.announce(how);
        Role::Leader
    }

    fn leave_role(&self, role: &Role) {
        if matches!(role, Role::Follower(_)) {
            return;
        }
        self.bell.awake();
        let mut leader = lock(&self.leader);
        *leader = None;
        self.epoch.fetch_add(1, Ordering::SeqCst);
        drop(leader);
        if self.users.load(Ordering::SeqCst) > 1 {
            // Cannot fail for a mapped word.
            let _ = futex::wake(&self.epoch, futex::Flags::empty(), u32::MAX >> 1);
        }
    }
}

fn slice_end(deadline: Option<Instant>, slice: Duration) -> Instant {
    let end = Instant::now() + slice;
    deadline.map_or(end, |deadline| deadline.min(end))
}

/// Sleeps while `word` is `expected`. A signal whose handler was installed with SA_RESTART does not
/// end it: unlike FUTEX_WAIT with a time limit, futex_waitv is restarted then.
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

/// The slots of a client that are attached so far, and those without a thread.
#[derive(Debug)]
pub(crate) struct Threads {
    most: u16,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    all: Vec<Arc<ThreadSlot>>,
    free: Vec<Arc<ThreadSlot>>,
    refused: bool,
}

impl Threads {
    pub(crate) fn new(most: u16) -> Self {
        Self { most, table: Mutex::new(Table::default()) }
    }

    fn acquire(&self, client: &Client) -> Result<Arc<ThreadSlot>, Errno> {
        // Held while the instance is asked, so that whoever is refused finds a slot to share.
        let mut table = lock(&self.table);
        let full = table.refused || table.all.len() >= usize::from(self.most);
        let slot = match table.free.pop() {
            Some(free) => Some(free),
            None if full => table.least_used(),
            None => match client.attach_thread()? {
                Some((number, fd)) => {
                    let slot = Arc::new(ThreadSlot::new(client, number, fd)?);
                    table.all.push(Arc::clone(&slot));
                    Some(slot)
                }
                None => {
                    table.refused = true;
                    table.least_used()
                }
            },
        };
        let slot = slot.ok_or(Errno::NOBUFS)?;
        slot.users.fetch_add(1, Ordering::SeqCst);
        Ok(slot)
    }

    /// The name of a socket that was made ahead for any thread.
    pub(crate) fn take_ahead(&self, client: &Client, speaks: [u64; 2]) -> Option<u64> {
        let all = lock(&self.table).all.clone();
        all.iter().find_map(|slot| {
            // A fault shows again to the slot's own thread.
            let _ = batch::drain(client, slot);
            lock(&slot.rings).take_ahead(speaks)
        })
    }

    fn release(&self, slot: &Arc<ThreadSlot>) {
        let mut table = lock(&self.table);
        if slot.users.fetch_sub(1, Ordering::SeqCst) == 1 {
            table.free.push(Arc::clone(slot));
        }
    }
}

impl Table {
    fn least_used(&self) -> Option<Arc<ThreadSlot>> {
        self.all.iter().min_by_key(|slot| slot.users.load(Ordering::SeqCst)).cloned()
    }
}

/// A thread's claim on a slot; given back when dropped.
#[derive(Debug)]
struct Claim {
    client: Weak<Client>,
    slot: Arc<ThreadSlot>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that is not here.
        if let Some(client) = self.client.upgrade().filter(|client| client.is_mine()) {
            client.threads.release(&self.slot);
        }
    }
}

thread_local! {
    /// This thread's claim, on a slot of the client it used last.
    static CLAIM: RefCell<Option<Rc<Claim>>> = const { RefCell::new(None) };
}

/// Tells threads apart while they live: the address of a thread's own `CLAIM`. 0 in a thread that
/// is ending, which so is taken for any other that ends.
fn this_thread() -> usize {
    CLAIM.try_with(|claim| std::ptr::from_ref(claim).addr()).unwrap_or(0)
}

/// A slot in use by the calling thread.
pub(crate) struct Held(Rc<Claim>);

impl Held {
    /// The slot, for other threads.
    pub(crate) fn slot(&self) -> Arc<ThreadSlot> {
        Arc::clone(&self.0.slot)
    }
}

impl Deref for Held {
    type Target = ThreadSlot;

    fn deref(&self) -> &ThreadSlot {
        &self.0.slot
    }
}

impl Client {
    /// The calling thread's slot.
    ///
    /// # Errors
    /// ENOTCONN in a forked child; ENETDOWN when the instance is gone; ENOBUFS when it gives not
    /// even one slot.
    pub(crate) fn thread(&self) -> Result<Held, Errno> {
        self.check_memory()?;
        let kept = CLAIM.try_with(|claim| {
            let Ok(mut claim) = claim.try_borrow_mut() else {
                return Ok(None);
            };
            let ours = |claim: &&Rc<Claim>| Weak::ptr_eq(&claim.client, self.weak());
            if let Some(claim) = claim.as_ref().filter(ours) {
                return Ok(Some(Rc::clone(claim)));
            }
            let new = self.claim()?;
            *claim = Some(Rc::clone(&new));
            Ok(Some(new))
        });
        match kept.unwrap_or(Ok(None))? {
            Some(claim) => Ok(Held(claim)),
            // The thread cannot keep one now: it ends, or this is a signal handler.
            None => self.claim().map(Held),
        }
    }

    fn claim(&self) -> Result<Rc<Claim>, Errno> {
        let slot = self.threads.acquire(self)?;
        Ok(Rc::new(Claim { client: Weak::clone(self.weak()), slot }))
    }
}

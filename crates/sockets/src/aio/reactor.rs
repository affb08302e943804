//! The reactor: wakes tasks when their calls are over or their sockets have news.
//!
//! A task that waits for a socket leaves its waker at the socket's index and sets the thread's bit
//! in the socket's `waiters` word. Then it looks at the socket's version once more. When the server
//! clears the bit, it names the socket in the thread's news bitmap before it rings. So a woken
//! thread takes the bitmap and finds exactly the sockets with news.
//!
//! Wakers run, and values of futures are dropped, only while nothing here is borrowed: both may
//! call the reactor again.

use std::cell::RefCell;
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use abi::Errno;
use rustix::event::{PollFd, PollFlags};
use shm::ReadinessBitmap;

use crate::batch::CallBatch;
use crate::client::Client;
use crate::descriptors::move_high;
use crate::lock::lock;
use crate::membership::{ServerHandle, SleepRole, ThreadClaim, ThreadSlot, poll};
use crate::request::{Reply, Request, Ticket};
use crate::socket::Socket;
use crate::wait::Wait;

/// Attempts in a row on a socket whose words change all the time, before other tasks run.
const MOST_ATTEMPTS: u32 = 16;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Reactor>>> = const { RefCell::new(None) };
}

/// The direction in which a task waits for a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    Read,
    Write,
}

/// The tasks that wait for one socket.
#[derive(Debug, Default)]
struct SocketWakers {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// A call on its way.
#[derive(Debug)]
enum ReactorCall {
    Free,
    Due(Option<Waker>),
    Over(Result<Reply, Errno>),
    /// Its future was dropped, or there never was one.
    Abandoned,
}

#[derive(Debug, Default)]
struct ReactorCalls {
    all: Vec<ReactorCall>,
    free: Vec<usize>,
}

impl ReactorCalls {
    fn put(&mut self, call: ReactorCall) -> usize {
        match self.free.pop() {
            Some(at) => {
                self.set(at, call);
                at
            }
            None => {
                self.all.push(call);
                self.all.len() - 1
            }
        }
    }

    /// Replaces a call. The caller must drop the old one.
    fn set(&mut self, at: usize, call: ReactorCall) -> Option<ReactorCall> {
        self.all.get_mut(at).map(|place| std::mem::replace(place, call))
    }

    fn release(&mut self, at: usize) -> Option<ReactorCall> {
        self.free.push(at);
        self.set(at, ReactorCall::Free)
    }
}

/// Drives the sockets of one thread; see the module's documentation.
pub struct Reactor {
    client: Arc<Client>,
    thread: ThreadClaim,
    news: ReadinessBitmap,
    batch: RefCell<CallBatch<'static>>,
    calls: RefCell<ReactorCalls>,
    /// By place of the socket, up to the highest one that a task has waited for.
    waiters: RefCell<Vec<SocketWakers>>,
    /// The task that calls [`Reactor::poll_iteration`].
    driver: RefCell<Option<Waker>>,
    /// It was announced that this thread sleeps on the descriptor.
    asleep: RefCell<Option<SleepRole>>,
    wake_handle: Option<Arc<WakeHandle>>,
}

/// Ends a reactor's sleep from other threads.
pub(super) struct WakeHandle {
    slot: Arc<ThreadSlot>,
    /// It sleeps on `event`, not on the bell's word alone.
    deep: AtomicBool,
    event: OwnedFd,
}

impl WakeHandle {
    /// Call it after the change that the sleeper is to see.
    pub(super) fn wake(&self) {
        self.slot.wake();
        if self.deep.load(Ordering::SeqCst) {
            // Fails only when the count of wakes is full; then it is awake.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}

impl std::fmt::Debug for Reactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reactor").field("client", &self.client.number()).finish_non_exhaustive()
    }
}

/// The thread's reactor is this one until the guard is dropped.
#[derive(Debug)]
pub struct EnteredReactor(Option<Rc<Reactor>>);

impl Drop for EnteredReactor {
    fn drop(&mut self) {
        let before = self.0.take();
        let _ = CURRENT.try_with(|current| current.replace(before));
    }
}

impl Reactor {
    /// A reactor for the calling thread as `client`.
    ///
    /// # Errors
    /// ENETDOWN when the instance is gone, ENOTCONN in a forked child; ENOBUFS when it has no
    /// thread slot, or this thread shares one with another that has a reactor.
    pub fn new(client: &Arc<Client>) -> Result<Rc<Self>, Errno> {
        Self::with(client, None)
    }

    /// [`Reactor::new`] of which other threads can end the sleep.
    pub(super) fn with_wake_handle(client: &Arc<Client>) -> Result<Rc<Self>, Errno> {
        let event = shm::eventfd().map_err(|_| Errno::NFILE)?;
        let wake_handle = WakeHandle {
            slot: client.membership().thread()?.slot(),
            deep: AtomicBool::new(false),
            event: move_high(event),
        };
        Self::with(client, Some(Arc::new(wake_handle)))
    }

    fn with(client: &Arc<Client>, wake_handle: Option<Arc<WakeHandle>>) -> Result<Rc<Self>, Errno> {
        let thread = client.membership().thread()?;
        let batch = CallBatch::shared(client)?;
        let news = thread.take_news_words()?;
        Ok(Rc::new(Self {
            client: Arc::clone(client),
            thread,
            news,
            batch: RefCell::new(batch),
            calls: RefCell::default(),
            waiters: RefCell::default(),
            driver: RefCell::default(),
            asleep: RefCell::default(),
            wake_handle,
        }))
    }

    /// The reactor that this thread's sockets use.
    ///
    /// # Errors
    /// ENOTCONN outside of [`super::block_on`] and [`Reactor::enter`].
    pub fn current() -> Result<Rc<Self>, Errno> {
        let current = CURRENT.try_with(|current| current.borrow().clone());
        current.ok().flatten().ok_or(Errno::NOTCONN)
    }

    /// Makes this the thread's reactor until the guard is dropped.
    #[must_use]
    pub fn enter(self: &Rc<Self>) -> EnteredReactor {
        let before = CURRENT.with(|current| current.replace(Some(Rc::clone(self))));
        if let Some(before) = &before {
            // Of one client at a time a bell can be held back.
            before.server().end_deferral();
        }
        EnteredReactor(before)
    }

    /// The client whose sockets these are.
    #[must_use]
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    fn server(&self) -> &ServerHandle {
        &self.client.membership().server
    }

    /// Makes a call. The future gives its result. Dropping the future cancels the call.
    ///
    /// # Errors
    /// As [`CallBatch::submit`].
    pub fn call(self: &Rc<Self>, request: Request) -> Result<CallFuture, Errno> {
        let (at, ticket) = self.submit(request, ReactorCall::Due(None))?;
        Ok(CallFuture { reactor: Rc::clone(self), at, ticket, over: false })
    }

    fn submit(&self, request: Request, call: ReactorCall) -> Result<(usize, Ticket), Errno> {
        let at = self.calls.borrow_mut().put(call);
        let mut request = request.user_data(at as u64);
        let submitted = loop {
            match self.batch.borrow_mut().submit_from(&mut request) {
                Err(Errno::INTR) => {}
                // Results have come that take up all room.
                Err(Errno::NOBUFS) => {}
                other => break other,
            }
            if let Err(errno) = self.collect() {
                break Err(errno);
            }
        };
        match submitted {
            Ok(ticket) => {
                self.wake_driver();
                Ok((at, ticket))
            }
            Err(errno) => {
                let call = self.calls.borrow_mut().release(at);
                drop(call);
                Err(errno)
            }
        }
    }

    /// Makes a call and discards its result.
    pub(super) fn call_and_forget(&self, request: Request) -> Result<(), Errno> {
        self.submit(request, ReactorCall::Abandoned).map(drop)
    }

    /// Closes a socket without waiting for it.
    pub(super) fn close(&self, socket: &Socket) {
        self.forget(socket);
        if let Some(request) = Request::close(socket) {
            // Without room for the call the place is lost until the process ends.
            let _ = self.call_and_forget(request);
        }
    }

    /// Drops the wakers of this socket.
    fn forget(&self, socket: &Socket) {
        let mut waiters = self.waiters.borrow_mut();
        let old = waiters.get_mut(usize::from(socket.index())).map(std::mem::take);
        drop(waiters);
        drop(old);
    }

    /// Does `attempt` until it gives something else than EAGAIN; leaves the task's waker otherwise.
    pub(super) fn poll_io<T>(
        &self,
        socket: &Socket,
        interest: Interest,
        context: &mut Context<'_>,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Poll<Result<T, Errno>> {
        for _ in 0..MOST_ATTEMPTS {
            let version = socket.version();
            match attempt() {
                Err(Errno::AGAIN) => {}
                other => return Poll::Ready(other),
            }
            self.leave_waker(socket, interest, context);
            socket.wait_for_change(self.thread.bit());
            if socket.version() == version {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn leave_waker(&self, socket: &Socket, interest: Interest, context: &mut Context<'_>) {
        let mut all = self.waiters.borrow_mut();
        let at = usize::from(socket.index());
        if all.len() <= at {
            all.resize_with(at + 1, SocketWakers::default);
        }
        let Some(waiters) = all.get_mut(at) else { return };
        let place = match interest {
            Interest::Read => &mut waiters.reader,
            Interest::Write => &mut waiters.writer,
        };
        if place.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            return;
        }
        let old = place.replace(context.waker().clone());
        drop(all);
        drop(old);
        self.wake_driver();
    }

    /// Wakes the tasks of sockets that have news, and of calls that are over. Also sends registered
    /// calls on their way. True if there was something.
    fn collect(&self) -> Result<bool, Errno> {
        let mut wakers = Vec::new();
        self.take_news(&mut wakers);
        let taken = self.take_results(&mut wakers);
        let some = !wakers.is_empty();
        wakers.into_iter().for_each(Waker::wake);
        taken.map(|taken| taken | some)
    }

    fn take_news(&self, wakers: &mut Vec<Waker>) {
        let mut all = self.waiters.borrow_mut();
        self.news.take(all.len(), |word, mut bits| {
            while bits != 0 {
                let at = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                // A bit of an index without a socket means nothing.
                let Some(waiters) = all.get_mut(at) else { continue };
                wakers.extend(waiters.reader.take().into_iter().chain(waiters.writer.take()));
            }
        });
    }

    fn take_results(&self, wakers: &mut Vec<Waker>) -> Result<bool, Errno> {
        let mut some = false;
        self.batch.borrow_mut().wait_for(0, Wait::No)?;
        loop {
            let Some(over) = self.batch.borrow_mut().fetch() else { return Ok(some) };
            some = true;
            let at = usize::try_from(over.user_data).unwrap_or(usize::MAX);
            let mut calls = self.calls.borrow_mut();
            match calls.all.get_mut(at) {
                Some(call @ ReactorCall::Due(_)) => {
                    let due = std::mem::replace(call, ReactorCall::Over(over.result));
                    if let ReactorCall::Due(Some(waker)) = due {
                        wakers.push(waker);
                    }
                }
                _ => {
                    let abandoned = calls.release(at);
                    drop(calls);
                    drop(abandoned);
                    self.discard(over.result);
                }
            }
        }
    }

    /// Gets rid of a result that no task waits for.
    fn discard(&self, result: Result<Reply, Errno>) {
        if let Ok(Reply::Socket(socket) | Reply::Accepted(socket, _)) = result {
            self.close(&socket);
        }
    }

    /// Is there something to collect?
    fn has_news(&self) -> bool {
        !self.news.is_empty() || lock(&self.thread.rings).has_results()
    }

    /// From now on the server is not rung for calls and sends of tasks, until the next iteration.
    pub(super) fn defer_bell(&self) {
        self.server().defer_bell();
    }

    /// Sends everything on its way and wakes the tasks that have news. If there are none, sleeps
    /// first, as `wait` allows, until there is news or `interrupted` is true.
    ///
    /// # Errors
    /// ENETDOWN when the instance is gone, ENOTCONN in a forked child: all tasks have been woken to
    /// see it.
    pub(super) fn iterate(&self, wait: Wait, interrupted: impl Fn() -> bool) -> Result<(), Errno> {
        let iterated = self.try_iterate(wait, interrupted);
        if iterated.is_err() {
            self.fail_all();
        }
        iterated
    }

    fn try_iterate(&self, wait: Wait, interrupted: impl Fn() -> bool) -> Result<(), Errno> {
        self.batch.borrow_mut().flush();
        self.server().end_deferral();
        if self.collect()? || wait.is_over() || interrupted() {
            return Ok(());
        }
        let slept = match &self.wake_handle {
            // Longer sleeps end by a descriptor, and with the instance.
            Some(wake_handle) if wait == Wait::Forever => self.sleep_long(wake_handle, interrupted),
            _ => self.thread.sleep(self.server(), wait, || interrupted() || self.has_news()),
        };
        match slept {
            Ok(()) | Err(Errno::INTR) => self.collect().map(drop),
            Err(errno) => Err(errno),
        }
    }

    fn sleep_long(
        &self,
        wake_handle: &WakeHandle,
        interrupted: impl Fn() -> bool,
    ) -> Result<(), Errno> {
        let over = || interrupted() || self.has_news();
        // In mode `library` every sleep is on descriptors.
        if self.server().stack().is_none() {
            let wait = Wait::at_most(Some(self.server().futex_sleep()));
            self.thread.sleep(self.server(), wait, over)?;
            if over() {
                return Ok(());
            }
        }
        wake_handle.deep.store(true, Ordering::SeqCst);
        let kernel = &mut [PollFd::new(&wake_handle.event, PollFlags::IN)];
        let slept = self.thread.poll(self.server(), (kernel, &poll), None, over);
        wake_handle.deep.store(false, Ordering::SeqCst);
        shm::drain(&wake_handle.event);
        slept
    }

    /// The instance is gone: every task learns of it.
    fn fail_all(&self) {
        let mut wakers = Vec::new();
        for waiters in self.waiters.borrow_mut().iter_mut() {
            wakers.extend(waiters.reader.take().into_iter().chain(waiters.writer.take()));
        }
        for call in &mut self.calls.borrow_mut().all {
            if let ReactorCall::Due(waker) = call {
                wakers.extend(waker.take());
                *call = ReactorCall::Over(Err(Errno::NETDOWN));
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Another thread's way to end this one's sleep.
    pub(super) fn wake_handle(&self) -> Option<Arc<WakeHandle>> {
        self.wake_handle.clone()
    }

    fn wake_driver(&self) {
        let driver = self.driver.borrow_mut().take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// For other executors: one iteration without sleep. Sends the calls that tasks made since the
    /// last iteration, wakes tasks with news, and announces that the thread sleeps on
    /// [`Reactor::as_fd`]. The waker is woken when there is something to be sent. So a task that
    /// calls this in a loop sends the calls of all tasks before it at once.
    ///
    /// Ready: there may be more, so call it again after other tasks have run. Pending: wait until
    /// the descriptor is readable, then call [`Reactor::rung`].
    ///
    /// # Errors
    /// As [`Reactor::new`]; all tasks have been woken to see it.
    pub fn poll_iteration(&self, context: &mut Context<'_>) -> Poll<Result<(), Errno>> {
        let iterated = self.try_poll_iteration(context);
        if let Poll::Ready(Err(_)) = iterated {
            self.fail_all();
        }
        iterated
    }

    fn try_poll_iteration(&self, context: &mut Context<'_>) -> Poll<Result<(), Errno>> {
        self.awake();
        let old = self.driver.borrow_mut().replace(context.waker().clone());
        drop(old);
        self.server().look_sometimes()?;
        self.batch.borrow_mut().flush();
        if self.collect()? {
            return Poll::Ready(Ok(()));
        }
        let role = self.thread.announce_fd();
        let announced = role.is_some();
        *self.asleep.borrow_mut() = role;
        if !announced || self.has_news() {
            self.awake();
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    fn awake(&self) {
        if let Some(role) = self.asleep.borrow_mut().take() {
            self.thread.awake(&role);
        }
    }

    /// The descriptor was readable: drains it. The end of the instance makes it readable as well.
    ///
    /// # Errors
    /// As [`Reactor::look`].
    pub fn rung(&self) -> Result<(), Errno> {
        let there = shm::drain(self.as_fd());
        self.awake();
        if there { Ok(()) } else { self.look() }
    }

    /// Checks whether the instance is still there. Its end rings no bell, so an executor that
    /// sleeps on the descriptor checks now and then.
    ///
    /// # Errors
    /// ENETDOWN if not; all tasks have been woken to see it.
    pub fn look(&self) -> Result<(), Errno> {
        self.server().look().inspect_err(|_| self.fail_all())
    }
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.thread.bell_fd()
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.server().end_deferral();
        self.awake();
        self.thread.give_back_news();
    }
}

/// A call on its way. Dropping it cancels the call.
#[derive(Debug)]
#[must_use = "the call is cancelled when this is dropped"]
pub struct CallFuture {
    reactor: Rc<Reactor>,
    at: usize,
    ticket: Ticket,
    over: bool,
}

impl Future for CallFuture {
    type Output = Result<Reply, Errno>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.over {
            return Poll::Ready(Err(Errno::INVAL));
        }
        let at = self.at;
        let mut calls = self.reactor.calls.borrow_mut();
        if let Some(ReactorCall::Due(waker)) = calls.all.get_mut(at) {
            let old = waker.replace(context.waker().clone());
            drop(calls);
            drop(old);
            return Poll::Pending;
        }
        let over = calls.release(at);
        drop(calls);
        self.over = true;
        match over {
            Some(ReactorCall::Over(result)) => Poll::Ready(result),
            _ => Poll::Ready(Err(Errno::INVAL)),
        }
    }
}

impl Drop for CallFuture {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut calls = self.reactor.calls.borrow_mut();
        if let Some(ReactorCall::Over(_)) = calls.all.get(self.at) {
            let over = calls.release(self.at);
            drop(calls);
            if let Some(ReactorCall::Over(result)) = over {
                self.reactor.discard(result);
            }
            return;
        }
        let due = calls.set(self.at, ReactorCall::Abandoned);
        drop(calls);
        drop(due);
        // Too late is no harm: its result is thrown away, and a socket in it is closed.
        let _ = self.reactor.batch.borrow_mut().cancel(self.ticket);
        self.reactor.wake_driver();
    }
}

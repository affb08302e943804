//! A small executor for one thread: tasks run until none can, then the reactor iterates.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use super::reactor::{Reactor, WakeHandle};
use crate::client::Client;
use crate::instance::instance;
use crate::lock::lock;
use crate::wait::Wait;

/// Times that all ready tasks run before the reactor iterates although some can still run.
const ROUNDS: u32 = 8;

/// The name of the future that [`block_on`] was given.
const MAIN: usize = usize::MAX;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Executor>>> = const { RefCell::new(None) };
}

/// Tasks that can run. Wakers of any thread put them here.
struct Ready {
    tasks: Mutex<VecDeque<usize>>,
    /// Ends the executor's sleep.
    wake_handle: Option<Arc<WakeHandle>>,
}

struct TaskWaker {
    task: usize,
    /// It is in the queue already.
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            lock(&self.ready.tasks).push_back(self.task);
            if let Some(wake_handle) = &self.ready.wake_handle {
                wake_handle.wake();
            }
        }
    }
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    waker: Arc<TaskWaker>,
}

struct Executor {
    reactor: Rc<Reactor>,
    ready: Arc<Ready>,
    /// `None`: free, or being run.
    tasks: RefCell<Vec<Option<Task>>>,
    free: RefCell<Vec<usize>>,
}

impl Executor {
    fn waker(&self, task: usize) -> Arc<TaskWaker> {
        let ready = Arc::clone(&self.ready);
        Arc::new(TaskWaker { task, queued: AtomicBool::new(false), ready })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()>>>) {
        let at = self.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut tasks = self.tasks.borrow_mut();
            tasks.push(None);
            tasks.len() - 1
        });
        let waker = self.waker(at);
        waker.wake_by_ref();
        if let Some(place) = self.tasks.borrow_mut().get_mut(at) {
            *place = Some(Task { future, waker });
        }
    }

    /// Runs one task. Values that the task drops may spawn and wake other tasks.
    fn run(&self, at: usize) {
        let task = self.tasks.borrow_mut().get_mut(at).and_then(Option::take);
        let Some(mut task) = task else { return };
        task.waker.queued.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(&task.waker));
        match task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                if let Some(place) = self.tasks.borrow_mut().get_mut(at) {
                    *place = Some(task);
                }
            }
            Poll::Ready(()) => {
                drop(task);
                self.free.borrow_mut().push(at);
            }
        }
    }

    fn is_idle(&self) -> bool {
        lock(&self.ready.tasks).is_empty()
    }

    /// Runs every task that could run when this began; true if the main future was among them.
    fn round(&self) -> bool {
        let mut main = false;
        let now = std::mem::take(&mut *lock(&self.ready.tasks));
        for at in now {
            if at == MAIN {
                main = true;
            } else {
                self.run(at);
            }
        }
        main
    }

    fn block_on<F: Future>(&self, future: F) -> io::Result<F::Output> {
        let mut future = pin!(future);
        let main = self.waker(MAIN);
        main.wake_by_ref();
        let waker = Waker::from(Arc::clone(&main));
        loop {
            self.reactor.defer_bell();
            for _ in 0..ROUNDS {
                if self.round() {
                    main.queued.store(false, Ordering::Release);
                    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                    if let Poll::Ready(done) = polled {
                        // The last calls and sends still leave.
                        let _ = self.reactor.iterate(Wait::No, || true);
                        return Ok(done);
                    }
                }
                if self.is_idle() {
                    break;
                }
            }
            let wait = if self.is_idle() { Wait::Forever } else { Wait::No };
            let iterated = self.reactor.iterate(wait, || !self.is_idle());
            // Tasks that can still run get to see it first.
            if let Err(errno) = iterated
                && self.is_idle()
            {
                return Err(errno.into());
            }
        }
    }
}

/// The thread's executor until it is dropped.
struct EnteredExecutor(Option<Rc<Executor>>);

impl Drop for EnteredExecutor {
    fn drop(&mut self) {
        let before = self.0.take();
        let _ = CURRENT.try_with(|current| current.replace(before));
    }
}

/// Runs `future`, and what it [`spawn`]s, to the end of `future`, on the process's own client
/// ([`crate::instance()`]). Tasks that are left are dropped.
///
/// # Errors
/// Those of [`crate::instance()`] and [`Reactor::new`]. ENETDOWN when the instance ended and
/// nothing can run any more.
pub fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    block_on_via(&instance()?, future)
}

/// [`block_on`] as `client`.
///
/// # Errors
/// As there.
pub fn block_on_via<F: Future>(client: &Arc<Client>, future: F) -> io::Result<F::Output> {
    let reactor = Reactor::with_wake_handle(client)?;
    let ready = Arc::new(Ready { tasks: Mutex::default(), wake_handle: reactor.wake_handle() });
    let executor = Rc::new(Executor {
        reactor: Rc::clone(&reactor),
        ready,
        tasks: RefCell::default(),
        free: RefCell::default(),
    });
    let _reactor = reactor.enter();
    let before = CURRENT.with(|current| current.replace(Some(Rc::clone(&executor))));
    let _executor = EnteredExecutor(before);
    let done = executor.block_on(future);
    // The tasks are dropped before the reactor is left, because the reactor closes their sockets.
    let tasks = std::mem::take(&mut *executor.tasks.borrow_mut());
    drop(tasks);
    let _ = reactor.iterate(Wait::No, || true);
    done
}

struct TaskResult<T> {
    done: Cell<Option<T>>,
    waker: Cell<Option<Waker>>,
}

/// A task's result, to be awaited. Dropping it lets the task go on alone.
pub struct JoinHandle<T>(Rc<TaskResult<T>>);

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle").finish_non_exhaustive()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.0.done.take() {
            Some(done) => Poll::Ready(done),
            None => {
                self.0.waker.set(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

/// Lets `future` run beside the others of this thread's [`block_on`].
///
/// # Errors
/// NotConnected outside of it.
pub fn spawn<F: Future + 'static>(future: F) -> io::Result<JoinHandle<F::Output>> {
    let executor = CURRENT.try_with(|current| current.borrow().clone()).ok().flatten();
    let executor = executor.ok_or(io::ErrorKind::NotConnected)?;
    let shared = Rc::new(TaskResult { done: Cell::new(None), waker: Cell::new(None) });
    let handle = JoinHandle(Rc::clone(&shared));
    executor.spawn(Box::pin(async move {
        shared.done.set(Some(future.await));
        if let Some(waker) = shared.waker.take() {
            waker.wake();
        }
    }));
    Ok(handle)
}

/// Lets the other tasks that can run go first.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

//! The helper: the thread that drives the stack while no call does.
//!
//! It *rests*, for [`REST`] at a time, as long as calls are made: to take the seat between two of
//! them would cost more than it brings. While a thread of the program has the seat for longer, the
//! helper waits until it is free; so nothing wakes up in a program that sleeps in a call. From the
//! seat it goes as soon as calls are made: each frame would wake it as well as them. It takes no
//! signals: they are the program's.
//!
//! What a call has left to be done soon ([`Alarm::post`]) it does at once, whatever it waits for;
//! but on the processor of a thread that works it does not begin before that thread pauses
//! (SCHED_BATCH, but for its time in the seat): who writes again and again is not interrupted
//! after each write.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::thread::futex;
use sockets::local_stack::LocalStack as _;

use super::Host;
use crate::signals;

/// How long the stack may be left alone between calls.
const REST: Duration = Duration::from_millis(3);

/// The helper is at work, or will look whether there is some.
const AWAKE: u32 = 0;
/// It sleeps on the word.
const ASLEEP: u32 = 1;
/// It sleeps in the seat.
const SEATED: u32 = 2;

/// Wakes the helper.
#[derive(Debug)]
pub(super) struct Alarm {
    word: AtomicU32,
    /// There is something for it to do.
    posted: AtomicBool,
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self { word: AtomicU32::new(AWAKE), posted: AtomicBool::new(false) }
    }

    /// There is something to do; the helper does it unless [`Alarm::clear`] is called before.
    /// `kick` ends a sleep in the seat. A system call only if the helper sleeps.
    pub(super) fn post(&self, kick: impl FnOnce()) {
        if !self.posted.load(Ordering::SeqCst) {
            self.posted.store(true, Ordering::SeqCst);
            self.wake(kick);
        }
    }

    /// Whoever calls this is going to do what was posted.
    pub(super) fn clear(&self) {
        if self.posted.load(Ordering::Relaxed) {
            self.posted.store(false, Ordering::SeqCst);
        }
    }

    /// Ends the helper's sleep.
    pub(super) fn wake(&self, kick: impl FnOnce()) {
        if self.word.load(Ordering::SeqCst) == AWAKE {
            return;
        }
        match self.word.swap(AWAKE, Ordering::SeqCst) {
            ASLEEP => {
                // Cannot fail for a mapped word.
                let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
            }
            SEATED => kick(),
            _ => {}
        }
    }

    /// The helper announces how it is going to sleep. Then it looks once more.
    fn announce(&self, how: u32) {
        self.word.swap(how, Ordering::SeqCst);
    }

    fn is_posted(&self) -> bool {
        self.posted.load(Ordering::SeqCst)
    }

    /// Sleeps as announced, on the word; not if there is something to do.
    fn sleep(&self, most: Option<Duration>) {
        if !self.is_posted() {
            let most = most.and_then(|most| Timespec::try_from(most).ok());
            // Whatever ends it, the helper looks.
            let _ = futex::wait(&self.word, futex::Flags::PRIVATE, ASLEEP, most.as_ref());
        }
        self.announce(AWAKE);
    }
}

/// Starts it.
pub(super) fn start(host: Arc<Host>) -> io::Result<()> {
    signals::without(|| {
        let thread = std::thread::Builder::new().name("tasuki-stack".to_owned());
        // It lives as long as the process.
        thread.stack_size(256 << 10).spawn(move || run(&host)).map(drop)
    })
}

fn run(host: &Host) {
    interrupt_others(false);
    let alarm = &host.alarm;
    let mut seen = host.calls.load(Ordering::Relaxed);
    while !host.is_over() {
        alarm.announce(ASLEEP);
        alarm.sleep(Some(REST));
        if work(host) {
            continue;
        }
        alarm.announce(ASLEEP);
        let free = host.seat.is_free_for_helper();
        if free {
            alarm.announce(AWAKE);
        } else {
            alarm.sleep(None);
            work(host);
        }
        let calls = host.calls.load(Ordering::Relaxed);
        if free && calls == seen && host.seat.take_for_helper() {
            // Who wants the seat waits until we have left it.
            interrupt_others(true);
            drive(host);
            host.seat.leave_for_helper();
            interrupt_others(false);
        }
        seen = host.calls.load(Ordering::Relaxed);
    }
}

/// Does what was posted. Was there something?
fn work(host: &Host) -> bool {
    let posted = host.alarm.is_posted();
    if posted {
        host.turn(&mut || false);
    }
    posted
}

/// Drives until a thread of the program wants to, or makes calls.
fn drive(host: &Host) {
    let calls = host.calls.load(Ordering::Relaxed);
    let is_wanted = || host.seat.is_evicted() || host.calls.load(Ordering::Relaxed) != calls;
    while !is_wanted() && !host.is_over() {
        host.turn(&mut || host.seat.is_evicted());
        host.alarm.announce(SEATED);
        if !host.alarm.is_posted() {
            // Without signals there is nothing that could interrupt it.
            let _ = host.wait(None);
        }
        host.alarm.announce(AWAKE);
    }
    work(host);
}

/// Is a thread that runs on our processor interrupted when we wake up?
fn interrupt_others(yes: bool) {
    let policy = if yes { libc::SCHED_OTHER } else { libc::SCHED_BATCH };
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a live sched_param; 0 is the calling thread. Where it is not
    // allowed all stays as it is.
    let _: c_int = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
}

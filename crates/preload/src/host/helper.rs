//! The helper: the thread that does the stack's work while no call does.
//!
//! It *rests*, for [`REST`] at a time, as long as calls are made: to poll between two of them would
//! cost more than it brings. While a thread of the program is the poller, the helper waits until
//! that thread leaves. So nothing wakes up in a program that sleeps in a call. The helper stops
//! polling as soon as calls are made: each frame would wake it as well as the calls' threads. It
//! takes no signals: they are the program's.
//!
//! A call may post work to be done soon (`Alarm::post`). The helper does it at once, whatever it
//! waits for. But it does not preempt a working thread on that thread's processor (SCHED_BATCH,
//! but for its time as the poller). So a program that writes again and again is not interrupted
//! after each write.

use core::ffi::c_int;
use core::sync::atomic::Ordering;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use sockets::local_stack::LocalStack as _;

use super::alarm::{ASLEEP, AWAKE, POLLING};
use super::stack::ProgramStack;
use crate::signals;

/// How long the stack may be left alone between calls.
const REST: Duration = Duration::from_millis(3);

/// Starts it.
pub(super) fn start(stack: Arc<ProgramStack>) -> io::Result<()> {
    signals::without(|| {
        let thread = std::thread::Builder::new().name("tasuki-stack".to_owned());
        // It lives as long as the process.
        thread.stack_size(256 << 10).spawn(move || run(&stack)).map(drop)
    })
}

fn run(stack: &ProgramStack) {
    interrupt_others(false);
    let alarm = &stack.alarm;
    let mut seen = stack.calls.load(Ordering::Relaxed);
    while !stack.is_over() {
        alarm.announce(ASLEEP);
        alarm.sleep(Some(REST));
        if work(stack) {
            continue;
        }
        alarm.announce(ASLEEP);
        let free = stack.poller.is_free_for_helper();
        if free {
            alarm.announce(AWAKE);
        } else {
            alarm.sleep(None);
            work(stack);
        }
        let calls = stack.calls.load(Ordering::Relaxed);
        if free && calls == seen && stack.poller.take_for_helper() {
            // A thread that wants to poll waits until the helper has stopped.
            interrupt_others(true);
            poll_until_wanted(stack);
            stack.poller.leave_for_helper();
            interrupt_others(false);
        }
        seen = stack.calls.load(Ordering::Relaxed);
    }
}

/// Does the posted work. Was there any?
fn work(stack: &ProgramStack) -> bool {
    let posted = stack.alarm.is_posted();
    if posted {
        stack.iterate(&mut || false);
    }
    posted
}

/// Works and polls until a thread of the program wants to, or makes calls.
fn poll_until_wanted(stack: &ProgramStack) {
    let calls = stack.calls.load(Ordering::Relaxed);
    let is_wanted = || stack.poller.is_dismissed() || stack.calls.load(Ordering::Relaxed) != calls;
    while !is_wanted() && !stack.is_over() {
        stack.iterate(&mut || stack.poller.is_dismissed());
        stack.alarm.announce(POLLING);
        if !stack.alarm.is_posted() {
            // Without signals there is nothing that could interrupt it.
            let _ = stack.wait(None);
        }
        stack.alarm.announce(AWAKE);
    }
    work(stack);
}

/// Is a thread that runs on our processor interrupted when we wake up?
fn interrupt_others(yes: bool) {
    let policy = if yes { libc::SCHED_OTHER } else { libc::SCHED_BATCH };
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a live sched_param; 0 is the calling thread. If the system does not
    // allow it, nothing changes.
    let _: c_int = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
}

//! The helper: the thread that drives the stack while no call does.
//!
//! It *rests*, for [`REST`] at a time, as long as calls are made: to take the seat between two of
//! them would cost more than it brings. While a thread of the program has the seat for longer, the
//! helper waits until it is free; so nothing wakes up in a program that sleeps in a call. It takes
//! no signals: they are the program's.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Host;
use crate::signals;

/// How long the stack may be left alone between calls.
const REST: Duration = Duration::from_millis(3);

/// Starts it.
pub(super) fn start(host: Arc<Host>) -> io::Result<()> {
    signals::without(|| {
        let thread = std::thread::Builder::new().name("tasuki-stack".to_owned());
        // It lives as long as the process.
        thread.stack_size(256 << 10).spawn(move || run(&host)).map(drop)
    })
}

fn run(host: &Host) {
    let mut seen = host.calls.load(Ordering::Relaxed);
    while !host.over.load(Ordering::Acquire) {
        std::thread::sleep(REST);
        let free = host.seat.wait_until_free();
        let calls = host.calls.load(Ordering::Relaxed);
        if free && calls == seen && host.seat.take_for_helper() {
            drive(host);
            host.seat.leave_for_helper();
        }
        seen = calls;
    }
}

/// Drives until a thread of the program wants to.
fn drive(host: &Host) {
    use sockets::drive::Drive as _;
    while !host.seat.is_evicted() && !host.is_over() {
        host.turn(&mut || host.seat.is_evicted());
        // Without signals there is nothing that could interrupt it.
        let _ = host.wait(None);
    }
}

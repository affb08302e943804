//! Waiting until a socket changes.
//!
//! A thread that finds nothing to do announces on its bell that it sleeps. It sets its bit in the
//! socket's `waiters` word, looks again, and sleeps (see `slot.rs`). The server writes its words,
//! counts `version` up and rings the bells of all waiters. So no change between looking and
//! sleeping is lost. Nothing spins here: on small machines that takes time from the very server
//! that the thread waits for.

use std::time::Duration;

use abi::Errno;
use abi::client::SocketWords;

use super::state::Membership;
use crate::cancellation::cancellable;
use crate::wait::Wait;

/// Sleeps skipped in a row before the thread sleeps anyway.
const MOST_SKIPPED_SLEEPS: u32 = 1000;

/// Repeats `attempt` until it gives something, and sleeps in between until the socket of `words`
/// changes, as `wait` allows at that moment.
///
/// `is_ready` is asked before each sleep, after everything is announced. If it is true, the sleep
/// does not begin. It may be stricter than `attempt`, to wait for more than the first byte.
pub(crate) fn wait_until<T>(
    membership: &Membership,
    words: &SocketWords,
    wait: impl Fn() -> Wait,
    mut attempt: impl FnMut() -> Result<Option<T>, Errno>,
    is_ready: impl Fn() -> bool,
) -> Result<T, Errno> {
    let server = &membership.server;
    let mut skipped = 0;
    let mut stack = server.stack();
    loop {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        let wait = wait();
        if wait.is_over() {
            // A call that does not wait asks the stack, which is this thread.
            if let Some(stack) = stack.take() {
                stack.work(&mut || is_ready());
                continue;
            }
            server.look_sometimes()?;
            return Err(Errno::AGAIN);
        }
        let thread = membership.thread()?;
        let look_again = || {
            words.waiters.add(thread.bit());
            skipped = if is_ready() { skipped + 1 } else { 0 };
            skipped > 0
        };
        cancellable(|| thread.sleep(server, wait, look_again))?;
        if skipped >= MOST_SKIPPED_SLEEPS {
            // Words that promise more than the queues hold must not take a whole core.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

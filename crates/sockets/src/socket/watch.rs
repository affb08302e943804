//! Waiting for one of many sockets, and for descriptors of the kernel.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use abi::Errno;
use rustix::event::{PollFd, Timespec};

use super::handle::Socket;
use crate::cancellation::{asleep, cancellable};
use crate::membership::{Membership, NewsListener, ThreadClaim, poll};
use crate::wait::{PollCall, Wait, far_away, timespec};

/// Without the instance nothing changes any more, but a caller's last look may have been before the
/// instance's end: so often it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Sleeps where there is no instance: until poll(2) reports something for `kernel`, or the caller
/// should look again.
fn sleep_without_instance(
    kernel: &mut [PollFd<'_>],
    deadline: Option<Instant>,
    call: Option<PollCall<'_>>,
) -> Result<(), Errno> {
    let again = Instant::now() + LOOK_AGAIN;
    let limit = timespec(Some(deadline.map_or(again, |at| at.min(again))));
    let sleep = || call.unwrap_or(&poll)(kernel, limit.as_ref());
    cancellable(|| asleep(false, sleep)).map(drop)
}

/// A socket to watch, and its version when it was last looked at ([`crate::Readiness::version`]).
#[derive(Debug, Clone, Copy)]
pub struct Watch<'a> {
    /// The socket.
    pub socket: &'a Socket,
    /// Its version then.
    pub version: u32,
}

impl Watch<'_> {
    fn changed(&self) -> bool {
        self.socket.version() != self.version
    }
}

/// The calling thread, as one that waits for many sockets of a client and hears which of them have
/// news.
pub struct NewsReader {
    thread: ThreadClaim,
    membership: Arc<Membership>,
}

impl NewsReader {
    /// The thread's bit, for [`Socket::notify_threads`].
    #[must_use]
    pub fn bit(&self) -> u64 {
        self.thread.bit()
    }

    /// Passes the thread's news on to the listeners of the sockets.
    pub fn pass_on(&self) {
        self.membership.listeners.pass_on(&self.thread.news, self.thread.bit());
    }

    /// Sleeps until the thread has news, poll(2) reports something for `kernel` (`revents` are
    /// filled in), the deadline passes, or for no reason. Sleeps in `call` if there is one.
    ///
    /// # Errors
    /// As [`wait_any`].
    pub fn sleep(
        &self,
        kernel: &mut [PollFd<'_>],
        deadline: Option<Instant>,
        call: Option<PollCall<'_>>,
    ) -> Result<(), Errno> {
        let server = &self.membership.server;
        let has_news = || !self.thread.news.is_empty();
        if !server.is_alive() {
            return sleep_without_instance(kernel, deadline, call);
        }
        let over = deadline.is_some_and(|at| Instant::now() >= at);
        if has_news() || over {
            return poll(kernel, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map(drop);
        }
        let call = (kernel, call.unwrap_or(&poll));
        match cancellable(|| self.thread.poll(server, call, deadline, has_news)) {
            Err(Errno::NETDOWN) => Ok(()),
            other => other,
        }
    }
}

impl Socket {
    /// The calling thread as a reader of news. `None` without an instance, in a forked child, and
    /// for a thread that shares its slot with others: such a thread watches each socket.
    #[must_use]
    pub fn news_reader(&self) -> Option<NewsReader> {
        let membership = &self.core().membership;
        membership.server.check_memory().ok()?;
        let thread = membership.thread().ok().filter(|thread| thread.has_own_news())?;
        Some(NewsReader { thread, membership: Arc::clone(membership) })
    }

    /// `listener` hears of this socket's news. The socket has one listener, the last.
    pub fn set_news_listener(&self, listener: Weak<dyn NewsListener>) {
        self.membership().listeners.put(self.index(), listener);
    }

    /// At the socket's next change the server gives news of it to the threads with these bits, and
    /// wakes them. Look at the socket afterwards.
    pub fn notify_threads(&self, threads: u64) {
        self.wait_for_change(threads);
    }

    /// The socket's place among those of its client. A later socket may have it again.
    #[must_use]
    pub fn place(&self) -> u16 {
        self.index()
    }

    /// Has the sending pool no more than each socket is sure of? Then a socket may become ready to
    /// send when another one gives memory back, and there is no news of that.
    #[must_use]
    pub fn lacks_memory(&self) -> bool {
        !self.membership().tx.has_room(1, 1)
    }

    /// [`Client::attend`](crate::Client::attend) of the socket's client.
    #[must_use]
    pub fn attend(&self) -> bool {
        self.membership().attend()
    }
}

/// [`Client::wait_any`](crate::Client::wait_any) of the `watched` sockets' client. Sleeps in `call`
/// if there is one.
///
/// # Errors
/// As there, and those of `call`.
pub fn wait_any(
    watched: &[Watch<'_>],
    kernel: &mut [PollFd<'_>],
    deadline: Option<Instant>,
    call: Option<PollCall<'_>>,
) -> Result<(), Errno> {
    let Some(first) = watched.first() else {
        let limit = timespec(deadline);
        let poll = || call.unwrap_or(&poll)(kernel, limit.as_ref());
        return cancellable(|| asleep(false, poll)).map(drop);
    };
    let membership = first.socket.membership();
    let server = &membership.server;
    server.check_memory().or_else(|errno| match errno {
        // The sockets say so themselves, by ERR and HUP.
        Errno::NETDOWN => Ok(()),
        other => Err(other),
    })?;
    if !server.is_alive() {
        return sleep_without_instance(kernel, deadline, call);
    }
    let changed = || watched.iter().any(Watch::changed);
    if changed() || deadline.is_some_and(|at| Instant::now() >= at) {
        return match kernel {
            [] => Ok(()),
            kernel => poll(kernel, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map(drop),
        };
    }
    let thread = match membership.thread() {
        Err(Errno::NETDOWN) => return Ok(()),
        other => other?,
    };
    let look_again = || {
        for watch in watched {
            watch.socket.wait_for_change(thread.bit());
        }
        changed()
    };
    let slept = match (kernel, call) {
        ([], None) => {
            // Any signal ends it.
            let wait = Wait::Until(deadline.unwrap_or_else(far_away));
            cancellable(|| thread.sleep(server, wait, look_again))
        }
        (kernel, call) => {
            let call = (kernel, call.unwrap_or(&poll));
            cancellable(|| thread.poll(server, call, deadline, look_again))
        }
    };
    match slept {
        Err(Errno::NETDOWN) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A loop of looks that find nothing sleeps in between.
    #[test]
    fn without_an_instance_a_wait_sleeps() {
        let asked = Cell::new(None);
        let call = |_: &mut [PollFd<'_>], limit: Option<&Timespec>| {
            asked.set(limit.copied());
            Ok(0)
        };
        assert_eq!(sleep_without_instance(&mut [], None, Some(&call)), Ok(()));
        let limit = asked.take().expect("a limit");
        assert!(limit.tv_sec == 0 && limit.tv_nsec > 0, "{limit:?}");
        let past = Some(Instant::now());
        assert_eq!(sleep_without_instance(&mut [], past, Some(&call)), Ok(()));
        assert_eq!(asked.take(), Some(Timespec { tv_sec: 0, tv_nsec: 0 }));
        assert_eq!(
            sleep_without_instance(&mut [], None, Some(&|_, _| Err(Errno::INTR))),
            Err(Errno::INTR)
        );
    }
}

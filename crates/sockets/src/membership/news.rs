//! News of many sockets for one thread.
//!
//! The server names a changed socket in the news bitmap of each thread whose bit was in the
//! socket's `waiters`. A thread that waits for many sockets takes its bitmap, and passes the news
//! on to the sockets' listeners. So the cost of a wait grows with the sockets that have news.

use std::sync::{Mutex, Weak};

use shm::ReadinessBitmap;

use crate::lock::lock;

/// Hears of the news of one socket.
pub trait NewsListener: Send + Sync {
    /// The socket changed. The bits of `threads` are no longer in its `waiters`
    /// ([`crate::Socket::notify_threads`]).
    fn on_news(&self, threads: u64);
}

/// The listeners of a client's sockets, by place.
#[derive(Default)]
pub(crate) struct NewsListeners(Mutex<Vec<Option<Weak<dyn NewsListener>>>>);

impl std::fmt::Debug for NewsListeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewsListeners").finish_non_exhaustive()
    }
}

impl NewsListeners {
    /// `listener` hears of the news of the socket at `place` from now on.
    pub(crate) fn put(&self, place: u16, listener: Weak<dyn NewsListener>) {
        let mut all = lock(&self.0);
        let place = usize::from(place);
        if all.len() <= place {
            all.resize_with(place + 1, || None);
        }
        if let Some(entry) = all.get_mut(place) {
            *entry = Some(listener);
        }
    }

    /// Takes the news of the threads with the bits `threads`, and passes them on. A place without a
    /// listener has no news for anyone.
    pub(crate) fn pass_on(&self, news: &ReadinessBitmap, threads: u64) {
        if news.is_empty() {
            return;
        }
        let all = lock(&self.0);
        news.take(all.len(), |word, mut bits| {
            while bits != 0 {
                let at = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let listener = all.get(at).and_then(Option::as_ref).and_then(Weak::upgrade);
                if let Some(listener) = listener {
                    listener.on_news(threads);
                }
            }
        });
    }
}

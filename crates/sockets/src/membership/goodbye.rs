//! The end of a membership.

use abi::call::Request;

use super::calls::RawBatch;
use super::rings::NewCall;
use super::state::Membership;

impl Membership {
    /// Ends the membership in order, as [`Client::goodbye`](crate::Client::goodbye) says.
    pub(crate) fn goodbye(&self) {
        if !self.server.is_mine() || !self.server.is_alive() {
            return;
        }
        self.flush_closed();
        self.server.leave();
    }

    /// Waits until the server has taken the queued bytes of closed sockets. No close waited for
    /// that. After the goodbye their areas may be freed, and the server refuses a descriptor of a
    /// freed area. Bytes that it has taken are safe: the server's chunks keep the region.
    fn flush_closed(&self) {
        self.reap();
        // The server's first scan may pass a ring before another thread's close is in it. The
        // second scan finds it.
        for _ in 0..2 {
            if !self.closed.is_empty() {
                // An instance that is gone takes nothing.
                let _ = RawBatch::call(self, &NewCall::new(Request::Null));
            }
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.server.is_mine() {
            self.goodbye();
        } else {
            self.closed.forget();
        }
    }
}

//! The flags of a call.

use crate::flags::flag_set;

flag_set! {
    /// How a call is to be carried out.
    pub struct CallFlags(u8) {
        /// Complete at once, with EAGAIN or EINPROGRESS where the call would wait.
        NONBLOCK = 1;
        /// Connect by Fast Open (MSG_FASTOPEN).
        FAST = 2;
        /// No thread waits for the result. The server posts it without ringing, if it is the usual
        /// one: success; for a connect, that the attempt goes on.
        QUIET = 4;
    }
}

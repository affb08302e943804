//! The flags of a call.

use crate::flags::flag_set;

flag_set! {
    /// How the server carries out a call.
    pub struct CallFlags(u8) {
        /// The call completes at once: with EAGAIN or EINPROGRESS, where it would have to wait.
        NONBLOCK = 1;
        /// Connect by Fast Open (MSG_FASTOPEN).
        FAST = 2;
        /// A no-reply call: no thread waits for its result. The server posts the usual result
        /// without ringing: success; for a connect, that the attempt goes on.
        QUIET = 4;
        /// Connect takes the peer away (AF_UNSPEC); the address means nothing.
        DISCONNECT = 8;
    }
}

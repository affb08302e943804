//! Urgent data as Linux's sockets give it out (tcp(7), RFC 6093 3).
//!
//! The server says where the newest urgent byte is; the byte comes with the others. A receive ends
//! before it, the next one starts after it, and between the two it can be had on its own (MSG_OOB);
//! or it is received in its place (SO_OOBINLINE), and a receive ends before it all the same. So
//! what the program has received says what is left of a mark, but for one thing that is kept here:
//! whether its byte was taken out of band.

use std::sync::atomic::Ordering;

use abi::{Errno, SocketFlags};

use crate::client::lock;
use crate::error::Broken;
use crate::socket::Socket;

/// What is known of marks from a place of a stream on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    Nothing,
    /// An urgent byte after so many others; at 0 it is to be received in its place.
    Mark(u64),
    /// The next byte is urgent, and not received with the others.
    Hidden,
}

impl Socket {
    /// The place of the newest urgent byte, if it is not before `from`.
    fn mark(&self, from: u64) -> Option<u64> {
        let mark = self.words().urgent.load(Ordering::Acquire).checked_sub(1);
        mark.filter(|at| *at >= from)
    }

    fn is_inline(&self) -> bool {
        self.flags().has(SocketFlags::URGENT_INLINE)
    }

    pub(crate) fn urgent_ahead(&self, from: u64) -> Ahead {
        match self.mark(from) {
            None => Ahead::Nothing,
            Some(at) if at == from && !self.is_inline() => Ahead::Hidden,
            Some(at) => Ahead::Mark(at - from),
        }
    }

    /// Bytes from `from` to a mark that hides its byte, as SIOCINQ counts.
    pub(crate) fn until_urgent(&self, from: u64) -> Option<u64> {
        self.mark(from).filter(|_| !self.is_inline()).map(|at| at - from)
    }

    /// Is there an urgent byte that was neither received nor passed over: POLLPRI?
    pub(crate) fn has_urgent(&self) -> bool {
        let words = self.words();
        let published = words.rx_bytes.get();
        self.mark(self.rx_taken().load(Ordering::Relaxed))
            .is_some_and(|at| at < published && !self.is_taken(at))
    }

    fn is_taken(&self, at: u64) -> bool {
        self.urgent_taken().load(Ordering::Relaxed) == at + 1
    }

    /// Is the next byte to be received the urgent one: sockatmark(3), SIOCATMARK?
    #[must_use]
    pub fn is_at_mark(&self) -> bool {
        let consumed = self.rx_taken().load(Ordering::Relaxed);
        self.check().is_ok() && self.mark(consumed) == Some(consumed)
    }

    /// Receives the urgent byte on its own (MSG_OOB), or looks at it; never waits. `None` at the
    /// end of the stream.
    ///
    /// # Errors
    /// EINVAL when there is none, when it was received already, or is to be received in its place
    /// (SO_OOBINLINE); EAGAIN when its mark has come and the byte has not; EIO when the server
    /// named bytes that do not exist; EBADF after close; ENETDOWN when the instance is gone;
    /// ENOTCONN in a forked child.
    pub fn recv_urgent(&self, peek: bool) -> Result<Option<u8>, Errno> {
        self.check()?;
        let flags = self.flags();
        let mut side = lock(self.recv_side());
        let side = side.as_mut().ok_or(Errno::BADF)?;
        let consumed = side.consumed();
        let mark = self.mark(consumed).filter(|at| !self.is_inline() && !self.is_taken(*at));
        let at = mark.ok_or(Errno::INVAL)?;
        let byte = side.byte_after(self.client(), at - consumed);
        match byte.map_err(|Broken| Errno::IO)? {
            Some(byte) => {
                if !peek {
                    self.urgent_taken().store(at + 1, Ordering::Relaxed);
                }
                Ok(Some(byte))
            }
            None if flags.has(SocketFlags::READ_CLOSED) => Ok(None),
            None => Err(Errno::AGAIN),
        }
    }
}

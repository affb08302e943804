//! Fast Open (RFC 7413) of programs that connect: MSG_FASTOPEN and TCP_FASTOPEN_CONNECT.
//!
//! An attempt whose peer's cookie is known waits for its first bytes, and looks connected until
//! then. They go into the queue as any others; then one more call tells the server that these are
//! all that the SYN gets. How many it would take the server has said at the start, so that a send
//! that does not wait takes no more, as on Linux. One that waits queues what there is room for,
//! and returns when the attempt has come out.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use abi::call::{Call, Op};
use abi::{Errno, SocketFlags};

use crate::send::{Gather, SendFlags};
use crate::socket::Socket;
use crate::wait::{Wait, until};

const BEGIN: u8 = Call::NONBLOCK | Call::FAST;

impl Socket {
    /// Connects a stream for a send with MSG_FASTOPEN: its SYN will take the first bytes sent, if
    /// the peer's cookie is known. If not, it is an ordinary attempt, and for the next time asks
    /// for a cookie. Nothing happens if it is connected, or waits for its first bytes already.
    ///
    /// # Errors
    /// EINPROGRESS when the cookie is not known and `wait` is over; EALREADY while an attempt is
    /// under way; EOPNOTSUPP if the instance's `fastopen` does not let clients; otherwise as
    /// [`Socket::connect`].
    pub fn connect_fast(&self, addr: SocketAddr, wait: Wait) -> Result<(), Errno> {
        self.check()?;
        if self.flags().has(SocketFlags::CONNECTED) {
            return Ok(());
        }
        match self.call_with_address(Op::Connect, BEGIN, addr) {
            Ok([room, ..]) => {
                self.wait_for_data(room);
                Ok(())
            }
            Err(Errno::INPROGRESS) if wait != Wait::No => self.see_out(wait),
            Err(errno) => Err(errno),
        }
    }

    /// Waits for the outcome of an attempt.
    fn see_out(&self, wait: Wait) -> Result<(), Errno> {
        let over = || !matches!(self.connecting(), Ok(true));
        match until(self, wait, || self.connected(), over) {
            Err(Errno::AGAIN) => Err(Errno::INPROGRESS),
            other => other,
        }
    }

    /// The attempt just begun waits for its first bytes, if `room` is not 0.
    pub(crate) fn wait_for_data(&self, room: u64) {
        self.syn_room().store(u32::try_from(room).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// How many bytes the SYN takes; `None` if it does not wait for any. Only the first who asks is
    /// told.
    pub(crate) fn take_syn_room(&self) -> Option<usize> {
        // Without a write for all sends but the first.
        let waits = self.syn_room().load(Ordering::Relaxed) != 0;
        let room = if waits { self.syn_room().swap(0, Ordering::Relaxed) } else { 0 };
        usize::try_from(room).ok().filter(|room| *room != 0)
    }

    /// What is queued is all that the SYN gets; waits for the attempt's outcome.
    pub(crate) fn open_with_queued(&self, wait: Wait) -> Result<(), Errno> {
        // It may have come out already; what became of it the words tell.
        let _ = self.call_with_address(Op::Connect, BEGIN, abi::data::ANY);
        if wait == Wait::No { Err(Errno::INPROGRESS) } else { self.see_out(wait) }
    }

    /// Sends the first bytes of an attempt that waits for them; `room`: what its SYN takes.
    pub(crate) fn send_first(
        &self,
        from: &mut Gather<'_>,
        flags: SendFlags,
        wait: Wait,
        room: usize,
    ) -> Result<usize, Errno> {
        if wait == Wait::No {
            from.limit(room);
        }
        let sent = self.push_stream(from, flags)?;
        match self.open_with_queued(wait) {
            Err(Errno::INPROGRESS) if sent > 0 => Ok(sent),
            Err(errno) => Err(errno),
            Ok(()) if from.is_empty() => Ok(sent),
            // What goes wrong from now on is told by the next call.
            Ok(()) => Ok(self.send_stream(from, flags, wait).map_or(sent, |more| sent + more)),
        }
    }
}

//! Fast Open (RFC 7413) of programs that connect: MSG_FASTOPEN and TCP_FASTOPEN_CONNECT.
//!
//! An attempt whose peer's cookie is known waits for its first bytes, and looks connected until
//! then. The bytes go into the queue as any others. One more call then tells the server that the
//! SYN gets no further bytes. The server has said at the start how many the SYN takes: a send that
//! does not wait queues no more, as on Linux. A waiting send queues as many bytes as there is room
//! for, and returns when the attempt is over.

use std::net::SocketAddr;

use abi::call::CallFlags;
use abi::{Errno, SocketFlags};

use super::core::SocketCore;
use super::send::{SendFlags, SendHalf};
use crate::memory::SendBuffers;
use crate::wait::Wait;

const BEGIN: CallFlags = CallFlags::NONBLOCK.with(CallFlags::FAST);

impl SendHalf {
    /// Connects a stream whose SYN takes the first bytes sent.
    pub(super) fn connect_fast(
        &self,
        core: &SocketCore,
        addr: SocketAddr,
        wait: Wait,
    ) -> Result<(), Errno> {
        core.check()?;
        if core.flags().has(SocketFlags::CONNECTED) {
            return Ok(());
        }
        match core.connect(addr, BEGIN) {
            Ok(room) => {
                self.set_syn_room(room);
                Ok(())
            }
            Err(Errno::INPROGRESS) if wait != Wait::No => core.wait_connected(wait),
            Err(errno) => Err(errno),
        }
    }

    /// The SYN gets the queued bytes and no further ones; waits for the attempt's outcome.
    pub(super) fn open_with_queued(&self, core: &SocketCore, wait: Wait) -> Result<(), Errno> {
        // The attempt may be over already; the words tell its outcome.
        let _ = core.connect(abi::data::ANY, BEGIN);
        if wait == Wait::No { Err(Errno::INPROGRESS) } else { core.wait_connected(wait) }
    }

    /// Sends the first bytes of an attempt that waits for them; `room`: how many its SYN takes.
    pub(super) fn send_first(
        &self,
        core: &SocketCore,
        from: &mut SendBuffers<'_>,
        flags: SendFlags,
        wait: Wait,
        room: usize,
    ) -> Result<usize, Errno> {
        if wait == Wait::No {
            from.limit(room);
        }
        let sent = self.push_stream(core, from, flags)?;
        match self.open_with_queued(core, wait) {
            Err(Errno::INPROGRESS) if sent > 0 => Ok(sent),
            Err(errno) => Err(errno),
            Ok(()) if from.is_empty() => Ok(sent),
            // An error from now on is reported by the next call.
            Ok(()) => {
                let wait = if sent > 0 { wait.until_any_signal() } else { wait };
                Ok(self.send_stream(core, from, flags, wait).map_or(sent, |more| sent + more))
            }
        }
    }
}

//! The number of bytes that a stream socket takes to send, as Linux counts them.
//!
//! Linux keeps bytes in buffers, and each becomes one packet or several. A write first fills the
//! last buffer that has not left. Then it makes new ones, under two conditions: the memory of all
//! buffers is less than SO_SNDBUF, and the bytes that have not left are fewer than
//! TCP_NOTSENT_LOWAT. A buffer that is full and the first to leave does so before the next one is
//! made. Scripts see all of this in the result of write(2).

use inet::{OptionName, SockOption};

use super::Host;
use super::call::Outcome;

/// Most payload of a buffer, bytes.
const LARGEST: usize = 65_535 - 320;
/// The memory of a segment's headers and bookkeeping, and of its buffer beside that, bytes.
const SEGMENT_COST: usize = 640;
const BUFFER_COST: usize = 256;

/// The memory of one socket; all in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    /// Payload of a full buffer.
    goal: usize,
    limit: usize,
    queued: usize,
    unsent: usize,
    /// The bytes that both windows let go now.
    sendable: usize,
    lowat: usize,
}

impl Memory {
    fn used(&self) -> usize {
        self.queued + self.queued.div_ceil(self.goal) * SEGMENT_COST
    }

    /// The bytes that fit into the last buffer, or into a new one if there may be one.
    pub(super) fn room(&self) -> usize {
        let filled = self.unsent % self.goal;
        if filled > 0 {
            return self.goal - filled;
        }
        if self.used() < self.limit && self.unsent < self.lowat { self.goal } else { 0 }
    }

    /// `len` bytes were taken; a full buffer that is the first leaves as far as it may.
    pub(super) fn take(&mut self, len: usize) {
        let first = self.unsent == 0;
        self.queued += len;
        self.unsent += len;
        if first && len == self.goal {
            let leaves = self.sendable.min(len);
            self.sendable -= leaves;
            self.unsent -= leaves;
        }
    }

    /// Whether poll(2) calls it writable. A third is free, and less than half of the allowed bytes
    /// wait.
    pub(super) fn is_writable(&self) -> bool {
        let used = self.used();
        let free = self.limit.saturating_sub(used);
        used < self.limit && free >= used / 2 && self.unsent.saturating_mul(2) < self.lowat
    }
}

impl Host {
    /// The memory of a stream socket.
    ///
    /// # Errors
    /// EBADF, ENOTSOCK.
    pub(super) fn send_memory(&mut self, fd: i32) -> Outcome<Memory> {
        let info = self.tcp_info(fd)?;
        let handle = self.handle(fd)?;
        let unsent = self.stack().unsent(handle);
        let mss = (info.snd_mss as usize).max(1);
        let window = info.snd_wnd as usize;
        let goal = ((window / 2).min(LARGEST) / mss).max(1) * mss;
        let queued = {
            let socket = self.entries.socket(fd)?;
            usize::try_from(socket.queued.saturating_sub(socket.acked)).unwrap_or(usize::MAX)
        };
        let in_flight =
            (info.unacked + info.retrans).saturating_sub(info.sacked).saturating_sub(info.lost);
        let cwnd = info.snd_cwnd.saturating_sub(in_flight) as usize * mss;
        // The window lets whole segments go.
        let open = window.saturating_sub(queued.saturating_sub(unsent));
        let sendable = cwnd.min(open - open % mss);
        // Unless it was set, the limit grows with the congestion window.
        let set = self.send_buffer(fd)? as usize;
        let segment = (mss + SEGMENT_COST).next_power_of_two() + BUFFER_COST;
        let most = self.sysctls.triple("tcp_wmem").map_or(4 << 20, |[_, _, most]| most);
        let grown = (2 * info.snd_cwnd.max(10) as usize).saturating_mul(segment);
        let limit = match self.entries.socket(fd)?.send_buffer {
            Some(_) => set,
            None => set.max(grown.min(usize::try_from(most).unwrap_or(usize::MAX))),
        };
        let lowat = match self.stack().option(handle, OptionName::NotSentLowat) {
            Ok(SockOption::NotSentLowat(set)) if set > 0 => i64::from(set),
            _ => self.sysctls.number("tcp_notsent_lowat").unwrap_or(i64::from(u32::MAX)),
        };
        let lowat = usize::try_from(lowat).unwrap_or(usize::MAX);
        Ok(Memory { goal, limit, queued, unsent, sendable, lowat })
    }

    /// Whether a socket is writable as poll(2) has it.
    pub(super) fn is_writable(&mut self, fd: i32) -> bool {
        match self.entries.socket(fd) {
            Ok(socket) if socket.connected && !socket.failed => {}
            _ => return true,
        }
        self.send_memory(fd).is_ok_and(|memory| memory.is_writable())
    }
}

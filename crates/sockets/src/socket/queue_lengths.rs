//! How much lies in a stream's queues, as FIONREAD, SIOCOUTQ and SIOCOUTQNSD have it. TCP_INFO
//! tells the stack's part.

use abi::Errno;
use abi::client::QUEUE;

use super::handle::Socket;
use crate::lock::lock;

const IPPROTO_TCP: i32 = 6;
const TCP_INFO: i32 = 11;
/// Bytes of `struct tcp_info` that are asked for, and where its fields are.
const INFO: usize = 148;
const BYTES_RECEIVED: usize = 128;
const NOTSENT_BYTES: usize = 144;
/// TCP_SYN_SENT and TCP_SYN_RECV.
const CONNECTING: [u8; 2] = [2, 3];
/// TCP_FIN_WAIT1, TCP_LAST_ACK and TCP_CLOSING: the FIN is not acknowledged.
const FIN_OUT: [u8; 3] = [4, 9, 11];

/// Sequence numbers of a stream that are on their way. A FIN counts one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputQueue {
    /// Not acknowledged (SIOCOUTQ).
    pub unacknowledged: usize,
    /// Of these, not sent (SIOCOUTQNSD).
    pub unsent: usize,
}

impl Socket {
    /// What a stream has to send.
    ///
    /// # Errors
    /// As [`Socket::option`].
    pub fn output_queue(&self) -> Result<OutputQueue, Errno> {
        let info = self.tcp_info()?;
        let state = info[0];
        if CONNECTING.contains(&state) {
            return Ok(OutputQueue { unacknowledged: 0, unsent: 0 });
        }
        let fin = usize::from(FIN_OUT.contains(&state));
        let unsent = info[NOTSENT_BYTES..].first_chunk().map_or(0, |n| u32::from_ne_bytes(*n));
        let unsent = usize::try_from(unsent).unwrap_or(usize::MAX);
        // It is sent behind the last byte.
        let unsent = if unsent > 0 { unsent + fin } else { 0 };
        // After the call: an acknowledgement meanwhile only makes it less.
        Ok(OutputQueue { unacknowledged: (self.unsent_len() + fin).max(unsent), unsent })
    }

    /// Is the receiving queue full? Then more may have been received than
    /// [`Socket::readable_len`] counts.
    #[must_use]
    pub fn has_full_queue(&self) -> bool {
        let mut queue = lock(&self.recv_half().queue);
        queue.as_mut().is_some_and(|queue| queue.queue.len().is_ok_and(|len| len >= QUEUE))
    }

    /// All bytes that a stream has received and the program has not. Not for a socket that another
    /// process has had.
    ///
    /// # Errors
    /// As [`Socket::option`].
    pub fn unread_len(&self) -> Result<usize, Errno> {
        let info = self.tcp_info()?;
        let received = info[BYTES_RECEIVED..].first_chunk().map_or(0, |n| u64::from_ne_bytes(*n));
        let consumed = lock(&self.recv_half().queue).as_ref().map_or(0, |queue| queue.consumed());
        let unread = usize::try_from(received.saturating_sub(consumed)).unwrap_or(usize::MAX);
        // Up to an urgent byte, as there.
        let counted = self.readable_len();
        let has_urgent = self.urgent_position() > consumed;
        Ok(if has_urgent { counted } else { unread.max(counted) })
    }

    fn tcp_info(&self) -> Result<[u8; INFO], Errno> {
        let mut info = [0; INFO];
        self.option(IPPROTO_TCP, TCP_INFO, &mut info)?;
        Ok(info)
    }
}

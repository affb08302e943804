//! The error queue (IP_RECVERR, MSG_ERRQUEUE), and connect(2) with AF_UNSPEC.

use abi::call::{CallFlags, Op, Reply, Request};
use abi::option::{GET_PART, OptionValue};
use abi::queued_error::{MOST, QUEUED_ERROR, QueuedErrorEntry};
use abi::{Errno, SocketFlags};

use super::handle::Socket;
use crate::membership::{NewCall, RawBatch};

/// Parts of an entry that the first look asks for: its header, and a short payload.
const FIRST_PARTS: usize = 5;
/// Looks at the oldest entry before giving up: other threads take entries as well.
const LOOKS: usize = 16;

impl Socket {
    /// Takes the oldest entry of the socket's error queue.
    ///
    /// # Errors
    /// EAGAIN if there is none; ESTALE if another process uses the socket now; otherwise as
    /// [`Socket::bind`].
    #[cold]
    pub fn take_queued_error(&self) -> Result<QueuedErrorEntry, Errno> {
        self.core().check()?;
        for _ in 0..LOOKS {
            let flags = self.core().flags();
            if flags.has(SocketFlags::MOVED) {
                return Err(Errno::STALE);
            }
            if !flags.has(SocketFlags::ERROR_QUEUED) {
                break;
            }
            let bytes = self.oldest_error()?;
            let Ok(entry) = QueuedErrorEntry::decode(&bytes) else {
                return Err(self.membership().server.fault());
            };
            let value = OptionValue::new(&entry.serial.to_ne_bytes());
            let (socket, key) = (self.id(), QUEUED_ERROR);
            match self.core().request(Request::SetSockOpt { socket, key, value }) {
                Err(Errno::NOENT) => {}
                taken => return taken.map(|()| entry),
            }
        }
        Err(Errno::AGAIN)
    }

    /// The bytes of the oldest entry.
    fn oldest_error(&self) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        let len = self.error_parts(FIRST_PARTS, &mut bytes)?.min(MOST);
        if len > bytes.len() {
            let rest = (len - bytes.len()).div_ceil(GET_PART);
            self.error_parts(rest, &mut bytes)?;
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Appends the next parts of the oldest entry. Returns the entry's length.
    fn error_parts(&self, number: usize, bytes: &mut Vec<u8>) -> Result<usize, Errno> {
        let (socket, key) = (self.id(), QUEUED_ERROR);
        let first = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let froms = (first..).step_by(GET_PART).take(number);
        let parts = froms.map(|from| NewCall::new(Request::GetSockOpt { socket, key, from }));
        let mut len = 0;
        for words in RawBatch::call_all(self.membership(), parts)? {
            let Ok(Reply::Option(part)) = Reply::decode(Op::GetSockOpt, &words) else {
                return Err(self.membership().server.fault());
            };
            bytes.extend(part.bytes);
            len = part.len;
        }
        Ok(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// Takes the peer away, as connect(2) with AF_UNSPEC does. A stream is reset, and can connect
    /// again; what it has received is thrown away. A listener stops listening. The address is that
    /// of [`Socket::bind`] again.
    ///
    /// # Errors
    /// As [`Socket::bind`].
    #[cold]
    pub fn disconnect(&self) -> Result<(), Errno> {
        self.forget_destinations();
        let request = Request::Connect { socket: self.id(), addr: abi::data::ANY };
        self.core().call(&NewCall::with_flags(request, CallFlags::DISCONNECT))?;
        self.send_half().set_syn_room(0);
        if self.core().is_stream() {
            self.recv_half().discard(self.core())?;
        }
        Ok(())
    }
}

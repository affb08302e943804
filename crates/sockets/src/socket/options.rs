//! Socket options: most are the server's, some change this side's behaviour.

use std::sync::atomic::Ordering;

use abi::call::{CallFlags, Op, Reply, Request};
use abi::option::{GET_MOST, GET_PART, LONG_MOST, LONG_VALUE, OptionKey, OptionValue, SET_MOST};
use abi::{Errno, SocketFlags};

use super::handle::Socket;
use super::recv::MOST_LOWAT;
use super::recv_queue::DEFAULT_BELL_THRESHOLD;
use super::send::publish_staged;
use crate::error::RegionFault;
use crate::lock::lock;
use crate::membership::{NewCall, RawBatch};
use crate::memory::SendQueue;

/// SOL_SOCKET and those of its options that are known here.
const SOL_SOCKET: i32 = 1;
const SO_REUSEADDR: i32 = 2;
const SO_ERROR: i32 = 4;
const SO_RCVBUF: i32 = 8;
const SO_RCVLOWAT: i32 = 18;
const SO_KEEPALIVE: i32 = 9;
const IPPROTO_TCP: i32 = 6;
const TCP_NODELAY: i32 = 1;
const TCP_CORK: i32 = 3;
const IPPROTO_UDP: i32 = 17;
const UDP_CORK: i32 = 1;
const UDP_SEGMENT: i32 = 103;
/// Whether datagrams may be fragmented; the values 2 and 3 forbid it.
const IPPROTO_IP: i32 = 0;
const IP_MTU_DISCOVER: i32 = 10;
const IPPROTO_IPV6: i32 = 41;
const IPV6_MTU_DISCOVER: i32 = 23;

impl Socket {
    /// Sets an option by Linux's numbers. `value` is the bytes of its value, for example of an
    /// `int`.
    ///
    /// # Errors
    /// ENOPROTOOPT for an unknown option, EINVAL for a bad or short value; others by option, as
    /// Linux has them; otherwise as [`Socket::bind`].
    pub fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
        if let Some(on) = self.cork_value(level, name, value)
            && self.queue_cork(on)?
        {
            return Ok(());
        }
        let (key, value_words) = (OptionKey { level, name }, OptionValue::new(value));
        if key.is_long() && value.len() > SET_MOST {
            self.pass_long(value)?;
        }
        let set = Request::SetSockOpt { socket: self.id(), key, value: value_words };
        if !(self.needs_no_reply(level, name, value) && self.request_no_reply(set)?) {
            self.core().request(set)?;
        }
        self.note_option(level, name, value);
        Ok(())
    }

    /// The value of TCP_CORK for a connection of this process alone. `None`: it is another option,
    /// a bad value, or the server's business.
    fn cork_value(&self, level: i32, name: i32, value: &[u8]) -> Option<bool> {
        let ours = (level, name) == (IPPROTO_TCP, TCP_CORK) && self.is_cork_ours();
        value.first_chunk().filter(|_| ours).map(|&value| i32::from_ne_bytes(value) != 0)
    }

    /// Does only this process set the cork of this connection?
    fn is_cork_ours(&self) -> bool {
        let flags = self.core().flags();
        let others = flags.has_any(SocketFlags::SHARED | SocketFlags::MOVED);
        self.core().is_stream() && flags.has(SocketFlags::CONNECTED) && !others
    }

    /// Sets or ends the cork in order with the bytes sent, without a call. A cork is to be seen
    /// with the bytes after it, so only its end notifies the server. False: there is no room, or
    /// the socket moves.
    fn queue_cork(&self, on: bool) -> Result<bool, Errno> {
        let core = self.core();
        core.check()?;
        let mut queue = lock(&self.send_half().queue);
        let queue = queue.as_mut().ok_or(Errno::BADF)?;
        if !queue.stage_cork(on).map_err(|RegionFault| Errno::IO)? {
            return Ok(false);
        }
        match on {
            true => queue.publish(&core.words),
            false => drop(publish_staged(core, queue, false)),
        }
        Ok(core.move_counts()?.is_none())
    }

    /// Is it an option that cannot fail, and that changes nothing before the next call or send?
    fn needs_no_reply(&self, level: i32, name: i32, value: &[u8]) -> bool {
        if !self.core().is_stream() || value.len() < size_of::<i32>() {
            return false;
        }
        match (level, name) {
            (IPPROTO_TCP, TCP_NODELAY) => {
                lock(&self.send_half().queue).as_ref().is_some_and(|queue| queue.sent() == 0)
            }
            (SOL_SOCKET, SO_REUSEADDR | SO_KEEPALIVE) => self.core().flags() == SocketFlags::OPEN,
            _ => false,
        }
    }

    /// Makes a no-reply call, which does not wake the server; false if there is no room.
    fn request_no_reply(&self, request: Request) -> Result<bool, Errno> {
        self.core().check()?;
        let call = NewCall::with_flags(request, CallFlags::QUIET);
        RawBatch::call_no_reply(self.membership(), &call, false)
    }

    /// Passes on a value that is longer than a call.
    #[cold]
    fn pass_long(&self, value: &[u8]) -> Result<(), Errno> {
        let socket = self.id();
        let value = value.get(..LONG_MOST).unwrap_or(value);
        let parts = (0i32..).step_by(SET_MOST).zip(value.chunks(SET_MOST)).map(|(at, part)| {
            let key = OptionKey { level: LONG_VALUE, name: at };
            NewCall::new(Request::SetSockOpt { socket, key, value: OptionValue::new(part) })
        });
        self.core().check()?;
        RawBatch::call_all(self.membership(), parts).map(drop)
    }

    /// TCP_CORK, if this process has set it.
    fn known_cork(&self, level: i32, name: i32) -> Option<bool> {
        if (level, name) != (IPPROTO_TCP, TCP_CORK) || !self.is_cork_ours() {
            return None;
        }
        lock(&self.send_half().queue).as_ref().and_then(SendQueue::cork)
    }

    /// Remembers the options that concern this side.
    pub(crate) fn note_option(&self, level: i32, name: i32, value: &[u8]) {
        // Any may decide about where datagrams can go.
        self.forget_destinations();
        if matches!(
            (level, name),
            (IPPROTO_IP, IP_MTU_DISCOVER) | (IPPROTO_IPV6, IPV6_MTU_DISCOVER)
        ) {
            let forbidden = matches!(value, [2 | 3, ..]);
            self.send_half().dont_fragment.store(forbidden, Ordering::Relaxed);
        }
        if level == IPPROTO_UDP
            && let Some(&number) = value.first_chunk()
        {
            let (on, half) = (i32::from_ne_bytes(number) != 0, self.send_half());
            match name {
                UDP_SEGMENT => half.segments.store(on, Ordering::Relaxed),
                UDP_CORK => {
                    half.corked.store(on, Ordering::Relaxed);
                    half.open.fetch_and(on, Ordering::Relaxed);
                }
                _ => {}
            }
        }
        if (level, name) == (IPPROTO_TCP, TCP_CORK)
            && let Some(&on) = value.first_chunk()
            && let Some(queue) = &mut *lock(&self.send_half().queue)
        {
            queue.note_cork(i32::from_ne_bytes(on) != 0);
        }
        if (level, name) == (SOL_SOCKET, SO_RCVLOWAT)
            && let Some(&bytes) = value.first_chunk()
        {
            let lowat = u32::from_ne_bytes(bytes).clamp(1, MOST_LOWAT);
            self.recv_half().lowat.store(lowat, Ordering::Relaxed);
        }
        if (level, name) == (SOL_SOCKET, SO_RCVBUF)
            && let Some(&bytes) = value.first_chunk()
        {
            let quarter = u32::from_ne_bytes(bytes) / 4;
            self.recv_half()
                .bell_threshold
                .store(quarter.clamp(1, DEFAULT_BELL_THRESHOLD), Ordering::Relaxed);
        }
    }

    /// Copies the bytes of an option's value, as far as `into` has room, and returns the value's
    /// length. SO_ERROR is [`Socket::take_error`]. IP_MSFILTER and MCAST_MSFILTER first look at
    /// what `into` has. All parts of a long value are of one moment, or nearly so.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn option(&self, level: i32, name: i32, into: &mut [u8]) -> Result<usize, Errno> {
        if (level, name) == (SOL_SOCKET, SO_ERROR) {
            let pending = self.take_error().map_or(0, Errno::raw_os_error).to_ne_bytes();
            into.iter_mut().zip(pending).for_each(|(to, from)| *to = from);
            return Ok(pending.len());
        }
        self.membership().server.check_memory()?;
        self.core().check()?;
        if let Some(on) = self.known_cork(level, name) {
            let value = i32::from(on).to_ne_bytes();
            into.iter_mut().zip(value).for_each(|(to, from)| *to = from);
            return Ok(value.len());
        }
        let (socket, key) = (self.id(), OptionKey { level, name });
        let most = into.len().clamp(1, if key.is_question() { LONG_MOST } else { GET_MOST });
        if key.is_question() {
            self.pass_long(into)?;
        }
        let part = |from| NewCall::new(Request::GetSockOpt { socket, key, from });
        let parts = (0u32..).step_by(GET_PART).take(most.div_ceil(GET_PART)).map(part);
        let replies = RawBatch::call_all(self.membership(), parts)?;
        let (mut len, mut room) = (None, into.chunks_mut(GET_PART));
        for words in &replies {
            let Ok(Reply::Option(part)) = Reply::decode(Op::GetSockOpt, words) else {
                return Err(self.membership().server.fault());
            };
            let room = room.next().unwrap_or_default();
            room.iter_mut().zip(part.bytes).for_each(|(to, from)| *to = from);
            len = len.or(Some(part.len));
        }
        Ok(usize::try_from(len.unwrap_or(0)).unwrap_or(LONG_MOST).min(LONG_MOST))
    }

    /// Sets an option whose value is an `int`.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn set_int(&self, level: i32, name: i32, value: i32) -> Result<(), Errno> {
        self.set_option(level, name, &value.to_ne_bytes())
    }

    /// An option's value that is an `int`.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn int(&self, level: i32, name: i32) -> Result<i32, Errno> {
        let mut value = [0; 4];
        self.option(level, name, &mut value)?;
        Ok(i32::from_ne_bytes(value))
    }
}

//! Sending and receiving.

use std::net::SocketAddr;

use inet::{Handle, SendOptions, SocketKind};

use super::Host;
use super::call::{Message, Outcome, Progress, Stop, fail, failed};
use super::table::Socket;
use crate::bytes::Chunk;

impl Host {
    /// send(2), sendto(2), write(2): how many bytes were taken.
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, ENOTCONN, EPIPE, EAGAIN, the error that ended the connection. For
    /// datagrams also EDESTADDRREQ, EMSGSIZE, ENETUNREACH, EADDRNOTAVAIL, ENOBUFS.
    pub fn send(
        &mut self,
        fd: i32,
        bytes: &[u8],
        to: Option<SocketAddr>,
        flags: i32,
        progress: &mut Progress,
    ) -> Outcome<usize> {
        let outcome = match self.entries.socket(fd)?.kind {
            SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => {
                self.send_datagram(fd, bytes, to)
            }
            SocketKind::Stream => self
                .begin_fast(fd, bytes, to, flags, progress)
                .and_then(|()| self.send_stream(fd, bytes, flags, progress)),
        };
        self.settle();
        let under_way = |errno| [libc::EINPROGRESS, libc::EAGAIN].contains(&errno);
        let connected = self.entries.socket(fd)?.connected;
        match outcome {
            // Bytes that were taken before an error count, but not if they were for a SYN that
            // failed. The error is for the next call.
            Err(Stop::Errno(errno)) if progress.done > 0 && (connected || under_way(errno)) => {
                Ok(progress.done)
            }
            other => other,
        }
    }

    fn send_datagram(&mut self, fd: i32, bytes: &[u8], to: Option<SocketAddr>) -> Outcome<usize> {
        let handle = self.handle(fd)?;
        if let Some(error) = self.entries.socket(fd)?.error.take() {
            return fail(error);
        }
        let now = self.now;
        let chunk = Chunk::new(bytes.to_vec());
        self.stack().send(now, handle, chunk, to).map_err(|refused| failed(refused.error))?;
        Ok(bytes.len())
    }

    /// With MSG_FASTOPEN: connects, and sends as many bytes as the SYN takes. A call that does not
    /// wait ends here, with EINPROGRESS or the number of bytes that are on their way.
    fn begin_fast(
        &mut self,
        fd: i32,
        bytes: &[u8],
        to: Option<SocketAddr>,
        flags: i32,
        progress: &mut Progress,
    ) -> Outcome<()> {
        let socket = self.entries.socket(fd)?;
        if flags & libc::MSG_FASTOPEN == 0 || socket.connected || progress.begun {
            return Ok(());
        }
        let connecting = socket.connecting && !socket.failed;
        let nonblocking = socket.nonblocking || flags & libc::MSG_DONTWAIT != 0;
        let handle = self.handle(fd)?;
        if self.stack().deferred_room(handle).is_some() {
            return Ok(());
        }
        if connecting {
            return fail(libc::EALREADY);
        }
        let Some(to) = to else { return fail(libc::EINVAL) };
        let now = self.now;
        let room = self.stack().connect_fast(now, handle, to).map_err(failed)?;
        let socket = self.entries.socket(fd)?;
        socket.connecting = true;
        progress.begun = true;
        // A call that waits leaves the rest to be sent as soon as the connection is there.
        let room = if nonblocking { room } else { FIRST_WRITE };
        let part = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        if !part.is_empty() {
            socket.queued += part.len() as u64;
            progress.done = part.len();
            let chunk = Chunk::new(part.to_vec());
            self.stack().send(now, handle, chunk, None).map_err(|no| failed(no.error))?;
        }
        if nonblocking { fail(libc::EINPROGRESS) } else { Ok(()) }
    }

    fn send_stream(
        &mut self,
        fd: i32,
        bytes: &[u8],
        flags: i32,
        progress: &mut Progress,
    ) -> Outcome<usize> {
        let handle = self.handle(fd)?;
        let nonblocking = self.entries.socket(fd)?.nonblocking || flags & libc::MSG_DONTWAIT != 0;
        let mut memory = self.send_memory(fd)?;
        loop {
            let socket = self.entries.socket(fd)?;
            if let Some(error) = socket.error.take() {
                return fail(error);
            }
            if socket.shut_write || socket.failed {
                return fail(libc::EPIPE);
            }
            let deferred = self.stack().deferred_room(handle);
            let socket = self.entries.socket(fd)?;
            if !socket.connected && deferred.is_none() {
                return match (socket.connecting, nonblocking) {
                    (false, _) => fail(libc::EPIPE),
                    (true, true) => fail(libc::EAGAIN),
                    (true, false) => Err(Stop::Wait(None)),
                };
            }
            let rest = bytes.get(progress.done..).unwrap_or_default();
            if rest.is_empty() {
                let done = Ok(progress.done);
                return deferred.map_or(done, |_| self.connect_without_data(handle, nonblocking));
            }
            let room = match deferred {
                Some(room) if nonblocking => memory.room().min(room),
                Some(_) => FIRST_WRITE,
                None => memory.room(),
            };
            // A call that waits for room is woken only when there is much of it.
            if room == 0 || progress.waited && !memory.is_writable() {
                self.entries.socket(fd)?.no_space = true;
                let now = self.now;
                self.stack().writer_waits(now, handle);
                return match nonblocking {
                    true if progress.done > 0 => Ok(progress.done),
                    true => fail(libc::EAGAIN),
                    false => {
                        progress.waited = true;
                        Err(Stop::Wait(None))
                    }
                };
            }
            progress.waited = false;
            let (part, now) = (rest.get(..room).unwrap_or(rest).to_vec(), self.now);
            let len = part.len();
            let last = len == rest.len();
            let options = SendOptions {
                more: !last || flags & libc::MSG_MORE != 0,
                eor: last && flags & libc::MSG_EOR != 0,
                ..SendOptions::default()
            };
            let taken = self.stack().send_with(now, handle, Chunk::new(part), &options);
            taken.map_err(|refused| failed(refused.error))?;
            self.entries.socket(fd)?.queued += len as u64;
            memory.take(len);
            progress.done += len;
            if deferred.is_some() && nonblocking {
                return Ok(progress.done);
            }
        }
    }

    /// There is nothing that the SYN could take: it is an ordinary attempt now.
    fn connect_without_data(&mut self, handle: Handle, nonblocking: bool) -> Outcome<usize> {
        self.stack().stop_deferring(handle);
        if nonblocking { fail(libc::EINPROGRESS) } else { Err(Stop::Wait(None)) }
    }

    /// recv(2), recvfrom(2), read(2), recvmsg(2): at most `most` bytes.
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, ENOTCONN, EAGAIN, the error that ended the connection.
    pub fn recv(
        &mut self,
        fd: i32,
        most: usize,
        flags: i32,
        progress: &mut Progress,
    ) -> Outcome<Message> {
        let socket = self.entries.socket(fd)?;
        let outcome = match socket.kind {
            SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => {
                socket.recv_datagram(most, flags)
            }
            SocketKind::Stream => socket.recv_stream(most, flags, progress),
        };
        let message = outcome?;
        if flags & libc::MSG_PEEK == 0 && message.length > 0 {
            self.entries.socket(fd)?.read += message.length as u64;
            let handle = self.handle(fd)?;
            let now = self.now;
            self.stack().consumed(now, handle, message.length);
            self.settle();
        }
        Ok(message)
    }

    /// recvmsg(2): with TCP_INQ also how many bytes are left, and one more at the stream's end.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv).
    pub fn recvmsg(
        &mut self,
        fd: i32,
        most: usize,
        flags: i32,
        progress: &mut Progress,
    ) -> Outcome<Message> {
        let mut message = self.recv(fd, most, flags, progress)?;
        let socket = self.entries.socket(fd)?;
        if socket.tells_queue {
            let left = socket.received.len() + usize::from(socket.eof);
            let left = i32::try_from(left).unwrap_or(i32::MAX);
            message.control = control(libc::IPPROTO_TCP, TCP_CM_INQ, left);
        }
        Ok(message)
    }
}

/// Bytes that a waiting writer leaves with a connection that is not there yet.
const FIRST_WRITE: usize = 16_384;

/// The type of TCP_INQ's control message.
const TCP_CM_INQ: i32 = 36;

/// A control message with one `int`, as cmsg(3) lays it out.
fn control(level: i32, kind: i32, value: i32) -> Vec<u8> {
    let len = size_of::<usize>() + 3 * size_of::<i32>();
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend([level, kind, value].map(i32::to_ne_bytes).concat());
    bytes.resize(len.next_multiple_of(size_of::<usize>()), 0);
    bytes
}

impl Socket {
    /// Waits, or says that it would have to.
    fn wait<T>(&self, flags: i32) -> Outcome<T> {
        if self.nonblocking || flags & libc::MSG_DONTWAIT != 0 {
            return fail(libc::EAGAIN);
        }
        Err(Stop::Wait(None))
    }

    fn recv_datagram(&mut self, most: usize, flags: i32) -> Outcome<Message> {
        if let Some(error) = self.error.take() {
            return fail(error);
        }
        let Some((mut bytes, from)) = self.received.take_datagram() else {
            return self.wait(flags);
        };
        let whole = bytes.len();
        bytes.truncate(most);
        let cut = if whole > most { libc::MSG_TRUNC } else { 0 };
        let length = if flags & libc::MSG_TRUNC != 0 { whole } else { bytes.len() };
        Ok(Message { bytes, length, from, flags: cut, control: Vec::new() })
    }

    fn recv_stream(
        &mut self,
        most: usize,
        flags: i32,
        progress: &mut Progress,
    ) -> Outcome<Message> {
        if self.listening {
            return fail(libc::ENOTCONN);
        }
        let wanted = if flags & libc::MSG_WAITALL == 0 { most.min(1) } else { most };
        // Bytes after shutdown(SHUT_RD) can be read, as on Linux, but no call waits for them.
        if self.received.len() >= wanted.max(1) || self.shut_read || self.eof || self.failed {
            if self.received.is_empty()
                && let Some(error) = self.error.take()
            {
                return fail(error);
            }
            let bytes = self.received.peek(most);
            let length = bytes.len();
            if flags & libc::MSG_PEEK == 0 {
                self.received.take(length);
            }
            // RFC 9293 3.9.1: MSG_TRUNC on a stream throws the bytes away.
            let bytes = if flags & libc::MSG_TRUNC == 0 { bytes } else { Vec::new() };
            return Ok(Message { bytes, length, ..Message::default() });
        }
        if let Some(error) = self.error.take() {
            return fail(error);
        }
        if !self.connected && !self.connecting {
            return fail(libc::ENOTCONN);
        }
        if most == 0 {
            return Ok(Message::default());
        }
        progress.begun = true;
        self.wait(flags)
    }
}

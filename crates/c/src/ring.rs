//! A thread's submissions and completions.
//!
//! Sockets are small numbers, the lowest free one first, as file descriptors are. A call on its way
//! is in a table, under the number that travels with it. A call that needs no server (a send, a
//! mistake) is over at once; it waits in a queue with the completions that came back.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::thread::ThreadId;

use abi::ShutdownHow;
use sockets::{
    CallBatch, Client, Errno, Family, RecvFlags, Reply, Request, SendFlags, Socket, SocketKind,
    Ticket, Wait,
};

/// The result of a completed call: a number, and the other values that it gives.
pub(crate) enum CompletionResult {
    /// The number alone: 0 or more, or a negative error number.
    Number(i32),
    /// Also an address, for the pointers of the call.
    Address(i32, std::net::SocketAddr),
    /// Also bytes of an option's value.
    Option(i32, [u8; 40]),
    /// There is something to receive; the FFI has the buffer for it.
    Receive,
}

/// The operations of `enum tsk_op`, with their arguments.
pub(crate) enum Operation<'a> {
    Nop,
    Socket { domain: i32, kind: u32 },
    Bind(std::net::SocketAddr),
    Listen { backlog: u32 },
    Connect(std::net::SocketAddr),
    Accept,
    Send(&'a [u8]),
    Recv,
    Shutdown { how: u32 },
    Close,
    GetSockOpt { level: i32, name: i32 },
    SetSockOpt { level: i32, name: i32, value: &'a [u8] },
    GetSockName,
    GetPeerName,
}

/// How a call is to be made.
#[derive(Clone, Copy)]
pub(crate) struct CallOptions {
    pub(crate) sock: i32,
    pub(crate) nonblock: bool,
    pub(crate) prio: u8,
}

/// A call on its way, and the value `T` that the FFI keeps for it.
struct PendingCall<T> {
    ticket: Ticket,
    user_data: u64,
    keep: T,
}

/// See the module's head.
pub(crate) struct Ring<T> {
    client: Arc<Client>,
    owner: ThreadId,
    batch: CallBatch<'static>,
    sockets: Vec<Option<Socket>>,
    pending: Vec<Option<PendingCall<T>>>,
    free: Vec<usize>,
    /// Completed calls: their user data, their results, the FFI's values.
    finished: VecDeque<(u64, CompletionResult, T)>,
}

fn negative(errno: Errno) -> i32 {
    -errno.raw_os_error()
}

fn count(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

impl<T> Ring<T> {
    pub(crate) fn open(client: Arc<Client>) -> Result<Self, Errno> {
        Ok(Self {
            batch: CallBatch::shared(&client)?,
            client,
            owner: std::thread::current().id(),
            sockets: Vec::new(),
            pending: Vec::new(),
            free: Vec::new(),
            finished: VecDeque::new(),
        })
    }

    /// The process's number in the instance.
    pub(crate) fn number(&self) -> u16 {
        self.client.number()
    }

    /// Is this the thread that opened it?
    pub(crate) fn is_mine(&self) -> bool {
        self.owner == std::thread::current().id()
    }

    fn socket(&self, sock: i32) -> Result<&Socket, Errno> {
        let at = usize::try_from(sock).map_err(|_| Errno::BADF)?;
        self.sockets.get(at).and_then(Option::as_ref).ok_or(Errno::BADF)
    }

    fn adopt(&mut self, socket: Socket) -> usize {
        let at = self.sockets.iter().position(Option::is_none).unwrap_or(self.sockets.len());
        match self.sockets.get_mut(at) {
            Some(place) => *place = Some(socket),
            None => self.sockets.push(Some(socket)),
        }
        at
    }

    /// Registers a call. A mistake in it is its completion.
    ///
    /// # Errors
    /// EBUSY when results that were not taken leave no room; ENETDOWN; ENOTCONN in a forked child.
    pub(crate) fn submit(
        &mut self,
        op: &Operation<'_>,
        options: CallOptions,
        user_data: u64,
        keep: T,
    ) -> Result<(), Errno> {
        let request = match self.request(op, options) {
            Ok(Ok(request)) => request,
            Ok(Err(done)) => {
                self.finished.push_back((user_data, CompletionResult::Number(done), keep));
                return Ok(());
            }
            Err(errno) => {
                self.finished.push_back((
                    user_data,
                    CompletionResult::Number(negative(errno)),
                    keep,
                ));
                return Ok(());
            }
        };
        let request = if options.nonblock { request.nonblocking() } else { request };
        self.send_out(request.priority(options.prio), user_data, keep)
    }

    fn send_out(&mut self, request: Request, user_data: u64, keep: T) -> Result<(), Errno> {
        let at = self.free.last().copied().unwrap_or(self.pending.len());
        let mut request = request.user_data(at as u64);
        let ticket = loop {
            match self.batch.submit_from(&mut request) {
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => return Err(Errno::BUSY),
                other => break other?,
            }
        };
        self.free.pop();
        let out = Some(PendingCall { ticket, user_data, keep });
        match self.pending.get_mut(at) {
            Some(place) => *place = out,
            None => self.pending.push(out),
        }
        Ok(())
    }

    /// The server's call for `op`; `Err` within: its result, if it needs no server.
    fn request(
        &mut self,
        op: &Operation<'_>,
        options: CallOptions,
    ) -> Result<Result<Request, i32>, Errno> {
        let family = |domain: i32| match domain {
            2 => Ok(Family::V4),
            10 => Ok(Family::V6),
            _ => Err(Errno::AFNOSUPPORT),
        };
        if let Operation::Socket { domain, kind } = *op {
            let kind = SocketKind::from_word(kind.into()).ok_or(Errno::PROTONOSUPPORT)?;
            return Ok(Ok(Request::socket(family(domain)?, kind)));
        }
        if matches!(op, Operation::Nop) {
            return Ok(Ok(Request::null()));
        }
        let socket = self.socket(options.sock)?;
        Ok(Ok(match *op {
            Operation::Nop | Operation::Socket { .. } => Request::null(),
            Operation::Bind(addr) => Request::bind(socket, addr),
            Operation::Listen { backlog } => Request::listen(socket, backlog),
            Operation::Connect(addr) => Request::connect(socket, addr),
            Operation::Accept => Request::accept(socket),
            Operation::Recv => Request::readable(socket),
            Operation::Shutdown { how } => {
                let how = ShutdownHow::from_word(how.into()).ok_or(Errno::INVAL)?;
                Request::shutdown(socket, how)
            }
            Operation::GetSockOpt { level, name } => Request::option(socket, level, name, 0),
            Operation::SetSockOpt { level, name, value } => {
                Request::set_option(socket, level, name, value)
            }
            Operation::GetSockName => Request::local_addr(socket),
            Operation::GetPeerName => Request::peer_addr(socket),
            Operation::Send(bytes) => {
                let bytes = &[IoSlice::new(bytes)];
                let sent = socket.send(bytes, SendFlags::default(), None, Wait::No)?;
                return Ok(Err(count(sent)));
            }
            Operation::Close => {
                let request = Request::close(socket);
                let at = usize::try_from(options.sock).unwrap_or(usize::MAX);
                if let Some(place) = self.sockets.get_mut(at) {
                    *place = None;
                }
                return Ok(request.ok_or(0));
            }
        }))
    }

    /// Sends the registered calls.
    pub(crate) fn flush(&mut self) {
        self.batch.flush();
    }

    /// Waits until `min` calls are over, or as many as are out if that is less.
    ///
    /// # Errors
    /// EINTR, ENETDOWN, ENOTCONN.
    pub(crate) fn wait(&mut self, min: u32, wait: Wait) -> Result<(), Errno> {
        let here = u32::try_from(self.finished.len()).unwrap_or(u32::MAX);
        self.batch.wait_for(min.saturating_sub(here), wait)?;
        Ok(())
    }

    /// The next call that is over.
    pub(crate) fn next(&mut self) -> Option<(u64, CompletionResult, T)> {
        if let Some(finished) = self.finished.pop_front() {
            return Some(finished);
        }
        let done = self.batch.fetch()?;
        let at = usize::try_from(done.user_data).unwrap_or(usize::MAX);
        let out = self.pending.get_mut(at)?.take()?;
        self.free.push(at);
        let outcome = match done.result {
            Err(errno) => CompletionResult::Number(negative(errno)),
            Ok(Reply::Done) => CompletionResult::Number(0),
            Ok(Reply::Socket(socket)) => CompletionResult::Number(count(self.adopt(socket))),
            Ok(Reply::Accepted(socket, peer)) => {
                CompletionResult::Address(count(self.adopt(socket)), peer)
            }
            Ok(Reply::Address(addr)) => CompletionResult::Address(0, addr),
            Ok(Reply::Option { len, part }) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX).min(part.len());
                CompletionResult::Option(count(len), part)
            }
            Ok(Reply::Readable(_)) => CompletionResult::Receive,
        };
        Some((out.user_data, outcome, out.keep))
    }

    /// Is no call out, and none over that was not taken?
    pub(crate) fn is_idle(&self) -> bool {
        self.finished.is_empty() && self.batch.counts() == (0, 0)
    }

    /// Receives the bytes that have come on a socket. `None`: another reader took them first, and
    /// the call goes on.
    pub(crate) fn receive(&mut self, sock: i32, into: &mut [u8]) -> Option<i32> {
        let received = self.socket(sock).and_then(|socket| {
            socket.recv(&mut [IoSliceMut::new(into)], RecvFlags::default(), Wait::No)
        });
        match received {
            Ok(received) => Some(count(received.len)),
            Err(Errno::AGAIN) => None,
            Err(errno) => Some(negative(errno)),
        }
    }

    /// Cancels the oldest call with this user data.
    ///
    /// # Errors
    /// ENOENT when there is none.
    pub(crate) fn cancel(&mut self, user_data: u64) -> Result<(), Errno> {
        let mut out = self.pending.iter().flatten().filter(|out| out.user_data == user_data);
        let ticket = out.next().ok_or(Errno::NOENT)?.ticket;
        match self.batch.cancel(ticket) {
            // It is over, and its completion is to be taken.
            Ok(()) | Err(Errno::NOENT) => {
                self.batch.flush();
                Ok(())
            }
            Err(errno) => Err(errno),
        }
    }
}

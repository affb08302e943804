//! The request manager: takes packaged calls from a client's request rings and carries them out.
//!
//! One scan takes a bounded number of calls from all threads of a client. It orders them by
//! priority; calls of one priority keep the order of their ring. Each operation has one function. A
//! call that has to wait leaves its return path with its socket, and an event finishes it later. A
//! waiting call holds up no other call. Results go to the ring that the return path names, in the
//! order in which calls finish.
//!
//! A program may get some arguments wrong: a socket that another thread closed, an address that is
//! taken. Such a call fails with an error number. Arguments that the library never writes are a
//! fault.

use std::cmp::Reverse;
use std::net::SocketAddr;

use abi::ancillary::SendAncillary;
use abi::call::{CallFlags, Op, PackagedCall, Reply, ReplyWords, Request};
use abi::client::QUEUE;
use abi::data::{DataDescriptor, DataFlags};
use abi::{Errno, Family, SocketId, SocketKind};
use inet::Handle;

use crate::client::{Client, MAX_WAITING};
use crate::engine::{Engine, SocketOwner};
use crate::fault::ClientFault;
use crate::refusal::Refusal;
use crate::shared::Adoption;
use crate::socket::{Socket, SocketState};
use crate::transfer::submit;
use crate::tx::QueuedSend;

mod cancel;
mod disconnect;
mod option;
mod outcome;

use self::outcome::{CallAnswer, CallOutcome, DONE, gives};

/// Calls taken from one client in one scan.
const CALLS_PER_SCAN: usize = 256;

/// The outcome of a scan of the request rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallScan {
    /// There was no call.
    Empty,
    /// All calls are carried out, or wait.
    Done,
    /// The call at this place meets an address in use. It and those behind it are still to be
    /// carried out.
    InUse(usize),
}

impl Client {
    /// One scan of the request rings; `scan` is room to sort in. After [`CallScan::InUse`] call
    /// [`Client::serve_rest`].
    pub(crate) fn serve_calls(
        &mut self,
        engine: &mut Engine,
        scan: &mut Vec<PackagedCall>,
    ) -> Result<CallScan, ClientFault> {
        scan.clear();
        if self.take_calls(scan)? {
            scan.sort_by_key(|call| Reverse(call.priority));
        }
        engine.batches.calls.add(scan.len());
        engine.counters.calls += scan.len() as u64;
        self.carry_out(engine, scan, true)
    }

    /// Carries out the calls of a scan from the place `from` on, whatever addresses are in use.
    #[cold]
    pub(crate) fn serve_rest(
        &mut self,
        engine: &mut Engine,
        scan: &[PackagedCall],
        from: usize,
    ) -> Result<CallScan, ClientFault> {
        self.carry_out(engine, scan.get(from..).unwrap_or_default(), false)
    }

    /// Carries out calls. With `stops`, it stops at the first that meets an address in use.
    #[inline(always)]
    fn carry_out(
        &mut self,
        engine: &mut Engine,
        scan: &[PackagedCall],
        stops: bool,
    ) -> Result<CallScan, ClientFault> {
        let mut calls = scan.iter();
        while let Some(call) = calls.next() {
            // A null call measures the mechanism: it has no arguments to decode.
            let answer = match call.op() {
                Op::Null => DONE,
                _ => self.execute(engine, call),
            };
            let outcome = match &answer {
                Ok(CallOutcome::Done) => Ok(&ReplyWords::DONE),
                Ok(CallOutcome::Gives(words)) => Ok(words),
                Ok(CallOutcome::Waits) => {
                    self.waiting += 1;
                    continue;
                }
                Err(Refusal::Errno(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL)) if stops => {
                    return Ok(CallScan::InUse(scan.len() - calls.len() - 1));
                }
                Err(Refusal::Errno(errno)) => Err(*errno),
                Err(Refusal::Fault(fault)) => return Err(fault.clone()),
            };
            let quiet = call.flags.has(CallFlags::QUIET) && is_usual(call.op(), outcome);
            self.post(engine, call.path, outcome, !quiet)?;
        }
        Ok(if scan.is_empty() { CallScan::Empty } else { CallScan::Done })
    }

    /// Takes calls from the rings, one thread after the other. If the scan's bound stops it, the
    /// next scan starts with the next thread. Returns whether a call has a priority.
    fn take_calls(&mut self, scan: &mut Vec<PackagedCall>) -> Result<bool, ClientFault> {
        let (threads, first) = (self.threads.len(), self.next_thread);
        // A call's result goes to another thread than the caller's.
        let mut elsewhere = false;
        let mut priorities = 0;
        // No division: every iteration does this, mostly without finding a call.
        for at in (first..threads).chain(0..first) {
            let Some(Some(thread)) = self.threads.get_mut(at) else { continue };
            while scan.len() < CALLS_PER_SCAN {
                let slot = thread.requests.take().map_err(ClientFault::ring("request"))?;
                let Some(slot) = slot else { break };
                let call = PackagedCall::decode(&slot)?;
                priorities |= call.priority;
                elsewhere |= call.path.client != self.number || usize::from(call.path.ring) != at;
                scan.push(call);
            }
            thread.requests.give_back();
            if scan.len() >= CALLS_PER_SCAN {
                self.next_thread = (at + 1) % threads;
                break;
            }
        }
        for &PackagedCall { path, .. } in scan.iter().filter(|_| elsewhere) {
            let attached = self.threads.get(usize::from(path.ring)).is_some_and(Option::is_some);
            if path.client != self.number || !attached {
                return Err(ClientFault::ReturnPath { client: path.client, ring: path.ring });
            }
        }
        Ok(priorities != 0)
    }

    fn execute(&mut self, engine: &mut Engine, call: &PackagedCall) -> CallAnswer {
        match call.request()? {
            Request::Null => DONE,
            Request::Socket { kind, family } => self.socket(engine, kind, family),
            Request::Bind { socket, addr } => {
                self.on_socket(socket, |_, socket| bind(engine, socket, addr))
            }
            Request::Listen { socket, backlog } => {
                self.on_socket(socket, |client, socket| client.listen(engine, socket, backlog))
            }
            Request::Connect { socket, addr } => {
                self.on_socket(socket, |client, socket| client.connect(engine, call, socket, addr))
            }
            Request::Accept { socket } => {
                self.on_socket(socket, |client, socket| client.accept(engine, call, socket))
            }
            Request::Close { socket } => self.close(engine, socket),
            Request::Send { socket, data } => self.send(engine, socket, data),
            Request::Recv { socket } => {
                self.on_socket(socket, |client, socket| client.recv(engine, call, socket))
            }
            Request::Shutdown { socket, how } => {
                self.on_socket(socket, |client, socket| client.shutdown(engine, socket, how))
            }
            Request::GetSockOpt { socket, key, from } => {
                self.on_socket(socket, |client, socket| {
                    // TCP_INFO counts what was sent before the call.
                    if socket.is_stream() {
                        client.take_sends(engine, socket, Some(QUEUE))?;
                    }
                    option::get(engine, socket, (key, client.long_values.of(socket.id)), from)
                })
            }
            Request::SetSockOpt { socket, key, value } => self
                .on_socket(socket, |client, socket| client.setsockopt(engine, socket, key, &value)),
            Request::GetSockName { socket } => self.on_socket(socket, |_, socket| {
                gives(Reply::Address(Some(engine.stack.local_addr(socket.handle)?)))
            }),
            Request::GetPeerName { socket } => self.on_socket(socket, |_, socket| {
                gives(Reply::Address(Some(engine.stack.peer_addr(socket.handle)?)))
            }),
            Request::Flush { socket } => {
                self.on_socket(socket, |client, socket| client.flush_sends(engine, socket))
            }
            Request::Cancel { socket, ring, tag } => {
                self.on_socket(socket, |client, socket| client.cancel(engine, socket, ring, tag))
            }
            Request::Adopt { cookie } => self.adopt(engine, call, cookie),
        }
    }

    /// Carries out a call on a socket; EBADF if there is no such socket.
    #[inline]
    fn on_socket(
        &mut self,
        id: SocketId,
        call: impl FnOnce(&mut Self, &mut Socket) -> CallAnswer,
    ) -> CallAnswer {
        let step = |client: &mut Self, socket: &mut Socket| match socket.id == id {
            true if !socket.closed => call(client, socket),
            true if socket.moved && !socket.let_go => Err(Errno::STALE.into()),
            _ => Err(Errno::BADF.into()),
        };
        self.with_socket(id.index, step).unwrap_or(Err(Refusal::Errno(Errno::BADF)))
    }

    fn close(&mut self, engine: &mut Engine, id: SocketId) -> CallAnswer {
        let step = |client: &mut Self, socket: &mut Socket| match socket.id == id {
            true if !socket.closed => client.close_socket(engine, socket).map_err(Refusal::Fault),
            true if socket.moved && !socket.let_go => {
                client.let_go(engine, socket);
                Ok(())
            }
            _ => Err(Errno::BADF.into()),
        };
        self.with_socket(id.index, step).unwrap_or(Err(Refusal::Errno(Errno::BADF)))?;
        DONE
    }

    /// Takes up a shared socket. The server completes the call: it may concern another client.
    fn adopt(&mut self, engine: &mut Engine, call: &PackagedCall, cookie: u64) -> CallAnswer {
        let number = engine.shared.number(cookie).ok_or(Errno::NOENT)?;
        if !engine.shared.take_permit(number, cookie, self.number) {
            return Err(Errno::PERM.into());
        }
        self.may_wait()?;
        engine.shared.post(Adoption { client: self.number, path: call.path, number });
        Ok(CallOutcome::Waits)
    }

    /// Refuses a waiting call beyond the client's bound.
    fn may_wait(&self) -> Result<(), Errno> {
        if self.waiting < MAX_WAITING { Ok(()) } else { Err(Errno::NOBUFS) }
    }

    fn socket(&mut self, engine: &mut Engine, kind: SocketKind, family: Family) -> CallAnswer {
        let index = self.sockets.next_free().ok_or(Errno::MFILE)?;
        let serial = engine.next_serial();
        let owner = SocketOwner { client: self.number, index, serial };
        let core_kind = match kind {
            SocketKind::Stream => inet::SocketKind::Stream,
            SocketKind::Datagram => inet::SocketKind::Datagram,
            SocketKind::UdpLite => inet::SocketKind::UdpLite,
            SocketKind::Echo => inet::SocketKind::Echo,
        };
        let core_family = match family {
            Family::V4 => inet::Family::V4,
            Family::V6 => inet::Family::V6,
        };
        let handle = engine.stack.open_for(self.owner, core_family, core_kind, owner.to_tag())?;
        self.place_socket(engine, (family, kind), handle, serial)
            .and_then(|id| gives(Reply::Socket(id)))
    }

    /// Gives a new socket of the core its place. Without a place the core's socket is aborted.
    fn place_socket(
        &mut self,
        engine: &mut Engine,
        speaks: (Family, SocketKind),
        handle: Handle,
        serial: u32,
    ) -> Result<SocketId, Refusal> {
        let id = self.occupy(engine, speaks, handle, serial);
        if !matches!(id, Ok(Some(_))) {
            let _ = engine.stack.abort(engine.now, handle);
        }
        Ok(id?.ok_or(Errno::MFILE)?)
    }

    fn listen(&mut self, engine: &mut Engine, socket: &mut Socket, backlog: u32) -> CallAnswer {
        // As listen(2): a negative or too large backlog counts as the largest.
        let backlog = u16::try_from(backlog).unwrap_or(u16::MAX);
        engine.stack.listen(socket.handle, backlog)?;
        socket.state = SocketState::Listening;
        self.sockets.touch(socket);
        DONE
    }

    fn connect(
        &mut self,
        engine: &mut Engine,
        call: &PackagedCall,
        socket: &mut Socket,
        addr: SocketAddr,
    ) -> CallAnswer {
        let nonblock = call.flags.has(CallFlags::NONBLOCK);
        if !nonblock {
            self.may_wait()?;
        }
        let fast = call.flags.has(CallFlags::FAST);
        if fast && socket.fast_open {
            return self.end_syn_wait(engine, socket);
        }
        if call.flags.has(CallFlags::DISCONNECT) {
            return self.disconnect(engine, socket);
        }
        check_family(socket.family, addr)?;
        if socket.state == SocketState::Connecting {
            // A second call waits for the outcome of the attempt, as after a signal.
            if nonblock || socket.waiting.connect.is_some() {
                return Err(Errno::ALREADY.into());
            }
            socket.waiting.connect = Some(call.path);
            return Ok(CallOutcome::Waits);
        }
        let (handle, stream) = (socket.handle, socket.is_stream());
        let begun = match fast {
            true => engine.stack.connect_deferred(engine.now, handle, addr).map(drop),
            false => engine.stack.connect(engine.now, handle, addr),
        };
        match begun {
            Ok(()) | Err(inet::Error::InProgress) => {}
            Err(error) => return Err(error.into()),
        }
        let room = engine.stack.deferred_room(handle);
        if stream {
            // After a failed attempt this is a new connection. As Linux: what the old one has left
            // for SO_ERROR is not about this one.
            socket.take_error();
            socket.tx.restart();
            socket.eof = false;
            socket.pending_pieces.clear();
            socket.fast_open = room.is_some();
        }
        if let Some(room) = room {
            // As Linux: the socket looks connected until the program writes to it.
            socket.state = SocketState::Connected;
            self.sockets.touch(socket);
            return gives(Reply::Connecting { syn_room: room as u64 });
        }
        socket.state = match stream {
            true => SocketState::Connecting,
            false if addr == abi::data::ANY => SocketState::Idle,
            false => SocketState::Connected,
        };
        if stream && !nonblock {
            socket.waiting.connect = Some(call.path);
        }
        self.sockets.touch(socket);
        match (stream, nonblock) {
            (false, _) => DONE,
            (true, true) => Err(Errno::INPROGRESS.into()),
            (true, false) => Ok(CallOutcome::Waits),
        }
    }

    /// Ends the wait of a SYN for data (Fast Open): the SYN gets the queued bytes. From now on the
    /// attempt is like any other.
    fn end_syn_wait(&mut self, engine: &mut Engine, socket: &mut Socket) -> CallAnswer {
        self.take_sends(engine, socket, Some(QUEUE))?;
        engine.stack.stop_deferring(socket.handle);
        socket.fast_open = false;
        socket.state = SocketState::Connecting;
        self.sockets.touch(socket);
        Err(Errno::INPROGRESS.into())
    }

    fn accept(
        &mut self,
        engine: &mut Engine,
        call: &PackagedCall,
        listener: &mut Socket,
    ) -> CallAnswer {
        if listener.state != SocketState::Listening {
            return Err(Errno::INVAL.into());
        }
        // Calls that wait already come first.
        if listener.waiting.accept.is_empty()
            && let Some((child, peer)) = self.accept_one(engine, listener)?
        {
            return gives(Reply::Accepted { socket: child, peer });
        }
        if call.flags.has(CallFlags::NONBLOCK) {
            return Err(Errno::AGAIN.into());
        }
        self.may_wait()?;
        listener.waiting.accept.push_back(call.path);
        Ok(CallOutcome::Waits)
    }

    /// Takes one connection off a listener's queue, if there is one.
    fn accept_one(
        &mut self,
        engine: &mut Engine,
        listener: &mut Socket,
    ) -> Result<Option<(SocketId, SocketAddr)>, Refusal> {
        let index = self.sockets.next_free().ok_or(Errno::MFILE)?;
        let serial = engine.next_serial();
        let owner = SocketOwner { client: self.number, index, serial };
        let accepted = engine.stack.accept(listener.handle, owner.to_tag())?;
        // If there are more connections, an event of this iteration says so.
        listener.accept_ready = 0;
        self.sockets.touch(listener);
        let Some((handle, peer)) = accepted else { return Ok(None) };
        let speaks = (listener.family, SocketKind::Stream);
        let id = self.place_socket(engine, speaks, handle, serial)?;
        self.with_socket(id.index, |client, child| {
            child.state = SocketState::Connected;
            child.tx.limit = listener.tx.limit;
            child.tx.limited = listener.tx.limited;
            if listener.tx.lowat > 0 {
                child.set_lowat(listener.tx.lowat);
            }
            child.asked_recv = listener.asked_recv;
            child.hints.clone_from(&listener.hints);
            child.urgent_inline = listener.urgent_inline;
            child.set_urgent(engine.stack.urgent_mark(child.handle));
            client.size_recv_buffer(engine, child);
            client.sockets.touch(child);
            // Data that arrived while the connection waited in the queue.
            client.receive(engine, child);
        });
        Ok(Some((id, peer)))
    }

    /// A listener has connections: completes the calls that wait for one.
    pub(crate) fn on_acceptable(
        &mut self,
        engine: &mut Engine,
        listener: &mut Socket,
    ) -> Result<(), ClientFault> {
        // The core's event does not say how many.
        listener.accept_ready = 1;
        listener.news = true;
        self.sockets.touch(listener);
        while let Some(&path) = listener.waiting.accept.front() {
            let outcome = match self.accept_one(engine, listener) {
                Ok(None) => return Ok(()),
                Ok(Some((socket, peer))) => Ok(Reply::Accepted { socket, peer }.encode()),
                Err(Refusal::Errno(errno)) => Err(errno),
                Err(Refusal::Fault(fault)) => return Err(fault),
            };
            listener.waiting.accept.pop_front();
            self.finish(engine, Some(path), outcome)?;
        }
        Ok(())
    }

    /// Ends a socket as close(2) does. The server still sends queued data; unread data resets the
    /// connection.
    fn close_socket(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
    ) -> Result<(), ClientFault> {
        if let Some(number) = socket.shared
            && !self.close_shared(engine, socket, number)
        {
            return Ok(());
        }
        self.take_consumed(engine, socket)?;
        self.take_sends(engine, socket, None)?;
        socket.closed = true;
        let waiting = std::mem::take(&mut socket.waiting);
        // The handle is valid and open, so this cannot fail.
        let _ = engine.stack.close(engine.now, socket.handle);
        if socket.is_dead() {
            socket.tx.abandon();
        }
        self.give_back(socket);
        self.ring_posted();
        self.closing.push(socket.id.index);
        let paths = waiting.connect.into_iter().chain(waiting.accept).chain(waiting.recv);
        for path in paths {
            self.finish(engine, Some(path), Err(Errno::BADF))?;
        }
        self.settle(engine, socket);
        Ok(())
    }

    /// The client is gone: ends its sockets. Sockets that it had closed before go on in the
    /// background.
    pub(crate) fn leave(&mut self, engine: &mut Engine, orderly: bool) {
        for index in self.sockets.in_use() {
            self.with_socket(index, |client, socket| {
                if socket.closed {
                    if socket.moved {
                        client.let_go(engine, socket);
                    }
                    return;
                }
                if let Some(number) = socket.shared
                    && !client.close_shared(engine, socket, number)
                {
                    return;
                }
                socket.shared = None;
                if !orderly || client.close_socket(engine, socket).is_err() {
                    // A failed close may have closed it in the core already; that is enough.
                    let _ = engine.stack.abort(engine.now, socket.handle);
                }
            });
        }
    }

    fn send(&mut self, engine: &mut Engine, id: SocketId, data: DataDescriptor) -> CallAnswer {
        if data.flags.has(DataFlags::ANCILLARY) {
            return Err(ClientFault::MissingAncillary { socket: id.index }.into());
        }
        self.on_socket(id, |client, socket| client.send_on(engine, socket, data))
    }

    fn send_on(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
        data: DataDescriptor,
    ) -> CallAnswer {
        // Data queued before goes first.
        self.take_sends(engine, socket, Some(QUEUE))?;
        if !socket.is_stream() {
            return Err(Errno::OPNOTSUPP.into());
        }
        if socket.write_shut || socket.is_dead() {
            return Err(Errno::PIPE.into());
        }
        if !matches!(socket.state, SocketState::Connected | SocketState::Connecting) {
            return Err(Errno::NOTCONN.into());
        }
        if socket.tx.is_full() {
            return Err(Errno::AGAIN.into());
        }
        let chunk = socket.tx.check(socket.id.index, &data, &self.tx_pool, &self.memory)?;
        let ancillary = SendAncillary::default();
        submit(engine, socket, QueuedSend { descriptor: data, ancillary, chunk });
        self.settle(engine, socket);
        DONE
    }

    fn flush_sends(&mut self, engine: &mut Engine, socket: &mut Socket) -> CallAnswer {
        self.take_sends(engine, socket, Some(QUEUE))?;
        socket.take_refusal().map_or(DONE, |errno| Err(errno.into()))
    }

    fn recv(
        &mut self,
        engine: &mut Engine,
        call: &PackagedCall,
        socket: &mut Socket,
    ) -> CallAnswer {
        self.take_consumed(engine, socket)?;
        if socket.rx.unread() > 0 {
            return gives(Reply::Readable(socket.rx.unread()));
        }
        // As Linux: an error after the peer's FIN does not hide the end, and stays pending.
        if !socket.eof
            && let Some(errno) = socket.take_error()
        {
            return Err(errno.into());
        }
        if socket.eof || socket.read_shut || socket.is_dead() {
            return gives(Reply::Readable(0));
        }
        if socket.is_stream()
            && !matches!(socket.state, SocketState::Connected | SocketState::Connecting)
        {
            return Err(Errno::NOTCONN.into());
        }
        if call.flags.has(CallFlags::NONBLOCK) {
            return Err(Errno::AGAIN.into());
        }
        self.may_wait()?;
        socket.waiting.recv.push_back(call.path);
        Ok(CallOutcome::Waits)
    }
}

/// Is it the usual result of a no-reply call: success; for a connect, that the attempt goes on?
fn is_usual(op: Op, outcome: Result<&ReplyWords, Errno>) -> bool {
    match op {
        Op::Connect => outcome == Err(Errno::INPROGRESS),
        _ => outcome.is_ok(),
    }
}

fn bind(engine: &mut Engine, socket: &Socket, addr: SocketAddr) -> CallAnswer {
    check_family(socket.family, addr)?;
    engine.stack.bind(socket.handle, addr)?;
    DONE
}

/// Refuses an address of a family that the socket cannot have.
fn check_family(family: Family, addr: SocketAddr) -> Result<(), Errno> {
    match (family, addr) {
        (Family::V4, SocketAddr::V6(_)) => Err(Errno::AFNOSUPPORT),
        _ => Ok(()),
    }
}

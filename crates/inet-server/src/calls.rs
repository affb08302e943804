//! The request manager: takes packaged calls from a client's request rings and carries them out.
//!
//! One scan takes a bounded number of calls from all threads of a client, orders them by priority
//! (calls of one priority stay in the order of their ring), and gives each to the one function that
//! does it. A call that would wait leaves its return path with its socket and is finished by an
//! event; it holds up nobody. Results go to the ring that the return path names, in whatever order
//! calls finish.
//!
//! A call with arguments that a program may get wrong (a socket closed by another thread, an
//! address that is taken) fails with an error number. Arguments that the library never writes are a
//! fault.

use std::cmp::Reverse;
use std::net::SocketAddr;

use abi::ancillary::SendAncillary;
use abi::call::{Call, Op, addr_from_words, addr_to_words};
use abi::data::DataDescriptor;
use abi::option::{OptionKey, SET_MOST, bytes_to_words, words_to_bytes};
use abi::{BadSlot, Errno, Family, How, SocketId, SocketKind};
use inet::Handle;

use crate::client::{Client, MAX_WAITING};
use crate::data::submit;
use crate::engine::{Engine, Owner, errno};
use crate::fault::ClientFault;
use crate::options::{self, Given};
use crate::socket::{Socket, Stage, Waiting};
use crate::tx::Taken;

/// Calls taken from one client in one scan.
const CALLS_PER_SCAN: usize = 256;

/// What a call comes to at once.
pub(crate) enum Outcome {
    /// It is done, and gives nothing.
    Done,
    /// It is done, with these values.
    Gives([u64; 6]),
    /// It waits; its return path is kept.
    Later,
}

/// Why a call is not done.
pub(crate) enum Refusal {
    /// The program is told.
    Errno(Errno),
    /// The client is dropped.
    Fault(ClientFault),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<inet::Error> for Refusal {
    fn from(error: inet::Error) -> Self {
        Self::Errno(errno(error))
    }
}

impl From<ClientFault> for Refusal {
    fn from(fault: ClientFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<BadSlot> for Refusal {
    fn from(slot: BadSlot) -> Self {
        Self::Fault(slot.into())
    }
}

pub(crate) type Answer = Result<Outcome, Refusal>;

pub(crate) const DONE: Answer = Ok(Outcome::Done);

fn value(value: u64) -> Answer {
    Ok(Outcome::Gives([value, 0, 0, 0, 0, 0]))
}

fn address(addr: SocketAddr) -> Answer {
    let [a, b, c] = addr_to_words(addr);
    Ok(Outcome::Gives([a, b, c, 0, 0, 0]))
}

impl Client {
    /// One scan of the request rings; `scan` is room to sort in. Was there a call?
    pub(crate) fn serve_calls(
        &mut self,
        engine: &mut Engine,
        scan: &mut Vec<Call>,
    ) -> Result<bool, ClientFault> {
        scan.clear();
        if self.take_calls(scan)? {
            scan.sort_by_key(|call| Reverse(call.priority));
        }
        engine.batches.calls.add(scan.len());
        engine.counters.calls += scan.len() as u64;
        for call in scan.iter() {
            let answer = self.execute(engine, call);
            let outcome = match &answer {
                Ok(Outcome::Done) => Ok(&[0; 6]),
                Ok(Outcome::Gives(values)) => Ok(values),
                Ok(Outcome::Later) => {
                    self.waiting += 1;
                    continue;
                }
                Err(Refusal::Errno(errno)) => Err(*errno),
                Err(Refusal::Fault(fault)) => return Err(fault.clone()),
            };
            let quiet = call.flags & Call::QUIET != 0 && is_usual(call.op, outcome);
            self.post(engine, call.path, outcome, !quiet)?;
        }
        Ok(!scan.is_empty())
    }

    /// Takes calls from the rings, one thread after the other, starting with another one each time.
    /// Is one of them more urgent than others?
    fn take_calls(&mut self, scan: &mut Vec<Call>) -> Result<bool, ClientFault> {
        let (threads, first) = (self.threads.len(), self.next_thread);
        // Calls whose results go elsewhere than to the thread that made them.
        let mut elsewhere = false;
        let mut priorities = 0;
        // No remainders: this is done in every turn, mostly for nothing.
        for at in (first..threads).chain(0..first) {
            let Some(Some(thread)) = self.threads.get_mut(at) else { continue };
            while scan.len() < CALLS_PER_SCAN {
                let slot = thread.requests.take().map_err(ClientFault::ring("request"))?;
                let Some(slot) = slot else { break };
                let call = Call::decode(&slot)?;
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
        for &Call { path, .. } in scan.iter().filter(|_| elsewhere) {
            let attached = self.threads.get(usize::from(path.ring)).is_some_and(Option::is_some);
            if path.client != self.number || !attached {
                return Err(ClientFault::ReturnPath { client: path.client, ring: path.ring });
            }
        }
        Ok(priorities != 0)
    }

    fn execute(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        match call.op {
            Op::Null => DONE,
            Op::Flush => self.flush_sends(engine, call),
            Op::Cancel => self.cancel(engine, call),
            Op::Socket => self.socket(engine, call),
            Op::Bind => self.bind(engine, call),
            Op::Listen => self.listen(engine, call),
            Op::Connect => self.connect(engine, call),
            Op::Accept => self.accept(engine, call),
            Op::Close => self.close(engine, call),
            Op::Send => self.send(engine, call),
            Op::Recv => self.recv(engine, call),
            Op::Shutdown => self.shutdown(engine, call),
            Op::GetSockOpt => self.getsockopt(engine, call),
            Op::SetSockOpt => self.setsockopt(engine, call),
            Op::GetSockName => address(engine.stack.local_addr(self.called(call)?.handle)?),
            Op::GetPeerName => address(engine.stack.peer_addr(self.called(call)?.handle)?),
            // These are a driver's.
            Op::IfAttach | Op::EthInput => Err(Errno::PERM.into()),
        }
    }

    /// The socket that a call is about.
    pub(crate) fn called(&mut self, call: &Call) -> Result<&mut Socket, Errno> {
        self.places.named(SocketId::from_word(call.args[0])).ok_or(Errno::BADF)
    }

    /// Refuses one more waiting call than a client may have.
    fn may_wait(&self) -> Result<(), Errno> {
        if self.waiting < MAX_WAITING { Ok(()) } else { Err(Errno::NOBUFS) }
    }

    fn socket(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let kind = SocketKind::from_word(call.args[0]).ok_or(Errno::PROTONOSUPPORT)?;
        let family = Family::from_word(call.args[1]).ok_or(Errno::AFNOSUPPORT)?;
        let index = self.places.next_free().ok_or(Errno::MFILE)?;
        let serial = engine.next_serial();
        let owner = Owner { client: self.number, index, serial };
        let core_kind = match kind {
            SocketKind::Stream => inet::SocketKind::Stream,
            SocketKind::Datagram => inet::SocketKind::Datagram,
        };
        let core_family = match family {
            Family::V4 => inet::Family::V4,
            Family::V6 => inet::Family::V6,
        };
        let handle = engine.stack.open_in(core_family, core_kind, owner.to_tag())?;
        self.settle_in(engine, (family, kind), handle, serial).and_then(|id| value(id.to_word()))
    }

    /// Gives a new socket of the core its place; it is aborted if that fails.
    fn settle_in(
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

    fn bind(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let socket = self.called(call)?;
        engine.stack.bind(socket.handle, named_address(call, socket.family)?)?;
        DONE
    }

    fn listen(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let socket = self.called(call)?;
        // As listen(2): a backlog that is negative or too large means the most there can be.
        let backlog = u16::try_from(call.args[1]).unwrap_or(u16::MAX);
        engine.stack.listen(socket.handle, backlog)?;
        socket.stage = Stage::Listening;
        let index = socket.id.index;
        self.places.touch(index);
        DONE
    }

    fn connect(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let nonblock = call.flags & Call::NONBLOCK != 0;
        if !nonblock {
            self.may_wait()?;
        }
        let fast = call.flags & Call::FAST != 0;
        let socket = self.called(call)?;
        if fast && socket.opens_fast {
            return self.go_on_fast(engine, call);
        }
        let addr = named_address(call, socket.family)?;
        if socket.stage == Stage::Connecting {
            // A second call waits for the first one's outcome, as after a signal.
            if nonblock || socket.waiting.connect.is_some() {
                return Err(Errno::ALREADY.into());
            }
            socket.waiting.connect = Some(call.path);
            return Ok(Outcome::Later);
        }
        let (index, handle, stream) = (socket.id.index, socket.handle, socket.is_stream());
        let begun = match fast {
            true => engine.stack.connect_deferred(engine.now, handle, addr).map(drop),
            false => engine.stack.connect(engine.now, handle, addr),
        };
        match begun {
            Ok(()) | Err(inet::Error::InProgress) => {}
            Err(error) => return Err(error.into()),
        }
        let room = engine.stack.deferred_room(handle);
        let socket = self.called(call)?;
        if stream {
            // After a failed attempt this is a new connection.
            socket.tx.restart();
            socket.eof = false;
            socket.left.clear();
            socket.opens_fast = room.is_some();
        }
        if let Some(room) = room {
            // As Linux: it looks connected until it is written to.
            socket.stage = Stage::Connected;
            self.places.touch(index);
            return value(room as u64);
        }
        socket.stage = match stream {
            true => Stage::Connecting,
            false if addr == abi::data::ANY => Stage::Idle,
            false => Stage::Connected,
        };
        if stream && !nonblock {
            socket.waiting.connect = Some(call.path);
        }
        self.places.touch(index);
        match (stream, nonblock) {
            (false, _) => DONE,
            (true, true) => Err(Errno::INPROGRESS.into()),
            (true, false) => Ok(Outcome::Later),
        }
    }

    /// What is queued is all that a SYN that waits for data gets: from now on it is an attempt as
    /// any other.
    fn go_on_fast(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let index = self.called(call)?.id.index;
        self.take_sends(engine, index, true)?;
        let socket = self.called(call)?;
        engine.stack.stop_deferring(socket.handle);
        socket.opens_fast = false;
        socket.stage = Stage::Connecting;
        self.places.touch(index);
        Err(Errno::INPROGRESS.into())
    }

    fn accept(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let id = SocketId::from_word(call.args[0]);
        let listener = self.called(call)?;
        if listener.stage != Stage::Listening {
            return Err(Errno::INVAL.into());
        }
        // Those that wait already come first.
        if listener.waiting.accept.is_empty()
            && let Some((child, peer)) = self.accept_one(engine, id.index)?
        {
            return Ok(Outcome::Gives(accepted(child, peer)));
        }
        if call.flags & Call::NONBLOCK != 0 {
            return Err(Errno::AGAIN.into());
        }
        self.may_wait()?;
        self.called(call)?.waiting.accept.push_back(call.path);
        Ok(Outcome::Later)
    }

    /// Takes one connection off a listener's queue, if there is one.
    fn accept_one(
        &mut self,
        engine: &mut Engine,
        listener: u16,
    ) -> Result<Option<(SocketId, SocketAddr)>, Refusal> {
        let index = self.places.next_free().ok_or(Errno::MFILE)?;
        let Some(socket) = self.places.at(listener) else { return Ok(None) };
        let (handle, limit, asked) = (socket.handle, socket.tx.limit, socket.asked_recv);
        let (inline, limited) = (socket.urgent_inline, socket.tx.limited);
        let speaks = (socket.family, SocketKind::Stream);
        let serial = engine.next_serial();
        let owner = Owner { client: self.number, index, serial };
        let accepted = engine.stack.accept(handle, owner.to_tag())?;
        // If there are more, an event will say so in this very turn.
        socket.accept_ready = 0;
        self.places.touch(listener);
        let Some((handle, peer)) = accepted else { return Ok(None) };
        let id = self.settle_in(engine, speaks, handle, serial)?;
        if let Some(child) = self.places.at(id.index) {
            child.stage = Stage::Connected;
            child.tx.limit = limit;
            child.tx.limited = limited;
            child.asked_recv = asked;
            child.urgent_inline = inline;
            child.urgent = engine.stack.urgent_mark(child.handle).map_or(0, |at| at + 1);
        }
        self.size_recv_buffer(engine, id.index);
        self.places.touch(id.index);
        // What it received while it waited in the queue.
        self.receive(engine, id.index);
        Ok(Some((id, peer)))
    }

    /// A listener has connections: completes the calls that wait for them.
    pub(crate) fn on_acceptable(
        &mut self,
        engine: &mut Engine,
        listener: u16,
    ) -> Result<(), ClientFault> {
        if let Some(socket) = self.places.at(listener) {
            // The core says that there are some, not how many.
            socket.accept_ready = 1;
            socket.news = true;
        }
        self.places.touch(listener);
        loop {
            let Some(socket) = self.places.at(listener) else { return Ok(()) };
            let Some(&path) = socket.waiting.accept.front() else { return Ok(()) };
            let outcome = match self.accept_one(engine, listener) {
                Ok(None) => return Ok(()),
                Ok(Some((child, peer))) => Ok(accepted(child, peer)),
                Err(Refusal::Errno(errno)) => Err(errno),
                Err(Refusal::Fault(fault)) => return Err(fault),
            };
            if let Some(socket) = self.places.at(listener) {
                socket.waiting.accept.pop_front();
            }
            self.finish(engine, Some(path), outcome)?;
        }
    }

    fn close(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let index = self.called(call)?.id.index;
        self.close_socket(engine, index)?;
        DONE
    }

    /// Ends a socket as close(2) does: what is queued is still sent; unread data resets the
    /// connection.
    fn close_socket(&mut self, engine: &mut Engine, index: u16) -> Result<(), ClientFault> {
        self.take_consumed(engine, index)?;
        self.take_sends(engine, index, false)?;
        let Some(socket) = self.places.at(index) else { return Ok(()) };
        socket.closed = true;
        let waiting = std::mem::take(&mut socket.waiting);
        // The handle is ours and open, so this cannot fail.
        let _ = engine.stack.close(engine.now, socket.handle);
        if socket.is_dead() {
            socket.tx.abandon();
        }
        self.give_back(index);
        self.ring_posted();
        self.closing.push(index);
        let paths = waiting.connect.into_iter().chain(waiting.accept).chain(waiting.recv);
        for path in paths {
            self.finish(engine, Some(path), Err(Errno::BADF))?;
        }
        self.settle(engine, index);
        Ok(())
    }

    /// The client is gone: ends its sockets. Those that it had closed before go on in the
    /// background.
    pub(crate) fn leave(&mut self, engine: &mut Engine, orderly: bool) {
        for index in self.places.in_use() {
            let Some(socket) = self.places.at(index).filter(|socket| !socket.closed) else {
                continue;
            };
            let handle = socket.handle;
            if !orderly || self.close_socket(engine, index).is_err() {
                // It may be closed already; then that was in order.
                let _ = engine.stack.abort(engine.now, handle);
            }
        }
    }

    fn send(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let [id, a, b, c, ..] = call.args;
        let descriptor = DataDescriptor::decode(&[a, b, c, 0, 0, 0, 0, 0])?;
        if descriptor.flags & DataDescriptor::ANCILLARY != 0 {
            let socket = SocketId::from_word(id).index;
            return Err(ClientFault::Alone { socket }.into());
        }
        let index = self.called(call)?.id.index;
        // What was queued before goes first.
        self.take_sends(engine, index, true)?;
        let Some(socket) = self.places.named(SocketId::from_word(id)) else {
            return Err(Errno::BADF.into());
        };
        if !socket.is_stream() {
            return Err(Errno::OPNOTSUPP.into());
        }
        if socket.write_shut || socket.is_dead() {
            return Err(Errno::PIPE.into());
        }
        if !matches!(socket.stage, Stage::Connected | Stage::Connecting) {
            return Err(Errno::NOTCONN.into());
        }
        if socket.tx.is_full() {
            return Err(Errno::AGAIN.into());
        }
        let chunk = socket.tx.check(index, &descriptor, &self.tx_pool, &self.memory)?;
        submit(engine, socket, Taken { descriptor, ancillary: SendAncillary::default(), chunk });
        self.settle(engine, index);
        DONE
    }

    fn flush_sends(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let index = self.called(call)?.id.index;
        self.take_sends(engine, index, true)?;
        self.called(call)?.take_refusal().map_or(DONE, |errno| Err(errno.into()))
    }

    fn recv(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let index = self.called(call)?.id.index;
        self.take_consumed(engine, index)?;
        let may_wait = self.may_wait();
        let socket = self.called(call)?;
        if socket.rx.unread() > 0 {
            return value(socket.rx.unread());
        }
        if let Some(errno) = socket.take_error() {
            return Err(errno.into());
        }
        if socket.eof || socket.read_shut || socket.is_dead() {
            return value(0);
        }
        if socket.is_stream() && !matches!(socket.stage, Stage::Connected | Stage::Connecting) {
            return Err(Errno::NOTCONN.into());
        }
        if call.flags & Call::NONBLOCK != 0 {
            return Err(Errno::AGAIN.into());
        }
        may_wait?;
        socket.waiting.recv.push_back(call.path);
        Ok(Outcome::Later)
    }

    fn shutdown(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let how = How::from_word(call.args[1]).ok_or(Errno::INVAL)?;
        let index = self.called(call)?.id.index;
        // What was queued before is still sent.
        self.take_sends(engine, index, false)?;
        let socket = self.called(call)?;
        let (core_how, read, write) = match how {
            How::Read => (inet::How::Read, true, false),
            How::Write => (inet::How::Write, false, true),
            How::Both => (inet::How::Both, true, true),
        };
        engine.stack.shutdown(engine.now, socket.handle, core_how)?;
        socket.read_shut |= read;
        socket.write_shut |= write;
        let mut waiting = Waiting::default();
        if read {
            // Who waits to receive gets the end; a listener that is shut down listens no more.
            std::mem::swap(&mut waiting, &mut socket.waiting);
            std::mem::swap(&mut waiting.connect, &mut socket.waiting.connect);
            if socket.stage == Stage::Listening {
                socket.stage = Stage::Idle;
                socket.accept_ready = 0;
            }
        }
        self.places.touch(index);
        for path in waiting.recv {
            self.finish(engine, Some(path), Ok([0; 6]))?;
        }
        for path in waiting.accept {
            self.finish(engine, Some(path), Err(Errno::INVAL))?;
        }
        DONE
    }

    fn getsockopt(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let key = OptionKey::from_word(call.args[1]);
        let socket = self.called(call)?;
        let value = options::get(engine, socket, key)?;
        let from = usize::try_from(call.args[2]).unwrap_or(usize::MAX);
        let part = value.bytes().get(from..).unwrap_or_default();
        let [a, b, c, d, e] = bytes_to_words(part);
        Ok(Outcome::Gives([value.bytes().len() as u64, a, b, c, d, e]))
    }

    fn setsockopt(&mut self, engine: &mut Engine, call: &Call) -> Answer {
        let [_, key, len, words @ ..] = call.args;
        let key = OptionKey::from_word(key);
        let mut bytes = [0; SET_MOST];
        bytes.iter_mut().zip(words_to_bytes(&words)).for_each(|(to, from)| *to = from);
        let shown = usize::try_from(len).unwrap_or(SET_MOST).min(SET_MOST);
        let given = Given { bytes: &bytes[..shown], len };
        let index = self.called(call)?.id.index;
        // An option concerns what is sent from now on.
        self.take_sends(engine, index, true)?;
        let socket = self.called(call)?;
        if let Some(bytes) = options::recv_buffer(key, given)? {
            socket.asked_recv = Some(bytes);
            self.size_recv_buffer(engine, index);
        } else {
            options::set(engine, socket, key, given)?;
        }
        self.places.touch(index);
        self.mark_dirty(index);
        DONE
    }
}

/// Is it what a call nearly always comes to: done; of a connect, that the attempt goes on?
fn is_usual(op: Op, outcome: Result<&[u64; 6], Errno>) -> bool {
    match op {
        Op::Connect => outcome == Err(Errno::INPROGRESS),
        _ => outcome.is_ok(),
    }
}

fn accepted(child: SocketId, peer: SocketAddr) -> [u64; 6] {
    let [a, b, c] = addr_to_words(peer);
    [child.to_word(), a, b, c, 0, 0]
}

/// The address that a call names, of a family that the socket can have.
fn named_address(call: &Call, family: Family) -> Result<SocketAddr, Refusal> {
    let addr = addr_from_words([call.args[1], call.args[2], call.args[3]])?;
    match (family, addr) {
        (Family::V4, SocketAddr::V6(_)) => Err(Errno::AFNOSUPPORT.into()),
        _ => Ok(addr),
    }
}

//! The way of a shared socket from one home to the next ([`crate::shared`]).
//!
//! Of the old home only the place stays, for the release of bytes that were sent there: the core's
//! chunks name them in the old region. Bytes that no program has read are copied, once.

use abi::client::QUEUE;
use abi::data::{DataDescriptor, DataFlags};
use abi::{Errno, SocketId};
use inet::RxPiece;
use shm::Consumer;

use abi::ancillary::RecvAncillary;

use crate::client::Client;
use crate::engine::{Engine, SocketOwner};
use crate::fault::ClientFault;
use crate::nic::frame::FramePiece;
use crate::shared::{HomeClose, ParkedDatagram, ParkedSocket, SharedSockets, SocketHome};
use crate::socket::{Socket, SocketState};

impl Client {
    /// Takes a shared socket out of this home. Its place counts as closed from now on.
    ///
    /// A client that lies about its queues harms only the holders of this socket. What it says is
    /// ignored then.
    pub(crate) fn park(&mut self, engine: &mut Engine, socket: &mut Socket) -> Box<ParkedSocket> {
        socket.begin_move();
        let _ = self.take_consumed(engine, socket);
        let _ = self.take_sends(engine, socket, None);
        if std::mem::take(&mut socket.fast_open) {
            engine.stack.stop_deferring(socket.handle);
            socket.state = SocketState::Connecting;
        }
        let mut parked = Box::new(ParkedSocket::of(socket, self.number));
        if socket.is_stream() {
            parked.pieces = std::mem::take(&mut socket.pending_pieces);
            let unread = socket.rx.unread_stream();
            if !unread.is_empty() {
                parked.pieces.push_front(piece(unread));
            }
            socket.end_move(socket.rx.consumed());
        } else {
            let (received, datagrams) = self.unread_datagrams(socket);
            parked.datagrams = datagrams;
            socket.end_move(received);
        }
        self.leave_home(engine, socket);
        parked
    }

    /// The socket's place counts as closed from now on. In the core the socket goes on.
    fn leave_home(&mut self, engine: &mut Engine, socket: &mut Socket) {
        socket.closed = true;
        socket.moved = true;
        if socket.is_dead() {
            socket.tx.abandon();
        }
        self.give_back(socket);
        let waiting = std::mem::take(&mut socket.waiting);
        self.closing.push(socket.id.index);
        let paths = waiting.connect.into_iter().chain(waiting.accept).chain(waiting.recv);
        for path in paths {
            // A client that takes no results is found out in its next iteration.
            let _ = self.finish(engine, Some(path), Err(Errno::STALE));
        }
        self.settle(engine, socket);
    }

    /// The datagrams that a program has not received: those in its queue from a position on, then
    /// those that wait for room there.
    fn unread_datagrams(&self, socket: &mut Socket) -> (u64, Vec<ParkedDatagram>) {
        let (mut received, mut all) = (0, Vec::new());
        let put = |descriptor: DataDescriptor, ancillary, all: &mut Vec<ParkedDatagram>| {
            let mut bytes = vec![0; descriptor.len as usize];
            let at = match descriptor.len {
                0 => Some(0),
                len => self.rx_pool.borrow(descriptor.area, descriptor.offset, len).ok(),
            };
            let read = at.map(|at| self.rx_pool.map().region().read(at, &mut bytes));
            if let Some(Ok(())) = read {
                all.push(ParkedDatagram { bytes, peer: descriptor.peer, ancillary });
            }
        };
        if let Ok(mut queue) = self.rx_queue(socket.id.index) {
            received = queue.position().into();
            for _ in 0..QUEUE {
                let Ok(Some(slot)) = queue.pop() else { break };
                let Ok(descriptor) = DataDescriptor::decode(&slot) else { break };
                let ancillary = match descriptor.flags.has(DataFlags::ANCILLARY) {
                    true => queue.pop().ok().flatten(),
                    false => None,
                };
                let ancillary = ancillary.and_then(|slot| RecvAncillary::decode(&slot).ok());
                put(descriptor, ancillary, &mut all);
            }
        }
        for (descriptor, ancillary) in socket.rx.take_unpublished() {
            put(descriptor, ancillary, &mut all);
        }
        (received, all)
    }

    fn rx_queue(&self, index: u16) -> Result<Consumer, shm::OutOfRange> {
        Consumer::attach(&self.memory.region, self.layout().rx_queue(index), QUEUE)
    }

    /// Makes this client the home of a parked socket. A listener may have other homes.
    ///
    /// # Errors
    /// `Ok(None)` when the client has no place for it: the socket is still parked.
    pub(crate) fn take_home(
        &mut self,
        engine: &mut Engine,
        number: u32,
        parked: &mut ParkedSocket,
    ) -> Result<Option<SocketId>, ClientFault> {
        let serial = engine.next_serial();
        let what = (parked.family, parked.kind);
        let Some(id) = self.occupy(engine, what, parked.handle, serial)? else { return Ok(None) };
        let owner = SocketOwner { client: self.number, index: id.index, serial };
        let listens = parked.state == SocketState::Listening;
        let tag = if listens { SharedSockets::tag(number) } else { owner.to_tag() };
        engine.stack.set_tag(parked.handle, tag);
        self.with_socket(id.index, |client, socket| {
            socket.shared = Some(number);
            let (failure, capacity) = (parked.failure.take(), parked.capacity);
            parked.restore(socket);
            socket.errors_queued = engine.stack.queued_error(socket.handle).is_some();
            client.size_recv_buffer(engine, socket);
            client.keep_recv_buffer(socket, capacity);
            for ParkedDatagram { bytes, peer, ancillary } in parked.datagrams.drain(..) {
                let len = bytes.len();
                if socket.rx.begin_datagram(&client.rx_pool, len) {
                    socket.rx.add_to_datagram(&piece(bytes));
                    socket.rx.end_datagram(len, peer, ancillary);
                }
            }
            client.sockets.touch(socket);
            if !listens {
                client.receive(engine, socket);
            }
            failure.map(|error| {
                let owner = SocketOwner { client: client.number, index: id.index, serial };
                (owner, error)
            })
        })
        .flatten()
        .map_or(Ok(()), |(owner, error)| {
            self.on_event(engine, owner, inet::EventKind::Failed(error))
        })?;
        Ok(Some(id))
    }

    /// Closes a shared socket at this home. True: no process holds it, so it is to be closed in the
    /// core, too.
    pub(crate) fn close_shared(
        &mut self,
        engine: &mut Engine,
        socket: &mut Socket,
        number: u32,
    ) -> bool {
        let home = SocketHome { client: self.number, id: socket.id };
        match engine.shared.close_home(number, home) {
            HomeClose::Close => return true,
            HomeClose::Leave => self.leave_home(engine, socket),
            HomeClose::Park => {
                engine.stack.set_tag(socket.handle, SharedSockets::tag(number));
                let parked = self.park(engine, socket);
                if let Some(shared) = engine.shared.get_mut(number) {
                    shared.parked = Some(parked);
                }
            }
        }
        self.let_go(engine, socket);
        false
    }

    /// The program closes a socket that has moved.
    pub(crate) fn let_go(&mut self, engine: &mut Engine, socket: &mut Socket) {
        if !std::mem::replace(&mut socket.let_go, true) {
            if let Some(number) = socket.shared {
                let home = SocketHome { client: self.number, id: socket.id };
                engine.shared.close_former(number, home);
            }
            // It may have left the list when its bytes were released.
            self.closing.push(socket.id.index);
            self.settle(engine, socket);
        }
    }
}

/// Bytes of a stream, or of a datagram, as a piece that was received.
fn piece(bytes: Vec<u8>) -> FramePiece {
    let range = 0..bytes.len();
    RxPiece { frame: inet::Frame::Joined(bytes.into()), range }
}

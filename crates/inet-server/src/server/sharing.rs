//! Shared sockets: the supervisor's requests, calls that concern two clients, and ends.

use std::os::fd::OwnedFd;

use abi::call::Reply;
use abi::control::ServerEvent;
use abi::{Errno, SocketId};
use inet::{EventKind, Instant};

use super::Server;
use super::admission::RequestError;
use crate::client::Client;
use crate::engine::{Engine, SocketOwner};
use crate::shared::{Adoption, ParkedSocket, SharedSockets, SocketHome};
use crate::socket::{Socket, SocketState};

impl Server {
    /// Makes sockets of a client shared. fds: the server's end for each. A socket that is gone, or
    /// that has too many pairs already, is left out: its end hangs up then.
    pub(crate) fn share_sockets(
        &mut self,
        number: u16,
        sockets: &[(SocketId, u64)],
        fds: Vec<OwnedFd>,
    ) -> Result<(), RequestError> {
        let (want, got) = (sockets.len(), fds.len());
        if want != got {
            return Err(RequestError::Descriptors { what: "sharing", want, got });
        }
        let Self { clients, engine, poller, .. } = self;
        let client = clients.get_mut(usize::from(number)).and_then(Option::as_mut);
        let client = client.ok_or(RequestError::NoClient(number))?;
        for (&(id, cookie), end) in sockets.iter().zip(fds) {
            let had_set = engine.shared.set().is_some();
            let socket = client.sockets.at(id.index);
            // One that has moved gets a pair for its program, to take it back.
            let socket = socket.filter(|one| one.id == id && !one.is_left());
            let added = match socket.map(|socket| (socket.shared, socket)) {
                Some((Some(shared), _)) => engine.shared.add_end(shared, cookie, end),
                Some((None, socket)) => {
                    let home = SocketHome { client: number, id };
                    let added = engine.shared.add(cookie, socket.handle, home, end);
                    added.map(|shared| socket.set_shared(shared)).map(|()| true)
                }
                None => Ok(false),
            };
            if !added.map_err(RequestError::Bell)? {
                self.events.push(ServerEvent::SharedSocketEnded { cookie });
            }
            if let Some(set) = engine.shared.set().filter(|_| !had_set) {
                poller.add_shared(set).map_err(RequestError::Bell)?;
            }
        }
        Ok(())
    }

    /// Carries out the calls that take up shared sockets, and reports those that are shared no more
    /// to the supervisor.
    #[cold]
    pub(super) fn serve_shared(&mut self) {
        while let Some(adoption) = self.engine.shared.next_adoption() {
            let outcome = self.adopt(&adoption);
            let Adoption { client: number, path, .. } = adoption;
            let place = self.clients.get_mut(usize::from(number)).and_then(Option::as_mut);
            let Some(client) = place else { continue };
            let outcome = outcome.map(|reply| reply.encode());
            if let Err(fault) = client.finish(&mut self.engine, Some(path), outcome) {
                self.fail(number, &fault);
            }
        }
        if self.engine.shared.has_unheld() {
            self.end_unheld(self.engine.now);
        }
        while let Some(cookie) = self.engine.shared.take_forgotten() {
            self.events.push(ServerEvent::SharedSocketEnded { cookie });
        }
    }

    /// Makes the caller's region the home of a shared socket, or one of its homes.
    fn adopt(&mut self, adoption: &Adoption) -> Result<Reply, Errno> {
        let &Adoption { client: number, number: shared, .. } = adoption;
        let mut parked = self.take_parked(shared).ok_or(Errno::NOENT)?;
        let (kind, family) = (parked.kind, parked.family);
        let Self { clients, engine, .. } = self;
        let client = clients.get_mut(usize::from(number)).and_then(Option::as_mut);
        let taken = client.map(|client| client.take_home(engine, shared, &mut parked));
        let outcome = match taken {
            Some(Ok(Some(id))) => Ok(id),
            Some(Ok(None)) => Err(Errno::MFILE),
            Some(Err(fault)) => {
                self.fail(number, &fault);
                Err(Errno::NETDOWN)
            }
            None => Err(Errno::NETDOWN),
        };
        let Some(state) = self.engine.shared.get_mut(shared) else { return Err(Errno::NOENT) };
        match outcome {
            Ok(socket) => {
                state.homes.push(SocketHome { client: number, id: socket });
                Ok(Reply::Adopted { socket, kind, family })
            }
            Err(errno) => {
                // Listeners with another home are not parked.
                if state.homes.is_empty() {
                    state.parked = Some(parked);
                    let handle = state.handle;
                    self.engine.stack.set_tag(handle, SharedSockets::tag(shared));
                }
                Err(errno)
            }
        }
    }

    /// A shared socket out of its present home. The homes of a listener stay.
    fn take_parked(&mut self, shared: u32) -> Option<Box<ParkedSocket>> {
        let Self { clients, engine, .. } = self;
        let state = engine.shared.get_mut(shared)?;
        if let Some(parked) = state.parked.take() {
            return Some(parked);
        }
        let &home = state.homes.first()?;
        let client = clients.get_mut(usize::from(home.client)).and_then(Option::as_mut)?;
        let step = |client: &mut Client, socket: &mut Socket| {
            if socket.id != home.id {
                return None;
            }
            if socket.state == SocketState::Listening {
                return Some(Box::new(ParkedSocket::of(socket, client.number)));
            }
            Some(client.park(engine, socket))
        };
        let parked = client.with_socket(home.id.index, step).flatten()?;
        if parked.state != SocketState::Listening
            && let Some(state) = self.engine.shared.get_mut(shared)
        {
            state.leave_homes();
        }
        Some(parked)
    }

    /// An event of a socket that is parked, or that has several homes.
    pub(super) fn on_shared_event(&mut self, number: u32, kind: EventKind) {
        let Self { clients, engine, .. } = self;
        let Some(state) = engine.shared.get_mut(number) else { return };
        if let Some(parked) = &mut state.parked {
            return parked.note(kind);
        }
        let homes = state.homes.clone();
        for SocketHome { client: number, id } in homes {
            let client = clients.get_mut(usize::from(number)).and_then(Option::as_mut);
            let Some(client) = client else { continue };
            let Some(socket) = client.sockets.at(id.index).filter(|one| one.id == id) else {
                continue;
            };
            let owner = SocketOwner { client: number, index: id.index, serial: socket.serial };
            if let Err(fault) = client.on_event(engine, owner, kind) {
                self.fail(number, &fault);
                return;
            }
        }
    }

    /// Closes parked sockets that no process holds any more.
    pub(crate) fn end_unheld(&mut self, now: Instant) {
        self.engine.now = now;
        let Engine { stack, shared, now, .. } = &mut self.engine;
        while let Some(parked) = shared.poll_ended() {
            // Bytes that are still to be sent lie in the region of the last home.
            let index = u16::MAX;
            let last = SocketOwner { client: parked.client, index, serial: 0 };
            stack.set_tag(parked.handle, last.to_tag());
            let _ = stack.close(*now, parked.handle);
        }
    }
}

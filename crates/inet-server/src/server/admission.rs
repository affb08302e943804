//! Admission: the supervisor adds and removes interfaces, clients and their threads.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use abi::client::ClientParams;
use abi::network::InterfaceSettings;
use abi::nic::NicLayout;
use shm::{Access, Region};

use crate::client::Client;
use crate::engine::{Engine, SocketOwner};
use crate::nic;
use crate::rx::sharing::FrameQuota;

use super::Server;

/// Why a request of the supervisor fails. The text is one sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("interface {0} is here already")]
    NicExists(u16),
    #[error("interface {0} is not here")]
    NoNic(u16),
    #[error("client {0} is here already, or not wholly gone")]
    ClientExists(u16),
    #[error("client {0} is not here")]
    NoClient(u16),
    #[error("client {client} has no thread slot {thread}")]
    NoThread { client: u16, thread: u16 },
    #[error("{what} needs {want} file descriptors, {got} came")]
    Descriptors { what: &'static str, want: usize, got: usize },
    #[error("{0}")]
    Params(#[from] abi::client::BadParams),
    #[error("a region could not be mapped: {0}")]
    Region(#[from] shm::RegionError),
    #[error("a region is smaller than its layout: {0}")]
    Layout(#[from] shm::OutOfRange),
    #[error("a bell could not be watched: {0}")]
    Bell(#[source] io::Error),
    #[error("the inet server cannot do that")]
    NotOurs,
}

impl Server {
    /// Takes up an interface. fds: frame region, the server's bell, the driver's bell.
    pub(crate) fn add_nic(
        &mut self,
        number: u16,
        interface: InterfaceSettings,
        (strict, offload, umem): (bool, bool, bool),
        fds: Vec<OwnedFd>,
    ) -> Result<(), RequestError> {
        if self.engine.nics.contains(number) {
            return Err(RequestError::NicExists(number));
        }
        let [region, bell, driver] = descriptors("an interface", fds)?;
        let layout = NicLayout::of(offload, umem);
        let region = nic::map(&region, layout.len, strict)?;
        self.poller.add_bell(&bell).map_err(RequestError::Bell)?;
        self.engine.nics.add(number, &region, &layout, bell, driver)?;
        self.interfaces.push(interface);
        self.announced.push(None);
        Ok(())
    }

    /// Announces the stack's addresses and multicast groups on the link of interface `number`.
    pub(crate) fn announce_on(&mut self, number: u16) -> Result<(), RequestError> {
        let Engine { stack, nics, now, .. } = &mut self.engine;
        let port = (0..nics.len()).find(|port| nics.number(*port) == Some(number));
        // An interface that is not attached yet has nothing to announce.
        if let Some(id) = nics.interface(port.ok_or(RequestError::NoNic(number))?) {
            let _ = stack.announce(*now, id);
        }
        Ok(())
    }

    /// Admits a client. fds: region, the server's bell, and one of its process, if there is one.
    pub(crate) fn add_client(
        &mut self,
        number: u16,
        params: ClientParams,
        fds: Vec<OwnedFd>,
    ) -> Result<(), RequestError> {
        let index = usize::from(number);
        let leaving = self.leaving.iter().any(|leaving| leaving.number == number);
        if leaving || self.clients.get(index).is_some_and(Option::is_some) {
            return Err(RequestError::ClientExists(number));
        }
        let mut fds = fds;
        let process = if fds.len() > 2 { fds.pop() } else { None };
        let [region, bell] = descriptors("a client", fds)?;
        let layout = params.layout()?;
        let region = Region::map(region.as_fd(), layout.len, Access::ReadWrite)?;
        self.poller.add_bell(&bell).map_err(RequestError::Bell)?;
        let frame_quota =
            self.engine.frame_quota.as_ref().map_or_else(FrameQuota::new, FrameQuota::another);
        let owner = self.engine.stack.add_owner();
        let client = Client::new((number, owner), params, layout, region, bell, frame_quota);
        let mut client = client.inspect_err(|_| self.engine.stack.remove_owner(owner))?;
        if let Some(process) = &process {
            self.poller.add_process(process, number).map_err(RequestError::Bell)?;
        }
        client.process = process;
        client.trace.want(self.engine.nics.trace.on);
        if self.clients.len() <= index {
            self.clients.resize_with(index + 1, || None);
        }
        self.clients[index] = Some(Box::new(client));
        self.engine.counters.admitted += 1;
        Ok(())
    }

    /// Takes up a thread of a client. fds: the thread's bell.
    pub(crate) fn add_thread(
        &mut self,
        number: u16,
        thread: u16,
        fds: Vec<OwnedFd>,
    ) -> Result<(), RequestError> {
        let client = self.clients.get_mut(usize::from(number)).and_then(Option::as_mut);
        let client = client.ok_or(RequestError::NoClient(number))?;
        let [bell] = descriptors("a thread", fds)?;
        let first = client.end().is_none();
        if client.add_thread(thread, bell)? {
            let end = client.end().filter(|_| first);
            end.map_or(Ok(()), |end| self.poller.add_end(end, number)).map_err(RequestError::Bell)
        } else {
            Err(RequestError::NoThread { client: number, thread })
        }
    }

    /// Removes a client that the supervisor says is gone. If the server had dropped it before, the
    /// supervisor knows that now.
    pub(crate) fn remove_client(&mut self, number: u16) -> Result<(), RequestError> {
        if self.end_client(number, true) {
            return Ok(());
        }
        let leaving = self.leaving.iter_mut().find(|leaving| leaving.number == number);
        leaving.ok_or(RequestError::NoClient(number))?.supervisor_knows = true;
        Ok(())
    }

    /// The program of a client has ended. As on Linux its sockets are closed, however it ended.
    /// False: there is no such client.
    fn end_client(&mut self, number: u16, supervisor_knows: bool) -> bool {
        let client = self.clients.get_mut(usize::from(number)).and_then(Option::as_mut);
        let Some(client) = client else { return false };
        // The server still carries out calls made before the end, such as a close without a waiter.
        // The client may have left an invalid call; it is dropped anyway.
        let _ = client.serve_calls(&mut self.engine, &mut Vec::new());
        self.drop_client(number, true, supervisor_knows);
        true
    }

    /// A call has met an address that is in use. Ends the clients whose programs have ended, and of
    /// which the supervisor has yet to tell: their parents may know it already.
    #[cold]
    pub(super) fn end_ended_clients(&mut self) {
        loop {
            let ended = self.poller.ended();
            if ended.is_empty() {
                break;
            }
            for number in ended {
                self.end_client(number, false);
            }
        }
        self.end_unheld(self.engine.now);
    }

    /// Resets the sockets of a client that is gone, which close in the background and hold its
    /// memory.
    pub(crate) fn abort_client(&mut self, number: u16) -> Result<(), RequestError> {
        if !self.leaving.iter().any(|leaving| leaving.number == number) {
            return Err(RequestError::NoClient(number));
        }
        let Engine { stack, now, .. } = &mut self.engine;
        stack.abort_closed(*now, |tag| SocketOwner::from_tag(tag).client == number);
        Ok(())
    }
}

/// The descriptors of a request, as many as it needs.
fn descriptors<const N: usize>(
    what: &'static str,
    fds: Vec<OwnedFd>,
) -> Result<[OwnedFd; N], RequestError> {
    let got = fds.len();
    fds.try_into().map_err(|_| RequestError::Descriptors { what, want: N, got })
}

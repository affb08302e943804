//! Carries out the supervisor's requests.

use std::os::fd::OwnedFd;

use abi::control::{PoolStatus, ServerReply, ServerRequest};
use inet::Instant;

use super::Server;
use super::admission::RequestError;

impl Server {
    /// Carries out a request.
    pub(crate) fn request(
        &mut self,
        now: Instant,
        request: ServerRequest,
        fds: Vec<OwnedFd>,
    ) -> ServerReply {
        self.engine.now = now;
        let done = match request {
            ServerRequest::AddNic { nic, interface, strict, offload, umem } => {
                self.add_nic(nic, interface, (strict, offload, umem), fds)
            }
            ServerRequest::Announce { nic } => self.announce_on(nic),
            ServerRequest::AddClient { client, params } => self.add_client(client, params, fds),
            ServerRequest::AddThread { client, thread } => self.add_thread(client, thread, fds),
            ServerRequest::ShareSockets { client, sockets } => {
                self.share_sockets(client, &sockets, fds)
            }
            ServerRequest::RemoveClient { client } => self.remove_client(client),
            ServerRequest::AbortClient { client } => self.abort_client(client),
            ServerRequest::Ss { info, from } => {
                let (sockets, more) = self.sockets(info, from);
                return ServerReply::Sockets { sockets, more };
            }
            ServerRequest::Network => {
                return ServerReply::Network(self.network.status(&self.engine));
            }
            ServerRequest::Xfrm { xfrm, vectors } => {
                return match self.xfrm.request(&mut self.engine, now, (xfrm, vectors)) {
                    Ok(Some(status)) => ServerReply::Xfrm(status),
                    Ok(None) => ServerReply::Done,
                    Err(refusal) => ServerReply::Error { message: refusal.to_string() },
                };
            }
            ServerRequest::Counters => return self.counted(),
            ServerRequest::Trace { on, marks } => {
                return ServerReply::Stages(self.trace(on, marks));
            }
            ServerRequest::Shutdown => {
                self.shut_down(now);
                Ok(())
            }
            ServerRequest::ConfigureInet(_)
            | ServerRequest::ConfigureNic(_)
            | ServerRequest::UnmapClient { .. }
            | ServerRequest::Capture { .. }
            | ServerRequest::AttachDevice
            | ServerRequest::DetachDevice => Err(RequestError::NotOurs),
        };
        match done {
            Ok(()) => ServerReply::Done,
            Err(error) => ServerReply::Error { message: error.to_string() },
        }
    }

    fn counted(&mut self) -> ServerReply {
        let clients = self.clients.iter_mut().flatten().map(|client| client.as_party());
        let parties = clients.chain(self.engine.nics.parties()).collect();
        let engine = &self.engine;
        let nics = engine.nics.counters.iter();
        let mut counters = engine.counters.clone();
        let spins = self.spin.spins();
        (counters.spins_won, counters.spins_lost) = (spins.won, spins.lost);
        (counters.wake_cost, counters.spin_bound) = (self.spin.wake_cost(), self.spin.most());
        counters.kept_awake = self.wakefulness.begun();
        self.clients.iter().flatten().for_each(|client| client.add_program_counters(&mut counters));
        let own = counters.iter().zip(nics).map(|((name, a), (_, b))| (name, a + b));
        let all = own.chain(engine.stack.counters());
        let counters = all.map(|(name, value)| (name.to_owned(), value)).collect();
        let frames = engine.nics.pools().map(|(name, pages, free, backing)| PoolStatus {
            name,
            pages,
            free,
            backing: backing.to_owned(),
        });
        let clients = self.clients.iter().flatten().map(|client| {
            let (pages, free) = client.rx_pages();
            PoolStatus {
                name: format!("client {} rx", client.number),
                pages,
                free,
                backing: client.backing(),
            }
        });
        let pools = frames.chain(clients).collect();
        let histograms = engine.batches.histograms();
        ServerReply::Counters { counters, pools, histograms, parties }
    }
}

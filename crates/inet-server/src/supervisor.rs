//! The line to the supervisor: requests in, replies and events out.

use abi::control::{Ask, InetConfig, PoolStatus, Say, ServerEvent, ServerReply, ServerRequest};
use inet::Instant;
use shm::{Channel, Message, TryRecv};

use crate::ServerError;
use crate::server::{RequestError, Server};

/// The supervisor's end of the server.
pub(crate) struct Line {
    channel: Channel,
}

/// What the supervisor had to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Nothing was there.
    Nothing,
    /// Requests were served.
    Something,
    /// The server is to end.
    Shutdown,
}

impl Line {
    pub(crate) fn new(channel: Channel) -> Self {
        Self { channel }
    }

    /// The channel, to wait for.
    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Waits for the first message, which says how the server is set up.
    pub(crate) fn configure(&mut self) -> Result<InetConfig, ServerError> {
        let message = self.channel.recv()?.ok_or(ServerError::SupervisorGone)?;
        let Ask { id, request } = parse(&message)?;
        match request {
            ServerRequest::ConfigureInet(config) => {
                self.reply(id, ServerReply::Done)?;
                Ok(config)
            }
            _ => {
                let message = "the inet server's configuration must come first".to_owned();
                self.reply(id, ServerReply::Error { message: message.clone() })?;
                Err(ServerError::BadMessage(message))
            }
        }
    }

    /// Serves all requests that are there.
    pub(crate) fn serve(&mut self, server: &mut Server, now: Instant) -> Result<Told, ServerError> {
        let mut told = Told::Nothing;
        loop {
            let message = match self.channel.try_recv()? {
                TryRecv::Message(message) => message,
                TryRecv::Empty => return Ok(told),
                TryRecv::Ended => return Err(ServerError::SupervisorGone),
            };
            told = Told::Something;
            let ask = parse(&message)?;
            let end = ask.request == ServerRequest::Shutdown;
            let reply = server.request(now, ask.request, message.fds);
            self.report(server.take_events())?;
            self.reply(ask.id, reply)?;
            if end {
                return Ok(Told::Shutdown);
            }
        }
    }

    /// Tells the supervisor what happened.
    pub(crate) fn report(&mut self, events: Vec<ServerEvent>) -> Result<(), ServerError> {
        events.into_iter().try_for_each(|event| self.say(&Say::Event(event)))
    }

    fn reply(&mut self, id: u64, reply: ServerReply) -> Result<(), ServerError> {
        self.say(&Say::Reply { id, reply })
    }

    fn say(&mut self, say: &Say) -> Result<(), ServerError> {
        let body = serde_json::to_vec(say).map_err(ServerError::Encode)?;
        Ok(self.channel.send(&body, &[])?)
    }
}

fn parse(message: &Message) -> Result<Ask, ServerError> {
    serde_json::from_slice(&message.body)
        .map_err(|error| ServerError::BadMessage(format!("unreadable request: {error}")))
}

impl Server {
    /// Carries out a request.
    pub(crate) fn request(
        &mut self,
        now: Instant,
        request: ServerRequest,
        fds: Vec<std::os::fd::OwnedFd>,
    ) -> ServerReply {
        self.engine.now = now;
        let done = match request {
            ServerRequest::AddNic { nic, interface, strict, offload, umem } => {
                self.add_nic(nic, interface, (strict, offload, umem), fds)
            }
            ServerRequest::Announce { nic } => self.announce_on(nic),
            ServerRequest::AddClient { client, params } => self.add_client(client, params, fds),
            ServerRequest::AddThread { client, thread } => self.add_thread(client, thread, fds),
            ServerRequest::RemoveClient { client, orderly } => self.remove_client(client, orderly),
            ServerRequest::Ss { info } => {
                return ServerReply::Sockets { sockets: self.sockets(info) };
            }
            ServerRequest::Network => {
                return ServerReply::Network(self.network.status(&self.engine));
            }
            ServerRequest::Counters => return self.counted(),
            ServerRequest::Trace { on } => return ServerReply::Stages(self.trace(on)),
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

    fn counted(&self) -> ServerReply {
        let engine = &self.engine;
        let nics = engine.nics.counters.iter();
        let mut counters = engine.counters.clone();
        let spins = self.spin.spins();
        (counters.spins_won, counters.spins_lost) = (spins.won, spins.lost);
        self.clients.iter().flatten().for_each(|client| client.add_told(&mut counters));
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
        ServerReply::Counters { counters, pools, histograms: engine.batches.told() }
    }
}

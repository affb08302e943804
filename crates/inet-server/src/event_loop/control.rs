//! The server's control connection: requests in, replies and events out.

use abi::control::{
    InetConfig, NumberedRequest, ServerEvent, ServerOutput, ServerReply, ServerRequest,
};
use inet::Instant;
use shm::{Channel, ChannelError, Message, TryRecv};

use crate::error::ServerError;
use crate::server::Server;

/// A request came without its descriptors.
const NO_DESCRIPTOR: &str =
    "the inet server has as many open files as it may have; raise the instance's hard limit";

/// The connection to the supervisor.
pub(crate) struct ControlConnection {
    channel: Channel,
}

/// The supervisor's requests, as one look found them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlActivity {
    /// Nothing.
    None,
    /// Requests were served.
    Served,
    /// The supervisor has ended the server.
    Shutdown,
}

impl ControlConnection {
    pub(crate) fn new(channel: Channel) -> Self {
        Self { channel }
    }

    /// The channel, for the epoll set.
    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Waits for the first message, the server's configuration.
    pub(crate) fn configure(&mut self) -> Result<InetConfig, ServerError> {
        let message = self.channel.recv()?.ok_or(ServerError::SupervisorGone)?;
        let NumberedRequest { id, request } = parse(&message)?;
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

    /// Serves all requests that have come.
    pub(crate) fn serve(
        &mut self,
        server: &mut Server,
        now: Instant,
    ) -> Result<ControlActivity, ServerError> {
        let mut activity = ControlActivity::None;
        loop {
            let message = match self.channel.try_recv()? {
                TryRecv::Message(message) => message,
                TryRecv::Empty => return Ok(activity),
                TryRecv::Ended => return Err(ServerError::SupervisorGone),
            };
            activity = ControlActivity::Served;
            let ask = parse(&message)?;
            let end = ask.request == ServerRequest::Shutdown;
            let reply = match message.lost {
                false => server.request(now, ask.request, message.fds),
                true => ServerReply::Error { message: NO_DESCRIPTOR.to_owned() },
            };
            self.report(server.take_events())?;
            self.reply(ask.id, reply)?;
            if end {
                return Ok(ControlActivity::Shutdown);
            }
        }
    }

    /// Reports events to the supervisor.
    pub(crate) fn report(&mut self, events: Vec<ServerEvent>) -> Result<(), ServerError> {
        events.into_iter().try_for_each(|event| self.say(&ServerOutput::Event(event)))
    }

    /// A reply that is too long for a message becomes an error: what it tells of, peers may choose.
    fn reply(&mut self, id: u64, reply: ServerReply) -> Result<(), ServerError> {
        match self.say(&ServerOutput::Reply { id, reply }) {
            Err(ServerError::ControlConnection(error @ ChannelError::TooLarge { .. })) => {
                let reply = ServerReply::Error { message: error.to_string() };
                self.say(&ServerOutput::Reply { id, reply })
            }
            done => done,
        }
    }

    fn say(&mut self, say: &ServerOutput) -> Result<(), ServerError> {
        let body = serde_json::to_vec(say).map_err(ServerError::Encode)?;
        Ok(self.channel.send(&body, &[])?)
    }
}

fn parse(message: &Message) -> Result<NumberedRequest, ServerError> {
    serde_json::from_slice(&message.body)
        .map_err(|error| ServerError::BadMessage(format!("unreadable request: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_is_too_long_becomes_an_error() {
        let (ours, mut supervisor) = Channel::pair().unwrap();
        let mut connection = ControlConnection::new(ours);
        let message = "x".repeat(5 << 20);
        connection.reply(7, ServerReply::Error { message }).unwrap();
        let message = supervisor.recv().unwrap().unwrap();
        match serde_json::from_slice(&message.body).unwrap() {
            ServerOutput::Reply { id: 7, reply: ServerReply::Error { message } } => {
                assert!(message.contains("over the limits"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}

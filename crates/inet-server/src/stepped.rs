//! The server without channel, thread or clock: its owner calls requests and iterations.
//!
//! Fuzz targets and benchmarks drive this server; [`run`](crate::run) is the same server in its own
//! loop.

use std::io;
use std::os::fd::OwnedFd;

use abi::control::{InetConfig, ServerEvent, ServerReply, ServerRequest};
use inet::Instant;

use crate::server::Server;

/// A server that works only when its owner calls it.
pub struct SteppedServer(Server);

impl std::fmt::Debug for SteppedServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SteppedServer").finish_non_exhaustive()
    }
}

impl SteppedServer {
    /// A server without devices and clients. `secret` is what [`inet::Stack::new`] asks for.
    ///
    /// # Errors
    /// The system's, when there can be no epoll set.
    pub fn new(config: InetConfig, secret: [u8; 16]) -> io::Result<Self> {
        Server::new(config, secret).map(Self)
    }

    /// Carries out a supervisor's request.
    pub fn request(
        &mut self,
        now: Instant,
        request: ServerRequest,
        fds: Vec<OwnedFd>,
    ) -> ServerReply {
        self.0.request(now, request, fds)
    }

    /// One bounded iteration; false when there was nothing to do.
    pub fn iterate(&mut self, now: Instant) -> bool {
        self.0.iterate(now)
    }

    /// The events since the last call, which a supervisor would have got.
    pub fn take_events(&mut self) -> Vec<ServerEvent> {
        self.0.take_events()
    }
}

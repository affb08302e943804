//! The server without channel, thread or clock: its owner carries out requests and iterations.
//!
//! This is what fuzz targets and benchmarks drive; [`run`](crate::run) is the same server in its
//! own loop.

use std::io;
use std::os::fd::OwnedFd;

use abi::control::{InetConfig, ServerEvent, ServerReply, ServerRequest};
use inet::Instant;

use crate::server::Server;

/// A server that does nothing by itself.
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

    /// What the supervisor would have been told since the last call.
    pub fn take_events(&mut self) -> Vec<ServerEvent> {
        self.0.take_events()
    }
}

//! A portal of a target, as an initiator reaches it.

use std::io;
use std::net::SocketAddr;

use iscsi::settings::DigestPreference;
use sockets::aio::Reactor;
use tasuki_tokio::TcpStream;

use super::error::InitiatorError;
use crate::transport::{DiskTransport, Opened};

/// A portal as an initiator reaches it.
#[derive(Debug)]
pub struct DiskPortal {
    /// Its address.
    pub address: SocketAddr,
    /// How its streams are protected.
    pub transport: DiskTransport,
    /// Digests of headers and data.
    pub digest: DigestPreference,
}

impl DiskPortal {
    /// Connects, and protects the connection.
    pub(super) async fn open(&self) -> Result<Opened, InitiatorError> {
        let address = self.address;
        let connected = TcpStream::connect(address).await;
        let stream = connected.map_err(|source| InitiatorError::Connect { address, source })?;
        let _ = stream.set_nodelay(true).await;
        let transport = |source| InitiatorError::Transport { address, source };
        let reactor = Reactor::current();
        let reactor = reactor.map_err(|errno| transport(io::Error::from(errno).into()))?;
        self.transport.open(reactor.client(), stream, address).await.map_err(transport)
    }
}

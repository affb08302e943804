//! The transports of both ends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, CommonState, ServerConfig};
use seal::{BadTrust, ClientEndpoint, Identity, ServerEndpoint, SuiteChoice, Trust};
use sockets::Client;
use tasuki_tokio::TcpStream;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::buffer::ReceiveBuffer;
use super::credentials::{Credentials, Judge};
use super::error::TransportError;
use super::halves::{Opened, Reader, Writer};
use super::sealed::{self, SealedEnd};

/// How long a handshake may take. An initiator has longer: its target may be busy.
const ACCEPTING: Duration = Duration::from_secs(10);
const CONNECTING: Duration = Duration::from_secs(30);

/// A transport, with what this end brings to its handshakes: `C` to those of TLS, `E` to those of
/// sealed.
#[derive(Debug)]
pub enum Transport<C, E> {
    /// No protection.
    Plain,
    /// TLS 1.3.
    Tls(TlsEnd<C>),
    /// Sealed.
    Sealed(SealedEnd<E>),
}

/// A portal's transport.
pub type PortalTransport = Transport<ServerConfig, ServerEndpoint>;
/// The transport of an initiator's sessions.
pub type DiskTransport = Transport<ClientConfig, ClientEndpoint>;

/// TLS of an end.
#[derive(Debug)]
pub struct TlsEnd<C> {
    config: Arc<C>,
    trust: Trust,
    judge: Judge,
}

impl<C, E> Transport<C, E> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Tls(_) => "tls",
            Self::Sealed(_) => "sealed",
        }
    }
}

impl PortalTransport {
    /// TLS with these credentials.
    ///
    /// # Errors
    /// An authority's certificate or a revocation list cannot be read.
    pub fn tls(credentials: Credentials) -> Result<Self, BadTrust> {
        TlsEnd::new(credentials, seal::tls_server).map(Self::Tls)
    }

    /// Sealed with these credentials.
    ///
    /// # Errors
    /// An authority's certificate or a revocation list cannot be read.
    pub fn sealed(credentials: Credentials) -> Result<Self, BadTrust> {
        SealedEnd::new(credentials, ServerEndpoint::new).map(Self::Sealed)
    }

    /// Protects an accepted connection.
    ///
    /// # Errors
    /// The peer's or the stream's.
    pub(crate) async fn accept(
        &self,
        client: &Arc<Client>,
        stream: TcpStream,
    ) -> Result<Opened, TransportError> {
        let opened = async {
            match self {
                Self::Plain => Ok(Opened::plain(stream)),
                Self::Tls(end) => {
                    let acceptor = TlsAcceptor::from(Arc::clone(&end.config));
                    let stream = acceptor.accept(stream).await.map_err(tls_error)?;
                    end.finish(TlsStream::Server(stream)).await
                }
                Self::Sealed(end) => sealed::accept(end, client, stream).await,
            }
        };
        in_time(ACCEPTING, opened).await
    }
}

impl DiskTransport {
    /// TLS with these credentials.
    ///
    /// # Errors
    /// An authority's certificate or a revocation list cannot be read.
    pub fn tls(credentials: Credentials) -> Result<Self, BadTrust> {
        TlsEnd::new(credentials, seal::tls_client).map(Self::Tls)
    }

    /// Sealed with these credentials.
    ///
    /// # Errors
    /// An authority's certificate or a revocation list cannot be read.
    pub fn sealed(credentials: Credentials) -> Result<Self, BadTrust> {
        SealedEnd::new(credentials, ClientEndpoint::new).map(Self::Sealed)
    }

    /// Protects a connection to `address`.
    ///
    /// # Errors
    /// The peer's or the stream's.
    pub(crate) async fn open(
        &self,
        client: &Arc<Client>,
        stream: TcpStream,
        address: SocketAddr,
    ) -> Result<Opened, TransportError> {
        let opened = async {
            match self {
                Self::Plain => Ok(Opened::plain_in_place(stream)),
                Self::Tls(end) => {
                    let connector = TlsConnector::from(Arc::clone(&end.config));
                    let name = ServerName::IpAddress(address.ip().into());
                    let stream = connector.connect(name, stream).await.map_err(tls_error)?;
                    end.finish(TlsStream::Client(stream)).await
                }
                Self::Sealed(end) => sealed::connect(end, client, stream, address).await,
            }
        };
        in_time(CONNECTING, opened).await
    }
}

async fn in_time(
    limit: Duration,
    opened: impl Future<Output = Result<Opened, TransportError>>,
) -> Result<Opened, TransportError> {
    let opened = tokio::time::timeout(limit, opened).await;
    opened.unwrap_or(Err(TransportError::Slow(limit.as_secs())))
}

fn tls_error(error: io::Error) -> TransportError {
    match error.get_ref() {
        _ if error.kind() == io::ErrorKind::UnexpectedEof => TransportError::Tls(
            "the other end closed the connection within the handshake: it may speak plain iSCSI, \
             at an address that begins with iscsi://"
                .to_owned(),
        ),
        Some(_) => TransportError::Tls(error.to_string()),
        None => TransportError::Stream(error),
    }
}

impl<C> TlsEnd<C> {
    fn new(
        credentials: Credentials,
        make: impl FnOnce(&Identity, &Trust, SuiteChoice) -> Result<Arc<C>, BadTrust>,
    ) -> Result<Self, BadTrust> {
        let Credentials { identity, trust, judge, suites, .. } = credentials;
        Ok(Self { config: make(&identity, &trust, suites)?, trust, judge })
    }

    /// Judges the peer of a finished handshake.
    async fn finish(&self, mut stream: TlsStream<TcpStream>) -> Result<Opened, TransportError> {
        let state: &CommonState = match &stream {
            TlsStream::Client(stream) => stream.get_ref().1,
            TlsStream::Server(stream) => stream.get_ref().1,
        };
        let peer = seal::peer_of_tls(state, &self.trust)
            .ok_or_else(|| TransportError::Tls("the peer's key cannot be read".to_owned()))?;
        if let Err(refusal) = self.judge.judge(&peer) {
            let _ = stream.shutdown().await;
            return Err(TransportError::refused(refusal, &peer));
        }
        let (reader, writer) = tokio::io::split(stream);
        Ok(Opened {
            reader: Reader::Tls(reader, ReceiveBuffer::default()),
            writer: Writer::Tls(writer),
            peer: Some(peer),
            sealed: None,
        })
    }
}

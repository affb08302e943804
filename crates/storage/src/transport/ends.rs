//! The transports of both ends, and their streams.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, CommonState, ServerConfig};
use seal::{BadTrust, ClientEndpoint, PeerIdentity, ServerEndpoint, SessionSettings, Trust};
use sockets::Client;
use tasuki_tokio::TcpStream;
use tokio::io::{AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::buffer::ReceiveBuffer;
use super::credentials::{Credentials, Judge};
use super::error::TransportError;
use super::sealed::{self, SealedState};
use super::sealed_reader::SealedReader;
use super::sealed_writer::SealedWriter;

/// A portal's transport.
#[derive(Debug, Clone)]
pub enum PortalTransport {
    /// No protection.
    Plain,
    /// TLS 1.3.
    Tls(Arc<TlsEnd<ServerConfig>>),
    /// Sealed.
    Sealed(Arc<SealedEnd<ServerEndpoint>>),
}

/// The transport of an initiator's sessions.
#[derive(Debug, Clone)]
pub enum DiskTransport {
    /// No protection.
    Plain,
    /// TLS 1.3.
    Tls(Arc<TlsEnd<ClientConfig>>),
    /// Sealed.
    Sealed(Arc<SealedEnd<ClientEndpoint>>),
}

/// TLS of an end.
#[derive(Debug)]
pub struct TlsEnd<C> {
    config: Arc<C>,
    trust: Trust,
    judge: Judge,
}

/// Sealed of an end.
#[derive(Debug)]
pub struct SealedEnd<E> {
    pub(super) endpoint: E,
    pub(super) judge: Judge,
    pub(super) records: SessionSettings,
}

/// A protected stream.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    /// Who is at the other end, if the transport knows.
    pub(crate) peer: Option<PeerIdentity>,
    /// The state of a sealed stream.
    pub(crate) sealed: Option<Rc<SealedState>>,
}

/// The receiving half of a stream.
#[derive(Debug)]
pub(crate) enum Reader {
    Plain(Rc<TcpStream>, ReceiveBuffer),
    Tls(ReadHalf<TlsStream<TcpStream>>, ReceiveBuffer),
    Sealed(SealedReader),
}

/// The sending half of a stream.
#[derive(Debug)]
pub(crate) enum Writer {
    Plain(Rc<TcpStream>),
    Tls(WriteHalf<TlsStream<TcpStream>>),
    Sealed(SealedWriter),
}

impl PortalTransport {
    /// TLS with these credentials.
    ///
    /// # Errors
    /// An authority's certificate or a revocation list cannot be read.
    pub fn tls(credentials: Credentials) -> Result<Self, BadTrust> {
        let Credentials { identity, trust, judge, suites, .. } = credentials;
        let config = seal::tls_server(&identity, &trust, suites)?;
        Ok(Self::Tls(Arc::new(TlsEnd { config, trust, judge })))
    }

    /// Sealed with these credentials.
    ///
    /// # Errors
    /// An authority's certificate or a revocation list cannot be read.
    pub fn sealed(credentials: Credentials) -> Result<Self, BadTrust> {
        let Credentials { identity, trust, judge, suites, records } = credentials;
        let endpoint = ServerEndpoint::new(identity, &trust, suites)?;
        Ok(Self::Sealed(Arc::new(SealedEnd { endpoint, judge, records })))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Tls(_) => "tls",
            Self::Sealed(_) => "sealed",
        }
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
        match self {
            Self::Plain => Ok(Opened::plain(stream)),
            Self::Tls(end) => {
                let acceptor = TlsAcceptor::from(Arc::clone(&end.config));
                let stream = acceptor.accept(stream).await.map_err(tls_error)?;
                end.finish(TlsStream::Server(stream)).await
            }
            Self::Sealed(end) => sealed::accept(end, client, stream).await,
        }
    }
}

impl DiskTransport {
    /// TLS with these credentials.
    ///
    /// # Errors
    /// An authority's certificate or a revocation list cannot be read.
    pub fn tls(credentials: Credentials) -> Result<Self, BadTrust> {
        let Credentials { identity, trust, judge, suites, .. } = credentials;
        let config = seal::tls_client(&identity, &trust, suites)?;
        Ok(Self::Tls(Arc::new(TlsEnd { config, trust, judge })))
    }

    /// Sealed with these credentials.
    ///
    /// # Errors
    /// An authority's certificate or a revocation list cannot be read.
    pub fn sealed(credentials: Credentials) -> Result<Self, BadTrust> {
        let Credentials { identity, trust, judge, suites, records } = credentials;
        let endpoint = ClientEndpoint::new(identity, &trust, suites)?;
        Ok(Self::Sealed(Arc::new(SealedEnd { endpoint, judge, records })))
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
        match self {
            Self::Plain => Ok(Opened::plain(stream)),
            Self::Tls(end) => {
                let connector = TlsConnector::from(Arc::clone(&end.config));
                let name = ServerName::IpAddress(address.ip().into());
                let stream = connector.connect(name, stream).await.map_err(tls_error)?;
                end.finish(TlsStream::Client(stream)).await
            }
            Self::Sealed(end) => sealed::connect(end, client, stream, address).await,
        }
    }
}

fn tls_error(error: io::Error) -> TransportError {
    match error.get_ref() {
        Some(_) => TransportError::Tls(error.to_string()),
        None => TransportError::Stream(error),
    }
}

impl<C> TlsEnd<C> {
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
            return Err(sealed::refused(refusal, &peer));
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

impl Opened {
    fn plain(stream: TcpStream) -> Self {
        let stream = Rc::new(stream);
        let reader = Reader::Plain(Rc::clone(&stream), ReceiveBuffer::default());
        Self { reader, writer: Writer::Plain(stream), peer: None, sealed: None }
    }
}

impl Reader {
    /// The next bytes; `None` at the end of the stream. Without bytes: the transport itself has
    /// something to send ([`Writer::send_own`]).
    ///
    /// # Errors
    /// The stream's, and a [`TransportError`] within it.
    pub(crate) async fn read(&mut self) -> io::Result<Option<Bytes>> {
        let (len, buffer) = match self {
            Self::Plain(stream, buffer) => (buffer.fill(&mut &**stream).await?, buffer),
            Self::Tls(stream, buffer) => (buffer.fill(stream).await?, buffer),
            Self::Sealed(reader) => return Ok(reader.read().await?),
        };
        Ok((len > 0).then(|| buffer.take_all()))
    }
}

impl Writer {
    /// Writes all pieces.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub(crate) async fn write(&mut self, pieces: &[Bytes]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => write_pieces(&mut &**stream, pieces).await,
            Self::Tls(stream) => {
                write_pieces(stream, pieces).await?;
                stream.flush().await
            }
            Self::Sealed(writer) => Ok(writer.write(pieces).await?),
        }
    }

    /// Sends what the transport itself has to send.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub(crate) async fn send_own(&mut self) -> io::Result<()> {
        match self {
            Self::Sealed(writer) => Ok(writer.change_keys().await?),
            _ => Ok(()),
        }
    }

    /// Ends the own direction, in order.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => (&**stream).shutdown().await,
            Self::Tls(stream) => stream.shutdown().await,
            Self::Sealed(writer) => Ok(writer.finish().await?),
        }
    }

    /// Tells the peer, where the transport can, why the stream ends.
    pub(crate) async fn give_up(&mut self, why: &io::Error) {
        let error = why.get_ref().and_then(|error| error.downcast_ref::<TransportError>());
        if let (Self::Sealed(writer), Some(reason)) = (self, error.and_then(TransportError::reason))
        {
            writer.alert(reason).await;
        }
    }
}

/// Writes all pieces, without joining them.
async fn write_pieces(writer: &mut (impl AsyncWrite + Unpin), pieces: &[Bytes]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        let written = writer.write_vectored(rest).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

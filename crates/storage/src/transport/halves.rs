//! The two halves of a protected stream.

use std::io::{self, IoSlice};
use std::rc::Rc;

use bytes::Bytes;
use seal::PeerIdentity;
use tasuki_tokio::TcpStream;
use tokio::io::{AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio_rustls::TlsStream;

use super::buffer::ReceiveBuffer;
use super::error::TransportError;
use super::sealed_reader::SealedReader;
use super::sealed_state::SealedState;
use super::sealed_writer::SealedWriter;

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

impl Opened {
    pub(super) fn plain(stream: TcpStream) -> Self {
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
    pub(crate) async fn write(&mut self, pieces: Vec<Bytes>) -> io::Result<()> {
        match self {
            Self::Plain(stream) => write_pieces(&mut &**stream, &pieces).await,
            Self::Tls(stream) => {
                write_pieces(stream, &pieces).await?;
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

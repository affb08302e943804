//! The handshake of sealed, and what both halves of a session share.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seal::{
    ClientEndpoint, Handshake, Opened as Record, PeerIdentity, ServerEndpoint, Session, Step,
};
use serde::{Deserialize, Serialize};
use sockets::Client;
use tasuki_tokio::TcpStream;
use tokio::io::AsyncWriteExt as _;

use super::buffer::ReceiveBuffer;
use super::credentials::{Judge, Refusal};
use super::ends::{Opened, Reader, SealedEnd, Writer};
use super::error::TransportError;
use super::sealed_reader::SealedReader;
use super::sealed_writer::SealedWriter;

/// What the halves of a session tell each other, and others.
#[derive(Debug, Default)]
pub(crate) struct SealedState {
    /// The peer has asked for another key.
    pub(super) answer: Cell<bool>,
    /// The operator has asked for other keys, of both directions.
    pub(crate) rekey: Cell<bool>,
    pub(super) counts: Cell<SealedCounts>,
}

/// What a sealed session has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedCounts {
    /// Bytes of content that were sealed.
    pub sealed: u64,
    /// Of these, bytes that were sealed while earlier ones were on their way.
    pub hidden: u64,
    /// Bytes of content that were opened.
    pub opened: u64,
    /// Time in which the wire had nothing to do and the cipher worked.
    pub wire_waited: Duration,
    /// Time in which the cipher waited for room in the socket.
    pub cipher_waited: Duration,
    /// Changes of the own key.
    pub rekeys: u64,
}

impl SealedState {
    /// What the session has done so far.
    pub(crate) fn counts(&self) -> SealedCounts {
        self.counts.get()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut SealedCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The server's side of a session.
pub(super) async fn accept(
    end: &SealedEnd<ServerEndpoint>,
    client: &Arc<Client>,
    stream: TcpStream,
) -> Result<Opened, TransportError> {
    let handshake = Handshake::server(&end.endpoint, now())?;
    open(end, client, stream, handshake).await
}

/// The client's side of a session.
pub(super) async fn connect(
    end: &SealedEnd<ClientEndpoint>,
    client: &Arc<Client>,
    stream: TcpStream,
    address: SocketAddr,
) -> Result<Opened, TransportError> {
    let handshake = Handshake::client(&end.endpoint, &address.ip().to_string(), now())?;
    open(end, client, stream, handshake).await
}

/// The handshake, and the Hello of both ends.
async fn open<E>(
    end: &SealedEnd<E>,
    client: &Arc<Client>,
    stream: TcpStream,
    handshake: Handshake,
) -> Result<Opened, TransportError> {
    let mut buffer = ReceiveBuffer::default();
    let handshake = shake(&stream, handshake, &mut buffer, &end.judge).await?;
    let Session { mut sealer, opener, hello, peer } = handshake.into_session(end.records)?;
    (&stream).write_all(hello.as_ref()).await?;
    let (stream, state) = (Rc::new(stream), Rc::<SealedState>::default());
    let mut reader = SealedReader::new(Rc::clone(&stream), opener, buffer, Rc::clone(&state));
    let hello = reader.hello().await?;
    sealer.handle_hello(hello);
    let writer = SealedWriter::new(stream, Arc::clone(client), sealer, Rc::clone(&state));
    Ok(Opened {
        reader: Reader::Sealed(reader),
        writer: Writer::Sealed(writer),
        peer: Some(peer),
        sealed: Some(state),
    })
}

/// The handshake until both ends are accepted. What was received beyond it is in the buffer.
async fn shake(
    mut stream: &TcpStream,
    mut handshake: Handshake,
    buffer: &mut ReceiveBuffer,
    judge: &Judge,
) -> Result<Handshake, TransportError> {
    loop {
        if let (Step::Judging, Some(peer)) = (handshake.step(), handshake.peer().cloned()) {
            if let Err(refusal) = judge.judge(&peer) {
                let last = handshake.refuse(refusal.reason());
                stream.write_all(&last).await?;
                let _ = stream.shutdown().await;
                return Err(refused(refusal, &peer));
            }
            handshake.accept()?;
        }
        stream.write_all(&handshake.poll_output()).await?;
        if handshake.step() == Step::Ready {
            return Ok(handshake);
        }
        let before = (handshake.step(), buffer.received().len());
        match handshake.handle_bytes(buffer.received()) {
            Ok(taken) => drop(buffer.take(taken)),
            Err(error) => {
                // An alert that says why.
                let _ = stream.write_all(&handshake.poll_output()).await;
                let _ = stream.shutdown().await;
                return Err(error.into());
            }
        }
        let stands = before == (handshake.step(), buffer.received().len());
        if stands && buffer.fill(&mut stream).await? == 0 {
            return Err(handshake.handle_end_of_stream().into());
        }
    }
}

/// The error of a peer that was not let in.
pub(super) fn refused(refusal: Refusal, peer: &PeerIdentity) -> TransportError {
    let got = peer.fingerprint();
    match refusal {
        Refusal::Unknown | Refusal::Denied => TransportError::Unknown(got),
        Refusal::Changed(known) => TransportError::Changed { got, known },
        Refusal::Failed(why) => TransportError::NotJudged(why),
    }
}

/// The first record is the peer's Hello, or says why there is none.
pub(super) fn expect_hello(record: &Record<'_>) -> Result<seal::PeerHello, TransportError> {
    match record {
        Record::Hello(hello) => Ok(*hello),
        Record::Alert(reason) => Err(TransportError::Alert(*reason)),
        // The opener lets nothing else come first.
        _ => Err(TransportError::Open(seal::OpenError::Failed)),
    }
}

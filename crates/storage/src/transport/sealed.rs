//! The handshake of sealed.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use seal::{
    BadTrust, ClientEndpoint, Handshake, Identity, ServerEndpoint, Session, SessionSettings, Step,
    SuiteChoice, Trust,
};
use sockets::Client;
use tasuki_tokio::TcpStream;
use tokio::io::AsyncWriteExt as _;

use super::buffer::ReceiveBuffer;
use super::credentials::{Credentials, Judge};
use super::error::TransportError;
use super::halves::{Opened, Reader, Writer};
use super::in_place::InPlaceStream;
use super::sealed_reader::SealedReader;
use super::sealed_state::SealedState;
use super::sealed_writer::SealedWriter;

/// Sealed of an end.
#[derive(Debug)]
pub struct SealedEnd<E> {
    endpoint: E,
    judge: Judge,
    records: SessionSettings,
}

impl<E> SealedEnd<E> {
    pub(super) fn new(
        credentials: Credentials,
        make: impl FnOnce(Identity, &Trust, SuiteChoice) -> Result<E, BadTrust>,
    ) -> Result<Self, BadTrust> {
        let Credentials { identity, trust, judge, suites, records } = credentials;
        Ok(Self { endpoint: make(identity, &trust, suites)?, judge, records })
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
    let received = InPlaceStream::new(Rc::clone(&stream), buffer.take_all());
    let mut reader = SealedReader::new(received, Arc::clone(client), opener, Rc::clone(&state));
    let hello = reader.hello().await?;
    sealer.handle_hello(hello);
    let writer = SealedWriter::new(stream, Arc::clone(client), sealer, Rc::clone(&state));
    Ok(Opened {
        reader: Reader::Sealed(Box::new(reader)),
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
                return Err(TransportError::refused(refusal, &peer));
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

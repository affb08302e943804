//! The receiving half of a sealed stream.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use seal::{Expected, HEADER_LEN, OpenError, Opened as Record, Opener, PeerHello};
use sockets::{Client, TraceStage};

use super::error::TransportError;
use super::in_place::InPlaceStream;
use super::sealed_state::SealedState;
use crate::memory::AlignedMemory;

/// Copies records out of the socket, and opens them where they lie then.
#[derive(Debug)]
pub(crate) struct SealedReader {
    stream: InPlaceStream,
    opener: Opener,
    /// The next record's header as far as it has come.
    header: AlignedMemory,
    /// The record whose header has come, and its body so far.
    incoming: Option<(Expected, AlignedMemory)>,
    state: Rc<SealedState>,
    client: Arc<Client>,
}

impl SealedReader {
    pub(super) fn new(
        stream: InPlaceStream,
        client: Arc<Client>,
        opener: Opener,
        state: Rc<SealedState>,
    ) -> Self {
        let header = AlignedMemory::with_room(HEADER_LEN);
        Self { stream, opener, header, incoming: None, state, client }
    }

    /// The peer's Hello, which is the first record.
    pub(super) async fn hello(&mut self) -> Result<PeerHello, TransportError> {
        match self.body().await? {
            Some((expected, mut body)) => {
                expect_hello(&self.opener.open_in_place(&expected, body.as_mut())?)
            }
            None => Err(TransportError::Open(seal::OpenError::Truncated { partial: 0 })),
        }
    }

    /// The next bytes; `None` after the peer's End. Without bytes: the peer asks for another key.
    pub(super) async fn read(&mut self) -> Result<Option<Bytes>, TransportError> {
        while let Some((expected, mut body)) = self.body().await? {
            self.client.mark(TraceStage::Open);
            let opened = self.opener.open_in_place(&expected, body.as_mut());
            self.client.mark(TraceStage::CipherDone);
            match opened? {
                Record::Data(content) => {
                    let len = content.len();
                    body.truncate(len);
                    self.state.count(|counts| counts.opened += len as u64);
                    return Ok(Some(body.into_bytes()));
                }
                Record::Rekeyed { answer, epoch } => {
                    self.state.count(|counts| counts.peer_rekeys = epoch);
                    if answer {
                        self.state.answer.set(true);
                        return Ok(Some(Bytes::new()));
                    }
                }
                Record::Alert(reason) => return Err(TransportError::Alert(reason)),
                Record::Hello(_) | Record::End => {}
            }
        }
        Ok(None)
    }

    /// The next record's body. `None` at the end of a stream that is whole.
    async fn body(&mut self) -> Result<Option<(Expected, AlignedMemory)>, TransportError> {
        if !self.stream.fill(&mut self.header, HEADER_LEN).await? {
            self.opener.handle_end_of_stream(self.header.len())?;
            return Ok(None);
        }
        if self.incoming.is_none() {
            let header = self.header.as_ref().first_chunk::<HEADER_LEN>();
            let expected = self.opener.header(*header.ok_or(OpenError::Failed)?)?;
            // The header says no more than the bound.
            let memory = AlignedMemory::with_room(expected.body_len());
            self.incoming = Some((expected, memory));
        }
        let Some((expected, body)) = &mut self.incoming else { return Ok(None) };
        if !self.stream.fill(body, expected.body_len()).await? {
            self.opener.handle_end_of_stream(HEADER_LEN + body.len())?;
            return Ok(None);
        }
        self.header.truncate(0);
        Ok(self.incoming.take())
    }
}

/// The first record is the peer's Hello, or says why there is none.
fn expect_hello(record: &Record<'_>) -> Result<PeerHello, TransportError> {
    match record {
        Record::Hello(hello) => Ok(*hello),
        Record::Alert(reason) => Err(TransportError::Alert(*reason)),
        // The opener lets nothing else come first.
        _ => Err(TransportError::Open(seal::OpenError::Failed)),
    }
}

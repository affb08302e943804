//! The receiving half of a sealed stream.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use seal::{Expected, HEADER_LEN, Opened as Record, Opener, PeerHello, READ_AHEAD};
use tasuki_tokio::TcpStream;

use super::buffer::ReceiveBuffer;
use super::error::TransportError;
use super::sealed_state::SealedState;

/// Receives records and opens them where they lie.
#[derive(Debug)]
pub(crate) struct SealedReader {
    stream: Rc<TcpStream>,
    opener: Opener,
    buffer: ReceiveBuffer,
    /// The record whose header has come.
    expected: Option<Expected>,
    state: Rc<SealedState>,
}

impl SealedReader {
    pub(super) fn new(
        stream: Rc<TcpStream>,
        opener: Opener,
        buffer: ReceiveBuffer,
        state: Rc<SealedState>,
    ) -> Self {
        Self { stream, opener, buffer, expected: None, state }
    }

    /// The peer's Hello, which is the first record.
    pub(super) async fn hello(&mut self) -> Result<PeerHello, TransportError> {
        match self.body().await? {
            Some((expected, mut body)) => {
                expect_hello(&self.opener.open_in_place(&expected, &mut body)?)
            }
            None => Err(TransportError::Open(seal::OpenError::Truncated { partial: 0 })),
        }
    }

    /// The next bytes; `None` after the peer's End. Without bytes: the peer asks for another key.
    pub(super) async fn read(&mut self) -> Result<Option<Bytes>, TransportError> {
        while let Some((expected, mut body)) = self.body().await? {
            match self.opener.open_in_place(&expected, &mut body)? {
                Record::Data(content) => {
                    let len = content.len();
                    body.truncate(len);
                    self.state.count(|counts| counts.opened += len as u64);
                    return Ok(Some(body.freeze()));
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
    async fn body(&mut self) -> Result<Option<(Expected, BytesMut)>, TransportError> {
        loop {
            let received = self.buffer.received();
            let needed = match &self.expected {
                None => match received.first_chunk::<HEADER_LEN>() {
                    Some(header) => {
                        self.expected = Some(self.opener.header(*header)?);
                        drop(self.buffer.take(HEADER_LEN));
                        continue;
                    }
                    None => HEADER_LEN,
                },
                Some(expected) => expected.body_len(),
            };
            if received.len() >= needed
                && let Some(expected) = self.expected.take()
            {
                return Ok(Some((expected, self.buffer.take(needed))));
            }
            if self.buffer.fill_to(&mut &*self.stream, needed + READ_AHEAD).await? == 0 {
                let header = if self.expected.is_some() { HEADER_LEN } else { 0 };
                self.opener.handle_end_of_stream(header + self.buffer.received().len())?;
                return Ok(None);
            }
        }
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

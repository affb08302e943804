//! The sending half of a sealed stream.
//!
//! A chunk's pieces are gathered into an area of the sending pool, sealed there, and handed to the
//! stack from there: this is the one copy that a plain stream makes too. Small records, and those
//! that find the pool empty, go through the socket's own areas.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf as _, Bytes};
use seal::{ControlRecord, HEADER_LEN, Reason, SealError, Sealer};
use sockets::{Client, TxArea};
use tasuki_tokio::TcpStream;
use tokio::io::AsyncWriteExt as _;

use super::error::TransportError;
use super::sealed_state::SealedState;

/// Records shorter than this are copied into the socket's areas, which packs them.
const LEAST_AREA: usize = 16 << 10;

/// Seals chunks and sends them.
#[derive(Debug)]
pub(crate) struct SealedWriter {
    stream: Rc<TcpStream>,
    client: Arc<Client>,
    sealer: Sealer,
    state: Rc<SealedState>,
    /// Areas that were handed to the stack.
    sent_areas: u64,
    /// A record has its number, and may not have been sent whole: no other one can follow.
    torn: bool,
}

impl SealedWriter {
    pub(super) fn new(
        stream: Rc<TcpStream>,
        client: Arc<Client>,
        sealer: Sealer,
        state: Rc<SealedState>,
    ) -> Self {
        Self { stream, client, sealer, state, sent_areas: 0, torn: false }
    }

    /// Seals and sends all pieces, in as few records as they fit.
    pub(super) async fn write(&mut self, pieces: Vec<Bytes>) -> Result<(), TransportError> {
        let most = self.sealer.max_chunk().ok_or(SealError::NoHello)? as usize;
        let mut left: usize = pieces.iter().map(Bytes::len).sum();
        let mut from = VecDeque::from(pieces);
        while left > 0 {
            self.change_keys().await?;
            let chunk = left.min(most);
            let record = HEADER_LEN + chunk + self.sealer.tail_len(chunk);
            let area = (record >= LEAST_AREA).then(|| self.client.alloc(record).ok()).flatten();
            match area {
                Some(mut area) => {
                    gather(&mut from, &mut area[HEADER_LEN..HEADER_LEN + chunk]);
                    self.seal(&mut area, chunk)?;
                    self.send_area(area).await?;
                }
                None => {
                    let mut memory = vec![0; record];
                    gather(&mut from, &mut memory[HEADER_LEN..HEADER_LEN + chunk]);
                    self.seal(&mut memory, chunk)?;
                    self.send_bytes(&memory).await?;
                }
            }
            left -= chunk;
        }
        Ok(())
    }

    /// Seals the chunk within a record, and counts what of that the wire's work has hidden.
    fn seal(&mut self, record: &mut [u8], chunk: usize) -> Result<(), TransportError> {
        let busy = self.stream.as_aio().as_socket().slices_done().unwrap_or(0) < self.sent_areas;
        let began = Instant::now();
        let Some((header, rest)) = record.split_first_chunk_mut() else {
            return Err(SealError::BadChunk { len: 0, most: 0 }.into());
        };
        let (content, tail) = rest.split_at_mut(chunk);
        self.torn = true;
        self.sealer.seal(header, content, tail)?;
        let took = began.elapsed();
        self.state.count(|counts| {
            counts.sealed += chunk as u64;
            if busy {
                counts.hidden += chunk as u64;
            } else {
                counts.wire_waited += took;
            }
        });
        Ok(())
    }

    async fn send_area(&mut self, area: TxArea) -> Result<(), TransportError> {
        let began = Instant::now();
        let slice = area.freeze();
        let sent = self.stream.as_aio().send_slices(&[slice]).await?;
        self.torn = false;
        self.sent_areas = sent.end;
        self.state.count(|counts| counts.cipher_waited += began.elapsed());
        Ok(())
    }

    async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.torn = true;
        (&*self.stream).write_all(bytes).await?;
        self.torn = false;
        Ok(())
    }

    async fn send_control(&mut self, record: &ControlRecord) -> io::Result<()> {
        self.send_bytes(record.as_ref()).await
    }

    /// Changes the key if it is time, or if somebody asks.
    pub(super) async fn change_keys(&mut self) -> Result<(), TransportError> {
        let (asked, answer) = (self.state.rekey.take(), self.state.answer.take());
        if !asked && !answer && !self.sealer.rekey_due() {
            return Ok(());
        }
        match self.sealer.rekey(asked) {
            Ok(record) => {
                self.state.count(|counts| counts.rekeys += 1);
                Ok(self.send_control(&record).await?)
            }
            // The key is as fresh as it can be.
            Err(SealError::ChangesWithoutData) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the own direction: the stream is whole.
    pub(super) async fn finish(&mut self) -> Result<(), TransportError> {
        let record = self.sealer.end()?;
        self.send_control(&record).await?;
        Ok((&*self.stream).shutdown().await?)
    }

    /// Tells the peer why the session ends, if that can still be told.
    pub(super) async fn alert(&mut self, reason: Reason) {
        if let (false, Ok(record)) = (self.torn, self.sealer.alert(reason)) {
            let _ = self.send_control(&record).await;
        }
    }
}

/// Moves bytes from the front of the pieces until `into` is full.
fn gather(from: &mut VecDeque<Bytes>, mut into: &mut [u8]) {
    while let Some(piece) = from.front_mut()
        && !into.is_empty()
    {
        let len = piece.len().min(into.len());
        let (now, later) = std::mem::take(&mut into).split_at_mut(len);
        piece.copy_to_slice(now);
        into = later;
        if piece.is_empty() {
            from.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_and_joined() {
        let words = [&b"ab"[..], b"", b"cdefg", b"h"];
        let mut pieces: VecDeque<Bytes> = words.map(Bytes::from_static).into();
        let mut seen = Vec::new();
        for len in [1, 3, 0, 4] {
            let mut into = vec![0; len];
            gather(&mut pieces, &mut into);
            seen.push(into);
        }
        assert_eq!(seen, [&b"a"[..], b"bcd", b"", b"efgh"]);
        assert!(pieces.is_empty());
    }
}

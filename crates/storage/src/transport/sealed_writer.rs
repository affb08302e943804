//! The sending half of a sealed stream.
//!
//! Records are made in an area of the sending pool, and handed to the stack from there.
//!
//! * A long piece is a record of its own, or several. It is sealed from where it lies into the
//!   area. So sealing takes the place of the one copy that a plain stream makes. At the receiver
//!   such a record begins with a block's first byte, so its memory is aligned for the volume.
//! * Short pieces, such as headers, are gathered into one record, which shares the area with the
//!   long piece behind them.
//!
//! Few bytes, and those that find the pool empty, go through the socket's own areas.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf as _, Bytes};
use seal::{ControlRecord, HEADER_LEN, Reason, SealError, Sealer};
use sockets::{Client, TraceStage, TxArea};
use tasuki_tokio::TcpStream;
use tokio::io::AsyncWriteExt as _;

use super::error::TransportError;
use super::sealed_state::SealedState;

/// Records shorter than this are copied into the socket's areas, which packs them.
const LEAST_AREA: usize = 16 << 10;
/// Pieces shorter than this are gathered.
const LEAST_LONG: usize = 16 << 10;

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

    /// Seals and sends all pieces.
    pub(super) async fn write(&mut self, pieces: Vec<Bytes>) -> Result<(), TransportError> {
        let most = self.sealer.max_chunk().ok_or(SealError::NoHello)? as usize;
        let mut from = VecDeque::from(pieces);
        loop {
            let (short, long) = next_chunks(&mut from, most);
            let len = self.record_len(short) + self.record_len(long);
            if len == 0 {
                return Ok(());
            }
            self.change_keys().await?;
            let area = (len >= LEAST_AREA).then(|| self.client.alloc(len).ok()).flatten();
            match area {
                Some(mut area) => {
                    self.fill(&mut area, &mut from, short, long)?;
                    self.send_area(area).await?;
                }
                None => {
                    let mut memory = vec![0; len];
                    self.fill(&mut memory, &mut from, short, long)?;
                    self.send_bytes(&memory).await?;
                }
            }
        }
    }

    /// The length of the record of a chunk, which is none without a chunk.
    fn record_len(&self, chunk: usize) -> usize {
        if chunk == 0 { 0 } else { HEADER_LEN + chunk + self.sealer.tail_len(chunk) }
    }

    /// Fills `records` with the record of `short` gathered bytes and that of the long piece behind
    /// them.
    fn fill(
        &mut self,
        records: &mut [u8],
        from: &mut VecDeque<Bytes>,
        short: usize,
        long: usize,
    ) -> Result<(), TransportError> {
        // A record that has its number is sent, or nothing is any more.
        self.torn = true;
        let (first, second) = records.split_at_mut(self.record_len(short));
        if short > 0 {
            let (header, content, tail) = parts(first, short)?;
            gather(from, content);
            self.watched(short, |sealer| sealer.seal(header, content, tail))?;
        }
        if long > 0 {
            let (header, content, tail) = parts(second, long)?;
            let piece = from.front_mut().map(|piece| piece.split_to(long)).unwrap_or_default();
            self.watched(long, |sealer| sealer.seal_into(header, &piece, content, tail))?;
        }
        Ok(())
    }

    /// Seals a chunk, and counts what of that the wire's work has hidden.
    fn watched(
        &mut self,
        chunk: usize,
        seal: impl FnOnce(&mut Sealer) -> Result<(), SealError>,
    ) -> Result<(), TransportError> {
        let busy = self.stream.as_aio().as_socket().slices_done().unwrap_or(0) < self.sent_areas;
        let began = Instant::now();
        self.client.mark(TraceStage::Seal);
        seal(&mut self.sealer)?;
        self.client.mark(TraceStage::CipherDone);
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

/// The next bytes to be sealed: of short pieces, and of the long piece behind them, if the short
/// ones are few. Pieces without bytes are dropped from the front. Both are 0 if nothing is left.
fn next_chunks(from: &mut VecDeque<Bytes>, most: usize) -> (usize, usize) {
    while from.front().is_some_and(Bytes::is_empty) {
        from.pop_front();
    }
    let mut short = 0;
    for piece in from.iter() {
        if piece.len() >= LEAST_LONG {
            let long = if short < LEAST_LONG { piece.len().min(most) } else { 0 };
            return (short, long);
        }
        if short + piece.len() > most {
            return (most, 0);
        }
        short += piece.len();
    }
    (short, 0)
}

/// Header, content and tail of a record.
type RecordParts<'a> = (&'a mut [u8; HEADER_LEN], &'a mut [u8], &'a mut [u8]);

/// The parts of the record of a chunk.
fn parts(record: &mut [u8], chunk: usize) -> Result<RecordParts<'_>, SealError> {
    let (header, rest) =
        record.split_first_chunk_mut().ok_or(SealError::BadChunk { len: 0, most: 0 })?;
    let (content, tail) = rest.split_at_mut(chunk);
    Ok((header, content, tail))
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

    #[test]
    fn long_pieces_have_records_of_their_own() {
        let most = 4 * LEAST_LONG;
        let next = |lens: &[usize]| {
            let mut from = lens.iter().map(|len| Bytes::from(vec![0; *len])).collect();
            next_chunks(&mut from, most)
        };
        assert_eq!(next(&[]), (0, 0));
        assert_eq!(next(&[0, 0]), (0, 0));
        assert_eq!(next(&[48]), (48, 0));
        assert_eq!(next(&[0, 48, 0, 100, LEAST_LONG, 48]), (148, LEAST_LONG));
        assert_eq!(next(&[LEAST_LONG, 48]), (0, LEAST_LONG));
        assert_eq!(next(&[48, most + 5]), (48, most));
        // Many short ones go alone, and no more than fit.
        assert_eq!(next(&[LEAST_LONG - 1, 1, LEAST_LONG]), (LEAST_LONG, 0));
        assert_eq!(next(&[LEAST_LONG - 1; 5]), (most, 0));
        assert_eq!(next(&[LEAST_LONG - 1; 4]), (most - 4, 0));
    }
}

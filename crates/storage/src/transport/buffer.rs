//! A buffer that bytes of a stream are received into, and taken out of without a copy.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes of memory that are made at a time.
const MEMORY: usize = 256 << 10;
/// The least room that a read has.
const LEAST_READ: usize = 16 << 10;

/// Received bytes, and room for more behind them. The memory is written with zeros once, when it is
/// made, and handed out piece by piece.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    memory: BytesMut,
    /// Bytes at the front that were received.
    filled: usize,
}

impl ReceiveBuffer {
    /// The bytes that were received.
    pub(super) fn received(&self) -> &[u8] {
        &self.memory[..self.filled]
    }

    /// Takes so many bytes from the front, or all.
    pub(super) fn take(&mut self, len: usize) -> BytesMut {
        let len = len.min(self.filled);
        self.filled -= len;
        self.memory.split_to(len)
    }

    /// Takes all bytes.
    pub(super) fn take_all(&mut self) -> Bytes {
        self.take(self.filled).freeze()
    }

    /// Receives what is there, up to a bound that the buffer chooses. How many bytes came; 0 at the
    /// end of the stream.
    ///
    /// # Errors
    /// The stream's.
    pub(super) async fn fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<usize> {
        self.make_room(LEAST_READ);
        self.receive(stream, usize::MAX).await
    }

    /// Receives what is there, until the buffer has `most` bytes, which lie in one piece. As
    /// [`Self::fill`].
    ///
    /// # Errors
    /// The stream's.
    pub(super) async fn fill_to(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        most: usize,
    ) -> io::Result<usize> {
        let room = most.saturating_sub(self.filled);
        self.make_room(room);
        self.receive(stream, room).await
    }

    fn make_room(&mut self, room: usize) {
        if self.memory.len() - self.filled < room {
            let mut memory = BytesMut::zeroed(MEMORY.max(self.filled + room));
            memory[..self.filled].copy_from_slice(self.received());
            self.memory = memory;
        }
    }

    async fn receive(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        most: usize,
    ) -> io::Result<usize> {
        let end = self.memory.len().min(self.filled.saturating_add(most));
        let len = stream.read(&mut self.memory[self.filled..end]).await?;
        self.filled += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn bytes_stay_in_order_and_in_one_piece() {
        let sent: Vec<u8> = (0..600_000_u32).map(|i| (i / 7) as u8).collect();
        let mut from = &sent[..];
        let mut buffer = ReceiveBuffer::default();
        let mut seen = Vec::new();
        let mut whole = 1;
        while buffer.fill_to(&mut from, whole).await.unwrap() > 0 {
            if buffer.received().len() >= whole {
                let piece = buffer.take(whole);
                assert_eq!(piece.len(), whole);
                seen.extend_from_slice(&piece);
                whole = (whole * 3 + 1) % 300_000;
            }
        }
        seen.extend_from_slice(&buffer.take_all());
        assert_eq!(seen, sent);
        assert_eq!(buffer.fill(&mut &sent[..]).await.unwrap(), buffer.received().len());
    }
}

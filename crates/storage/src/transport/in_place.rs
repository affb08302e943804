//! Receiving in memory of the socket.
//!
//! Bytes are used, or copied once to where they belong, before the socket gets its memory back.

use std::io;
use std::rc::Rc;

use bytes::{Buf as _, Bytes};
use sockets::{Errno, RxArea, Wait};
use tasuki_tokio::TcpStream;

use crate::memory::AlignedMemory;

/// Most bytes that are copied at a time.
const MOST: usize = 256 << 10;

/// A stream, and what of it was received and is not used yet.
#[derive(Debug)]
pub(crate) struct InPlaceStream {
    stream: Rc<TcpStream>,
    received: Bytes,
}

/// Received bytes in memory of the socket.
struct InPlace(RxArea);

impl AsRef<[u8]> for InPlace {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl InPlaceStream {
    /// A stream of which `received` was received already.
    pub(super) fn new(stream: Rc<TcpStream>, received: Bytes) -> Self {
        Self { stream, received }
    }

    /// The next bytes, where they lie. Empty at the end of the stream. The peer's window shrinks
    /// while one of them is held: their holder waits for nothing that the peer sends.
    ///
    /// # Errors
    /// The stream's.
    pub(super) async fn next(&mut self) -> io::Result<Bytes> {
        self.wait().await?;
        Ok(std::mem::take(&mut self.received))
    }

    /// What is there, up to a bound, in memory of its own. Empty at the end of the stream.
    ///
    /// # Errors
    /// The stream's.
    pub(super) async fn next_copied(&mut self) -> io::Result<Bytes> {
        self.wait().await?;
        let behind = self.stream.as_aio().as_socket().readable_len();
        let most = self.received.len().saturating_add(behind).min(MOST);
        let mut memory = AlignedMemory::with_room(most);
        self.append_to(&mut memory, most);
        while memory.len() < most {
            match self.stream.as_aio().as_socket().recv_area(Wait::No) {
                Ok(area) if area.is_empty() => break,
                Ok(area) => self.received = Bytes::from_owner(InPlace(area)),
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
            self.append_to(&mut memory, most);
        }
        Ok(memory.into_bytes())
    }

    /// Fills memory until it has `len` bytes. `false`: the stream has ended before.
    ///
    /// # Errors
    /// The stream's. What came before stays in the memory.
    pub(super) async fn fill(
        &mut self,
        memory: &mut AlignedMemory,
        len: usize,
    ) -> io::Result<bool> {
        while memory.len() < len {
            if !self.wait().await? {
                return Ok(false);
            }
            self.append_to(memory, len);
        }
        Ok(true)
    }

    fn append_to(&mut self, memory: &mut AlignedMemory, len: usize) {
        let step = (len - memory.len()).min(self.received.len());
        memory.append(&self.received[..step]);
        self.received.advance(step);
        if self.received.is_empty() {
            // The socket gets its memory back.
            self.received = Bytes::new();
        }
    }

    /// Waits until there are bytes. `false`: the stream has ended.
    async fn wait(&mut self) -> io::Result<bool> {
        if self.received.is_empty() {
            let area = self.stream.as_aio().recv_area().await?;
            if area.is_empty() {
                return Ok(false);
            }
            self.received = Bytes::from_owner(InPlace(area));
        }
        Ok(true)
    }
}

//! An opener with a buffer of bounded size, for bytes that come in any pieces.
//!
//! **Copies.** A caller that receives into [`Receiver::space`] has its records decrypted where they
//! were received. Only what was received beyond the end of a record is moved to the front of the
//! buffer: at most [`READ_AHEAD`] bytes a record. [`Receiver::handle_bytes`] copies all bytes once.
//!
//! The buffer has room for the longest record that the bound allows, and no more, whatever the peer
//! sends.

use core::ops::Range;

use crate::open_error::OpenError;
use crate::opener::{Expected, Opened, Opener};
use crate::record::{HEADER_LEN, MAX_PADDING};
use crate::suite::TAG_LEN;

/// Most bytes that are received beyond the end of a record.
pub const READ_AHEAD: usize = 4096;

/// An [`Opener`] with the bytes of the record that is coming in.
pub struct Receiver {
    opener: Opener,
    buffer: Box<[u8]>,
    /// Received and not opened yet.
    filled: Range<usize>,
    /// The record whose header has come. Its body starts where `filled` does.
    expected: Option<Expected>,
}

impl core::fmt::Debug for Receiver {
    /// The buffer holds plaintext, which is not printed.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Receiver")
            .field("opener", &self.opener)
            .field("filled", &self.filled)
            .finish_non_exhaustive()
    }
}

impl Receiver {
    /// A receiver with a buffer for the longest record that `opener` takes.
    pub fn new(opener: Opener) -> Self {
        let longest = HEADER_LEN + opener.bound() as usize + MAX_PADDING + TAG_LEN;
        let buffer = vec![0; longest + READ_AHEAD].into_boxed_slice();
        Self { opener, buffer, filled: 0..0, expected: None }
    }

    /// The opener's getters.
    pub fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Bytes that the next record lacks: of its header, or of its body.
    fn lacking(&self) -> usize {
        let needed = self.expected.as_ref().map_or(HEADER_LEN, Expected::body_len);
        needed.saturating_sub(self.filled.len())
    }

    /// Space to receive into: all that the next record lacks, and up to [`READ_AHEAD`] bytes more.
    ///
    /// [`Self::handle_filled`] says how much of it was used. The space is not empty if
    /// [`Self::next`] has returned `None` since bytes came. Its start may move with each call of
    /// [`Self::next`].
    pub fn space(&mut self) -> &mut [u8] {
        let wanted = self.lacking() + READ_AHEAD;
        if self.filled.start != 0 {
            // What was received ahead of the record before: a header and the start of a body.
            self.buffer.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let start = self.filled.end;
        let end = self.buffer.len().min(start + wanted);
        &mut self.buffer[start..end]
    }

    /// The first `len` bytes of [`Self::space`] have been received.
    ///
    /// More than there was space for is taken as all of it.
    pub fn handle_filled(&mut self, len: usize) {
        let len = len.min(self.lacking() + READ_AHEAD);
        self.filled.end = (self.filled.end + len).min(self.buffer.len());
    }

    /// Copies as many of `bytes` as there is space for, and returns how many.
    ///
    /// [`Self::next`] is then called until it returns `None`; after that there is space again.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> usize {
        let space = self.space();
        let len = space.len().min(bytes.len());
        space[..len].copy_from_slice(&bytes[..len]);
        self.handle_filled(len);
        len
    }

    /// The next record, if all of it has come.
    ///
    /// # Errors
    /// A record was refused. The session has ended.
    #[expect(clippy::should_implement_trait, reason = "the record borrows the receiver")]
    pub fn next(&mut self) -> Result<Option<Opened<'_>>, OpenError> {
        if self.expected.is_none() {
            let start = self.filled.start;
            let Some(header) = self.buffer[self.filled.clone()].first_chunk::<HEADER_LEN>() else {
                return Ok(None);
            };
            self.expected = Some(self.opener.header(*header)?);
            self.filled.start = start + HEADER_LEN;
        }
        let Some(expected) = self.expected.take_if(|e| e.body_len() <= self.filled.len()) else {
            return Ok(None);
        };
        let start = self.filled.start;
        let end = start + expected.body_len();
        self.filled.start = end;
        self.opener.open_in_place(&expected, &mut self.buffer[start..end]).map(Some)
    }

    /// The transport's stream has ended.
    ///
    /// # Errors
    /// Those of [`Opener::handle_end_of_stream`].
    pub fn handle_end_of_stream(&mut self) -> Result<(), OpenError> {
        let header = if self.expected.is_some() { HEADER_LEN } else { 0 };
        self.opener.handle_end_of_stream(self.filled.len() + header)
    }
}

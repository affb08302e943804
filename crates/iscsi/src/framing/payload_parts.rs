//! A payload that is handed on as it comes, and checked at its end.

use bytes::{Buf as _, Bytes};

/// Longest padding and digest in bytes.
const MOST_TRAILER: usize = 3 + 4;
/// Bytes of a digest.
const DIGEST: usize = 4;

/// What is left of a payload, its padding and its digest.
#[derive(Debug)]
pub(super) struct PayloadParts {
    left: usize,
    /// Padding and digest as far as they are there.
    trailer: [u8; MOST_TRAILER],
    trailer_len: usize,
    trailer_wanted: usize,
    /// The digest of what came, if there is one.
    crc: Option<u32>,
}

impl PayloadParts {
    /// A payload of `length` bytes.
    pub(super) fn new(length: usize, has_digest: bool) -> Self {
        let padding = length.next_multiple_of(4) - length;
        Self {
            left: length,
            trailer: [0; MOST_TRAILER],
            trailer_len: 0,
            trailer_wanted: padding + if has_digest { DIGEST } else { 0 },
            crc: has_digest.then_some(0),
        }
    }

    /// Takes bytes from the front of `input`: those of the payload, and once it is over whether it
    /// is sound.
    pub(super) fn take(&mut self, input: &mut Bytes) -> (Bytes, Option<bool>) {
        let data = input.split_to(self.left.min(input.len()));
        self.left -= data.len();
        self.crc = self.crc.map(|crc| crc32c::crc32c_append(crc, &data));
        if self.left > 0 {
            return (data, None);
        }
        let step = (self.trailer_wanted - self.trailer_len).min(input.len());
        input.copy_to_slice(&mut self.trailer[self.trailer_len..self.trailer_len + step]);
        self.trailer_len += step;
        let is_over = self.trailer_len == self.trailer_wanted;
        (data, is_over.then(|| self.is_sound()))
    }

    /// RFC 7143 13.1: the digest covers the padding.
    fn is_sound(&self) -> bool {
        let Some(crc) = self.crc else { return true };
        let (padding, digest) =
            self.trailer[..self.trailer_len].split_at(self.trailer_len - DIGEST);
        crc32c::crc32c_append(crc, padding).to_le_bytes() == *digest
    }
}

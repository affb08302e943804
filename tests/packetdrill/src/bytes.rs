//! Payload and frames of a host: plain vectors.

use core::ops::Range;

use inet::{RxBytes, RxOffload, TxBytes};

/// Bytes to be sent.
#[derive(Debug)]
pub struct Chunk(Vec<u8>);

impl Chunk {
    /// A chunk of `bytes`.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes of `range`, which is within the chunk.
    pub fn part(&self, range: Range<usize>) -> &[u8] {
        self.0.get(range).unwrap_or_default()
    }
}

impl TxBytes for Chunk {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn checksum(&self, range: Range<usize>) -> u16 {
        let mut sum = 0_u64;
        for pair in self.part(range).chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
        let folded = sum as u16;
        folded
    }

    fn copy_to(&self, range: Range<usize>, out: &mut [u8]) {
        out.copy_from_slice(self.part(range));
    }

    /// Each write is in memory of its own.
    fn append(&mut self, next: Self) -> Result<(), Self> {
        Err(next)
    }
}

/// A received packet.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    segment: u16,
}

impl Frame {
    /// A frame of `bytes`.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self::joined(bytes, 0)
    }

    /// A frame that was joined of segments with `segment` bytes of payload each; 0: of none.
    pub fn joined(bytes: Vec<u8>, segment: u16) -> Self {
        Self { bytes, segment }
    }
}

impl RxBytes for Frame {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn offload(&self) -> RxOffload {
        RxOffload { segment: self.segment, ..RxOffload::NONE }
    }
}

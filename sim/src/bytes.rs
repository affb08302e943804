//! Payload that counts its live buffers, and a stream in which each byte shows its position.

use core::ops::Range;
use std::cell::Cell;
use std::rc::Rc;

use inet::{RxBytes, TxBytes};

/// How many chunks or frames are alive.
#[derive(Debug, Clone, Default)]
pub struct LiveCount(Rc<Cell<i64>>);

impl LiveCount {
    /// The number.
    pub fn count(&self) -> i64 {
        self.0.get()
    }

    fn token(&self) -> LiveToken {
        self.0.set(self.0.get() + 1);
        LiveToken(self.clone())
    }
}

#[derive(Debug)]
struct LiveToken(LiveCount);

impl Drop for LiveToken {
    fn drop(&mut self) {
        self.0.0.set(self.0.count() - 1);
    }
}

/// A chunk at an address of its application's memory.
#[derive(Debug)]
pub struct Chunk {
    bytes: Vec<u8>,
    address: u64,
    _live: LiveToken,
}

impl Chunk {
    /// A chunk of `bytes` that lie at `address`.
    pub fn new(bytes: Vec<u8>, address: u64, live: &LiveCount) -> Self {
        Self { bytes, address, _live: live.token() }
    }

    /// The bytes of `range`.
    pub fn part(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }
}

impl TxBytes for Chunk {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn checksum(&self, range: Range<usize>) -> u16 {
        let mut sum = 0_u64;
        for pair in self.bytes[range].chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    fn copy_to(&self, range: Range<usize>, out: &mut [u8]) {
        out.copy_from_slice(&self.bytes[range]);
    }

    fn append(&mut self, next: Self) -> Result<(), Self> {
        if next.address != self.address + self.bytes.len() as u64 {
            return Err(next);
        }
        self.bytes.extend_from_slice(&next.bytes);
        Ok(())
    }
}

/// A received frame.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    _live: LiveToken,
}

impl Frame {
    /// A frame of `bytes`.
    pub fn new(bytes: Vec<u8>, live: &LiveCount) -> Self {
        Self { bytes, _live: live.token() }
    }
}

impl RxBytes for Frame {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The byte at `offset` of the stream `key`. A run of such bytes identifies its offset.
pub fn stream_byte(key: u64, offset: u64) -> u8 {
    let mixed = ((offset / 3) ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8 ^ (offset % 3) as u8
}

/// `len` bytes of the stream `key` from `offset` on.
pub fn stream_bytes(key: u64, offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64).map(|position| stream_byte(key, position)).collect()
}

/// Where `bytes` first differ from the stream `key` at `offset`.
pub fn first_difference(key: u64, offset: u64, bytes: &[u8]) -> Option<usize> {
    bytes
        .iter()
        .enumerate()
        .position(|(position, byte)| *byte != stream_byte(key, offset + position as u64))
}

//! Calls and results as untyped words, which a program may write right or wrong.

use abi::Errno;
use abi::call::{Op, ReturnPath};
use shm::Slot;

/// A call of any operation with any arguments.
pub(super) struct RawCall {
    pub(super) op: Op,
    pub(super) priority: u8,
    pub(super) flags: u8,
    pub(super) path: ReturnPath,
    pub(super) args: [u64; 6],
}

impl RawCall {
    pub(super) const NONBLOCK: u8 = 1;
    pub(super) const QUIET: u8 = 4;

    pub(super) fn encode(&self) -> Slot {
        let Self { op, priority, flags, path, args: [a, b, c, d, e, f] } = self;
        let head = *op as u64 | u64::from(*priority) << 16 | u64::from(*flags) << 24;
        let path = u64::from(path.client) | u64::from(path.ring) << 16 | u64::from(path.tag) << 32;
        [head, path, *a, *b, *c, *d, *e, *f]
    }
}

/// A result, whatever the call was.
pub(super) struct RawResult {
    pub(super) path: ReturnPath,
    pub(super) outcome: Result<[u64; 6], Errno>,
}

impl RawResult {
    pub(super) fn decode(slot: &Slot) -> Self {
        let [errno, path, values @ ..] = *slot;
        let [a, b, c, d, e, f, g, h] = path.to_le_bytes();
        let path = ReturnPath {
            client: u16::from_le_bytes([a, b]),
            ring: u16::from_le_bytes([c, d]),
            tag: u32::from_le_bytes([e, f, g, h]),
        };
        let outcome = match i32::try_from(errno).unwrap() {
            0 => Ok(values),
            errno => Err(Errno::from_raw_os_error(errno)),
        };
        Self { path, outcome }
    }
}

/// The first 24 bytes of an option's value as words.
pub(super) fn value_words(value: &[u8]) -> [u64; 3] {
    [0, 1, 2].map(|at| {
        let bytes = value.iter().skip(8 * at).take(8).rev();
        bytes.fold(0, |word, &byte| word << 8 | u64::from(byte))
    })
}

/// The first `len` bytes of an option's value out of words.
pub(super) fn value_bytes(words: &[u64], len: usize) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).take(len).collect()
}

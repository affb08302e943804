//! Memory that a file can be read into and written from without a copy (O_DIRECT).

use aligned_vec::{AVec, ConstAlign};
use bytes::Bytes;

/// Alignment in bytes: a page, which all devices take.
pub(crate) const ALIGNMENT: usize = 4096;

/// Bytes at the begin of a page.
#[derive(Debug)]
pub(crate) struct AlignedMemory(AVec<u8, ConstAlign<ALIGNMENT>>);

impl AlignedMemory {
    /// Zeroes.
    pub(crate) fn new(len: usize) -> Self {
        let mut bytes = AVec::new(ALIGNMENT);
        bytes.resize(len, 0);
        Self(bytes)
    }

    /// A copy of the pieces, one behind the other.
    pub(crate) fn gather(pieces: &[Bytes]) -> Self {
        let len = pieces.iter().map(Bytes::len).sum();
        let mut bytes = AVec::with_capacity(ALIGNMENT, len);
        for piece in pieces {
            bytes.extend_from_slice(piece);
        }
        Self(bytes)
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn append_zeroes(&mut self, len: usize) {
        self.0.resize(self.0.len() + len, 0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// The first `len` bytes, without a copy.
    pub(crate) fn into_bytes(mut self, len: usize) -> Bytes {
        self.0.truncate(len);
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for AlignedMemory {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes in aligned memory. A copy is made only of those that lie elsewhere, or in pieces.
pub(crate) fn aligned(pieces: &[Bytes]) -> Bytes {
    match pieces {
        [one] if one.as_ptr().addr().is_multiple_of(ALIGNMENT) => one.clone(),
        _ => {
            let memory = AlignedMemory::gather(pieces);
            let len = memory.len();
            memory.into_bytes(len)
        }
    }
}

//! The simplest memory that a stack can be given: chunks and frames are vectors.

use core::ops::Range;

use inet::{Egress, InterfaceId, RxBytes, TxBytes, TxOffload, TxPiece, gather};

use crate::packet::sum;

/// Payload to be sent.
pub(crate) struct Chunk(pub(crate) Vec<u8>);

impl TxBytes for Chunk {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn checksum(&self, range: Range<usize>) -> u16 {
        sum(&self.0[range])
    }

    fn copy_to(&self, range: Range<usize>, out: &mut [u8]) {
        out.copy_from_slice(&self.0[range]);
    }

    fn append(&mut self, next: Self) -> Result<(), Self> {
        Err(next)
    }
}

/// A received frame.
pub(crate) struct Frame(pub(crate) Vec<u8>);

impl RxBytes for Frame {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Keeps the frames that the stack sends.
#[derive(Default)]
pub(crate) struct Wire(pub(crate) Vec<Vec<u8>>);

impl Egress<Chunk> for Wire {
    fn ready(&mut self, _: InterfaceId) -> bool {
        true
    }

    fn emit(
        &mut self,
        _: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, Chunk>],
        _: TxOffload,
    ) -> bool {
        self.0.push(gather(head, body));
        true
    }
}

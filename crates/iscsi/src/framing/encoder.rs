//! Writing a PDU.

use bytes::{Bytes, BytesMut};

use crate::pdu::{BHS, Bhs};
use crate::transmit::Transmit;

/// A PDU of that header, additional headers and payload. Sets both lengths.
///
/// `ahs` is a multiple of four and at most 1,020 bytes, `data` less than 2^24.
pub fn encode(bhs: Bhs, ahs: &[u8], data: Vec<Bytes>, digests: (bool, bool)) -> Transmit {
    let length = data.iter().map(Bytes::len).sum();
    let bhs = bhs.with_lengths(ahs.len(), length);
    let mut header = BytesMut::with_capacity(BHS + ahs.len() + 4);
    header.extend_from_slice(&bhs.0);
    header.extend_from_slice(ahs);
    if digests.0 {
        let crc = crc32c::crc32c(&header);
        header.extend_from_slice(&crc.to_le_bytes());
    }
    Transmit::new(header.freeze(), data, digests.1)
}

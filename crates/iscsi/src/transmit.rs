//! A PDU on its way out: header bytes and pieces of payload, for a vectored write.

use bytes::Bytes;

/// Longest header: 48 bytes, 255 words of additional headers, a digest.
const MAX_TRAILER: usize = 7;

/// A PDU to be written. The payload lies where the caller put it.
#[derive(Debug, Clone, Default)]
pub struct Transmit {
    /// The headers and their digest.
    header: Bytes,
    /// The payload in order.
    data: Vec<Bytes>,
    /// Padding and digest of the payload.
    trailer: [u8; MAX_TRAILER],
    trailer_len: u8,
}

impl Transmit {
    /// A PDU of these headers and this payload; with a digest if asked for.
    pub(crate) fn new(header: Bytes, data: Vec<Bytes>, data_digest: bool) -> Self {
        let length: usize = data.iter().map(Bytes::len).sum();
        let mut pdu = Self { header, data, ..Self::default() };
        if length == 0 {
            return pdu;
        }
        // RFC 7143 11.1, 11.2.3: padding to whole words of zeros, which the digest covers.
        let padding = length.next_multiple_of(4) - length;
        let mut end = padding;
        if data_digest {
            let mut crc = pdu.data.iter().fold(0, |crc, piece| crc32c::crc32c_append(crc, piece));
            crc = crc32c::crc32c_append(crc, &pdu.trailer[..padding]);
            // RFC 7143 13.1: the digest's bytes lie in the order of the CRC's, lowest first.
            pdu.trailer[padding..padding + 4].copy_from_slice(&crc.to_le_bytes());
            end += 4;
        }
        pdu.trailer_len = u8::try_from(end).unwrap_or(0);
        pdu
    }

    /// The pieces in order, for a vectored write. None is empty.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let trailer = &self.trailer[..usize::from(self.trailer_len)];
        let data = self.data.iter().map(|piece| &piece[..]);
        let all = std::iter::once(&self.header[..]).chain(data).chain(std::iter::once(trailer));
        all.filter(|piece| !piece.is_empty())
    }

    /// The pieces as owners of their memory, for writers that keep them.
    pub fn into_pieces(self) -> impl Iterator<Item = Bytes> {
        let trailer = Bytes::copy_from_slice(&self.trailer[..usize::from(self.trailer_len)]);
        let all = std::iter::once(self.header).chain(self.data).chain(std::iter::once(trailer));
        all.filter(|piece| !piece.is_empty())
    }

    /// The length of the PDU on the wire in bytes.
    pub fn wire_len(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }
}

//! Reading PDUs.

use bytes::{Buf, Bytes, BytesMut};

use super::payload_parts::PayloadParts;
use crate::error::ProtocolError;
use crate::pdu::{BHS, Bhs};

/// A PDU as it was received.
#[derive(Debug, Clone)]
pub struct RawPdu {
    /// The basic header.
    pub bhs: Bhs,
    /// The additional headers.
    pub ahs: Bytes,
    /// The payload without padding.
    pub data: Bytes,
    /// Whether the payload's digest is right, or there is none.
    pub data_is_sound: bool,
}

/// What [`Decoder::decode_parts`] finds next.
#[derive(Debug, Clone)]
pub enum Decoded {
    /// A PDU. Nothing of it lies in the input's memory.
    Pdu(RawPdu),
    /// The header of a PDU whose payload comes in parts.
    Begin(Bhs),
    /// The next bytes of that payload, where they lie in the input. Empty if only padding or digest
    /// came.
    Part {
        /// The bytes.
        data: Bytes,
        /// `Some` with the last part: whether the payload's digest is right, or there is none.
        is_sound: Option<bool>,
    },
}

/// Cuts a stream of bytes into PDUs.
#[derive(Debug)]
pub struct Decoder {
    max_data: u32,
    header_digest: bool,
    data_digest: bool,
    /// The headers as far as they are there.
    header: Vec<u8>,
    /// The payload as far as it is there, of a PDU whose header is complete.
    body: Option<BytesMut>,
    /// The rest of a payload that comes in parts.
    parts: Option<PayloadParts>,
}

impl Decoder {
    /// A decoder without digests for payloads of up to that many bytes.
    pub fn new(max_data: u32) -> Self {
        let header = Vec::with_capacity(BHS + 4);
        Self { max_data, header_digest: false, data_digest: false, header, body: None, parts: None }
    }

    /// Sets what the login agreed on. It holds from the next PDU on.
    pub fn set(&mut self, max_data: u32, header_digest: bool, data_digest: bool) {
        (self.max_data, self.header_digest, self.data_digest) =
            (max_data, header_digest, data_digest);
    }

    /// Whether a part of a PDU is there.
    pub fn is_inside_pdu(&self) -> bool {
        !self.header.is_empty() || self.parts.is_some()
    }

    /// Bytes that the decoder keeps.
    pub fn held(&self) -> usize {
        self.header.capacity() + self.body.as_ref().map_or(0, BytesMut::capacity)
    }

    /// Takes bytes from the front of `input` up to the end of the next PDU. `None` if `input` ends
    /// before.
    ///
    /// # Errors
    ///
    /// A header's digest is wrong, or a payload is too long. The stream cannot be read any further;
    /// the peer is at fault.
    pub fn decode(&mut self, input: &mut Bytes) -> Result<Option<RawPdu>, ProtocolError> {
        if self.body.is_none() {
            let was_complete = self.fill_header(input);
            if !was_complete {
                return Ok(None);
            }
            self.check_header()?;
        }
        let bhs = self.bhs();
        let length = bhs.data_len() as usize;
        let wire = self.body_on_wire(length);
        if self.body.is_none() && input.len() >= wire && length >= input.len() / 8 {
            let body = input.split_to(wire);
            return Ok(Some(self.finish(bhs, length, &body)));
        }
        Ok(self.fill_body(input).map(|body| self.finish(bhs, length, &body)))
    }

    /// As [`Decoder::decode`]. But payloads of PDUs that are `in_parts` are handed on as they come,
    /// and the others are copied: whoever has the parts may reuse the input's memory.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode`].
    pub fn decode_parts(
        &mut self,
        input: &mut Bytes,
        in_parts: impl FnOnce(&Bhs) -> bool,
    ) -> Result<Option<Decoded>, ProtocolError> {
        if let Some(parts) = &mut self.parts {
            if input.is_empty() {
                return Ok(None);
            }
            let (data, is_sound) = parts.take(input);
            if is_sound.is_some() {
                self.parts = None;
            } else if data.is_empty() {
                return Ok(None);
            }
            return Ok(Some(Decoded::Part { data, is_sound }));
        }
        if self.body.is_none() {
            if !self.fill_header(input) {
                return Ok(None);
            }
            self.check_header()?;
        }
        let bhs = self.bhs();
        let length = bhs.data_len() as usize;
        if self.body.is_none() && length > 0 && in_parts(&bhs) {
            self.parts = Some(PayloadParts::new(length, self.data_digest));
            self.forget_header();
            return Ok(Some(Decoded::Begin(bhs)));
        }
        Ok(self.fill_body(input).map(|body| Decoded::Pdu(self.finish(bhs, length, &body))))
    }

    /// Copies the payload, its padding and its digest. `None`: not all is there.
    fn fill_body(&mut self, input: &mut Bytes) -> Option<Bytes> {
        let wire = self.body_on_wire(self.bhs().data_len() as usize);
        let body = self.body.get_or_insert_with(|| BytesMut::with_capacity(wire));
        let step = (wire - body.len()).min(input.len());
        body.extend_from_slice(&input[..step]);
        input.advance(step);
        if body.len() < wire {
            return None;
        }
        self.body.take().map(BytesMut::freeze)
    }

    fn bhs(&self) -> Bhs {
        let mut bytes = [0; BHS];
        bytes.copy_from_slice(&self.header[..BHS]);
        Bhs(bytes)
    }

    /// Copies header bytes; whether all are there.
    fn fill_header(&mut self, input: &mut Bytes) -> bool {
        let mut wanted = BHS;
        loop {
            if self.header.len() >= BHS {
                wanted = BHS + self.bhs().ahs_len() + if self.header_digest { 4 } else { 0 };
            }
            let step = (wanted - self.header.len()).min(input.len());
            self.header.extend_from_slice(&input[..step]);
            input.advance(step);
            if self.header.len() < wanted {
                return false;
            }
            if wanted > BHS || (!self.header_digest && self.bhs().ahs_len() == 0) {
                return true;
            }
        }
    }

    fn check_header(&self) -> Result<(), ProtocolError> {
        if self.header_digest {
            let (covered, digest) = self.header.split_at(self.header.len() - 4);
            // RFC 7143 7.8
            if crc32c::crc32c(covered).to_le_bytes() != *digest {
                return Err(ProtocolError::HeaderDigest);
            }
        }
        let length = self.bhs().data_len();
        // RFC 7143 13.12
        match length > self.max_data {
            true => Err(ProtocolError::TooLong { length, most: self.max_data }),
            false => Ok(()),
        }
    }

    /// Payload, padding and digest in bytes.
    fn body_on_wire(&self, length: usize) -> usize {
        match length {
            0 => 0,
            _ => length.next_multiple_of(4) + if self.data_digest { 4 } else { 0 },
        }
    }

    fn finish(&mut self, bhs: Bhs, length: usize, body: &Bytes) -> RawPdu {
        let data_is_sound = match self.data_digest && length > 0 {
            true => {
                let (covered, digest) = body.split_at(body.len() - 4);
                crc32c::crc32c(covered).to_le_bytes() == *digest
            }
            false => true,
        };
        let ahs = match bhs.ahs_len() {
            0 => Bytes::new(),
            length => Bytes::copy_from_slice(&self.header[BHS..BHS + length]),
        };
        self.forget_header();
        RawPdu { bhs, ahs, data: body.slice(..length), data_is_sound }
    }

    fn forget_header(&mut self) {
        self.header.clear();
        self.header.shrink_to(BHS + 4);
    }
}

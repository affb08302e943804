//! Text that comes in several PDUs (the C bit; RFC 7143 6.2).

use crate::error::ProtocolError;

/// Longest text in bytes, of all its PDUs.
pub(crate) const MAX_TEXT: usize = 16_384;

/// Puts a text of several PDUs together.
#[derive(Debug)]
pub(crate) struct TextAssembler {
    buffer: Vec<u8>,
    most: usize,
}

impl Default for TextAssembler {
    fn default() -> Self {
        Self::with_limit(MAX_TEXT)
    }
}

impl TextAssembler {
    /// An assembler for texts of up to that many bytes.
    pub(crate) fn with_limit(most: usize) -> Self {
        Self { buffer: Vec::new(), most }
    }

    /// Bytes that are there.
    pub(crate) fn held(&self) -> usize {
        self.buffer.capacity()
    }

    /// Adds the text of a PDU. `more` is its C bit. Gives the whole text with the last one.
    ///
    /// # Errors
    ///
    /// The text is longer than the limit; the peer is at fault.
    pub(crate) fn push(
        &mut self,
        data: &[u8],
        more: bool,
    ) -> Result<Option<Vec<u8>>, ProtocolError> {
        if self.buffer.len() + data.len() > self.most {
            return Err(ProtocolError::Text("it is too long"));
        }
        self.buffer.extend_from_slice(data);
        Ok((!more).then(|| std::mem::take(&mut self.buffer)))
    }
}

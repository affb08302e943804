//! Text that comes in several PDUs (the C bit; RFC 7143 6.2).

use crate::error::ProtocolError;

/// Longest text in bytes, of all its PDUs.
pub const MAX_TEXT: usize = 16_384;

/// Puts a text of several PDUs together.
#[derive(Debug, Default)]
pub struct TextAssembler {
    buffer: Vec<u8>,
}

impl TextAssembler {
    /// Adds the text of a PDU. `more` is its C bit. Gives the whole text with the last one.
    ///
    /// # Errors
    ///
    /// The text is longer than [`MAX_TEXT`]; the peer is at fault.
    pub fn push(&mut self, data: &[u8], more: bool) -> Result<Option<Vec<u8>>, ProtocolError> {
        if self.buffer.len() + data.len() > MAX_TEXT {
            return Err(ProtocolError::Text("it is longer than 16,384 bytes"));
        }
        self.buffer.extend_from_slice(data);
        Ok((!more).then(|| std::mem::take(&mut self.buffer)))
    }
}

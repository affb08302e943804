//! `key=value` pairs, each ended by a zero byte.

use crate::error::ProtocolError;

/// Most pairs of a text.
pub(crate) const MAX_PAIRS: usize = 64;
/// Longest key in bytes (RFC 7143 6.1).
const MAX_KEY: usize = 63;

/// Takes a text apart.
///
/// # Errors
///
/// A pair is malformed, or there are more than [`MAX_PAIRS`]; the peer is at fault.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<(&str, &str)>, ProtocolError> {
    parse_up_to(text, MAX_PAIRS)
}

/// Takes a text of at most that many pairs apart.
///
/// # Errors
///
/// As [`parse`].
pub(crate) fn parse_up_to(text: &[u8], most: usize) -> Result<Vec<(&str, &str)>, ProtocolError> {
    let wrong = |what| Err(ProtocolError::Text(what));
    let mut pairs = Vec::new();
    // Zeros at the end are padding of senders that count it in.
    for pair in text.split(|byte| *byte == 0).filter(|pair| !pair.is_empty()) {
        let Ok(pair) = std::str::from_utf8(pair) else { return wrong("it is not UTF-8") };
        let Some((key, value)) = pair.split_once('=') else { return wrong("a pair has no '='") };
        let is_legal = |c: char| c.is_ascii_alphanumeric() || ".-+@_#".contains(c);
        if key.is_empty() || key.len() > MAX_KEY || !key.chars().all(is_legal) {
            return wrong("a key is malformed");
        }
        if pairs.len() == most {
            return wrong("it has too many pairs");
        }
        pairs.push((key, value));
    }
    if text.last().is_some_and(|last| *last != 0) {
        return wrong("its last pair has no end");
    }
    Ok(pairs)
}

/// Writes pairs.
#[derive(Debug, Default)]
pub(crate) struct TextWriter {
    buffer: Vec<u8>,
}

impl TextWriter {
    /// Adds a pair. A zero byte would begin another pair, so the value ends before it.
    pub(crate) fn push(&mut self, key: &str, value: &str) {
        let value = value.split('\0').next().unwrap_or_default();
        for part in [key, "=", value, "\0"] {
            self.buffer.extend_from_slice(part.as_bytes());
        }
    }

    /// The text.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.buffer
    }
}

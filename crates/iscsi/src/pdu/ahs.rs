//! Additional header segments (RFC 7143 11.2.2): the rest of a long CDB, and the read length of a
//! bidirectional command.

use bytes::Bytes;

/// Longest CDB in bytes (SPC-4 4.2.3: variable length up to 260).
const MAX_CDB: usize = 260;

/// The additional headers of a SCSI command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ahs {
    /// The bytes of the CDB after its first 16; empty if there are none.
    pub extended_cdb: Bytes,
    /// Expected Bidirectional Read Data Length in bytes.
    pub read_length: Option<u32>,
}

/// What is wrong with additional headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AhsError {
    /// A segment is longer than the headers, or shorter than its type.
    #[error("an additional header has a wrong length of {0} bytes")]
    Length(usize),
    /// A type that is reserved.
    #[error("an additional header has the unknown type {0}")]
    Type(u8),
    /// A type that is there twice.
    #[error("an additional header of type {0} is there twice")]
    Doubled(u8),
}

impl Ahs {
    /// Reads the additional headers of a PDU; `bytes` is TotalAHSLength long.
    ///
    /// # Errors
    ///
    /// A segment is malformed; the initiator is at fault.
    pub fn parse(bytes: &Bytes) -> Result<Self, AhsError> {
        let mut ahs = Self::default();
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + 3) {
            // AHSLength counts the bytes after AHSType (RFC 7143 11.2.2.2).
            let length = usize::from(u16::from_be_bytes([head[0], head[1]]));
            let kind = head[2] & 0x3f;
            let end = at + 3 + length;
            if length == 0 || end > bytes.len() {
                return Err(AhsError::Length(length));
            }
            // The byte after the type is reserved.
            let body = at + 4..end;
            match kind {
                // RFC 7143 11.2.2.3
                1 if !ahs.extended_cdb.is_empty() => return Err(AhsError::Doubled(1)),
                1 if body.is_empty() || body.len() > MAX_CDB - 16 => {
                    return Err(AhsError::Length(length));
                }
                1 => ahs.extended_cdb = bytes.slice(body),
                // RFC 7143 11.2.2.4
                2 if ahs.read_length.is_some() => return Err(AhsError::Doubled(2)),
                2 => {
                    let field = bytes[body].first_chunk().filter(|_| length == 5);
                    let field = field.ok_or(AhsError::Length(length))?;
                    ahs.read_length = Some(u32::from_be_bytes(*field));
                }
                other => return Err(AhsError::Type(other)),
            }
            at = end.next_multiple_of(4);
        }
        match bytes.len().checked_sub(at) {
            Some(0) => Ok(ahs),
            left => Err(AhsError::Length(left.unwrap_or(0))),
        }
    }

    /// The headers' bytes, padded to a multiple of four.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.extended_cdb.is_empty() {
            let length = u16::try_from(self.extended_cdb.len() + 1).unwrap_or(u16::MAX);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&[1, 0]);
            out.extend_from_slice(&self.extended_cdb);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        if let Some(length) = self.read_length {
            out.extend_from_slice(&[0, 5, 2, 0]);
            out.extend_from_slice(&length.to_be_bytes());
        }
        out
    }
}

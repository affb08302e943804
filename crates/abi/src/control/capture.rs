//! The datagrams of `tasuki capture`.

/// Header of a captured frame's datagram: 24 bytes, little-endian. The captured bytes follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureHeader {
    /// Nanoseconds since 1970.
    pub at: u64,
    /// Length of the whole frame.
    pub len: u32,
    /// Sent by the stack (otherwise received).
    pub sent: bool,
    /// Frames that the capture missed since the last one it took.
    pub missed: u64,
}

impl CaptureHeader {
    /// Bytes of the encoding.
    pub const LEN: usize = 24;

    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.at.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12] = u8::from(self.sent);
        bytes[16..].copy_from_slice(&self.missed.to_le_bytes());
        bytes
    }

    /// Out of a datagram's start; `None` when it is too short.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
        Some(Self {
            at: u64::from_le_bytes(word(0)?),
            len: u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?),
            sent: *bytes.get(12)? == 1,
            missed: u64::from_le_bytes(word(16)?),
        })
    }
}

//! The basic header segment (RFC 7143 11.2.1).

/// Length of the basic header segment in bytes.
pub const BHS: usize = 48;
/// The tag that names no task and no transfer (RFC 7143 11.2.1.8).
pub const NO_TAG: u32 = 0xffff_ffff;

/// The operation codes (RFC 7143 11.2.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the RFC")]
pub enum Opcode {
    NopOut = 0x00,
    ScsiCommand = 0x01,
    TaskRequest = 0x02,
    LoginRequest = 0x03,
    TextRequest = 0x04,
    DataOut = 0x05,
    LogoutRequest = 0x06,
    SnackRequest = 0x10,
    NopIn = 0x20,
    ScsiResponse = 0x21,
    TaskResponse = 0x22,
    LoginResponse = 0x23,
    TextResponse = 0x24,
    DataIn = 0x25,
    LogoutResponse = 0x26,
    R2t = 0x31,
    AsyncMessage = 0x32,
    Reject = 0x3f,
}

impl Opcode {
    /// The operation of that code, if it is one.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::NopOut,
            0x01 => Self::ScsiCommand,
            0x02 => Self::TaskRequest,
            0x03 => Self::LoginRequest,
            0x04 => Self::TextRequest,
            0x05 => Self::DataOut,
            0x06 => Self::LogoutRequest,
            0x10 => Self::SnackRequest,
            0x20 => Self::NopIn,
            0x21 => Self::ScsiResponse,
            0x22 => Self::TaskResponse,
            0x23 => Self::LoginResponse,
            0x24 => Self::TextResponse,
            0x25 => Self::DataIn,
            0x26 => Self::LogoutResponse,
            0x31 => Self::R2t,
            0x32 => Self::AsyncMessage,
            0x3f => Self::Reject,
            _ => return None,
        })
    }
}

/// A view of the first 48 bytes of a PDU. All numbers are big endian.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bhs(pub [u8; BHS]);

impl Bhs {
    /// A header of zeros with that operation.
    pub(crate) const fn new(opcode: Opcode) -> Self {
        let mut bytes = [0; BHS];
        bytes[0] = opcode as u8;
        Self(bytes)
    }

    /// The operation code without the immediate bit.
    pub const fn opcode(&self) -> u8 {
        self.0[0] & 0x3f
    }

    /// The I bit (RFC 7143 11.2.1.1).
    pub const fn immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// The F bit (RFC 7143 11.2.1.3).
    pub const fn is_final(&self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// TotalAHSLength in bytes (on the wire: words of four bytes).
    pub const fn ahs_len(&self) -> usize {
        self.0[4] as usize * 4
    }

    /// DataSegmentLength in bytes, without padding.
    pub const fn data_len(&self) -> u32 {
        u32::from_be_bytes([0, self.0[5], self.0[6], self.0[7]])
    }

    /// The Initiator Task Tag.
    pub const fn task_tag(&self) -> u32 {
        self.u32_at(16)
    }

    pub(crate) const fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    pub(crate) const fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    pub(crate) fn bytes_at<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }

    #[must_use]
    pub(crate) fn with(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    #[must_use]
    pub(crate) fn with_u32(self, at: usize, number: u32) -> Self {
        self.with(at, &number.to_be_bytes())
    }

    /// Sets bits of a byte if the condition holds.
    #[must_use]
    pub(crate) const fn with_bits(mut self, at: usize, bits: u8, on: bool) -> Self {
        if on {
            self.0[at] |= bits;
        }
        self
    }

    /// Sets TotalAHSLength (bytes, a multiple of four below 1,024) and DataSegmentLength (bytes).
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "255 words of AHS, 24 bits of data")]
    pub(crate) fn with_lengths(self, ahs: usize, data: usize) -> Self {
        debug_assert!(ahs.is_multiple_of(4) && ahs < 1024 && data < 1 << 24);
        let [_, a, b, c] = (data as u32).to_be_bytes();
        self.with(4, &[(ahs / 4) as u8, a, b, c])
    }
}

impl std::fmt::Debug for Bhs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?}", self.0)
    }
}

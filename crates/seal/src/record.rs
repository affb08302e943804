//! The layout of records: header, kinds, control bodies, sizes.
//!
//! ```text
//!   0        1        2        3        4        5        6        7
//! ┌────────┬────────┬─────────────────┬───────────────────────────────────┐
//! │ kind   │ flags  │ epoch           │ length of what follows            │   header in the clear,
//! └────────┴────────┴─────────────────┴───────────────────────────────────┘   authenticated (AAD)
//! ┌─────────────────────────────┬──────────────────────────────┬──────────┐
//! │ content                     │ padding: 0x80, then zeros    │ tag      │   sealed
//! └─────────────────────────────┴──────────────────────────────┴──────────┘
//! ```
//!
//! Numbers are big-endian. A header is decoded into [`Header`] or refused before anything else
//! looks at it. docs/reference/sealed-transport.md is the specification.

use crate::kind::Kind;
use crate::open_error::OpenError;
use crate::suite::TAG_LEN;

/// Bytes of a record's header.
pub const HEADER_LEN: usize = 8;
/// Least that a receiver must take: bytes of content in a Data record.
pub const MIN_BOUND: u32 = 16 << 10;
/// Most that a receiver may ask for, and most content of any Data record, in bytes.
pub const MAX_BOUND: u32 = 256 << 10;
/// Most bytes of padding in a record, and the largest multiple that records are padded to.
pub const MAX_PADDING: usize = 16 << 10;
/// Bytes of the longest control record.
pub const MAX_CONTROL_LEN: usize = HEADER_LEN + HELLO_LEN + TAG_LEN;
/// Most bytes of content and padding under one key; the sender changes keys before.
pub const MAX_KEY_BYTES: u64 = 1 << 36;
/// Most records under one key; the sender changes keys before.
pub const MAX_KEY_RECORDS: u64 = 1 << 24;

/// Most changes of a key in a row without a Data record between.
pub const MAX_CHANGES_WITHOUT_DATA: u8 = 16;

/// Bytes of a Hello's content.
pub(crate) const HELLO_LEN: usize = 8;
/// The version of records.
const VERSION: u8 = 1;
/// The content is followed by padding. Only Data records have this flag.
const FLAG_PADDED: u8 = 1;
/// The sender of the Rekey asks the peer to change its own key as well.
const FLAG_ANSWER: u8 = 2;

/// A decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Data: padding follows the content. Rekey: the peer is to change its key too.
    pub(crate) flag: bool,
    /// The lowest 16 bits of the number of the key.
    pub(crate) epoch: u16,
    /// Bytes of content and padding, without the tag.
    pub(crate) sealed_len: usize,
}

impl Header {
    pub(crate) fn encode(self) -> [u8; HEADER_LEN] {
        let flags = match (self.flag, self.kind) {
            (false, _) => 0,
            (true, Kind::Rekey) => FLAG_ANSWER,
            (true, _) => FLAG_PADDED,
        };
        let epoch = self.epoch.to_be_bytes();
        // At most MAX_BOUND + MAX_PADDING + TAG_LEN, which fits.
        let length = ((self.sealed_len + TAG_LEN) as u32).to_be_bytes();
        [self.kind as u8, flags, epoch[0], epoch[1], length[0], length[1], length[2], length[3]]
    }

    /// Decodes a header and checks its length against what its kind may have.
    ///
    /// `bound` is the most content of a Data record that this receiver takes, in bytes.
    pub(crate) fn decode(bytes: [u8; HEADER_LEN], bound: u32) -> Result<Self, OpenError> {
        let [kind, flags, e0, e1, length @ ..] = bytes;
        let length = u32::from_be_bytes(length);
        let (kind, flag) = match (kind, flags) {
            (1, 0) => (Kind::Hello, false),
            (2, 0) => (Kind::Data, false),
            (2, FLAG_PADDED) => (Kind::Data, true),
            (3, 0) => (Kind::Rekey, false),
            (3, FLAG_ANSWER) => (Kind::Rekey, true),
            (4, 0) => (Kind::End, false),
            (5, 0) => (Kind::Alert, false),
            (1..=5, _) => return Err(OpenError::UnknownFlags { kind, flags }),
            _ => return Err(OpenError::UnknownKind { kind }),
        };
        let (least, most) = match (kind, flag) {
            (Kind::Hello, _) => (HELLO_LEN, HELLO_LEN),
            (Kind::Data, false) => (1, bound as usize),
            // One byte of content and one of padding.
            (Kind::Data, true) => (2, bound as usize + MAX_PADDING),
            (Kind::Rekey | Kind::End, _) => (0, 0),
            (Kind::Alert, _) => (1, 1),
        };
        let sealed_len = (length as usize).checked_sub(TAG_LEN);
        match sealed_len.filter(|len| (least..=most).contains(len)) {
            Some(sealed_len) => {
                Ok(Self { kind, flag, epoch: u16::from_be_bytes([e0, e1]), sealed_len })
            }
            None => Err(OpenError::BadLength { kind, length, most: (most + TAG_LEN) as u32 }),
        }
    }
}

/// What the peer's Hello says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerHello {
    bound: u32,
}

impl PeerHello {
    /// Most bytes of content that the peer takes in a Data record: [`MIN_BOUND`] to [`MAX_BOUND`].
    pub fn bound(self) -> u32 {
        self.bound
    }

    pub(crate) fn encode(bound: u32) -> [u8; HELLO_LEN] {
        let bound = bound.to_be_bytes();
        [VERSION, 0, 0, 0, bound[0], bound[1], bound[2], bound[3]]
    }

    pub(crate) fn decode(content: &[u8]) -> Result<Self, OpenError> {
        match *content {
            [VERSION, 0, 0, 0, b0, b1, b2, b3] => {
                let bound = u32::from_be_bytes([b0, b1, b2, b3]);
                match (MIN_BOUND..=MAX_BOUND).contains(&bound) {
                    true => Ok(Self { bound }),
                    false => Err(OpenError::BadBound { bound }),
                }
            }
            _ => Err(OpenError::BadHello),
        }
    }
}

/// Why an end gives up a session: the content of an Alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// The peer's identity is right and may not do this.
    #[error("access denied")]
    AccessDenied,
    /// The peer's key or name is not known here.
    #[error("the identity is not known")]
    UnknownIdentity,
    /// A record could not be opened.
    #[error("a record could not be opened")]
    BadRecord,
    /// The peer broke a rule of the protocol.
    #[error("a rule of the protocol was broken")]
    Protocol,
    /// A bound on sessions, memory or keys was reached.
    #[error("a bound was reached")]
    Exhausted,
    /// The program ends.
    #[error("the program ends")]
    GoingAway,
    /// The sender failed.
    #[error("the sender failed")]
    Internal,
    /// A number that this version does not know.
    #[error("a reason with the unknown number {0}")]
    Other(u8),
}

impl Reason {
    const NUMBERED: [(u8, Self); 7] = [
        (1, Self::AccessDenied),
        (2, Self::UnknownIdentity),
        (3, Self::BadRecord),
        (4, Self::Protocol),
        (5, Self::Exhausted),
        (6, Self::GoingAway),
        (7, Self::Internal),
    ];

    /// The reason's number in a record.
    pub fn number(self) -> u8 {
        match self {
            Self::Other(number) => number,
            reason => {
                let found = Self::NUMBERED.iter().find(|(_, one)| *one == reason);
                found.map_or(0, |(number, _)| *number)
            }
        }
    }

    pub(crate) fn of_number(number: u8) -> Self {
        let found = Self::NUMBERED.iter().find(|(one, _)| *one == number);
        found.map_or(Self::Other(number), |(_, reason)| *reason)
    }
}

/// Bytes of padding with which `content` bytes become a multiple of `multiple` (0: no padding).
///
/// There is at least one byte of padding, so the length does not show a content that is a multiple
/// already.
pub(crate) fn padding_len(content: usize, multiple: usize) -> usize {
    match multiple {
        0 => 0,
        _ => multiple - content % multiple,
    }
}

/// The bytes of content in `sealed`, which ends in padding.
///
/// # Errors
/// [`OpenError::BadPadding`] if there is no 0x80, more than [`MAX_PADDING`] bytes of padding, or no
/// content.
pub(crate) fn content_len(sealed: &[u8]) -> Result<usize, OpenError> {
    let marker = sealed.iter().rposition(|byte| *byte != 0).ok_or(OpenError::BadPadding)?;
    let sound = sealed[marker] == 0x80 && marker > 0 && sealed.len() - marker <= MAX_PADDING;
    if sound { Ok(marker) } else { Err(OpenError::BadPadding) }
}

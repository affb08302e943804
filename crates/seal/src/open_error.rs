//! Why a received record was refused, or a stream ended too soon.

use crate::fault::Fault;
use crate::kind::Kind;

/// A received record that was refused, or a stream that ended too soon.
///
/// Each of these ends the session. The opener refuses all that comes after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum OpenError {
    /// The header's kind is none of this version.
    #[error("a record of the unknown kind {kind}: the peer does not speak tasuki-seal/1")]
    UnknownKind {
        /// The header's first byte.
        kind: u8,
    },
    /// The kind of record cannot have these flags.
    #[error("a record of kind {kind} has flags {flags:#04x}, which it cannot have")]
    UnknownFlags {
        /// The header's first byte.
        kind: u8,
        /// The header's second byte.
        flags: u8,
    },
    /// The length is not one that this kind of record can have here.
    #[error("a record of kind {kind} has length {length}; at most {most} are taken")]
    BadLength {
        /// The record's kind.
        kind: Kind,
        /// The header's length, in bytes.
        length: u32,
        /// The largest length that would have been taken, in bytes.
        most: u32,
    },
    /// The record's epoch is not the direction's.
    #[error("a record of epoch {got} where {expected} was to come: replayed, dropped or spliced")]
    WrongEpoch {
        /// The header's epoch.
        got: u16,
        /// The lowest 16 bits of the epoch of the direction.
        expected: u16,
    },
    /// The tag does not fit the record, its place in the stream and the key.
    #[error("record {number} of epoch {epoch} is not authentic: changed, replayed or out of order")]
    NotAuthentic {
        /// The epoch of the direction.
        epoch: u64,
        /// The number of the record in its epoch.
        number: u64,
    },
    /// The padding of an authentic record breaks the rules.
    #[error("a record's padding is not 0x80 and zeros after some content")]
    BadPadding,
    /// The first record is not a Hello, or a later one is.
    #[error("a record of kind {kind} out of its place: the first record alone is a Hello")]
    HelloOutOfPlace {
        /// The record's kind.
        kind: Kind,
    },
    /// A Hello of another version, or with bytes that must be zero.
    #[error("the peer's Hello is not one of version 1")]
    BadHello,
    /// The peer's bound is not one of [`MIN_BOUND`](crate::MIN_BOUND) to
    /// [`MAX_BOUND`](crate::MAX_BOUND).
    #[error("the peer bounds records to {bound} bytes, which is not 16 to 256 KiB")]
    BadBound {
        /// The bound in the Hello, in bytes.
        bound: u32,
    },
    /// The peer used a key for longer than [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES) or
    /// [`MAX_KEY_RECORDS`](crate::MAX_KEY_RECORDS) allow.
    #[error("the peer used the key of epoch {epoch} for too many records or bytes")]
    KeyOverused {
        /// The epoch of the direction.
        epoch: u64,
    },
    /// The peer changed its key more than
    /// [`MAX_CHANGES_WITHOUT_DATA`](crate::MAX_CHANGES_WITHOUT_DATA) times in a row.
    #[error("the peer changes its key again and again and sends no data")]
    ChangesWithoutData,
    /// The stream ended without an End or Alert record.
    #[error("the stream ended without an End record, {partial} bytes into a record: truncated")]
    Truncated {
        /// Bytes of the record that was begun.
        partial: usize,
    },
    /// Bytes came after an End or Alert record.
    #[error("bytes came after the record that ends the stream")]
    AfterEnd,
    /// An earlier record was refused.
    #[error("the session has ended: an earlier record was refused")]
    Failed,
    /// The body does not belong to the header that was decoded last.
    #[error("the body does not belong to the last header, or has another length")]
    WrongBody,
    /// The cryptographic library could not derive a key.
    #[error("the cryptographic library could not derive a key")]
    Library,
}

impl OpenError {
    /// The party at fault.
    pub fn fault(self) -> Fault {
        match self {
            // These come before the tag is checked, so the path can cause them too.
            Self::UnknownKind { .. }
            | Self::UnknownFlags { .. }
            | Self::BadLength { .. }
            | Self::WrongEpoch { .. }
            | Self::NotAuthentic { .. }
            | Self::HelloOutOfPlace { .. }
            | Self::Truncated { .. }
            | Self::AfterEnd => Fault::PeerOrPath,
            Self::BadPadding
            | Self::BadHello
            | Self::BadBound { .. }
            | Self::KeyOverused { .. }
            | Self::ChangesWithoutData => Fault::Peer,
            Self::Failed | Self::WrongBody => Fault::Caller,
            Self::Library => Fault::Library,
        }
    }
}

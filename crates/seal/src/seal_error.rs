//! Why a record could not be sealed.

use crate::fault::Fault;

/// A record that could not be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SealError {
    /// The peer's Hello has not been handled, so its bound is not known.
    #[error("no data may be sent before the peer's Hello has come")]
    NoHello,
    /// The chunk is empty or longer than the peer takes.
    #[error("a chunk of {len} bytes; the peer takes 1 to {most}")]
    BadChunk {
        /// The chunk's bytes.
        len: usize,
        /// The most that the peer takes, in bytes.
        most: u32,
    },
    /// The space for the tail has another length than [`SealJob::tail_len`](crate::SealJob).
    #[error("the tail takes {expected} bytes and got space for {got}")]
    BadTail {
        /// Bytes of space.
        got: usize,
        /// Bytes of the tail.
        expected: usize,
    },
    /// The chunk has another length than the job was made for.
    #[error("the job is for a chunk of {expected} bytes and got one of {got}")]
    WrongChunk {
        /// Bytes of the chunk.
        got: usize,
        /// Bytes that the job was made for.
        expected: usize,
    },
    /// The key has done all that it may. [`Sealer::rekey`](crate::Sealer::rekey) comes first.
    #[error("the key has sealed all that it may: change it first")]
    RekeyFirst,
    /// The key was changed
    /// [`MAX_CHANGES_WITHOUT_DATA`](crate::MAX_CHANGES_WITHOUT_DATA) times, and no data was sealed
    /// since. The key is as good as new.
    #[error("the key has been changed, and no data was sealed since")]
    ChangesWithoutData,
    /// An End or Alert has been sealed already.
    #[error("nothing may follow the record that ends the stream")]
    Ended,
    /// The cryptographic library failed.
    #[error("the cryptographic library could not seal a record")]
    Library,
}

impl SealError {
    /// The party at fault.
    pub fn fault(self) -> Fault {
        match self {
            Self::Library => Fault::Library,
            _ => Fault::Caller,
        }
    }
}

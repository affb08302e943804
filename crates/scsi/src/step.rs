//! What a task asks of the shell, and what the shell answers: data-out, medium operations, stored
//! state, responses.
//!
//! Offsets and lengths are bytes. Each is a multiple of the unit's block size, except where the
//! item says otherwise. Each range lies within the unit as it was when the task made the operation.
//! A `Map` or a read for `Nowhere` can be as long as the unit, and a `Zero` or `WriteSame` as long
//! as 65,535 blocks: a shell works in pieces.

use bytes::Bytes;

use crate::id::{LunNumber, NexusId};
use crate::status::Status;

/// Most bytes that a task asks of the shell, or gives it, in one piece of memory: a COMPARE AND
/// WRITE of 255 blocks of 4,096 bytes, with both halves.
pub const MOST_DATA_OUT: u32 = 2 * 255 * 4096;

/// Most ranges of one [`MediumOperation::Unmap`].
pub const MOST_UNMAP_RANGES: u16 = 256;

/// What a task needs next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The task needs these bytes of the command's data-out. The shell answers with
    /// `Target::data_out` and exactly `len` bytes.
    DataOut {
        /// First byte within the data-out buffer.
        offset: u64,
        /// Bytes; at most [`MOST_DATA_OUT`].
        len: u32,
    },
    /// The task needs an operation on a medium. The shell answers with `Target::medium_done`.
    Medium {
        /// The unit. It is another one than the command's own only in EXTENDED COPY.
        lun: LunNumber,
        /// The operation.
        operation: MediumOperation,
    },
    /// The task needs state to be on stable storage before it may answer. The shell answers with
    /// `Target::stored`.
    Store {
        /// The unit.
        lun: LunNumber,
        /// What is to be stored. It replaces what was stored of the same kind for the unit.
        state: StoredState,
    },
    /// The task is over. The shell sends the response and drops the task.
    Done(Response),
}

/// State of a unit that a shell keeps for it. The bytes go back in with the unit's configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoredState {
    /// Persistent reservations with APTPL. `None` says that nothing is to survive.
    Reservations(Option<Bytes>),
    /// Saved mode pages (MODE SELECT with SP).
    ModePages(Bytes),
}

/// An operation on a unit's medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MediumOperation {
    /// Read.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes, more than 0.
        len: u64,
        /// Where the bytes go.
        to: ReadTo,
    },
    /// Write.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes, more than 0.
        len: u64,
        /// The bytes are on stable storage before the operation ends well.
        fua: bool,
        /// Where the bytes come from.
        from: WriteFrom,
    },
    /// All that was written before is on stable storage when the operation ends well.
    Flush,
    /// The unit may read these bytes ahead (PRE-FETCH). Doing nothing is right too.
    Prefetch {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Gives storage back. All bytes of the ranges read as zero afterwards.
    Unmap {
        /// Ranges, at most [`MOST_UNMAP_RANGES`]. They may overlap.
        ranges: Vec<ByteRange>,
        /// The storage stays reserved for the ranges (anchored).
        anchor: bool,
    },
    /// Makes all bytes zero.
    Zero {
        /// The bytes.
        range: ByteRange,
        /// What becomes of the storage below them.
        allocation: Allocation,
    },
    /// Writes one block again and again.
    WriteSame {
        /// The bytes.
        range: ByteRange,
        /// The block, as long as the unit's block size.
        block: Bytes,
    },
    /// Tells which bytes have storage. The answer is [`MediumOutput::Extents`].
    Map {
        /// The bytes.
        range: ByteRange,
        /// Most extents wanted. The answer may be shorter than the range.
        most: u32,
    },
}

/// Where read bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadTo {
    /// The first `len` bytes are the command's data-in. The shell sends them, and answers
    /// [`MediumOutput::Done`]; the task never sees them. `len` need be no multiple of the block
    /// size; it can be 0.
    DataIn {
        /// Bytes.
        len: u64,
    },
    /// The task needs the bytes: [`MediumOutput::Bytes`]. The length is at most
    /// [`MOST_DATA_OUT`].
    Task,
    /// Nobody needs the bytes; they need only be readable. The answer is [`MediumOutput::Done`].
    Nowhere,
}

/// Where bytes to be written come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WriteFrom {
    /// From the command's data-out: the bytes from its beginning, as many as the operation has. The
    /// shell may write each piece when it has arrived.
    DataOut,
    /// These bytes.
    Bytes(Bytes),
}

/// What becomes of storage under zeroes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// It is given back where the medium can.
    Deallocate,
    /// It is reserved.
    Anchor,
    /// The zeroes are written like other bytes.
    Write,
}

/// A range of bytes of a medium.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// Bytes, more than 0.
    pub len: u64,
}

impl ByteRange {
    /// First byte behind the range.
    pub const fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Whether a byte lies in both.
    pub const fn overlaps(self, other: Self) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

/// How the bytes of an [`Extent`] are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtentState {
    /// They have storage.
    Mapped,
    /// They have none and read as zero.
    Deallocated,
    /// They have reserved storage and read as zero.
    Anchored,
}

/// Bytes of a medium that are stored alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Bytes. The first extent begins where the asked range begins, each other one where the one
    /// before ends. The task rounds to whole blocks; a block with some storage is mapped.
    pub len: u64,
    /// How they are stored.
    pub state: ExtentState,
}

/// What an operation gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MediumOutput {
    /// It was done.
    Done,
    /// The bytes of a read for [`ReadTo::Task`], exactly as many as asked.
    Bytes(Bytes),
    /// The extents of a [`MediumOperation::Map`].
    Extents(Vec<Extent>),
}

/// Why an operation on a medium failed. The fault is the medium's, not the initiator's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MediumError {
    /// The byte at this offset of the medium cannot be read.
    #[error("the medium cannot be read at byte {0}")]
    Read(u64),
    /// The byte at this offset of the medium cannot be written, or a flush failed at an unknown
    /// one.
    #[error("the medium cannot be written at byte {0}")]
    Write(u64),
    /// A flush failed: bytes written before may be lost.
    #[error("the medium's cache cannot be flushed")]
    Flush,
    /// The medium has no space left for the bytes.
    #[error("the medium has no space left")]
    NoSpace,
    /// The medium is not there any more.
    #[error("the medium is gone")]
    Gone,
    /// The medium refuses writes.
    #[error("the medium is read-only")]
    ReadOnly,
}

/// The end of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// Status.
    pub status: Status,
    /// Sense data in the unit's format (fixed or descriptor); empty unless the status is CHECK
    /// CONDITION.
    pub sense: Bytes,
    /// Data-in.
    pub data_in: DataIn,
    /// By how much the command's length differs from the expected length. It counts data-in that
    /// this response has, so a shell that has sent bytes of a failed read counts anew.
    pub residual: Residual,
    /// What the shell does before it sends the response.
    pub effects: Vec<Effect>,
}

/// What a finished task asks of the shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The shell aborts the nexus's other tasks at the unit, without a response (TAS is 0). PREEMPT
    /// AND ABORT asks so.
    AbortTasks {
        /// The nexus.
        nexus: NexusId,
        /// The unit.
        lun: LunNumber,
    },
    /// The unit's medium was ejected. The shell may close it.
    Ejected(LunNumber),
    /// The unit's medium was loaded. The shell opens it, if it has closed it.
    Loaded(LunNumber),
}

/// Data-in of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataIn {
    /// There is none.
    None,
    /// These bytes; never more than the initiator expects.
    Bytes(Bytes),
    /// The bytes that the shell read for [`ReadTo::DataIn`].
    Medium {
        /// Bytes.
        len: u64,
    },
}

impl DataIn {
    /// Bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Medium { len } => *len,
        }
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How the command's length differs from the length that the initiator expects (RFC 7143 11.4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Residual {
    /// They are equal.
    None,
    /// The command transfers so many bytes less than the initiator expects.
    Underflow(u64),
    /// The command would transfer so many bytes more than the initiator expects.
    Overflow(u64),
}

impl Residual {
    /// Of a command that has `length` bytes, for an initiator that expects `expected`.
    pub const fn of(length: u64, expected: u64) -> Self {
        if length < expected {
            Self::Underflow(expected - length)
        } else if length > expected {
            Self::Overflow(length - expected)
        } else {
            Self::None
        }
    }
}

//! Volumes: where the bytes of a logical unit are.
//!
//! A volume carries out the operations that the SCSI device server asks for. Its errors are the
//! medium's ([`MediumError`]): they become sense data, never a lie.
//!
//! | kind | bytes are | made for |
//! |---|---|---|
//! | `file` | in a regular file, with holes | images |
//! | `block` | on a block device | disks, logical volumes |
//! | `memory` | in this process, as they are written | tests, scratch space |
//! | `null` | nowhere; they read as zero | measurements |

mod file;
mod memory;
mod specification;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use scsi::{
    Allocation, ByteRange, Extent, ExtentState, MediumError, MediumOperation, MediumOutput, ReadTo,
};

use crate::memory::AlignedMemory;
use crate::ring::Ring;

use self::file::FileVolume;
use self::memory::SparseMemory;

pub use self::file::OpenError;
pub use self::specification::{SpecificationError, VolumeSpecification, parse_size};

/// Bytes that are written at a time where one block is written again and again.
const REPEATED: usize = 1 << 20;

/// An open volume.
#[derive(Debug)]
pub(crate) struct Volume {
    specification: VolumeSpecification,
    kind: Kind,
    size: u64,
}

#[derive(Debug)]
enum Kind {
    File(FileVolume),
    Memory(RefCell<SparseMemory>),
    Null,
}

impl Volume {
    /// Opens what the specification names, for blocks of `block_size` bytes.
    ///
    /// # Errors
    /// Why it cannot be opened, and what to do.
    pub(crate) fn open(
        specification: &VolumeSpecification,
        block_size: u32,
        read_only: bool,
        ring: &Rc<Ring>,
    ) -> Result<Self, OpenError> {
        let (kind, size) = match specification {
            VolumeSpecification::File(path) => {
                let file = FileVolume::open(path, block_size, read_only, Rc::clone(ring))?;
                let size = file.size();
                (Kind::File(file), size)
            }
            VolumeSpecification::Memory(size) => (Kind::Memory(RefCell::default()), *size),
            VolumeSpecification::Null(size) => (Kind::Null, *size),
        };
        Ok(Self { specification: specification.clone(), kind, size })
    }

    /// What it was opened by.
    pub(crate) fn specification(&self) -> &VolumeSpecification {
        &self.specification
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Does giving storage back make a difference?
    pub(crate) fn is_thin(&self) -> bool {
        match &self.kind {
            Kind::File(file) => file.is_thin(),
            Kind::Memory(_) => true,
            Kind::Null => false,
        }
    }

    /// Reads `len` bytes.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) async fn read(&self, offset: u64, len: usize) -> Result<Bytes, MediumError> {
        match &self.kind {
            Kind::File(file) => file.read(offset, len).await,
            Kind::Memory(memory) => Ok(memory.borrow().read(offset, len)),
            Kind::Null => Ok(AlignedMemory::new(len).into_bytes(len)),
        }
    }

    /// Writes the pieces one behind the other. `durable`: they are on stable storage then.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) async fn write(
        &self,
        offset: u64,
        pieces: &[Bytes],
        durable: bool,
    ) -> Result<(), MediumError> {
        match &self.kind {
            Kind::File(file) => file.write(offset, pieces, durable).await,
            Kind::Memory(memory) => {
                memory.borrow_mut().write(offset, pieces);
                Ok(())
            }
            Kind::Null => Ok(()),
        }
    }

    /// Carries out an operation other than a read or write of the initiator's own bytes.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) async fn operate(
        &self,
        operation: &MediumOperation,
    ) -> Result<MediumOutput, MediumError> {
        match operation {
            MediumOperation::Read { offset, len, to } => {
                let bytes = self.read(*offset, usize::try_from(*len).unwrap_or(usize::MAX)).await?;
                return Ok(match to {
                    ReadTo::Task => MediumOutput::Bytes(bytes),
                    _ => MediumOutput::Done,
                });
            }
            MediumOperation::Write { offset, fua, from, .. } => {
                if let scsi::WriteFrom::Bytes(bytes) = from {
                    let pieces = std::slice::from_ref(bytes);
                    self.write(*offset, pieces, *fua).await?;
                }
            }
            MediumOperation::Flush => self.flush().await?,
            MediumOperation::Prefetch { .. } => {}
            MediumOperation::Unmap { ranges, anchor } => {
                let allocation = if *anchor { Allocation::Anchor } else { Allocation::Deallocate };
                for range in ranges {
                    self.zero(*range, allocation).await?;
                }
            }
            MediumOperation::Zero { range, allocation } => {
                self.zero(*range, *allocation).await?;
            }
            MediumOperation::WriteSame { range, block } => {
                self.repeat(*range, block).await?;
            }
            MediumOperation::Map { range, most } => {
                return Ok(MediumOutput::Extents(self.extents(*range, *most)?));
            }
        }
        Ok(MediumOutput::Done)
    }

    async fn flush(&self) -> Result<(), MediumError> {
        match &self.kind {
            Kind::File(file) => file.flush().await,
            Kind::Memory(_) | Kind::Null => Ok(()),
        }
    }

    async fn zero(&self, range: ByteRange, allocation: Allocation) -> Result<(), MediumError> {
        match &self.kind {
            Kind::File(file) if file.zero(range, allocation).await? => Ok(()),
            Kind::File(_) => self.repeat(range, &Bytes::from_static(&[0; 512])).await,
            Kind::Memory(memory) => {
                memory.borrow_mut().zero(range);
                Ok(())
            }
            Kind::Null => Ok(()),
        }
    }

    /// Writes the block again and again.
    async fn repeat(&self, range: ByteRange, block: &Bytes) -> Result<(), MediumError> {
        let whole = usize::try_from(range.len).unwrap_or(usize::MAX).min(REPEATED);
        let many = vec![block.clone(); whole.div_ceil(block.len().max(1))];
        let memory = AlignedMemory::gather(&many);
        let len = memory.len();
        let many = memory.into_bytes(len);
        let mut offset = range.offset;
        while offset < range.end() {
            let len = (range.end() - offset).min(many.len() as u64);
            let part = many.slice(..usize::try_from(len).unwrap_or(many.len()));
            self.write(offset, &[part], false).await?;
            offset += len;
        }
        Ok(())
    }

    fn extents(&self, range: ByteRange, most: u32) -> Result<Vec<Extent>, MediumError> {
        match &self.kind {
            Kind::File(file) => file.extents(range, most),
            Kind::Memory(memory) => Ok(memory.borrow().extents(range, most)),
            Kind::Null => Ok(vec![Extent { len: range.len, state: ExtentState::Mapped }]),
        }
    }
}

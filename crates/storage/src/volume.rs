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

mod fault_log;
mod file;
mod memory;
mod opened;
mod resize_error;
mod specification;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use scsi::{
    Allocation, ByteRange, Extent, ExtentState, MediumError, MediumOperation, MediumOutput, ReadTo,
};

use crate::identity::VolumeIdentity;
use crate::memory::{AlignedMemory, zeroes};
use crate::ring::Ring;

use self::file::FileVolume;
use self::memory::SparseMemory;

pub use self::file::OpenError;
pub use self::opened::OpenedVolume;
pub(crate) use self::opened::VolumeUse;
pub use self::resize_error::ResizeVolumeError;
pub use self::specification::{SpecificationError, VolumeSpecification, parse_size};

/// Bytes that are written at a time where one block is written again and again.
const REPEATED: usize = 1 << 20;

/// An open volume.
#[derive(Debug)]
pub(crate) struct Volume {
    specification: RefCell<VolumeSpecification>,
    identity: VolumeIdentity,
    kind: Kind,
    size: Cell<u64>,
    block_size: u32,
    /// Its size is being changed.
    pub(crate) resizing: Cell<bool>,
}

#[derive(Debug)]
enum Kind {
    File(FileVolume),
    Memory(RefCell<SparseMemory>),
    Null,
}

impl Volume {
    /// What the specification names, `opened` by [`VolumeSpecification::open`].
    ///
    /// # Errors
    /// Why it is no volume, and what to do.
    pub(crate) fn new(
        specification: &VolumeSpecification,
        opened: OpenedVolume,
        wanted: VolumeUse,
        ring: &Rc<Ring>,
    ) -> Result<Self, OpenError> {
        let VolumeUse { block_size, .. } = wanted;
        let OpenedVolume { file, identity, .. } = opened;
        let (kind, size) = match specification {
            VolumeSpecification::File(path) => {
                let file = file.ok_or_else(|| OpenError::NotPassed(path.clone()))?;
                let file = FileVolume::new(file, path, wanted, Rc::clone(ring))?;
                let size = file.size();
                (Kind::File(file), size)
            }
            VolumeSpecification::Memory(size) => (Kind::Memory(RefCell::default()), *size),
            VolumeSpecification::Null(size) => (Kind::Null, *size),
        };
        // What is behind the last whole block is no part of the unit.
        let size = size - size % u64::from(block_size);
        let (size, resizing) = (Cell::new(size), Cell::new(false));
        let specification = RefCell::new(specification.clone());
        Ok(Self { specification, identity, kind, size, block_size, resizing })
    }

    /// What it was opened by.
    pub(crate) fn specification(&self) -> VolumeSpecification {
        self.specification.borrow().clone()
    }

    /// Which volume it is.
    pub(crate) fn identity(&self) -> VolumeIdentity {
        self.identity
    }

    /// Bytes: whole blocks.
    pub(crate) fn size(&self) -> u64 {
        self.size.get()
    }

    /// Bytes of a block.
    pub(crate) fn block_size(&self) -> u32 {
        self.block_size
    }

    /// The size that it would get: the wanted one, or that of the file or device now.
    ///
    /// # Errors
    /// It cannot have that.
    pub(crate) fn size_for(&self, wanted: Option<u64>) -> Result<u64, ResizeVolumeError> {
        let size = match (&self.kind, wanted) {
            (Kind::File(file), wanted) => file.size_for(wanted)?,
            (_, Some(size)) => size,
            (_, None) => return Err(ResizeVolumeError::NoSize),
        };
        let block_size = self.block_size;
        if size < u64::from(block_size) {
            return Err(ResizeVolumeError::TooSmall { size, block_size });
        }
        if wanted.is_some() && !size.is_multiple_of(u64::from(block_size)) {
            return Err(ResizeVolumeError::NotWhole { size, block_size });
        }
        Ok(size - size % u64::from(block_size))
    }

    /// It has `size` bytes from now on; a file is given them if `changes`.
    ///
    /// # Errors
    /// ftruncate(2)'s. Nothing has changed then.
    pub(crate) async fn set_size(&self, size: u64, changes: bool) -> std::io::Result<()> {
        match &self.kind {
            Kind::File(file) if changes => file.truncate(size).await?,
            Kind::File(_) => {}
            Kind::Memory(memory) => {
                let end = self.size.get();
                if size < end {
                    memory.borrow_mut().zero(ByteRange { offset: size, len: end - size });
                }
                self.specification.replace(VolumeSpecification::Memory(size));
            }
            Kind::Null => drop(self.specification.replace(VolumeSpecification::Null(size))),
        }
        self.size.set(size);
        Ok(())
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
            Kind::Null => Ok(zeroes(len)),
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
        let many = AlignedMemory::gather(&many).into_bytes();
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

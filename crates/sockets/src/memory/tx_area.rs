//! Areas of the sending pool as values of the program.

use std::fmt;
use std::ops::{Deref, DerefMut, RangeBounds};
use std::sync::Arc;

use abi::Errno;
use abi::data::{DataDescriptor, DataFlags};
use shm::Area;

use super::tx_pool::TxPool;
use crate::fork::pid_cached;

/// The longest area that [`Client::alloc`](crate::Client::alloc) gives, bytes.
pub const MOST_AREA: usize = 4 << 20;

/// An area, and the id of the process that may free it.
struct PooledArea {
    /// Always there until it is dropped.
    area: Option<Area>,
    pid: u32,
}

impl PooledArea {
    fn bytes(&self) -> &[u8] {
        self.area.as_ref().map_or(&[], Area::bytes)
    }
}

impl Drop for PooledArea {
    fn drop(&mut self) {
        // Dropping an area writes into the owner table, which in a forked child is the parent's.
        if self.pid != pid_cached() {
            std::mem::forget(self.area.take());
        }
    }
}

/// Memory to be sent, for this program to write. [`Client::alloc`](crate::Client::alloc) and
/// [`TxSlice::reclaim`] give it. Its bytes are those that this process last wrote there.
pub struct TxArea {
    /// The only reference.
    memory: Arc<PooledArea>,
    len: u32,
}

impl fmt::Debug for TxArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxArea").field("len", &self.len).finish_non_exhaustive()
    }
}

impl TxArea {
    /// Memory for `bytes` bytes, 1 to [`MOST_AREA`]; `None` when the pool has no such run of pages
    /// now.
    ///
    /// # Errors
    /// EINVAL for another length.
    pub(crate) fn alloc(pool: &TxPool, bytes: usize) -> Result<Option<Self>, Errno> {
        let len = u32::try_from(bytes).map_err(|_| Errno::INVAL)?;
        if bytes == 0 || bytes > MOST_AREA {
            return Err(Errno::INVAL);
        }
        let area = pool.alloc(bytes);
        let pooled = |area| Arc::new(PooledArea { area: Some(area), pid: pid_cached() });
        Ok(area.map(|area| Self { memory: pooled(area), len }))
    }

    /// Ends the writing: all of the area's bytes as something to be sent.
    #[must_use]
    pub fn freeze(self) -> TxSlice {
        TxSlice { memory: self.memory, start: 0, len: self.len, whole: self.len }
    }
}

impl Deref for TxArea {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.bytes().get(..self.len as usize).unwrap_or_default()
    }
}

impl DerefMut for TxArea {
    fn deref_mut(&mut self) -> &mut [u8] {
        let area = Arc::get_mut(&mut self.memory).and_then(|memory| memory.area.as_mut());
        area.map_or(&mut [], |area| {
            area.bytes_mut().get_mut(..self.len as usize).unwrap_or_default()
        })
    }
}

/// Bytes of an area that no thread writes any more. Clones and parts share the memory. It is free
/// again when the last of them is dropped and no sent byte of it is needed any more.
#[derive(Clone)]
pub struct TxSlice {
    memory: Arc<PooledArea>,
    start: u32,
    len: u32,
    /// The area's own length.
    whole: u32,
}

impl fmt::Debug for TxSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.start, self.start + self.len);
        f.debug_struct("TxSlice").field("range", &(start..end)).finish_non_exhaustive()
    }
}

impl TxSlice {
    /// Number of its bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Has it no bytes?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of it; `None` if the range does not lie in it.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Option<Self> {
        let bounds = (range.start_bound().cloned(), range.end_bound().cloned());
        // The standard library's own rules about bounds.
        let part = self.get(bounds)?;
        let start = part.as_ptr().addr() - self.as_ptr().addr();
        let (start, len) = (u32::try_from(start).ok()?, u32::try_from(part.len()).ok()?);
        let memory = Arc::clone(&self.memory);
        Some(Self { memory, start: self.start + start, len, whole: self.whole })
    }

    /// The whole area, to be written again. It needs that no other slice of the area is held and no
    /// sent byte of it is needed any more.
    ///
    /// # Errors
    /// The slice.
    pub fn reclaim(mut self) -> Result<TxArea, Self> {
        if Arc::get_mut(&mut self.memory).is_some() {
            Ok(TxArea { memory: self.memory, len: self.whole })
        } else {
            Err(self)
        }
    }

    /// Is it of that client's pool?
    pub(crate) fn is_of(&self, pool: &TxPool) -> bool {
        self.memory.area.as_ref().is_some_and(|area| pool.made(area))
    }

    /// The descriptor that names its bytes; `None` only for an area that is gone.
    pub(crate) fn descriptor(&self) -> Option<DataDescriptor> {
        let area = self.memory.area.as_ref()?.lend();
        Some(DataDescriptor {
            area,
            offset: self.start,
            len: self.len,
            flags: DataFlags::NONE,
            peer: None,
        })
    }
}

impl Deref for TxSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let range = self.start as usize..(self.start + self.len) as usize;
        self.memory.bytes().get(range).unwrap_or_default()
    }
}

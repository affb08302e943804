//! Payload in a client's region, as the core and frames in the rings hold it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use abi::frame::Piece;
use inet::{InterfaceId, InterfaceSet, TxBytes};
use shm::Region;

/// A client's region. The client and its chunks share it; the last of them drops it.
#[derive(Debug)]
pub(crate) struct ClientMemory {
    pub(crate) region: Arc<Region>,
    pub(crate) client: u16,
    /// The interfaces that have got frames of this client: an [`InterfaceSet`].
    exits: AtomicU16,
}

impl ClientMemory {
    /// The region of a client that has sent nothing yet.
    pub(crate) fn new(region: Arc<Region>, client: u16) -> Self {
        Self { region, client, exits: AtomicU16::default() }
    }

    /// The interfaces that have got frames of this client.
    pub(crate) fn exits(&self) -> InterfaceSet {
        InterfaceSet::from_bits(self.exits.load(Ordering::Relaxed))
    }
}

/// Payload in a client's region.
#[derive(Debug, Clone)]
pub(crate) struct ClientChunk {
    pub(super) memory: Arc<ClientMemory>,
    pub(super) offset: u32,
    pub(super) len: u32,
}

impl ClientChunk {
    /// A frame with the chunk goes to an interface.
    pub(crate) fn note_exit(&self, interface: InterfaceId) {
        let mut exits = self.memory.exits();
        exits.insert(interface);
        // Only the server's thread writes.
        self.memory.exits.store(exits.bits(), Ordering::Relaxed);
    }

    /// The piece of a frame for `range`; `None` if it is not within the chunk, or too long for a
    /// frame.
    pub(crate) fn piece(&self, range: Range<usize>) -> Option<Piece> {
        if range.start > range.end || range.end > self.len as usize {
            return None;
        }
        let len = u16::try_from(range.end - range.start).ok()?;
        let offset = self.offset.checked_add(u32::try_from(range.start).ok()?)?;
        Some(Piece { client: self.memory.client, len, offset })
    }
}

impl TxBytes for ClientChunk {
    fn len(&self) -> usize {
        self.len as usize
    }

    fn checksum(&self, range: Range<usize>) -> u16 {
        let start = self.offset as usize + range.start;
        // The chunk was checked against the region, so this cannot fail.
        self.memory.region.checksum(start, range.len()).unwrap_or(0)
    }

    fn copy_to(&self, range: Range<usize>, out: &mut [u8]) {
        // As above. If it failed all the same, the frame would carry zeros.
        let _ = self.memory.region.read(self.offset as usize + range.start, out);
    }

    fn append(&mut self, next: Self) -> Result<(), Self> {
        let end = self.offset.checked_add(self.len);
        let len = self.len.checked_add(next.len);
        match len {
            Some(len) if end == Some(next.offset) && Arc::ptr_eq(&self.memory, &next.memory) => {
                self.len = len;
                Ok(())
            }
            _ => Err(next),
        }
    }
}

//! A connection of a client: what its unit is, and its requests.

use bytes::Bytes;
use storage::DiskExtent;

use crate::disk_thread::DiskHandle;
use crate::failure::PluginError;

/// Bytes that a client does best to ask for at once.
const PREFERRED: u32 = 4096;
/// Most bytes of one request: clients of NBD assume this where they are not told.
const MOST: u32 = 32 << 20;

/// What the unit is while a client is connected: NBD has no way to tell a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ServedUnit {
    bytes: u64,
    block_size: u32,
    read_only: bool,
    /// Storage can be given back.
    gives_back: bool,
    /// Zeroes need not be sent.
    zeroes_itself: bool,
}

/// What a client asks for besides bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RequestFlags {
    /// On stable storage before it is answered.
    pub(crate) durable: bool,
    /// Storage may be given back.
    pub(crate) may_trim: bool,
    /// Only if it is faster than writing.
    pub(crate) fast: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    disk: DiskHandle,
    unit: ServedUnit,
}

impl Connection {
    /// Asks what the unit is now.
    ///
    /// # Errors
    /// The target's, or it has become another unit.
    pub(crate) fn new(disk: DiskHandle) -> Result<Self, PluginError> {
        let unit = disk.ask(|disk| async move {
            let asked = disk.refresh().await;
            asked.map_err(|error| PluginError::of_disk("open the unit", &error))?;
            let capacity = disk.capacity();
            let gives_back = disk.gives_back();
            Ok(ServedUnit {
                bytes: disk.size().bytes(),
                block_size: capacity.block_size,
                read_only: disk.is_read_only(),
                gives_back,
                zeroes_itself: disk.zeroes_itself(0, capacity.bytes(), gives_back),
            })
        })?;
        Ok(Self { disk, unit })
    }

    /// Bytes of the unit.
    pub(crate) fn size(&self) -> u64 {
        self.unit.bytes
    }

    /// Least, preferred and most bytes of a request. Parts of blocks can be written: the disk reads
    /// and writes whole ones in order.
    pub(crate) fn block_sizes(&self) -> (u32, u32, u32) {
        (1, self.unit.block_size.max(PREFERRED), MOST)
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.unit.read_only
    }

    /// Can it give storage back?
    pub(crate) fn can_trim(&self) -> bool {
        self.unit.gives_back
    }

    /// Can making zeroes be faster than writing them?
    pub(crate) fn can_zero_fast(&self) -> bool {
        self.unit.zeroes_itself
    }

    /// So many bytes, and no fewer.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Bytes, PluginError> {
        self.disk.ask(move |disk| async move {
            disk.read(offset, len).await.map_err(|error| PluginError::of_disk("read", &error))
        })
    }

    pub(crate) fn write(
        &self,
        bytes: &[u8],
        offset: u64,
        flags: RequestFlags,
    ) -> Result<(), PluginError> {
        // nbdkit's memory is only lent, and the request may outlive the wait for it.
        let bytes = Bytes::copy_from_slice(bytes);
        self.disk.ask(move |disk| async move {
            let written = disk.write(offset, bytes, flags.durable).await;
            written.map_err(|error| PluginError::of_disk("write", &error))
        })
    }

    pub(crate) fn flush(&self) -> Result<(), PluginError> {
        self.disk.ask(|disk| async move {
            disk.flush().await.map_err(|error| PluginError::of_disk("flush", &error))
        })
    }

    /// Gives storage back. The bytes are zeroes then.
    pub(crate) fn trim(
        &self,
        offset: u64,
        len: u64,
        flags: RequestFlags,
    ) -> Result<(), PluginError> {
        self.make_zero("trim", offset, len, RequestFlags { may_trim: true, ..flags })
    }

    pub(crate) fn zero(
        &self,
        offset: u64,
        len: u64,
        flags: RequestFlags,
    ) -> Result<(), PluginError> {
        self.make_zero("make zero", offset, len, flags)
    }

    fn make_zero(
        &self,
        doing: &'static str,
        offset: u64,
        len: u64,
        flags: RequestFlags,
    ) -> Result<(), PluginError> {
        let unmap = flags.may_trim && self.unit.gives_back;
        self.disk.ask(move |disk| async move {
            if flags.fast && !disk.zeroes_itself(offset, len, unmap) {
                let sentence = "the unit does not make these bytes zero by itself";
                return Err(PluginError::new(libc::EOPNOTSUPP, sentence));
            }
            let failed = |error| PluginError::of_disk(doing, &error);
            disk.zero(offset, len, unmap).await.map_err(failed)?;
            if flags.durable {
                // No command makes zeroes durable.
                disk.flush().await.map_err(failed)?;
            }
            Ok(())
        })
    }

    /// Which of the bytes have storage, from `offset` on, perhaps not up to the end.
    pub(crate) fn extents(&self, offset: u64, len: u64) -> Result<Vec<DiskExtent>, PluginError> {
        self.disk.ask(move |disk| async move {
            let extents = disk.extents(offset, len).await;
            extents.map_err(|error| PluginError::of_disk("ask which bytes have storage", &error))
        })
    }
}

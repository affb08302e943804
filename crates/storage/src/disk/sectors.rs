//! Where a disk's bytes are in its unit: all of it, or the sectors behind a LUKS header.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use luks::{LuksVolume, SectorCipher};

/// A disk's size, for other threads as well.
#[derive(Debug, Clone)]
pub struct DiskSize {
    /// Bytes of the unit.
    unit: Arc<AtomicU64>,
    /// Bytes before the disk's, the most that it has, and what it has a multiple of.
    before: u64,
    most: u64,
    multiple: u64,
}

impl DiskSize {
    /// All of the unit.
    pub(super) fn whole(unit: &Arc<AtomicU64>) -> Self {
        Self { unit: Arc::clone(unit), before: 0, most: u64::MAX, multiple: 1 }
    }

    /// The sectors, in multiples of blocks that are sectors and the unit's blocks.
    pub(super) fn within(unit: &Arc<AtomicU64>, sectors: &EncryptedSectors, block: u32) -> Self {
        let (before, most) = (sectors.before, sectors.most.unwrap_or(u64::MAX));
        Self { unit: Arc::clone(unit), before, most, multiple: block.into() }
    }

    /// Bytes now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let unit = self.unit.load(Ordering::Relaxed);
        let bytes = unit.saturating_sub(self.before).min(self.most);
        bytes - bytes % self.multiple
    }
}

/// The sectors of an encrypted disk.
#[derive(Debug)]
pub(super) struct EncryptedSectors {
    cipher: RefCell<SectorCipher>,
    /// Bytes of the header.
    pub(super) before: u64,
    most: Option<u64>,
    /// Sectors may be given back. Those read as zeroes.
    pub(super) discard: bool,
}

impl EncryptedSectors {
    pub(super) fn new(volume: LuksVolume, discard: bool) -> Self {
        let (before, most) = (volume.data_offset, volume.data_len);
        Self { cipher: RefCell::new(volume.cipher), before, most, discard }
    }

    /// Bytes that are ciphered together.
    pub(super) fn sector(&self) -> u32 {
        u32::try_from(self.cipher.borrow().sector().bytes()).unwrap_or(u32::MAX)
    }

    /// The ciphertext of whole sectors at this place of the disk.
    pub(super) fn encrypt(&self, offset: u64, pieces: &[Bytes]) -> Bytes {
        let mut bytes = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
        for piece in pieces {
            bytes.extend_from_slice(piece);
        }
        self.cipher.borrow_mut().encrypt(offset, &mut bytes);
        bytes.freeze()
    }

    /// The bytes of whole sectors, in place if nobody else has them.
    pub(super) fn decrypt(&self, offset: u64, ciphertext: Bytes) -> Bytes {
        let copy = |shared: Bytes| BytesMut::from(&shared[..]);
        let mut bytes = ciphertext.try_into_mut().unwrap_or_else(copy);
        let mut cipher = self.cipher.borrow_mut();
        if self.discard {
            let sector = cipher.sector().bytes();
            for (place, bytes) in (offset..).step_by(sector).zip(bytes.chunks_mut(sector)) {
                // No key makes a sector of zeroes, but by a chance of 2 to the power of -4096.
                if bytes.iter().any(|byte| *byte != 0) {
                    cipher.decrypt(place, bytes);
                }
            }
        } else {
            cipher.decrypt(offset, &mut bytes);
        }
        bytes.freeze()
    }
}

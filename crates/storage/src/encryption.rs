//! Encrypted disks: a LUKS header at the begin of a unit, and ciphertext behind it.
//!
//! The initiator encrypts and decrypts. The target stores what it gets and never has a key. A
//! header is made and opened in another thread, since that takes seconds on purpose.

use bytes::Bytes;
use luks::{
    FormatOptions, HEAD_LEN, LuksError, LuksHeader, LuksVolume, Passphrase, format, head_len,
};
use tokio::task::spawn_blocking;

use crate::disk::{Disk, DiskError};

/// Bytes at the begin and at the end of a unit that are empty if it is: headers of LUKS, partition
/// tables and file systems are there.
const BEGIN: u64 = 16 << 20;
const END: u64 = 1 << 20;
/// Bytes that are written last: with them the header becomes one.
const SEAL: usize = 4096;

/// Why an encrypted disk cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    /// The unit.
    #[error(transparent)]
    Unit(#[from] DiskError),
    /// The header, or the passphrase.
    #[error(transparent)]
    Luks(#[from] LuksError),
    /// Something would be overwritten.
    #[error("the unit has {0}: nothing is written; --force destroys what it has")]
    InUse(&'static str),
    /// The unit takes no writes.
    #[error("the unit is read-only: no header can be made")]
    ReadOnly,
    /// The thread.
    #[error("the thread for the header has ended")]
    Thread,
}

/// The disk in the LUKS volume of a unit. `discard`: sectors may be given back, and those that were
/// read as zeroes.
///
/// # Errors
/// The unit has no header that can be opened so.
pub async fn open_encrypted(
    unit: Disk,
    passphrase: Passphrase,
    discard: bool,
) -> Result<Disk, EncryptionError> {
    let volume = unlock(&unit, passphrase).await?;
    tracing::debug!(uuid = volume.uuid, version = ?volume.version, "the disk is encrypted");
    Ok(unit.encrypted(volume, discard)?)
}

async fn unlock(unit: &Disk, passphrase: Passphrase) -> Result<LuksVolume, EncryptionError> {
    let size = unit.capacity().bytes();
    let mut head = first(unit, HEAD_LEN).await?;
    let len = head_len(&head)?;
    if len > HEAD_LEN {
        head = first(unit, len).await?;
    }
    let mut header = blocking(move || LuksHeader::load(&head, size)).await?;
    for area in header.areas().to_vec() {
        let len = usize::try_from(area.end - area.start).unwrap_or(usize::MAX);
        let bytes = unit.read(area.start, len).await?;
        header.put(area.start, &bytes)?;
    }
    blocking(move || header.unlock(&passphrase)).await
}

/// The first bytes, or all that there are.
async fn first(unit: &Disk, len: usize) -> Result<Bytes, DiskError> {
    let size = usize::try_from(unit.capacity().bytes()).unwrap_or(usize::MAX);
    unit.read(0, len.min(size)).await
}

/// Makes a LUKS header with a new key. `force`: also where there are data, which are lost.
///
/// # Errors
/// There are data, or the unit is too small.
pub async fn format_encrypted(
    unit: &Disk,
    options: FormatOptions,
    passphrase: Passphrase,
    force: bool,
) -> Result<(), EncryptionError> {
    if unit.is_read_only() {
        return Err(EncryptionError::ReadOnly);
    }
    if !force && let Some(what) = contents(unit).await? {
        return Err(EncryptionError::InUse(what));
    }
    let size = unit.capacity().bytes();
    let mut header = Bytes::from(blocking(move || format(size, options, &passphrase)).await?);
    // An old header is none as soon as this begins, and the new one is one when it is complete.
    let seal = header.split_to(SEAL);
    unit.write(0, Bytes::from(vec![0; SEAL]), true).await?;
    unit.write(SEAL as u64, header, false).await?;
    unit.flush().await?;
    unit.write(0, seal, true).await?;
    Ok(unit.flush().await?)
}

/// What a unit has that would be lost, as far as its begin and its end show.
async fn contents(unit: &Disk) -> Result<Option<&'static str>, DiskError> {
    let size = unit.capacity().bytes();
    let head = first(unit, HEAD_LEN).await?;
    if !matches!(head_len(&head), Err(LuksError::NoHeader)) {
        return Ok(Some("a LUKS header already"));
    }
    for (from, to) in [(0, BEGIN.min(size)), (size.saturating_sub(END).max(BEGIN.min(size)), size)]
    {
        let bytes = unit.read(from, usize::try_from(to - from).unwrap_or(0)).await?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(Some("data"));
        }
    }
    Ok(None)
}

/// Works with a header in another thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LuksError> + Send + 'static,
) -> Result<T, EncryptionError> {
    spawn_blocking(work).await.map_err(|_| EncryptionError::Thread)?.map_err(EncryptionError::Luks)
}

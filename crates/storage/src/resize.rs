//! Units that grow and shrink while they are in use.
//!
//! A unit grows as soon as its volume has. It shrinks the other way round: new commands behind the
//! new end are refused first, then those that are under way there end, and then the volume
//! shrinks. So no command finds its bytes gone.

use std::io;
use std::rc::Rc;

use scsi::{Access, ByteRange, Claim, Hold, LunNumber, TargetError};

use crate::device::Device;
use crate::volume::{ResizeVolumeError, Volume};

/// Why a unit keeps its size.
#[derive(Debug, thiserror::Error)]
pub enum ResizeError {
    /// There is no such unit, or it has gone meanwhile.
    #[error("there is no logical unit {0}; see `tasuki target ls`")]
    NoUnit(u16),
    /// Another change is under way, or too many commands are.
    #[error("logical unit {0} is being resized; try again")]
    Busy(u16),
    /// The volume cannot have that size.
    #[error("logical unit {lun}: {source}")]
    Volume {
        /// The unit.
        lun: u16,
        /// Why.
        source: ResizeVolumeError,
    },
    /// The unit cannot.
    #[error("logical unit {lun}: {source}")]
    Unit {
        /// The unit.
        lun: u16,
        /// Why.
        source: TargetError,
    },
    /// ftruncate(2).
    #[error("logical unit {lun}: cannot change the size of its file: {source}")]
    Truncate {
        /// The unit.
        lun: u16,
        /// The system's error.
        source: io::Error,
    },
}

/// Gives a unit `wanted` bytes, or without them as many as its file or device has now. How many it
/// has then.
///
/// # Errors
/// Why it keeps its size.
pub(crate) async fn resize(
    device: &Rc<Device>,
    number: LunNumber,
    wanted: Option<u64>,
) -> Result<u64, ResizeError> {
    let lun = number.get();
    let volume = device.volume(number).ok_or(ResizeError::NoUnit(lun))?;
    let _turn = Turn::take(&volume).ok_or(ResizeError::Busy(lun))?;
    let bytes = volume.size_for(wanted).map_err(|source| ResizeError::Volume { lun, source })?;
    let truncated = |source| ResizeError::Truncate { lun, source };
    let before = volume.size();
    if bytes >= before {
        volume.set_size(bytes, wanted.is_some()).await.map_err(truncated)?;
        still_there(device, number, &volume)?;
        set_blocks(device, number, &volume, bytes)?;
        return Ok(bytes);
    }
    set_blocks(device, number, &volume, bytes)?;
    let range = ByteRange { offset: bytes, len: before - bytes };
    let claims = vec![Claim { lun: Some(number), range, hold: Hold::Exclusive }];
    let access = Access { claims, barrier: None, lun: Some(number) };
    let Some(mut guard) = device.lock(device.next_key(), &access) else {
        set_blocks(device, number, &volume, before)?;
        return Err(ResizeError::Busy(lun));
    };
    guard.wait().await;
    still_there(device, number, &volume)?;
    if let Err(error) = volume.set_size(bytes, wanted.is_some()).await {
        set_blocks(device, number, &volume, before)?;
        return Err(truncated(error));
    }
    Ok(bytes)
}

/// Another unit of the same number may have come meanwhile.
fn still_there(device: &Device, number: LunNumber, volume: &Rc<Volume>) -> Result<(), ResizeError> {
    let same = device.volume(number).is_some_and(|now| Rc::ptr_eq(&now, volume));
    same.then_some(()).ok_or(ResizeError::NoUnit(number.get()))
}

fn set_blocks(
    device: &Device,
    number: LunNumber,
    volume: &Volume,
    bytes: u64,
) -> Result<(), ResizeError> {
    let blocks = bytes / u64::from(volume.block_size());
    let resized = device.scsi.borrow_mut().resize_lun(number, blocks);
    resized.map_err(|source| ResizeError::Unit { lun: number.get(), source })
}

/// One change of a volume's size at a time.
struct Turn(Rc<Volume>);

impl Turn {
    fn take(volume: &Rc<Volume>) -> Option<Self> {
        (!volume.resizing.replace(true)).then(|| Self(Rc::clone(volume)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.resizing.set(false);
    }
}

#[cfg(test)]
mod tests;

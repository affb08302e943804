//! A volume whose file or device is open.

use std::os::fd::OwnedFd;

use crate::identity::VolumeIdentity;

/// A volume whose file or device is open, with the rights of the process that has opened it.
#[derive(Debug)]
pub struct OpenedVolume {
    /// The file or device; `None`: the volume has none.
    pub file: Option<OwnedFd>,
    /// Which volume it is.
    pub identity: VolumeIdentity,
    /// What its user is to know of it: sentences.
    pub notices: Vec<String>,
}

/// What a volume is opened for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VolumeUse {
    /// The unit's number.
    pub(crate) lun: u16,
    /// Bytes of a block.
    pub(crate) block_size: u32,
    pub(crate) read_only: bool,
}

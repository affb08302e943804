//! Why a volume keeps its size.

/// Why a volume cannot have a size.
#[derive(Debug, thiserror::Error)]
pub enum ResizeVolumeError {
    /// The size has to be said.
    #[error("memory has no size of its own: say the new one")]
    NoSize,
    /// The size cannot be said.
    #[error("a block device has the size that it has: change the device, then say no size")]
    Device,
    /// The file is open for reading only.
    #[error("the unit is read-only: resize its file by truncate(1), then say no size")]
    ReadOnly,
    /// Not one whole block.
    #[error("{size} bytes are less than a block of {block_size}")]
    TooSmall {
        /// The size.
        size: u64,
        /// A block's bytes.
        block_size: u32,
    },
    /// Blocks and a rest.
    #[error("{size} bytes are no whole number of blocks of {block_size}")]
    NotWhole {
        /// The size.
        size: u64,
        /// A block's bytes.
        block_size: u32,
    },
    /// The system does not tell the size.
    #[error("cannot find out the size: {0}")]
    System(std::io::Error),
}

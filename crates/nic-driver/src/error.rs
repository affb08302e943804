//! Why a driver cannot go on, and why a frame is refused.

use std::io;

use crate::device::is_lost;

/// Why a driver cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The device failed for good.
    #[error("the device is lost: {0}")]
    DeviceLost(#[source] std::io::Error),
    /// The inet server broke a ring of the frame region; its fault.
    #[error("the inet server broke the {ring} ring: {fault}")]
    Ring {
        /// Which ring.
        ring: &'static str,
        /// How.
        fault: shm::RingFault,
    },
    /// The `rx` ring is full before the interface was registered: the inet server does not read it.
    #[error("no room in the rx ring to register the interface: the inet server does not read it")]
    NoRoomToAttach,
    /// The supervisor sent a message that no supervisor sends.
    #[error("the supervisor's message cannot be used: {0}")]
    BadMessage(String),
    /// A message lost its descriptors on the way.
    #[error("the driver has as many open files as it may have; raise the instance's hard limit")]
    NoDescriptor,
    /// The supervisor's channel failed.
    #[error("the supervisor's channel failed: {0}")]
    Channel(#[from] shm::ChannelError),
    /// A region cannot be mapped.
    #[error("cannot map the frame region: {0}")]
    Region(#[from] shm::RegionError),
    /// The frame region is smaller than its layout.
    #[error("the frame region does not hold its layout: {0}")]
    OutOfRange(#[from] shm::OutOfRange),
    /// The system refused something.
    #[error("cannot {doing}: {error}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The system's answer.
        error: std::io::Error,
    },
}

impl DriverError {
    /// `Err` when the device is lost; any other error concerns one frame only.
    pub(crate) fn check_lost(error: io::Error) -> Result<(), Self> {
        if is_lost(&error) { Err(Self::DeviceLost(error)) } else { Ok(()) }
    }
}

/// The fault in a frame's descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadFrame {
    /// The extent is not in the head page.
    Area,
    /// A piece is of an unknown client, or not in its region.
    Piece,
    /// No Ethernet frame of this interface has that length.
    Length,
    /// The frame does not fit the offload that its descriptor names.
    Offload,
}

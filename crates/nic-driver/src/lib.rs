//! The NIC driver: a process that moves frames between one network device and the inet server.
//!
//! ```text
//!  inet server ──fill: empty pages──▶ ┌────────┐
//!              ◀─rx: ethinput calls── │ driver │ ◀── device (TAP; wrapped by faults, by capture)
//!              ──tx: head + pieces──▶ └────────┘ ──▶
//! ```
//!
//! It keeps no state that matters: frames it holds when it dies are frames lost on the wire, and
//! its pages are known from the owner table. It sees frames only, never a connection. Payload to be
//! sent is read in place, out of the clients' regions, which are mapped read-only here.
//!
//! * [`device`]: what a device is. [`backend`]: the table of back ends: [`tap`], [`packet`],
//!   [`xdp`], [`passt`], [`pcap`], [`wire`]. [`interface`]: the host's interfaces. [`fault`],
//!   [`capture`]: wrappers.
//! * `frames`: the data path over the rings, with what devices leave undone: `gro` joins received
//!   segments, `gso` cuts those to send. [`Driver`]: the supervisor's line, sleeping and
//!   waking.

pub mod backend;
pub mod capture;
pub mod device;
mod driver;
mod ethtool;
pub mod fault;
mod frames;
mod gro;
mod gso;
pub mod interface;
pub mod packet;
pub mod passt;
pub mod pcap;
mod slot;
mod superframe;
pub mod tap;
#[cfg(test)]
mod testing;
mod vnet;
pub mod wire;
pub mod xdp;

pub use capture::CaptureDevice;
pub use driver::{Driver, Given, run};
pub use fault::FaultDevice;

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
    /// The supervisor sent what no supervisor sends.
    #[error("the supervisor's message cannot be used: {0}")]
    BadMessage(String),
    /// The supervisor's line failed.
    #[error("the line to the supervisor failed: {0}")]
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
        /// What was tried.
        doing: &'static str,
        /// The system's answer.
        error: std::io::Error,
    },
}

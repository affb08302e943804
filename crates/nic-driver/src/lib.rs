//! The NIC driver: a process that moves frames between one network device and the inet server.
//!
//! ```text
//!  inet server ──fill: empty pages──▶ ┌────────┐
//!              ◀─rx: ethinput calls── │ driver │ ◀── device (TAP; wrapped by faults, by capture)
//!              ──tx: head + pieces──▶ └────────┘ ──▶
//! ```
//!
//! The driver keeps no state that matters. Frames that it holds when it dies are frames lost on
//! the wire, and the owner table knows its pages. It sees frames only, never a connection. It
//! reads payload to be sent in place, out of the clients' regions, which are mapped read-only here.
//!
//! ```text layers
//! driver: the control connection to the supervisor, sleeping and waking
//! backend: the table of back ends
//! tap xdp packet passt pcap wire: the back ends
//! frames: the data path, frames between a device and the rings
//! capture fault slot: devices around a device
//! gso gro: segments made and joined where the device does not
//! superframe: the headers of super-segments, and their segmentation
//! vnet: virtio's header before a frame
//! error: why a driver cannot go on, why a frame is refused
//! device: what a device is
//! packet_socket bpf ethtool timer: system calls that several back ends use
//! interface: the host's interfaces
//! ```

pub mod backend;
pub mod bpf;
pub mod capture;
pub mod device;
mod driver;
mod error;
mod ethtool;
pub mod fault;
mod frames;
mod gro;
mod gso;
pub mod interface;
pub mod packet;
mod packet_socket;
pub mod passt;
pub mod pcap;
mod slot;
mod superframe;
pub mod tap;
#[cfg(test)]
mod testing;
mod timer;
mod vnet;
pub mod wire;
pub mod xdp;

pub use backend::DeviceContext;
pub use capture::CaptureDevice;
pub use driver::{Driver, run};
pub use error::DriverError;
pub use fault::FaultDevice;

//! Storage: iSCSI targets and initiators on Tasuki, and the volumes behind targets.
//!
//! A target is one process. It is a client of an instance: its connections are Tasuki's sockets. It
//! joins the two protocol cores, `iscsi` and `scsi`, which do no I/O, with sockets and volumes. An
//! initiator joins `iscsi` with a socket; [`copy()`] moves whole disks.
//!
//! ```text
//!   initiator ── TCP ──▶ session (iscsi) ── command ──▶ device (scsi) ── operation ──▶ volume
//! ```
//!
//! ```text layers
//! server copy: a target's process; copies of disks
//! initiator url: a session with a target; the address of a unit
//! connection handle: one connection of an initiator; a running target
//! command management: commands, task management
//! portal: who may log in
//! session: an initiator that is logged in
//! device: units, and what all sessions share
//! definition: what a target is
//! stream state_file volume: writing to a stream; state that outlives the target; where bytes are
//! transport: how streams are protected
//! ring data_in: io_uring; the data-in of a command
//! memory: aligned memory
//! ```

mod command;
mod connection;
mod copy;
mod data_in;
mod definition;
mod device;
mod handle;
mod initiator;
mod management;
mod memory;
mod portal;
mod ring;
mod server;
mod session;
mod state_file;
mod stream;
mod transport;
mod url;
mod volume;

pub use copy::{CopyEnd, CopyError, copy};
pub use definition::{
    AUTHORITY, LunDefinition, LunError, MOST_LUNS, MOST_SESSIONS, PORT, TargetDefinition,
};
pub use device::DeviceError;
pub use handle::{LunStatus, NotSealed, SessionStatus, TargetHandle, TargetStatus};
pub use initiator::{Capacity, DiskPortal, Initiator, InitiatorError};
pub use iscsi::IscsiName;
pub use scsi::LunNumber;
pub use server::{ServeError, serve};
pub use transport::{
    Credentials, DiskTransport, Judge, PortalTransport, Refusal, SealedCounts, TransportError,
};
pub use url::{DiskUrl, Scheme, UrlError, portal_address};
pub use volume::{OpenError, SpecificationError, VolumeSpecification};

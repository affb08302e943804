//! Storage: iSCSI targets on Tasuki, and the volumes behind them.
//!
//! A target is one process. It is a client of an instance: its connections are Tasuki's sockets. It
//! joins the two protocol cores, `iscsi` and `scsi`, which do no I/O, with sockets and volumes.
//!
//! ```text
//!   initiator ── TCP ──▶ session (iscsi) ── command ──▶ device (scsi) ── operation ──▶ volume
//! ```
//!
//! ```text layers
//! server: a target's process
//! connection handle: one connection of an initiator; a running target
//! command management: commands, task management
//! portal: who may log in
//! session: an initiator that is logged in
//! device: units, and what all sessions share
//! definition: what a target is
//! state_file volume: state that outlives the target; where bytes are
//! ring: io_uring
//! memory: aligned memory
//! ```

mod command;
mod connection;
mod definition;
mod device;
mod handle;
mod management;
mod memory;
mod portal;
mod ring;
mod server;
mod session;
mod state_file;
mod volume;

pub use definition::{LunDefinition, LunError, MOST_LUNS, MOST_SESSIONS, PORT, TargetDefinition};
pub use device::DeviceError;
pub use handle::{LunStatus, SessionStatus, TargetHandle, TargetStatus};
pub use iscsi::IscsiName;
pub use scsi::LunNumber;
pub use server::{ServeError, serve};
pub use volume::{OpenError, SpecificationError, VolumeSpecification};

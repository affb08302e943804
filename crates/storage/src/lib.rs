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
//! server copy bench: a target's process; copies and measurements of disks
//! initiator url: a session with a target; the address of a unit
//! connection handle: one connection of an initiator; a running target
//! command management: commands, task management
//! portal: who may log in
//! session: an initiator that is logged in
//! device: units, and what all sessions share
//! definition: what a target is
//! stream state_file volume: writing to a stream; state that outlives the target; where bytes are
//! ring: io_uring
//! memory: aligned memory
//! ```

mod bench;
mod command;
mod connection;
mod copy;
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
mod url;
mod volume;

pub use bench::{
    BenchError, BenchOutcome, BenchPattern, BenchPlan, MOST_BENCH_DEPTH, MOST_BENCH_REQUEST, bench,
};
pub use copy::{CopyEnd, CopyError, copy};
pub use definition::{
    AUTHORITY, LunDefinition, LunError, MOST_LUNS, MOST_SESSIONS, PORT, TargetDefinition,
};
pub use device::DeviceError;
pub use handle::{LunStatus, SessionStatus, TargetHandle, TargetStatus};
pub use initiator::{Capacity, Initiator, InitiatorError};
pub use iscsi::IscsiName;
pub use scsi::LunNumber;
pub use server::{ServeError, serve};
pub use url::{DiskUrl, UrlError};
pub use volume::{OpenError, SpecificationError, VolumeSpecification, parse_size};

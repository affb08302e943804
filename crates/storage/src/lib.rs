//! Storage: iSCSI targets and initiators on Tasuki, and the volumes behind targets.
//!
//! A target is one process. It is a client of an instance: its connections are Tasuki's sockets. It
//! joins the two protocol cores, `iscsi` and `scsi`, which do no I/O, with sockets and volumes. An
//! initiator joins `iscsi` with a socket. A [`Disk`] is a unit whose session comes back; [`copy()`]
//! moves whole disks, and [`Mounted`] makes a disk a file. [`open_encrypted`] has the disk that is
//! encrypted in a unit.
//!
//! ```text
//!   initiator ── TCP ──▶ session (iscsi) ── command ──▶ device (scsi) ── operation ──▶ volume
//! ```
//!
//! ```text layers
//! server copy mount encryption: a target's process; copies of disks; disks as files; LUKS
//! bench: measurements of units
//! disk: a unit whose session comes back
//! initiator url: a session with a target; the address of a unit
//! connection handle: one connection of an initiator; a running target
//! command management: commands, task management
//! portal: who may log in
//! session resize: an initiator that is logged in; units that grow and shrink
//! device: units, and what all sessions share
//! definition: what a target is
//! access: who may use a target
//! stream state_file volume: writing to a stream; state of units; where bytes are
//! transport identity: how streams are protected; which volume is which
//! ring data_in: io_uring; the data-in of a command
//! counters memory secret_file: what is counted; aligned memory; files with secrets
//! private_file: who may use a file
//! registered: memory that an io_uring knows
//! ```

mod access;
mod bench;
mod command;
mod connection;
mod copy;
mod counters;
mod data_in;
mod definition;
mod device;
mod disk;
mod encryption;
mod handle;
mod identity;
mod initiator;
mod management;
mod memory;
mod mount;
mod portal;
mod private_file;
mod registered;
mod resize;
mod ring;
mod secret_file;
mod server;
mod session;
mod state_file;
mod stream;
#[cfg(test)]
mod testing;
mod transport;
mod url;
mod volume;

pub use access::{AccessPolicy, AccessRule, Network, NetworkError, Peer};
pub use bench::{
    BenchError, BenchOutcome, BenchPattern, BenchPlan, BenchUnit, MOST_BENCH_DEPTH,
    MOST_BENCH_REQUEST, bench,
};
pub use copy::{CopyEnd, CopyError, copy};
pub use counters::{Counts, LATENCY_BUCKETS, LatencyHistogram};
pub use definition::{
    AUTHORITY, LunDefinition, LunError, MOST_LUNS, MOST_SESSIONS, PORT, TargetDefinition,
};
pub use device::DeviceError;
pub use disk::{Disk, DiskError, DiskExtent, DiskSize};
pub use encryption::{EncryptionError, format_encrypted, open_encrypted};
pub use handle::{LunStatus, NotSealed, SessionStatus, TargetHandle, TargetStatus};
pub use identity::{IdentityRegister, NoIdentity, VolumeIdentity};
pub use initiator::{
    Capacity, DiskPortal, Initiator, InitiatorError, InitiatorIdentity, Inquiry, random_isid,
};
pub use iscsi::pdu::Isid;
pub use iscsi::settings::{ChapAccount, ChapAlgorithm, ChapPolicy, DigestPreference};
pub use iscsi::{ChapSecret, IscsiName};
pub use luks::{
    DerivationCost, FormatOptions, KeyDerivation, LuksError, LuksVersion, Passphrase, SectorSize,
};
pub use mount::{MountError, MountOptions, Mounted};
pub use private_file::{PrivateFileError, check_private, check_trusted};
pub use resize::ResizeError;
pub use scsi::{BlockSize, LunNumber, StoredState, UnitRight};
pub use secret_file::{LEAST_SECRET, MOST_SECRET, SecretFileError, read_secret};
pub use server::{ServeError, serve};
pub use state_file::{KeptState, StateFolder, StateStore};
pub use transport::{
    Credentials, DiskTransport, Judge, PortalTransport, Refusal, SealedCounts, TransportError,
};
pub use url::{DiskUrl, Scheme, UrlError, portal_address};
pub use volume::{
    OpenError, OpenedVolume, ResizeVolumeError, SpecificationError, VolumeSpecification, parse_size,
};

//! What crosses a process boundary in Tasuki, and nothing else: no policy, no I/O.
//!
//! Three kinds of thing cross. **Slots** ([`shm::Slot`], 64 bytes) travel through rings: calls
//! ([`call`]), socket data descriptors ([`data`]) and frames ([`frame`]). **Words** are single
//! atomics in a region that one side writes and the other reads: socket state and bells
//! ([`client`]). **Messages** are JSON with file descriptors on a Unix stream socket: admission,
//! supervision and operators' questions ([`control`]).
//!
//! A slot read out of shared memory is an *allegation*: `decode` turns it into another type or
//! refuses it with [`BadSlot`], which names the field and the value, and is always the writing
//! peer's fault.
//!
//! ```text layers
//! control: messages of the supervisor, of programs and of operators
//! frame: what the inet server and a driver hand each other
//! client nic: layouts of the two kinds of region
//! call: requests, replies and their slots
//! data: descriptors of the queues
//! ancillary: what goes beside a datagram
//! stages network stats tcp fastopen companion: what is measured, told and configured
//! address option socket offload: the vocabulary of slots
//! flags bits bad_slot: tools of the codecs
//! ```

#![forbid(unsafe_code)]

pub mod address;
pub mod ancillary;
mod bad_slot;
mod bits;
pub mod call;
pub mod client;
pub mod companion;
pub mod control;
pub mod data;
pub mod fastopen;
mod flags;
pub mod frame;
pub mod network;
pub mod nic;
pub mod offload;
pub mod option;
mod socket;
pub mod stages;
pub mod stats;
pub mod tcp;

pub use bad_slot::BadSlot;
pub use rustix::io::Errno;
pub use socket::{Family, ShutdownHow, SocketFlags, SocketId, SocketKind};

//! Everything that crosses a process boundary in Tasuki, and nothing else: no policy, no I/O.
//!
//! Three kinds of thing cross:
//!
//! * **Slots** ([`shm::Slot`], 64 bytes) travel through rings: calls ([`call`]), descriptors of
//!   socket data ([`data`]) and frames ([`frame`]).
//! * **Words** are single atomics in a region. One side writes a word, the other reads it: socket
//!   state and doorbells ([`client`]).
//! * **Messages** are JSON with file descriptors on a Unix stream socket: admission, supervision
//!   and operators' questions ([`control`]).
//!
//! A slot read from shared memory is an *allegation*. `decode` turns it into another type, or
//! refuses it with [`BadSlot`]. This error names the field and the value. It is always the fault of
//! the peer that wrote the slot.
//!
//! ```text layers
//! control: messages of the supervisor, of programs and of operators
//! frame: frames and calls between the inet server and a driver
//! client nic: layouts of the two kinds of region
//! call: requests, replies and their slots
//! data: descriptors of the queues
//! queued_error: entries of error queues
//! ancillary: ancillary data of datagrams
//! xfrm: security associations and policies
//! stages network stats tcp fastopen companion: measurements, status and settings
//! address option socket offload: the vocabulary of slots
//! flags bits bad_slot shared: tools of the codecs; marks of shared sockets
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
pub mod queued_error;
pub mod shared;
mod socket;
pub mod stages;
pub mod stats;
pub mod tcp;
pub mod xfrm;

pub use bad_slot::BadSlot;
pub use rustix::io::Errno;
pub use socket::{Family, ShutdownHow, SocketFlags, SocketId, SocketKind};

//! Sockets: control operations, the two halves, readiness.
//!
//! * `core` has what both halves and all operations share: the membership, the socket's name at the
//!   server, its words.
//! * A half ([`SendHalf`](send::SendHalf), [`RecvHalf`](recv::RecvHalf)) is behind its own lock. A
//!   thread holds the lock while bytes are copied and never while it sleeps. So threads may send
//!   and receive at the same time, and poll looks at both. Its functions take the core, not the
//!   socket.
//! * `handle` has [`Socket`], which joins them. Closing takes the queues out of the halves, so a
//!   later operation finds EBADF, whatever socket the server has put at the same index by then.
//!
//! Bytes move without a copy in this process by two more ways:
//!
//! * [`TxArea`](crate::TxArea) is memory of the sending pool that the program writes.
//!   [`TxArea::freeze`](crate::TxArea::freeze) makes it a [`TxSlice`](crate::TxSlice), which can be
//!   divided, cloned and sent any number of times ([`Socket::send_slices`]). A descriptor names its
//!   bytes; the device gathers them from there, and so does a retransmission.
//! * [`RxArea`] is received bytes where they lie: in their frame, if the instance shares frames
//!   (`[memory] share_frames`), else where the inet server has put them for this program
//!   ([`Socket::recv_area`]). Dropping it gives them back.

mod connect;
mod core;
mod datagram;
mod destinations;
mod errors;
mod fastopen;
mod file;
mod handle;
mod held_parts;
mod options;
mod queue_lengths;
mod readiness;
mod recv;
mod recv_area;
mod recv_queue;
mod send;
mod slices;
mod urgent;
mod watch;

pub use self::handle::Socket;
pub use self::queue_lengths::OutputQueue;
pub use self::readiness::{Readiness, poll};
pub use self::recv::RecvFlags;
pub use self::recv_area::RxArea;
pub use self::recv_queue::Received;
pub use self::send::SendFlags;
pub use self::slices::MOST_SLICES;
pub use self::watch::{NewsReader, Watch, wait_any};

//! The program's side of Tasuki: sockets of a TCP/IP stack that runs in other processes.
//!
//! * [`Client`] is this process as a client of one instance: its region, its pools, its thread
//!   slots.
//! * [`Socket`] is one socket with POSIX meaning: errors are Linux's error numbers, waiting is the
//!   caller's choice ([`Wait`]), any thread may use it.
//! * [`CallBatch`] makes calls that travel together; [`aio`] is the same for `async` tasks.
//! * [`TcpStream`], [`TcpListener`] and [`UdpSocket`] have std's shape and use [`instance()`], the
//!   process's own client, found through the environment variable [`ENV`].
//!
//! Control operations are packaged calls ([`CallBatch`]). Data needs none: a send copies bytes once
//! into an area of the sending pool and publishes a descriptor; a receive copies them once out of
//! the receiving pool. A program that fills areas itself ([`Client::alloc`],
//! [`Socket::send_slices`]) saves the first copy. A system call is made only to wake a server that
//! sleeps, or to sleep.
//!
//! This code lives inside other people's programs: it prints nothing, raises no signal (sending on
//! a closed socket is an error number, never SIGPIPE), panics on nothing that a server writes,
//! starts no thread, and keeps its own descriptors out of the way ([`Client::is_internal_fd`]).
//! Unlike system calls, its operations must not be used in signal handlers: they take locks.
#![forbid(unsafe_code)]

pub mod aio;
mod batch;
mod bells;
mod client;
mod confirmed;
mod connect;
mod datagram;
pub mod drive;
mod error;
mod fastopen;
mod fork;
mod instance;
mod native;
pub mod net;
mod recv;
mod request;
mod rings;
mod send;
mod socket;
mod status;
mod thread;
mod tx_pool;
mod urgent;
mod wait;

pub use abi::ancillary::{RecvAncillary, SendAncillary, asked};
pub use abi::{Errno, Family, How, SocketKind};
pub use batch::CallBatch;
pub use client::Client;
pub use error::ConnectError;
pub use fork::{fork_watched, forked};
pub use instance::{ENV, instance};
pub use native::{MOST_AREA, MOST_SLICES, RxArea, TxArea, TxSlice};
pub use net::{TcpListener, TcpStream, UdpSocket};
pub use recv::{Received, RecvFlags};
pub use request::{Completion, Reply, Request, Ticket};
pub use send::SendFlags;
pub use socket::Socket;
pub use status::{Readiness, poll};
pub use wait::{Wait, Watch};

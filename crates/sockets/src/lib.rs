//! The program's side of Tasuki: sockets of a TCP/IP stack that runs in other processes.
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use tasuki_sockets::TcpStream;
//!
//! // The program was started by `tasuki run`, or TASUKI_SOCKET names an instance.
//! let mut stream = TcpStream::connect("192.0.2.1:80")?;
//! stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
//! let mut page = Vec::new();
//! stream.read_to_end(&mut page)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! * [`TcpStream`], [`TcpListener`] and [`UdpSocket`] have std's shape and use [`instance()`], the
//!   process's own client, found through the environment variable [`ENV`].
//! * [`Client`] is this process as a client of one instance: its region, its pools, its thread
//!   slots.
//! * [`Socket`] is one socket with POSIX meaning. Errors are Linux's error numbers, the caller says
//!   how long to wait ([`Wait`]), any thread may use it.
//! * [`CallBatch`] makes calls that travel together; [`aio`] is the same for `async` tasks.
//!
//! Control operations are packaged calls ([`CallBatch`]). Data needs none: a send copies bytes once
//! into an area of the sending pool and publishes a descriptor; a receive copies them once out of
//! the receiving pool. A program that fills areas itself ([`Client::alloc`],
//! [`Socket::send_slices`]) saves the first copy. A system call is made only to wake a server that
//! sleeps, or to sleep.
//!
//! This code lives inside other people's programs. It prints nothing, starts no thread and raises
//! no signal: sending on a closed socket is an error number, never SIGPIPE. It panics on nothing
//! that a server writes, and keeps its own descriptors out of the way ([`Client::is_internal_fd`]).
//! Unlike system calls, its operations must not be used in signal handlers: they take locks.
//!
//! # The layers
//!
//! ```text layers
//! aio net: sockets for async tasks; sockets with std's shape
//! instance: the process's own client
//! batch shared: packaged calls that travel together; sockets that several processes hold
//! request: typed calls and their replies
//! client: one client, which makes sockets
//! socket: sockets, their halves, their control operations
//! membership: region, bells, call rings, thread slots, waiting
//! memory: areas of the sending pool, and their holders
//! local_stack: the stack inside this process (mode `library`)
//! environment: the instance that the environment names
//! cancellation descriptors error fork lock wait: vocabulary
//! ```
#![forbid(unsafe_code)]

pub mod aio;
mod batch;
mod cancellation;
mod client;
mod descriptors;
mod environment;
mod error;
mod fork;
mod instance;
pub mod local_stack;
mod lock;
mod membership;
mod memory;
pub mod net;
mod request;
pub mod shared;
mod socket;
mod wait;

pub use abi::ancillary::{AncillarySet, RecvAncillary, SendAncillary};
pub use abi::queued_error::{QueuedErrorEntry, QueuedErrorOrigin};
pub use abi::stages::TraceStage;
pub use abi::{Errno, Family, ShutdownHow, SocketKind};
pub use batch::CallBatch;
pub use cancellation::{
    Cancellation, HandlersRun, LyingDown, asleep, cancellable, set_cancellation,
};
pub use client::Client;
pub use environment::{named_instance, remember_instance};
pub use error::{ConnectError, ENV};
pub use fork::fork_watched;
pub use instance::{forked, instance};
pub use membership::NewsListener;
pub use memory::{MOST_AREA, TxArea, TxSlice};
pub use net::{TcpListener, TcpStream, UdpSocket};
pub use request::{Completion, Reply, Request, Ticket};
pub use socket::{
    MOST_SLICES, NewsReader, OutputQueue, Readiness, Received, RecvFlags, RxArea, SendFlags,
    Socket, Watch, poll, wait_any,
};
pub use wait::{PollCall, Wait};

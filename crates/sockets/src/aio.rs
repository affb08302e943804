//! Sockets for tasks: `async` connect, accept, read and write over packaged calls.
//!
//! * [`block_on`] runs a future, and the tasks that it [`spawn`]s, on the calling thread: while
//!   tasks can run, what they call and what they send is gathered; when none can, all of it leaves
//!   with one bell, and the thread sleeps once, on its own bell, until any of its sockets or calls
//!   has news.
//! * [`TcpStream`], [`TcpListener`] and [`UdpSocket`] have the shape that is usual for async
//!   sockets; streams are [`futures_io::AsyncRead`] and [`futures_io::AsyncWrite`].
//! * [`Reactor`] is what drives them, and needs no executor of ours: another one calls
//!   [`Reactor::poll_turn`] or waits for its descriptor.
//!
//! Data moves without calls, as always: a read or write touches the socket's queues, and only
//! connecting, accepting, opening and closing are calls. Dropping a future cancels its call. The
//! server says which sockets have news in a bitmap for each thread, so waking costs what is ready,
//! not what is open.
//!
//! All of it belongs to one thread: futures are not `Send`. Programs with several threads run one
//! [`block_on`] in each.

mod executor;
mod reactor;
mod tcp;
mod udp;

pub use executor::{JoinHandle, block_on, block_on_via, spawn, yield_now};
pub use reactor::Reactor;
pub use tcp::{AsyncTcpListener as TcpListener, AsyncTcpStream as TcpStream};
pub use udp::AsyncUdpSocket as UdpSocket;

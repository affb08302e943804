//! Sockets for tasks: `async` connect, accept, read and write over packaged calls.
//!
//! * [`block_on`] runs a future, and the tasks that it [`spawn`]s, on the calling thread. While
//!   tasks can run, their calls and sends collect. When none can, all of them leave with one bell.
//!   Then the thread sleeps once, on its own bell, until any of its sockets or calls has news.
//! * [`TcpStream`], [`TcpListener`] and [`UdpSocket`] have the shape that is usual for async
//!   sockets; streams are [`futures_io::AsyncRead`] and [`futures_io::AsyncWrite`].
//! * [`Reactor`] drives them, and needs no executor of ours: another executor calls
//!   [`Reactor::poll_iteration`] or waits for its descriptor.
//!
//! Data moves without calls, as always: a read or write touches the socket's queues. Only
//! connecting, accepting, opening and closing are calls. Dropping a future cancels its call. The
//! server names the sockets with news in a bitmap for each thread. So the cost of waking grows with
//! the ready sockets, not with the open ones.
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

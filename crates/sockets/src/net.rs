//! Sockets with the shape of `std::net`'s, over the process's own client.
//!
//! std's documentation of its types holds here, with two differences:
//!
//! * No file descriptor is behind a socket; `as_socket` gives the [`Socket`](crate::Socket).
//! * Functions that end in `_via` name a client instead of using [`crate::instance()`]'s.
//!
//! As in std, clones share the socket with its timeouts and its nonblocking mode. `local_addr`,
//! options and the like fail only as the [`Socket`](crate::Socket) operation of that name does.

mod shared;
mod tcp;
mod udp;

pub use self::tcp::{Incoming, TcpListener, TcpStream};
pub use self::udp::UdpSocket;

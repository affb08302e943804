//! Sockets: their table, demultiplexing, ports, and the calls of their owner.
//!
//! A socket is a slot of the table with a body: nothing yet, a listener, a connection or a datagram
//! endpoint. A connection that waits to be accepted is a socket, too, owned by its listener. Before
//! that, during the handshake, it is only a connection request: a record of the SYN. A closed
//! socket remains in its slot, without its owner, until the connection has ended.
//!
//! [`SocketLayer`] owns the table of sockets and everything that finds and wakes them. It composes
//! `TcpLayer` and `UdpLayer`, each with the state of its protocol in private fields. The calls are
//! in `layer`; the other modules are the types that it works with. It gives events to the owner of
//! a socket. To the stack it gives the frame of a datagram whose port no socket has, so that its
//! sender gets an error.

mod cookies;
mod counters;
mod datagram;
mod demux;
pub(crate) mod error_queue;
mod event_queue;
pub(crate) mod events;
pub(crate) mod fast_open_keys;
mod fast_opens;
mod fin_acks;
pub(crate) mod kinds;
mod layer;
mod listener;
mod local_address;
mod maybe_dormant;
pub(crate) mod options;
pub(crate) mod owners;
mod ports;
pub(crate) mod request;
pub(crate) mod socket;
mod stream;
mod tcp_layer;
mod time_wait;
mod turns;

pub(crate) use layer::SocketLayer;

//! Sockets: the table, what a packet is demultiplexed to, ports, and the calls of the owner.
//!
//! A socket is a place in the table with a body: nothing yet, a listener, a connection or a
//! datagram endpoint. Connections that wait to be accepted are sockets too, owned by their
//! listener; before that, while the handshake is under way, there is only a record of what the peer
//! asked for. A socket that was closed stays in its place, without its owner, until the connection
//! is over.
//!
//! [`SocketLayer`] owns the tables. It gives the owner events, and the stack what other layers have
//! to do.

mod cookies;
mod counters;
mod datagram;
mod demux;
mod event_queue;
pub(crate) mod events;
pub(crate) mod fast_open_keys;
mod fast_opens;
mod fin_acks;
pub(crate) mod kinds;
mod layer;
mod listener;
mod maybe_dormant;
pub(crate) mod options;
mod ports;
pub(crate) mod request;
pub(crate) mod socket;
mod stream;
mod time_wait;

pub(crate) use layer::SocketLayer;

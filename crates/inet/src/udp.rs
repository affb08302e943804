//! UDP (RFC 768, RFC 1122 4.1): the wire format, and the queues of a datagram socket.

pub(crate) mod layer;
pub(crate) mod lite;
pub(crate) mod message;
pub(crate) mod parked;
pub(crate) mod queues;
pub(crate) mod wire;

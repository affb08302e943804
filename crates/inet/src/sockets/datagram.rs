//! What makes a socket a datagram socket.

use crate::bytes::TxBytes;
use crate::interface_id::InterfaceId;
use crate::udp::queues::{RecvQueue, SendQueue};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// What makes a socket a datagram socket.
#[derive(Debug)]
pub(crate) struct Datagram<T, R> {
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) send: SendQueue<T>,
    pub(crate) recv: RecvQueue<R>,
    /// The groups that it has joined, and where.
    pub(crate) memberships: Vec<(InterfaceId, IpAddr)>,
}

impl<T: TxBytes, R> Datagram<T, R> {
    pub(crate) fn new() -> Self {
        let (send, recv) = (SendQueue::new(), RecvQueue::new());
        Self { peer: None, send, recv, memberships: Vec::new() }
    }
}

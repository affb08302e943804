//! The state of a datagram socket.

use crate::bytes::TxBytes;
use crate::interface_id::InterfaceId;
use crate::sockets::kinds::SocketKind;
use crate::udp::queues::{DatagramRecvQueue, DatagramSendQueue};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// The state of a datagram socket.
#[derive(Debug)]
pub(crate) struct Datagram<T, R> {
    /// A kind of datagrams.
    pub(crate) kind: SocketKind,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) send: DatagramSendQueue<T>,
    pub(crate) recv: DatagramRecvQueue<R>,
    /// The groups that it has joined, and where.
    pub(crate) memberships: Vec<(InterfaceId, IpAddr)>,
}

impl<T: TxBytes, R> Datagram<T, R> {
    pub(crate) fn new(kind: SocketKind) -> Self {
        let (send, recv) = (DatagramSendQueue::new(), DatagramRecvQueue::new());
        Self { kind, peer: None, send, recv, memberships: Vec::new() }
    }
}

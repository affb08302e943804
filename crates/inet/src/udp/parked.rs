//! Datagrams that wait for their neighbour's hardware address.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::message::OutgoingDatagram;
use crate::interface_id::NeighbourKey;
use crate::offload::TxOffload;
use crate::secret::KeyedHash;
use crate::table::Handle;

/// A datagram removed from its socket's queue.
#[derive(Debug)]
pub(crate) struct ParkedDatagram<T> {
    pub(crate) socket: Handle,
    /// Its number in the queue.
    pub(crate) number: u64,
    pub(crate) outgoing: OutgoingDatagram<T>,
    /// The frame's head, all written but the destination.
    pub(crate) head: Vec<u8>,
    /// The offload that is left to the interface when it leaves.
    pub(crate) offload: TxOffload,
}

/// The parked datagrams of one stack, by neighbour. Each neighbour has a short queue; a further
/// datagram displaces the oldest.
#[derive(Debug)]
pub(crate) struct ParkedDatagrams<T> {
    map: HashMap<NeighbourKey, VecDeque<ParkedDatagram<T>>, KeyedHash>,
    /// Most datagrams that wait for one neighbour.
    limit: usize,
}

impl<T> ParkedDatagrams<T> {
    pub(crate) fn new(hash: KeyedHash, limit: usize) -> Self {
        Self { map: HashMap::with_hasher(hash), limit }
    }

    /// Parks a datagram until a neighbour is resolved. Gives the datagram that it displaces.
    pub(crate) fn park(
        &mut self,
        key: NeighbourKey,
        datagram: ParkedDatagram<T>,
    ) -> Option<ParkedDatagram<T>> {
        let queue = self.map.entry(key).or_default();
        queue.push_back(datagram);
        if queue.len() > self.limit { queue.pop_front() } else { None }
    }

    /// The datagrams that waited for a neighbour: they do not any more.
    pub(crate) fn take(&mut self, key: NeighbourKey) -> VecDeque<ParkedDatagram<T>> {
        if self.map.is_empty() {
            VecDeque::new()
        } else {
            self.map.remove(&key).unwrap_or_default()
        }
    }
}

//! Sockets that wait for a neighbour's hardware address.

use alloc::collections::BTreeSet;

use hashbrown::HashMap;

use crate::interface_id::NeighbourKey;
use crate::secret::KeyedHash;
use crate::table::Handle;

/// The waiting sockets of one protocol, by neighbour.
#[derive(Debug)]
pub(crate) struct SocketWaiters {
    map: HashMap<NeighbourKey, BTreeSet<Handle>, KeyedHash>,
}

impl SocketWaiters {
    pub(crate) fn new(hash: KeyedHash) -> Self {
        Self { map: HashMap::with_hasher(hash) }
    }

    /// Adds a socket to those that wait for a neighbour being resolved.
    pub(crate) fn wait(&mut self, key: NeighbourKey, socket: Handle) {
        self.map.entry(key).or_default().insert(socket);
    }

    /// The socket does not wait any more.
    pub(crate) fn stop_waiting(&mut self, key: NeighbourKey, socket: Handle) {
        if let Some(sockets) = self.map.get_mut(&key) {
            sockets.remove(&socket);
            if sockets.is_empty() {
                self.map.remove(&key);
            }
        }
    }

    /// The sockets that waited for a neighbour: they do not any more.
    pub(crate) fn take(&mut self, key: NeighbourKey) -> BTreeSet<Handle> {
        if self.map.is_empty() {
            BTreeSet::new()
        } else {
            self.map.remove(&key).unwrap_or_default()
        }
    }
}

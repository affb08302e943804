//! Which socket a packet is for: hash tables under a secret key, so that lookup takes constant time
//! and nobody outside can make keys collide.

use core::net::{Ipv4Addr, SocketAddrV4};

use alloc::vec::Vec;
use hashbrown::HashMap;

use super::table::Handle;
use crate::secret::KeyedHash;
use crate::tcp::Endpoints;

type Map<K, V> = HashMap<K, V, KeyedHash>;

/// The tables of one stack.
#[derive(Debug)]
pub(crate) struct Demux {
    connections: Map<Endpoints, Handle>,
    listeners: Map<SocketAddrV4, Handle>,
    /// Connected datagram sockets.
    peers: Map<Endpoints, Handle>,
    /// Bound datagram sockets. Several may share an address with SO_REUSEADDR: the last one
    /// receives.
    bound: Map<SocketAddrV4, Vec<Handle>>,
}

/// `address` and, if nothing is there, the wildcard address with the same port.
fn specific_then_any(address: SocketAddrV4) -> [SocketAddrV4; 2] {
    [address, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, address.port())]
}

impl Demux {
    pub(crate) fn new(hash: &KeyedHash) -> Self {
        Self {
            connections: Map::with_hasher(hash.clone()),
            listeners: Map::with_hasher(hash.clone()),
            peers: Map::with_hasher(hash.clone()),
            bound: Map::with_hasher(hash.clone()),
        }
    }

    pub(crate) fn connection(&self, ends: &Endpoints) -> Option<Handle> {
        self.connections.get(ends).copied()
    }

    pub(crate) fn add_connection(&mut self, ends: Endpoints, handle: Handle) {
        self.connections.insert(ends, handle);
    }

    /// Removes the entry if it is `handle`'s.
    pub(crate) fn remove_connection(&mut self, ends: &Endpoints, handle: Handle) {
        if self.connections.get(ends) == Some(&handle) {
            self.connections.remove(ends);
        }
    }

    pub(crate) fn listener(&self, local: SocketAddrV4) -> Option<Handle> {
        specific_then_any(local).iter().find_map(|key| self.listeners.get(key)).copied()
    }

    pub(crate) fn add_listener(&mut self, local: SocketAddrV4, handle: Handle) {
        self.listeners.insert(local, handle);
    }

    pub(crate) fn remove_listener(&mut self, local: SocketAddrV4, handle: Handle) {
        if self.listeners.get(&local) == Some(&handle) {
            self.listeners.remove(&local);
        }
    }

    /// The socket for a datagram from `ends.remote` to `ends.local`.
    pub(crate) fn datagram(&self, ends: &Endpoints) -> Option<Handle> {
        if let Some(handle) = self.peers.get(ends) {
            return Some(*handle);
        }
        let mut found = specific_then_any(ends.local).into_iter();
        found.find_map(|key| self.bound.get(&key)?.last().copied())
    }

    /// Whether a socket is connected between exactly these ends.
    pub(crate) fn has_peer(&self, ends: &Endpoints) -> bool {
        self.peers.contains_key(ends)
    }

    pub(crate) fn add_peer(&mut self, ends: Endpoints, handle: Handle) {
        self.peers.insert(ends, handle);
    }

    pub(crate) fn remove_peer(&mut self, ends: &Endpoints, handle: Handle) {
        if self.peers.get(ends) == Some(&handle) {
            self.peers.remove(ends);
        }
    }

    pub(crate) fn add_bound(&mut self, local: SocketAddrV4, handle: Handle) {
        self.bound.entry(local).or_default().push(handle);
    }

    pub(crate) fn remove_bound(&mut self, local: SocketAddrV4, handle: Handle) {
        if let Some(sharing) = self.bound.get_mut(&local) {
            sharing.retain(|other| *other != handle);
            if sharing.is_empty() {
                self.bound.remove(&local);
            }
        }
    }
}

//! Peers that have nearly all connections that there can be: which ports are known to be taken.
//!
//! Only the demultiplexer knows whether a port is free for a connection to one peer, and one call
//! asks it about few ports. For a crowded peer the answers are kept, so later calls ask about
//! others, until the one free port is found.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::set::PortSet;
use crate::sockets::kinds::SocketKind;

/// Most crowded peers.
const MOST: usize = 16;

/// A peer as seen from one address of this host.
pub(super) type PeerKey = (SocketKind, IpAddr, SocketAddr);

#[derive(Debug)]
struct CrowdedPeer {
    key: PeerKey,
    taken: PortSet,
    marks: u32,
}

/// All crowded peers.
#[derive(Debug, Default)]
pub(super) struct CrowdedPeers(Vec<CrowdedPeer>);

impl CrowdedPeers {
    /// The ports that are known to be taken.
    pub(super) fn taken(&self, key: &PeerKey) -> Option<&PortSet> {
        self.0.iter().find(|peer| peer.key == *key).map(|peer| &peer.taken)
    }

    /// Whether something is known about this peer.
    #[inline]
    pub(super) fn has(&self, key: &PeerKey) -> bool {
        !self.0.is_empty() && self.taken(key).is_some()
    }

    /// The ports `numbers` out of `count` have connections to this peer. With too many peers, the
    /// one of which least is known is forgotten.
    pub(super) fn mark(&mut self, key: PeerKey, count: u32, numbers: &[u32]) {
        let known = self.0.iter().position(|peer| peer.key == key);
        let at = known.unwrap_or_else(|| {
            if self.0.len() >= MOST
                && let Some((least, _)) =
                    self.0.iter().enumerate().min_by_key(|(_, peer)| peer.marks)
            {
                self.0.swap_remove(least);
            }
            self.0.push(CrowdedPeer { key, taken: PortSet::new(count), marks: 0 });
            self.0.len() - 1
        });
        let Some(peer) = self.0.get_mut(at) else { return };
        for &number in numbers {
            peer.marks += u32::from(peer.taken.set(number, true));
        }
    }

    /// A connection has given up a port, or will.
    #[inline]
    pub(super) fn forget(&mut self, number: u32) {
        if !self.0.is_empty() {
            self.0.retain_mut(|peer| {
                peer.marks -= u32::from(peer.taken.set(number, false));
                peer.marks > 0
            });
        }
    }
}

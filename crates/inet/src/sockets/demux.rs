//! Demultiplexing: which socket a packet is for. The hash tables have a secret key, so lookup takes
//! constant time and no sender can make keys collide.

use core::hash::BuildHasher;
use core::net::SocketAddr;

use alloc::vec::Vec;
use hashbrown::HashMap;

use super::kinds::SocketKind;
use super::options::SocketOptions;
use crate::interface_id::InterfaceId;
use crate::secret::KeyedHash;
use crate::sockaddr::wildcard;
use crate::table::Handle;
use crate::tcp::Endpoints;

type Map<K, V> = HashMap<K, V, KeyedHash>;

/// The tables of one stack.
#[derive(Debug)]
pub(crate) struct Demux {
    connections: Map<Endpoints, DemuxTarget>,
    listeners: Map<SocketAddr, PortSharers>,
    udp: DatagramDemux,
    udp_lite: DatagramDemux,
    echo: DatagramDemux,
    hash: KeyedHash,
}

/// The tables of one protocol of datagrams.
#[derive(Debug)]
pub(crate) struct DatagramDemux {
    /// Connected sockets.
    peers: Map<Endpoints, Handle>,
    /// Bound sockets.
    bound: Map<SocketAddr, PortSharers>,
    hash: KeyedHash,
}

/// The receiver of the segments between two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DemuxTarget {
    /// A connection, by its socket's handle.
    Socket(Handle),
    /// A connection request, by its handle in the table of requests.
    Request(Handle),
    /// A closed connection in TIME-WAIT, by its handle in the table of records.
    TimeWait(Handle),
}

/// How a socket's device (SO_BINDTODEVICE) suits a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceFit {
    /// The packet is not for the socket, for this or another reason.
    Refused,
    /// The socket takes packets of every device.
    Every,
    /// The packet came by the socket's device.
    Own,
}

impl DeviceFit {
    /// The fit of a packet that came by `interface` to a socket with this device.
    pub(crate) fn of(device: Option<InterfaceId>, interface: InterfaceId) -> Self {
        match device {
            None => Self::Every,
            Some(device) if device == interface => Self::Own,
            Some(_) => Self::Refused,
        }
    }
}

/// How a socket shares its address with others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sharing {
    /// SO_REUSEPORT: packets are spread over the sockets.
    pub(crate) spread: bool,
    /// The socket is bound to a device.
    pub(crate) by_device: bool,
}

impl Sharing {
    pub(crate) fn of(options: &SocketOptions) -> Self {
        Self { spread: options.reuse_port, by_device: options.device.is_some() }
    }
}

/// The sockets at one address. Several datagram sockets may share it with SO_REUSEADDR: the last
/// one receives. Sockets of both kinds may share it with SO_REUSEPORT: packets are spread over
/// them. As on Linux, sockets that are bound to the packet's device come first.
#[derive(Debug, Default)]
struct PortSharers {
    handles: Vec<Handle>,
    spread: bool,
    /// Some sockets are, or were, bound to a device.
    by_device: bool,
}

impl PortSharers {
    fn add(&mut self, handle: Handle, sharing: Sharing) {
        self.handles.retain(|other| *other != handle);
        self.spread = sharing.spread && (self.spread || self.handles.is_empty());
        self.by_device |= sharing.by_device;
        self.handles.push(handle);
    }

    /// The receiver of a packet between `ends`, out of the sockets that `fit` does not refuse. The
    /// choice stays the same as long as the sharers do.
    fn choose(
        &self,
        hash: &KeyedHash,
        ends: &Endpoints,
        fit: impl Fn(Handle) -> DeviceFit,
    ) -> Option<Handle> {
        let own = |handle| fit(handle) == DeviceFit::Own;
        let found = if self.by_device { self.first(hash, ends, own) } else { None };
        found.or_else(|| self.first(hash, ends, |handle| fit(handle) != DeviceFit::Refused))
    }

    /// The first socket that `takes` accepts.
    fn first(
        &self,
        hash: &KeyedHash,
        ends: &Endpoints,
        takes: impl Fn(Handle) -> bool,
    ) -> Option<Handle> {
        if !self.spread {
            return self.handles.iter().copied().rfind(|handle| takes(*handle));
        }
        if self.by_device {
            return self.spread_over_takers(hash, ends, takes);
        }
        let start = hash.hash_one(ends) % self.handles.len().max(1) as u64;
        let (before, from) = self.handles.split_at_checked(usize::try_from(start).ok()?)?;
        from.iter().chain(before).copied().find(|handle| takes(*handle))
    }

    /// One of the sockets that `takes` accepts: each gets the same share. Otherwise the share of a
    /// socket of another device would all be its neighbour's.
    #[cold]
    fn spread_over_takers(
        &self,
        hash: &KeyedHash,
        ends: &Endpoints,
        takes: impl Fn(Handle) -> bool,
    ) -> Option<Handle> {
        let mut takers = self.handles.iter().copied().filter(|handle| takes(*handle));
        let count = takers.clone().count().max(1) as u64;
        takers.nth(usize::try_from(hash.hash_one(ends) % count).ok()?)
    }
}

fn remove_sharer(map: &mut Map<SocketAddr, PortSharers>, local: SocketAddr, handle: Handle) {
    if let Some(sharers) = map.get_mut(&local) {
        sharers.handles.retain(|other| *other != handle);
        if sharers.handles.is_empty() {
            map.remove(&local);
        }
    }
}

/// `address` and, if nothing is there, the wildcard address with the same port.
fn specific_then_any(address: SocketAddr) -> [SocketAddr; 2] {
    [address, SocketAddr::new(wildcard(address.ip()), address.port())]
}

impl Demux {
    pub(crate) fn new(hash: &KeyedHash) -> Self {
        Self {
            connections: Map::with_hasher(hash.clone()),
            listeners: Map::with_hasher(hash.clone()),
            udp: DatagramDemux::new(hash),
            udp_lite: DatagramDemux::new(hash),
            echo: DatagramDemux::new(hash),
            hash: hash.clone(),
        }
    }

    /// The tables of a kind of datagram sockets.
    pub(crate) fn datagrams(&mut self, kind: SocketKind) -> &mut DatagramDemux {
        match kind {
            SocketKind::UdpLite => &mut self.udp_lite,
            SocketKind::Echo => &mut self.echo,
            _ => &mut self.udp,
        }
    }

    /// [`datagrams`](Self::datagrams), for a look-up.
    pub(crate) fn datagrams_ref(&self, kind: SocketKind) -> &DatagramDemux {
        match kind {
            SocketKind::UdpLite => &self.udp_lite,
            SocketKind::Echo => &self.echo,
            _ => &self.udp,
        }
    }

    pub(crate) fn target(&self, ends: &Endpoints) -> Option<DemuxTarget> {
        self.connections.get(ends).copied()
    }

    pub(crate) fn add_connection(&mut self, ends: Endpoints, handle: Handle) {
        self.connections.insert(ends, DemuxTarget::Socket(handle));
    }

    pub(crate) fn add_request(&mut self, ends: Endpoints, key: Handle) {
        self.connections.insert(ends, DemuxTarget::Request(key));
    }

    pub(crate) fn add_time_wait(&mut self, ends: Endpoints, key: Handle) {
        self.connections.insert(ends, DemuxTarget::TimeWait(key));
    }

    pub(crate) fn remove_time_wait(&mut self, ends: &Endpoints, key: Handle) {
        self.remove_target(ends, DemuxTarget::TimeWait(key));
    }

    /// Removes the entry if it is `handle`'s.
    pub(crate) fn remove_connection(&mut self, ends: &Endpoints, handle: Handle) {
        self.remove_target(ends, DemuxTarget::Socket(handle));
    }

    pub(crate) fn remove_request(&mut self, ends: &Endpoints, key: Handle) {
        self.remove_target(ends, DemuxTarget::Request(key));
    }

    fn remove_target(&mut self, ends: &Endpoints, target: DemuxTarget) {
        if self.connections.get(ends) == Some(&target) {
            self.connections.remove(ends);
        }
    }

    /// The listener for a SYN from `ends.remote` to `ends.local`, out of those that `fit` does not
    /// refuse.
    pub(crate) fn listener(
        &self,
        ends: &Endpoints,
        fit: impl Fn(Handle) -> DeviceFit,
    ) -> Option<Handle> {
        let mut found = specific_then_any(ends.local).into_iter();
        found.find_map(|key| self.listeners.get(&key)?.choose(&self.hash, ends, &fit))
    }

    pub(crate) fn add_listener(&mut self, local: SocketAddr, handle: Handle, sharing: Sharing) {
        self.listeners.entry(local).or_default().add(handle, sharing);
    }

    pub(crate) fn remove_listener(&mut self, local: SocketAddr, handle: Handle) {
        remove_sharer(&mut self.listeners, local, handle);
    }
}

impl DatagramDemux {
    fn new(hash: &KeyedHash) -> Self {
        Self {
            peers: Map::with_hasher(hash.clone()),
            bound: Map::with_hasher(hash.clone()),
            hash: hash.clone(),
        }
    }

    /// The socket for a datagram from `ends.remote` to `ends.local`, out of those that `fit` does
    /// not refuse.
    pub(crate) fn datagram(
        &self,
        ends: &Endpoints,
        fit: impl Fn(Handle) -> DeviceFit,
    ) -> Option<Handle> {
        let takes = |handle: &&Handle| fit(**handle) != DeviceFit::Refused;
        if let Some(handle) = self.peers.get(ends).filter(takes) {
            return Some(*handle);
        }
        let mut found = specific_then_any(ends.local).into_iter();
        found.find_map(|key| self.bound.get(&key)?.choose(&self.hash, ends, &fit))
    }

    /// All sockets for a datagram from `ends.remote` to `ends.local`, which is for all of them.
    pub(crate) fn datagram_all(&self, ends: &Endpoints) -> Vec<Handle> {
        let mut found: Vec<Handle> = self.peers.get(ends).copied().into_iter().collect();
        for key in specific_then_any(ends.local) {
            found.extend(self.bound.get(&key).into_iter().flat_map(|sharers| &sharers.handles));
        }
        found
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

    pub(crate) fn add_bound(&mut self, local: SocketAddr, handle: Handle, sharing: Sharing) {
        self.bound.entry(local).or_default().add(handle, sharing);
    }

    pub(crate) fn remove_bound(&mut self, local: SocketAddr, handle: Handle) {
        remove_sharer(&mut self.bound, local, handle);
    }
}

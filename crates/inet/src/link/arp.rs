//! Neighbours: which hardware address belongs to an IPv4 address (RFC 826, RFC 5227, RFC 1122
//! 2.3.2).
//!
//! ```text
//!            asked                    answer
//!  (none) ─────────▶ asking (1 s, 3x) ──────▶ known ──▶ 30 s old, used: probe (unicast, 1 s, 3x)
//!                       │ silence               │ ▲            │ answer: new again
//!                       ▼                       │ └────────────┘ silence: forgotten
//!                     failed, forgotten         └──▶ not used for 60 s: forgotten
//! ```
//!
//! While a neighbour is being asked, connections wait by name and keep their data; datagrams and
//! answers without a socket wait in a short queue, where the oldest gives way. The cache is
//! bounded: when it is full, the stalest of a few entries that nobody waits for gives way, so
//! flooding costs constant time. An entry is made only for somebody we asked, or who asks for us;
//! others' announcements only update.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use hashbrown::HashMap;
use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr};

use super::ethernet::Mac;
use crate::interface::InterfaceId;
use crate::secret::KeyedHash;
use crate::sockets::table::Handle;
use crate::time::Instant;
use crate::wheel::TimerId;

/// Length of an ARP packet for Ethernet and IPv4, bytes.
pub(crate) const PACKET: usize = 28;
/// Requests before a neighbour is taken to be absent, and time between them, as Linux has it.
const TRIES: u8 = 3;
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// Age from which a neighbour is asked again when it is used.
const STALE: Duration = Duration::from_secs(30);
/// Age at which an unused neighbour is forgotten.
pub(crate) const AGE: Duration = Duration::from_secs(60);
/// Entries looked at to find one that gives way.
const SAMPLE: usize = 16;

/// A neighbour's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) interface: InterfaceId,
    pub(crate) address: IpAddr,
}

/// A parsed ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) is_request: bool,
    pub(crate) sender: Ipv4Addr,
    pub(crate) sender_mac: Mac,
    pub(crate) target: Ipv4Addr,
}

/// Reads an ARP packet; `None` if it is malformed, of another kind, or from an impossible sender.
pub(crate) fn parse(bytes: &[u8]) -> Option<Packet> {
    let view = ArpPacket::new_checked(bytes).ok()?;
    let ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: sender_mac,
        source_protocol_addr: sender,
        target_protocol_addr: target,
        ..
    } = ArpRepr::parse(&view).ok()?
    else {
        return None;
    };
    let is_request = match operation {
        ArpOperation::Request => true,
        ArpOperation::Reply => false,
        ArpOperation::Unknown(_) => return None,
    };
    let possible = sender_mac.is_unicast()
        && sender_mac.0 != [0; 6]
        && !sender.is_multicast()
        && !sender.is_broadcast()
        && !sender.is_loopback();
    possible.then_some(Packet { is_request, sender, sender_mac, target })
}

/// Writes a request for `target`, or with `to` the reply to it, into [`PACKET`] bytes.
pub(crate) fn emit(ours: (Ipv4Addr, Mac), target: Ipv4Addr, to: Option<Mac>, out: &mut [u8]) {
    let operation = if to.is_some() { ArpOperation::Reply } else { ArpOperation::Request };
    let repr = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: ours.1,
        source_protocol_addr: ours.0,
        target_hardware_addr: to.unwrap_or(Mac::from_bytes(&[0; 6])),
        target_protocol_addr: target,
    };
    repr.emit(&mut ArpPacket::new_unchecked(out));
}

/// A packet that waits for its destination's hardware address.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    /// The frame's head, all written but the destination.
    pub(crate) head: Vec<u8>,
    /// Its payload and whose datagram it is, unless the head is all.
    pub(crate) datagram: Option<Parked<T>>,
}

/// A datagram taken out of its socket's queue.
#[derive(Debug)]
pub(crate) struct Parked<T> {
    pub(crate) socket: Handle,
    /// Its number in the queue.
    pub(crate) number: u64,
    pub(crate) chunk: T,
}

/// Who waited for a neighbour.
#[derive(Debug)]
pub(crate) struct Waiters<T> {
    pub(crate) pending: VecDeque<Pending<T>>,
    pub(crate) sockets: BTreeSet<Handle>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Asking { tries: u8 },
    Known { mac: Mac, since: Instant, probes: u8, used: bool },
}

#[derive(Debug)]
struct Neighbour<T> {
    state: State,
    timer: Option<TimerId>,
    waiters: Waiters<T>,
}

/// What a look into the cache says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Send there. With `probe`, also ask it (and arm the timer with [`INTERVAL`]).
    Known { mac: Mac, probe: bool },
    /// It is being asked.
    Asking,
    /// Not in the cache.
    Absent,
}

/// What to do when a neighbour's timer fires.
#[derive(Debug)]
pub(crate) enum Due<T> {
    /// Ask (this hardware address, or all) and arm the timer with [`INTERVAL`].
    Ask(Option<Mac>),
    /// Arm the timer with [`AGE`].
    Wait,
    /// It was silent and is forgotten.
    Failed(Waiters<T>),
    /// It was old and is forgotten, or had been already.
    Forgotten,
}

/// The cache of one stack.
#[derive(Debug)]
pub(crate) struct Neighbours<T> {
    map: HashMap<Key, Neighbour<T>, KeyedHash>,
    limit: usize,
    queue_limit: usize,
}

impl<T> Neighbours<T> {
    pub(crate) fn new(hash: KeyedHash, limit: usize, queue_limit: usize) -> Self {
        Self { map: HashMap::with_hasher(hash), limit: limit.max(1), queue_limit }
    }

    pub(crate) fn look_up(&mut self, now: Instant, key: Key) -> Lookup {
        let Some(neighbour) = self.map.get_mut(&key) else { return Lookup::Absent };
        match &mut neighbour.state {
            State::Asking { .. } => Lookup::Asking,
            State::Known { mac, since, probes, used } => {
                *used = true;
                let probe = *probes == 0 && now.since(*since) >= STALE;
                *probes += u8::from(probe);
                Lookup::Known { mac: *mac, probe }
            }
        }
    }

    /// Starts asking for an absent neighbour; the caller sends the request and arms the timer with
    /// [`INTERVAL`]. `None` if the cache is full of neighbours that somebody waits for; else the
    /// timer of the entry that gave way, to be cancelled.
    pub(crate) fn ask(&mut self, key: Key) -> Option<Option<TimerId>> {
        let freed = self.make_room()?;
        self.insert(key, State::Asking { tries: 1 });
        Some(freed)
    }

    /// Sets the neighbour's timer; gives the one that it had.
    pub(crate) fn set_timer(&mut self, key: Key, timer: TimerId) -> Option<TimerId> {
        self.map.get_mut(&key).and_then(|neighbour| neighbour.timer.replace(timer))
    }

    /// Lets a connection wait for the neighbour being asked.
    pub(crate) fn wait(&mut self, key: Key, socket: Handle) {
        if let Some(neighbour) = self.map.get_mut(&key) {
            neighbour.waiters.sockets.insert(socket);
        }
    }

    /// The connection does not wait any more.
    pub(crate) fn stop_waiting(&mut self, key: Key, socket: Handle) {
        if let Some(neighbour) = self.map.get_mut(&key) {
            neighbour.waiters.sockets.remove(&socket);
        }
    }

    /// Lets a packet wait for the neighbour being asked; gives the one that has to give way.
    pub(crate) fn park(&mut self, key: Key, packet: Pending<T>) -> Option<Pending<T>> {
        let Some(neighbour) = self.map.get_mut(&key) else { return Some(packet) };
        neighbour.waiters.pending.push_back(packet);
        if neighbour.waiters.pending.len() > self.queue_limit {
            return neighbour.waiters.pending.pop_front();
        }
        None
    }

    /// The neighbour `key` has the address `mac`; with `create` even if nobody asked. `None` if
    /// that is of no interest; else who waited for it, and a timer to be cancelled. The caller arms
    /// the neighbour's timer with [`AGE`].
    pub(crate) fn learn(
        &mut self,
        now: Instant,
        key: Key,
        mac: Mac,
        create: bool,
    ) -> Option<(Waiters<T>, Option<TimerId>)> {
        let known = State::Known { mac, since: now, probes: 0, used: false };
        if let Some(neighbour) = self.map.get_mut(&key) {
            neighbour.state = known;
            let waiters = core::mem::replace(&mut neighbour.waiters, Waiters::none());
            return Some((waiters, neighbour.timer.take()));
        }
        if !create {
            return None;
        }
        let freed = self.make_room()?;
        self.insert(key, known);
        Some((Waiters::none(), freed))
    }

    /// The neighbour's timer has fired.
    pub(crate) fn due(&mut self, key: Key) -> Due<T> {
        let Some(neighbour) = self.map.get_mut(&key) else { return Due::Forgotten };
        neighbour.timer = None;
        match &mut neighbour.state {
            State::Asking { tries } if *tries < TRIES => {
                *tries += 1;
                return Due::Ask(None);
            }
            State::Known { mac, probes, .. } if (1..TRIES).contains(probes) => {
                *probes += 1;
                return Due::Ask(Some(*mac));
            }
            State::Known { probes: 0, used, .. } if *used => {
                *used = false;
                return Due::Wait;
            }
            _ => {}
        }
        match self.map.remove(&key) {
            Some(Neighbour { state: State::Asking { .. }, waiters, .. }) => Due::Failed(waiters),
            _ => Due::Forgotten,
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    fn insert(&mut self, key: Key, state: State) {
        self.map.insert(key, Neighbour { state, timer: None, waiters: Waiters::none() });
    }

    /// Makes room for one entry: `None` if that cannot be, else the timer of what gave way.
    fn make_room(&mut self) -> Option<Option<TimerId>> {
        if self.map.len() < self.limit {
            return Some(None);
        }
        let stalest = self.map.iter().take(SAMPLE).filter_map(|(key, neighbour)| {
            let State::Known { since, .. } = neighbour.state else { return None };
            Some((since, *key))
        });
        let (_, key) = stalest.min_by_key(|(since, _)| *since)?;
        Some(self.map.remove(&key)?.timer)
    }
}

impl<T> Waiters<T> {
    fn none() -> Self {
        Self { pending: VecDeque::new(), sockets: BTreeSet::new() }
    }
}

//! Neighbours: which hardware address belongs to an address on the link. One cache for both
//! families, with the states of RFC 4861 7.3.2; ARP (`arp`) and Neighbour Discovery (`nd`) fill it.
//!
//! ```text
//!            asked                   answer                      30 s or so
//!  (none) ─────────▶ incomplete (1 s, 3x) ──▶ reachable ────────────▶ stale
//!             silence: failed │                ▲   ▲                    │   │ unused for
//!                             ▼       progress │   │ answer        used │   ▼ 60 s
//!                          (none)              │   │                    │ (none)
//!                                              │  probe (1 s, 3x) ◀─┐   │
//!                                              └────────────────── delay (5 s)
//! ```
//!
//! An address that was learnt without asking begins as stale: it is used, and proven while it is.
//! Progress of a connection proves its neighbour without a packet (7.3.1). While a neighbour is
//! incomplete, connections wait by name and keep their data; datagrams and answers without a socket
//! wait in a short queue, where the oldest gives way. The cache is bounded: when it is full, the
//! stalest of a few entries that nobody waits for gives way, so flooding costs constant time (RFC
//! 6583 6.1). An entry is made only for somebody we asked, or who asks for us; others'
//! announcements only update.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use hashbrown::HashMap;

use super::ethernet::Mac;
use crate::interface_id::InterfaceId;
use crate::offload::TxOffload;
use crate::secret::KeyedHash;
use crate::table::Handle;
use crate::time::Instant;
use crate::udp::message::Load;
use crate::wheel::TimerId;

/// Questions before a neighbour is taken to be absent (RFC 4861 10: MAX_MULTICAST_SOLICIT and
/// MAX_UNICAST_SOLICIT).
const TRIES: u8 = 3;
/// How long a stale neighbour is used before it is asked (RFC 4861 10).
const DELAY_FIRST_PROBE_TIME: Duration = Duration::from_secs(5);
/// Age at which an unused stale neighbour is forgotten, as on Linux.
pub(crate) const AGE: Duration = Duration::from_secs(60);
/// Entries looked at to find one that gives way.
const SAMPLE: usize = 16;

/// The two times that a link may set otherwise (RFC 4861 6.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// Between two questions.
    pub(crate) retrans: Duration,
    /// How long a proof of reachability holds.
    pub(crate) reachable: Duration,
}

impl Default for Times {
    /// RFC 4861 10; what Linux uses for ARP, too.
    fn default() -> Self {
        Self { retrans: Duration::from_secs(1), reachable: Duration::from_secs(30) }
    }
}

/// A neighbour's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) interface: InterfaceId,
    pub(crate) address: IpAddr,
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
    pub(crate) load: Load<T>,
    /// What is left to the interface when it leaves.
    pub(crate) offload: TxOffload,
}

/// Who waited for a neighbour.
#[derive(Debug)]
pub(crate) struct Waiters<T> {
    pub(crate) pending: VecDeque<Pending<T>>,
    pub(crate) sockets: BTreeSet<Handle>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Incomplete { tries: u8 },
    Reachable { mac: Mac, since: Instant },
    Stale { mac: Mac, since: Instant },
    Delay { mac: Mac },
    Probe { mac: Mac, tries: u8 },
}

impl State {
    fn mac(self) -> Option<Mac> {
        match self {
            Self::Incomplete { .. } => None,
            Self::Reachable { mac, .. }
            | Self::Stale { mac, .. }
            | Self::Delay { mac }
            | Self::Probe { mac, .. } => Some(mac),
        }
    }
}

/// A neighbour as it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourInfo {
    /// The link.
    pub interface: InterfaceId,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address, once known.
    pub mac: Option<[u8; 6]>,
    /// The state's name as `ip neigh` writes it: `INCOMPLETE`, `REACHABLE`, `STALE`, `DELAY` or
    /// `PROBE`.
    pub state: &'static str,
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
    /// Send there. With `timer`, arm the neighbour's timer.
    Known { mac: Mac, timer: Option<Duration> },
    /// It is being asked.
    Asking,
    /// Not in the cache.
    Absent,
}

/// What to do when a neighbour's timer fires.
#[derive(Debug)]
pub(crate) enum Due<T> {
    /// Ask (this hardware address, or all) and arm the timer with [`Times::retrans`].
    Ask(Option<Mac>),
    /// Arm the timer.
    Wait(Duration),
    /// It was silent and is forgotten. It had been known before if nobody waited.
    Failed(Waiters<T>),
    /// It was not used and is forgotten, or had been already.
    Forgotten,
}

/// The cache has learnt something.
#[derive(Debug)]
pub(crate) struct Learnt<T> {
    pub(crate) mac: Mac,
    /// Who waited for it.
    pub(crate) waiters: Waiters<T>,
    /// Arm the neighbour's timer.
    pub(crate) timer: Duration,
    /// The timer of an entry that gave way, to be cancelled.
    pub(crate) freed: Option<TimerId>,
}

/// A neighbour's own word about itself (RFC 4861 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Advert {
    pub(crate) mac: Option<Mac>,
    /// It answers a question of ours.
    pub(crate) solicited: bool,
    /// It replaces what is known.
    pub(crate) overrides: bool,
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

    /// All neighbours, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = NeighbourInfo> {
        self.map.iter().map(|(key, neighbour)| NeighbourInfo {
            interface: key.interface,
            address: key.address,
            mac: neighbour.state.mac().map(|mac| mac.0),
            state: match neighbour.state {
                State::Incomplete { .. } => "INCOMPLETE",
                State::Reachable { .. } => "REACHABLE",
                State::Stale { .. } => "STALE",
                State::Delay { .. } => "DELAY",
                State::Probe { .. } => "PROBE",
            },
        })
    }

    /// Forgets the hardware addresses of an interface whose link may be another one, as Linux does
    /// when the carrier is lost; who is being asked is asked on. Gives the timers, to be cancelled.
    pub(crate) fn forget(&mut self, interface: InterfaceId) -> Vec<TimerId> {
        let known = |key: &Key, neighbour: &Neighbour<T>| {
            key.interface == interface && neighbour.state.mac().is_some()
        };
        let gone = self.map.extract_if(|key, neighbour| known(key, neighbour));
        gone.filter_map(|(_, neighbour)| neighbour.timer).collect()
    }

    /// Looks for a neighbour that something is sent to. `progress`: what was sent before has
    /// arrived, which proves that it is reachable (RFC 4861 7.3.1).
    pub(crate) fn look_up(
        &mut self,
        now: Instant,
        key: Key,
        progress: bool,
        times: &Times,
    ) -> Lookup {
        let Some(neighbour) = self.map.get_mut(&key) else { return Lookup::Absent };
        let (mac, timer) = match neighbour.state {
            State::Incomplete { .. } => return Lookup::Asking,
            State::Reachable { mac, .. } => (mac, None),
            State::Stale { mac, .. } | State::Delay { mac } | State::Probe { mac, .. }
                if progress =>
            {
                neighbour.state = State::Reachable { mac, since: now };
                (mac, Some(times.reachable))
            }
            State::Stale { mac, .. } => {
                neighbour.state = State::Delay { mac };
                (mac, Some(DELAY_FIRST_PROBE_TIME))
            }
            State::Delay { mac } | State::Probe { mac, .. } => (mac, None),
        };
        Lookup::Known { mac, timer }
    }

    /// Starts asking for an absent neighbour; the caller sends the question and arms the timer with
    /// [`Times::retrans`]. `None` if the cache is full of neighbours that somebody waits for; else
    /// the timer of the entry that gave way, to be cancelled.
    pub(crate) fn ask(&mut self, key: Key) -> Option<Option<TimerId>> {
        let freed = self.make_room()?;
        self.insert(key, State::Incomplete { tries: 1 });
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

    /// Whether we are asking the neighbour.
    pub(crate) fn is_asked(&self, key: Key) -> bool {
        let state = self.map.get(&key).map(|neighbour| neighbour.state);
        matches!(state, Some(State::Incomplete { .. } | State::Delay { .. } | State::Probe { .. }))
    }

    /// The neighbour was seen with the address `mac`, in something else than an answer (RFC 4861
    /// 7.2.3): nothing is proven, so it is stale if that is new. An entry is made only with
    /// `create`. `None` if nothing changes.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        key: Key,
        mac: Mac,
        create: bool,
    ) -> Option<Learnt<T>> {
        let state = State::Stale { mac, since: now };
        if let Some(neighbour) = self.map.get_mut(&key) {
            if neighbour.state.mac() == Some(mac) {
                return None;
            }
            neighbour.state = state;
            let waiters = neighbour.take_waiters();
            return Some(Learnt { mac, waiters, timer: AGE, freed: None });
        }
        if !create {
            return None;
        }
        let freed = self.make_room()?;
        self.insert(key, state);
        Some(Learnt { mac, waiters: Waiters::none(), timer: AGE, freed })
    }

    /// The neighbour has said something of itself (RFC 4861 7.2.5). `None` if nothing changes; what
    /// nobody asked for makes no entry.
    pub(crate) fn advertised(
        &mut self,
        now: Instant,
        key: Key,
        advert: &Advert,
        times: &Times,
    ) -> Option<Learnt<T>> {
        let neighbour = self.map.get_mut(&key)?;
        let known = neighbour.state.mac();
        let mac = advert.mac.or(known)?;
        let changed = known != Some(mac);
        let (state, timer) = match neighbour.state {
            // 7.2.5, I: without override, a reachable neighbour with another address is doubted and
            // any other's word is not heard.
            State::Reachable { mac: known, .. } if changed && !advert.overrides => {
                (State::Stale { mac: known, since: now }, AGE)
            }
            State::Incomplete { .. } => Self::state_after(now, mac, advert, times),
            _ if changed && !advert.overrides => return None,
            _ if advert.solicited || changed => Self::state_after(now, mac, advert, times),
            _ => return None,
        };
        neighbour.state = state;
        let mac = state.mac().unwrap_or(mac);
        Some(Learnt { mac, waiters: neighbour.take_waiters(), timer, freed: None })
    }

    fn state_after(now: Instant, mac: Mac, advert: &Advert, times: &Times) -> (State, Duration) {
        if advert.solicited {
            (State::Reachable { mac, since: now }, times.reachable)
        } else {
            (State::Stale { mac, since: now }, AGE)
        }
    }

    /// The neighbour's timer has fired.
    pub(crate) fn due(&mut self, now: Instant, key: Key) -> Due<T> {
        let Some(neighbour) = self.map.get_mut(&key) else { return Due::Forgotten };
        neighbour.timer = None;
        match &mut neighbour.state {
            State::Incomplete { tries } if *tries < TRIES => {
                *tries += 1;
                return Due::Ask(None);
            }
            State::Reachable { mac, .. } => {
                neighbour.state = State::Stale { mac: *mac, since: now };
                return Due::Wait(AGE);
            }
            State::Delay { mac } => {
                let mac = *mac;
                neighbour.state = State::Probe { mac, tries: 1 };
                return Due::Ask(Some(mac));
            }
            State::Probe { mac, tries } if *tries < TRIES => {
                *tries += 1;
                return Due::Ask(Some(*mac));
            }
            _ => {}
        }
        match self.map.remove(&key) {
            Some(Neighbour { state: State::Stale { .. }, .. }) | None => Due::Forgotten,
            Some(Neighbour { waiters, .. }) => Due::Failed(waiters),
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
            match neighbour.state {
                // The unproven first: who floods us with names does not push out who answers.
                State::Stale { since, .. } => Some((false, since, *key)),
                State::Reachable { since, .. } => Some((true, since, *key)),
                _ => None,
            }
        });
        let (.., key) = stalest.min_by_key(|(proven, since, _)| (*proven, *since))?;
        Some(self.map.remove(&key)?.timer)
    }
}

impl<T> Neighbour<T> {
    fn take_waiters(&mut self) -> Waiters<T> {
        core::mem::replace(&mut self.waiters, Waiters::none())
    }
}

impl<T> Waiters<T> {
    fn none() -> Self {
        Self { pending: VecDeque::new(), sockets: BTreeSet::new() }
    }
}

#[cfg(test)]
mod tests;

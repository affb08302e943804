//! Neighbours: the hardware addresses of addresses on the link. One cache serves both families,
//! with the states of RFC 4861 7.3.2. ARP (`arp`) and Neighbour Discovery (`nd`) fill it.
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
//! An address that was learnt without asking begins as stale. It is used, and proven while it is.
//! Progress of a connection proves its neighbour without a packet (7.3.1). While a neighbour is
//! incomplete, answers without a socket wait here in a short queue; a further one displaces the
//! oldest. Sockets and datagrams wait with the sockets.
//!
//! The cache is bounded. When it is full, the stalest of a few known entries is replaced, so
//! flooding costs constant time (RFC 6583 6.1). An entry is made only for a neighbour that this
//! host has asked, or that asks for this host. Announcements of other neighbours only update.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use hashbrown::HashMap;

use super::ethernet::Mac;
use crate::interface_id::{InterfaceId, NeighbourKey};
use crate::owner_id::{OwnerId, is_fair};
use crate::secret::KeyedHash;
use crate::time::Instant;
use crate::wheel::TimerId;

/// Solicitations before a neighbour counts as absent (RFC 4861 10: MAX_MULTICAST_SOLICIT and
/// MAX_UNICAST_SOLICIT).
const TRIES: u8 = 3;
/// How long a stale neighbour is used before it is asked (RFC 4861 10).
const DELAY_FIRST_PROBE_TIME: Duration = Duration::from_secs(5);
/// Age at which an unused stale neighbour is forgotten, as on Linux.
pub(crate) const AGE: Duration = Duration::from_secs(60);
/// Entries examined to find one to replace.
const SAMPLE: usize = 16;

/// The two times that a link may set otherwise (RFC 4861 6.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeighbourTimes {
    /// Between two questions.
    pub(crate) retrans: Duration,
    /// How long a proof of reachability holds.
    pub(crate) reachable: Duration,
}

impl Default for NeighbourTimes {
    /// RFC 4861 10. Linux uses these values for ARP, too.
    fn default() -> Self {
        Self { retrans: Duration::from_secs(1), reachable: Duration::from_secs(30) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NeighbourState {
    Incomplete { tries: u8 },
    Reachable { mac: Mac, since: Instant },
    Stale { mac: Mac, since: Instant },
    Delay { mac: Mac },
    Probe { mac: Mac, tries: u8 },
}

impl NeighbourState {
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

/// The public record of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourInfo {
    /// The link.
    pub interface: InterfaceId,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address, if known.
    pub mac: Option<[u8; 6]>,
    /// The state's name as `ip neigh` writes it: `INCOMPLETE`, `REACHABLE`, `STALE`, `DELAY` or
    /// `PROBE`.
    pub state: &'static str,
}

#[derive(Debug)]
struct Neighbour {
    state: NeighbourState,
    /// The party for which it was asked first; the stack itself if it was not asked.
    asked_by: OwnerId,
    timer: Option<TimerId>,
    /// Frames for it, all written but the destination.
    waiting: VecDeque<Vec<u8>>,
}

/// The cache's answer about a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Send there. With `timer`, arm the neighbour's timer.
    Known { mac: Mac, timer: Option<Duration> },
    /// The neighbour is being resolved.
    Asking,
    /// Not in the cache.
    Absent,
}

/// The action of a neighbour's timer.
#[derive(Debug)]
pub(crate) enum NeighbourDue {
    /// Ask (this hardware address, or all) and arm the timer with [`NeighbourTimes::retrans`].
    Ask(Option<Mac>),
    /// Arm the timer.
    Wait(Duration),
    /// It did not answer and is forgotten, with so many frames that waited for it.
    Failed(usize),
    /// It was unused and is forgotten, now or before.
    Forgotten,
}

/// The cache has learnt something.
#[derive(Debug)]
pub(crate) struct NeighbourUpdate {
    pub(crate) mac: Mac,
    /// Frames that waited for it.
    pub(crate) waiting: VecDeque<Vec<u8>>,
    /// Arm the neighbour's timer.
    pub(crate) timer: Duration,
    /// The timer of an entry that gave way, to be cancelled.
    pub(crate) freed: Option<TimerId>,
}

/// A neighbour's own word about itself (RFC 4861 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Advert {
    pub(crate) mac: Option<Mac>,
    /// It answers a solicitation of this host.
    pub(crate) solicited: bool,
    /// It overrides the known address.
    pub(crate) overrides: bool,
}

/// The cache of one stack.
#[derive(Debug)]
pub(crate) struct Neighbours {
    map: HashMap<NeighbourKey, Neighbour, KeyedHash>,
    limit: usize,
    queue_limit: usize,
}

impl Neighbours {
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
                NeighbourState::Incomplete { .. } => "INCOMPLETE",
                NeighbourState::Reachable { .. } => "REACHABLE",
                NeighbourState::Stale { .. } => "STALE",
                NeighbourState::Delay { .. } => "DELAY",
                NeighbourState::Probe { .. } => "PROBE",
            },
        })
    }

    /// Forgets the hardware addresses of an interface, whose link may be another one now, as Linux
    /// does when the carrier is lost. Resolution of incomplete entries goes on. Gives the timers,
    /// to be cancelled.
    pub(crate) fn forget(&mut self, interface: InterfaceId) -> Vec<TimerId> {
        let known = |key: &NeighbourKey, neighbour: &Neighbour| {
            key.interface == interface && neighbour.state.mac().is_some()
        };
        let removed = self.map.extract_if(|key, neighbour| known(key, neighbour));
        removed.filter_map(|(_, neighbour)| neighbour.timer).collect()
    }

    /// Looks up a neighbour that a packet is sent to. `progress`: an earlier packet has arrived,
    /// which proves that the neighbour is reachable (RFC 4861 7.3.1).
    #[inline]
    pub(crate) fn look_up(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        progress: bool,
        times: &NeighbourTimes,
    ) -> Lookup {
        let Some(neighbour) = self.map.get_mut(&key) else { return Lookup::Absent };
        let (mac, timer) = match neighbour.state {
            NeighbourState::Incomplete { .. } => return Lookup::Asking,
            NeighbourState::Reachable { mac, .. } => (mac, None),
            NeighbourState::Stale { mac, .. }
            | NeighbourState::Delay { mac }
            | NeighbourState::Probe { mac, .. }
                if progress =>
            {
                neighbour.state = NeighbourState::Reachable { mac, since: now };
                (mac, Some(times.reachable))
            }
            NeighbourState::Stale { mac, .. } => {
                neighbour.state = NeighbourState::Delay { mac };
                (mac, Some(DELAY_FIRST_PROBE_TIME))
            }
            NeighbourState::Delay { mac } | NeighbourState::Probe { mac, .. } => (mac, None),
        };
        Lookup::Known { mac, timer }
    }

    /// Starts resolving an absent neighbour for an owner. The caller sends the request and arms the
    /// timer with [`NeighbourTimes::retrans`]. `None` if too many are being resolved. Otherwise
    /// gives the timer of the replaced entry, to be cancelled.
    pub(crate) fn ask(&mut self, key: NeighbourKey, owner: OwnerId) -> Option<Option<TimerId>> {
        if !self.may_ask(owner) {
            return None;
        }
        let freed = self.make_room()?;
        self.insert(key, NeighbourState::Incomplete { tries: 1 }, owner);
        Some(freed)
    }

    /// Whether an owner's share has room for one more that is being resolved. Half of the entries
    /// are for neighbours that are known. What the network makes this host ask has a share, too.
    fn may_ask(&self, owner: OwnerId) -> bool {
        let most = self.limit.div_ceil(2);
        if self.map.len() * 2 <= most {
            return true;
        }
        let is_asked = |one: &&Neighbour| matches!(one.state, NeighbourState::Incomplete { .. });
        let (mut all, mut own) = (0, 0);
        for neighbour in self.map.values().filter(is_asked) {
            all += 1;
            own += usize::from(neighbour.asked_by == owner);
        }
        is_fair(own, most.saturating_sub(all))
    }

    /// Whether the neighbour is in the cache.
    pub(crate) fn contains(&self, key: NeighbourKey) -> bool {
        self.map.contains_key(&key)
    }

    /// Sets the neighbour's timer; gives the one that it had.
    pub(crate) fn set_timer(&mut self, key: NeighbourKey, timer: TimerId) -> Option<TimerId> {
        self.map.get_mut(&key).and_then(|neighbour| neighbour.timer.replace(timer))
    }

    /// Parks a frame until the neighbour is resolved. False if it displaced another frame.
    pub(crate) fn park(&mut self, key: NeighbourKey, frame: Vec<u8>) -> bool {
        let Some(neighbour) = self.map.get_mut(&key) else { return false };
        neighbour.waiting.push_back(frame);
        if neighbour.waiting.len() <= self.queue_limit {
            return true;
        }
        neighbour.waiting.pop_front();
        false
    }

    /// Whether we are asking the neighbour.
    pub(crate) fn is_asked(&self, key: NeighbourKey) -> bool {
        let state = self.map.get(&key).map(|neighbour| neighbour.state);
        matches!(
            state,
            Some(
                NeighbourState::Incomplete { .. }
                    | NeighbourState::Delay { .. }
                    | NeighbourState::Probe { .. }
            )
        )
    }

    /// The neighbour was seen with the address `mac` in a message other than an answer (RFC 4861
    /// 7.2.3). That proves nothing, so a new address is stale. An entry is made only with `create`.
    /// `None` if nothing changes.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        mac: Mac,
        create: bool,
    ) -> Option<NeighbourUpdate> {
        let state = NeighbourState::Stale { mac, since: now };
        if let Some(neighbour) = self.map.get_mut(&key) {
            if neighbour.state.mac() == Some(mac) {
                return None;
            }
            neighbour.state = state;
            let waiting = core::mem::take(&mut neighbour.waiting);
            return Some(NeighbourUpdate { mac, waiting, timer: AGE, freed: None });
        }
        if !create {
            return None;
        }
        let freed = self.make_room()?;
        self.insert(key, state, OwnerId::default());
        Some(NeighbourUpdate { mac, waiting: VecDeque::new(), timer: AGE, freed })
    }

    /// The neighbour has advertised its address (RFC 4861 7.2.5). `None` if nothing changes. An
    /// unsolicited advertisement makes no entry.
    pub(crate) fn advertised(
        &mut self,
        now: Instant,
        key: NeighbourKey,
        advert: &Advert,
        times: &NeighbourTimes,
    ) -> Option<NeighbourUpdate> {
        let neighbour = self.map.get_mut(&key)?;
        let known = neighbour.state.mac();
        let mac = advert.mac.or(known)?;
        let changed = known != Some(mac);
        let (state, timer) = match neighbour.state {
            // 7.2.5, I: an advertisement with another address and without override makes a
            // reachable entry stale. Any other entry ignores it.
            NeighbourState::Reachable { mac: known, .. } if changed && !advert.overrides => {
                (NeighbourState::Stale { mac: known, since: now }, AGE)
            }
            NeighbourState::Incomplete { .. } => Self::state_after(now, mac, advert, times),
            _ if changed && !advert.overrides => return None,
            _ if advert.solicited || changed => Self::state_after(now, mac, advert, times),
            _ => return None,
        };
        neighbour.state = state;
        let mac = state.mac().unwrap_or(mac);
        let waiting = core::mem::take(&mut neighbour.waiting);
        Some(NeighbourUpdate { mac, waiting, timer, freed: None })
    }

    fn state_after(
        now: Instant,
        mac: Mac,
        advert: &Advert,
        times: &NeighbourTimes,
    ) -> (NeighbourState, Duration) {
        if advert.solicited {
            (NeighbourState::Reachable { mac, since: now }, times.reachable)
        } else {
            (NeighbourState::Stale { mac, since: now }, AGE)
        }
    }

    /// The neighbour's timer has fired.
    pub(crate) fn due(&mut self, now: Instant, key: NeighbourKey) -> NeighbourDue {
        let Some(neighbour) = self.map.get_mut(&key) else { return NeighbourDue::Forgotten };
        neighbour.timer = None;
        match &mut neighbour.state {
            NeighbourState::Incomplete { tries } if *tries < TRIES => {
                *tries += 1;
                return NeighbourDue::Ask(None);
            }
            NeighbourState::Reachable { mac, .. } => {
                neighbour.state = NeighbourState::Stale { mac: *mac, since: now };
                return NeighbourDue::Wait(AGE);
            }
            NeighbourState::Delay { mac } => {
                let mac = *mac;
                neighbour.state = NeighbourState::Probe { mac, tries: 1 };
                return NeighbourDue::Ask(Some(mac));
            }
            NeighbourState::Probe { mac, tries } if *tries < TRIES => {
                *tries += 1;
                return NeighbourDue::Ask(Some(*mac));
            }
            _ => {}
        }
        match self.map.remove(&key) {
            Some(Neighbour { state: NeighbourState::Stale { .. }, .. }) | None => {
                NeighbourDue::Forgotten
            }
            Some(Neighbour { waiting, .. }) => NeighbourDue::Failed(waiting.len()),
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    fn insert(&mut self, key: NeighbourKey, state: NeighbourState, asked_by: OwnerId) {
        let waiting = VecDeque::new();
        self.map.insert(key, Neighbour { state, asked_by, timer: None, waiting });
    }

    /// Makes room for one entry. `None` if no entry can be replaced; else the timer of the replaced
    /// one.
    fn make_room(&mut self) -> Option<Option<TimerId>> {
        if self.map.len() < self.limit {
            return Some(None);
        }
        let stalest = self.map.iter().take(SAMPLE).filter_map(|(key, neighbour)| {
            match neighbour.state {
                // Unproven entries go first, so that a flood of new addresses does not displace
                // neighbours that answer.
                NeighbourState::Stale { since, .. } => Some((false, since, *key)),
                NeighbourState::Reachable { since, .. } => Some((true, since, *key)),
                _ => None,
            }
        });
        let (.., key) = stalest.min_by_key(|(proven, since, _)| (*proven, *since))?;
        Some(self.map.remove(&key)?.timer)
    }
}

#[cfg(test)]
mod tests;

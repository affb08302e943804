//! Fast Open (RFC 7413) across connections: cookies for peers, and cookies from peers.
//!
//! A cookie of this host is a keyed hash of the two addresses, so nothing has to be stored. The key
//! can be set, for all listeners or for one, because servers may share an address. Peers' cookies
//! are stored with their segment size in a bounded table; the oldest is displaced. A listener
//! bounds its fast connections whose peer has not yet proved its address.
//!
//! Where middleboxes drop such connections, none is begun for a while ([`FastOpenPause`]).

use super::fast_open_keys::FastOpenKeys;
use crate::secret::KeyedHash;
use crate::table::Handle;
use crate::tcp::{FastOpenOption, FastOpenOutcome};
use crate::time::Instant;
use alloc::collections::VecDeque;
use core::net::IpAddr;
use core::time::Duration;
use hashbrown::HashMap;

/// The Fast Open state of a peer.
#[derive(Debug, Default)]
struct FastOpenPeer {
    cookie: Option<FastOpenOption>,
    /// Its segment size, bytes; 0 while unknown.
    mss: u16,
    /// 1: the peer did not answer the option, and is to be asked in the older form. 2: it did not
    /// answer that form either.
    older_form: u8,
}

/// The pause after the network has dropped connections that were opened fast (RFC 7413 4.1.3.1). No
/// connection is opened fast meanwhile. The pause lasts `TcpConfig::fastopen_blackhole_timeout`,
/// and doubles with each further loss up to 64 times that. Data received over a connection that was
/// opened fast afterwards ends the doubling. As Linux.
#[derive(Debug)]
struct FastOpenPause {
    /// How often it happened since one worked.
    times: u32,
    /// When it happened last.
    at: Instant,
}

impl FastOpenPause {
    /// How often the time doubles at most.
    const DOUBLINGS: u32 = 6;

    fn begin(&mut self, now: Instant) {
        self.times = self.times.saturating_add(1);
        self.at = now;
    }

    fn holds(&self, now: Instant, timeout: Duration) -> bool {
        let Some(doublings) = self.times.checked_sub(1) else { return false };
        let time = timeout.saturating_mul(1 << doublings.min(Self::DOUBLINGS));
        now - self.at < time
    }
}

/// The cookies of one stack.
#[derive(Debug)]
pub(crate) struct FastOpens {
    keys: FastOpenKeys,
    /// Keys of sockets that have their own.
    own_keys: HashMap<Handle, FastOpenKeys, KeyedHash>,
    pause: FastOpenPause,
    /// The present, when something happened to a connection last.
    clock: Instant,
    peers: HashMap<IpAddr, FastOpenPeer, KeyedHash>,
    /// The peers with an entry, oldest first.
    order: VecDeque<IpAddr>,
    limit: usize,
}

impl FastOpens {
    pub(crate) fn new(key: [u8; 16], hash: KeyedHash, limit: usize) -> Self {
        Self {
            keys: FastOpenKeys { current: key, other: None },
            own_keys: HashMap::with_hasher(hash.clone()),
            pause: FastOpenPause { times: 0, at: Instant::ZERO },
            clock: Instant::ZERO,
            peers: HashMap::with_hasher(hash),
            order: VecDeque::new(),
            limit,
        }
    }

    /// Sets the keys of all sockets that have none of their own.
    pub(super) fn set_keys(&mut self, keys: FastOpenKeys) {
        self.keys = keys;
    }

    /// The keys of a listener's cookies: its own, or those of all.
    pub(super) fn keys(&self, listener: Handle) -> FastOpenKeys {
        self.own_keys.get(&listener).copied().unwrap_or(self.keys)
    }

    /// Gives a socket keys of its own.
    pub(super) fn set_own_keys(&mut self, handle: Handle, keys: FastOpenKeys) {
        self.own_keys.insert(handle, keys);
    }

    /// Forgets the keys of an ended socket.
    pub(super) fn forget_socket(&mut self, handle: Handle) {
        if !self.own_keys.is_empty() {
            self.own_keys.remove(&handle);
        }
    }

    /// Sets the present, at which something happens to a connection.
    pub(super) fn set_clock(&mut self, now: Instant) {
        self.clock = now;
    }

    /// Whether no connection is opened fast for now.
    pub(super) fn is_paused(&self, now: Instant, timeout: Duration) -> bool {
        self.pause.holds(now, timeout)
    }

    /// Whether a pause is over and no fast connection has worked since.
    pub(super) fn is_on_trial(&self) -> bool {
        self.pause.times > 0
    }

    /// A connection that was opened fast has received data.
    pub(super) fn handle_success(&mut self) {
        self.pause.times = 0;
    }

    /// A connection that was opened fast was swallowed on its way.
    pub(super) fn handle_black_hole(&mut self) {
        self.pause.begin(self.clock);
    }

    /// Forgets the cookies of all peers.
    pub(super) fn forget_peers(&mut self) {
        self.peers.clear();
        self.order.clear();
    }

    /// The option for a SYN to `peer`, and its segment size if that is known.
    pub(super) fn ask(&self, peer: IpAddr) -> (FastOpenOption, Option<u16>) {
        let Some(known) = self.peers.get(&peer) else {
            return (FastOpenOption::request(false), None);
        };
        let ask = || FastOpenOption::request(known.older_form == 1);
        (known.cookie.unwrap_or_else(ask), Some(known.mss).filter(|mss| *mss != 0))
    }

    /// Records the answer of a SYN-ACK.
    pub(super) fn learn(&mut self, address: IpAddr, outcome: &FastOpenOutcome) {
        if !self.peers.contains_key(&address) {
            if self.order.len() >= self.limit
                && let Some(oldest) = self.order.pop_front()
            {
                self.peers.remove(&oldest);
            }
            self.order.push_back(address);
        }
        let peer = self.peers.entry(address).or_default();
        peer.mss = outcome.mss.unwrap_or(peer.mss);
        // A cookie that was not asked for is ignored (RFC 7413 4.1.3).
        let answer = outcome.answer.filter(|answer| !answer.cookie().is_empty());
        match answer.filter(|_| outcome.asked.is_some()) {
            Some(cookie) => peer.cookie = Some(cookie),
            None if outcome.asked.is_none()
                || outcome.had_data
                || outcome.retransmitted
                || peer.cookie.is_some() => {}
            None => {
                let older = outcome.asked.is_some_and(|asked| asked.experimental);
                peer.older_form = peer.older_form.max(if older { 2 } else { 1 });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end() {
        let timeout = Duration::from_secs(3600);
        let mut pause = FastOpenPause { times: 0, at: Instant::ZERO };
        let mut now = Instant::ZERO + Duration::from_secs(1);
        assert!(!pause.holds(now, timeout), "before anything happened");
        for hours in [1, 2, 4, 8, 16, 32, 64, 64] {
            pause.begin(now);
            let end = now + timeout * hours;
            assert!(pause.holds(end - Duration::from_nanos(1), timeout), "{hours} hours");
            assert!(!pause.holds(end, timeout), "{hours} hours");
            now = end;
        }
        assert!(!pause.holds(now, Duration::ZERO), "off");
    }
}

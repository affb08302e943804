//! Fast Open (RFC 7413) as far as it concerns more than one connection: the cookies that we give
//! out and those that peers have given us.
//!
//! A cookie of ours is a keyed hash of the two addresses, so that nothing has to be remembered; the
//! key can be set, for all listeners or one, for servers that share an address. Peers' cookies are
//! kept with their segment size in a bounded table, oldest out. A listener bounds how many fast
//! connections it has whose peer has not yet proved that its address is its own.
//!
//! Where boxes on the way swallow such connections, none is begun for a while ([`Pause`]).

use alloc::collections::VecDeque;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use hashbrown::HashMap;
use siphasher::sip::SipHasher24;

use super::Body;
use super::events::EventKind;
use super::options::Options;
use crate::bytes::{Frame, RxBytes, RxPiece, TxBytes};
use crate::error::Error;
use crate::secret::KeyedHash;
use crate::stack::Stack;
use crate::table::Handle;
use crate::tcp::{Endpoints, FastOpenOption, FastOpenOutcome, SegmentRepr, Seq, TcpStats};
use crate::time::Instant;

/// Bits of `TcpConfig::fastopen`.
const CLIENT: u32 = 1;
const SERVER: u32 = 2;
const CLIENT_WITHOUT_COOKIE: u32 = 4;
const SERVER_WITHOUT_COOKIE: u32 = 0x200;
const ALL_LISTENERS: u32 = 0x400;

/// What the largest possible options take of the payload of a SYN, bytes: what is in between may
/// add some of its own.
const OPTION_SPACE: u16 = 40;

/// What is known of a peer.
#[derive(Debug, Default)]
struct Peer {
    cookie: Option<FastOpenOption>,
    /// Its segment size, bytes; 0 while unknown.
    mss: u16,
    /// 1: it did not answer the option and is to be asked in the older form; 2: it answered that
    /// neither.
    older_form: u8,
}

/// The keys of cookies: the one in use, and another one that is still good (TCP_FASTOPEN_KEY). Of
/// the four numbers of Linux's `net.ipv4.tcp_fastopen_key` these are the bytes, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenKeys {
    /// Makes cookies.
    pub current: [u8; 16],
    /// Its cookies are taken too; who brings one gets a new one.
    pub other: Option<[u8; 16]>,
}

/// Whose cookie a SYN has brought.
enum Cookie {
    Current,
    Other,
    Bad,
}

impl FastOpenKeys {
    /// The cookie for the peer of `ends` by `key`: as Linux makes it, so that servers of both kinds
    /// can share an address.
    fn cookie(key: &[u8; 16], ends: &Endpoints) -> [u8; 8] {
        let mut hash = SipHasher24::new_with_key(key);
        for ip in [ends.remote.ip(), ends.local.ip()] {
            match ip {
                IpAddr::V4(ip) => hash.write(&ip.octets()),
                IpAddr::V6(ip) => hash.write(&ip.octets()),
            }
        }
        hash.finish().to_le_bytes()
    }

    fn check(&self, ends: &Endpoints, cookie: &[u8]) -> Cookie {
        if Self::cookie(&self.current, ends) == *cookie {
            return Cookie::Current;
        }
        match self.other {
            Some(other) if Self::cookie(&other, ends) == *cookie => Cookie::Other,
            _ => Cookie::Bad,
        }
    }

    /// The option that gives the peer of `ends` its cookie.
    fn grant(&self, ends: &Endpoints, experimental: bool) -> Option<FastOpenOption> {
        FastOpenOption::new(experimental, &Self::cookie(&self.current, ends))
    }
}

/// While connections that were opened fast are swallowed on their way, none is (RFC 7413 4.1.3.1):
/// for `TcpConfig::fastopen_blackhole_timeout`, and twice as long each time it happens again, up to
/// 64 times as long. Data received over one that was begun afterwards ends the doubling. As Linux.
#[derive(Debug)]
struct Pause {
    /// How often it happened since one worked.
    times: u32,
    /// When it happened last.
    at: Instant,
}

impl Pause {
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
    pause: Pause,
    /// The present, when something happened to a connection last.
    pub(super) clock: Instant,
    peers: HashMap<IpAddr, Peer, KeyedHash>,
    /// Whom there is something known of, oldest first.
    order: VecDeque<IpAddr>,
    limit: usize,
}

impl FastOpens {
    pub(crate) fn new(key: [u8; 16], hash: KeyedHash, limit: usize) -> Self {
        Self {
            keys: FastOpenKeys { current: key, other: None },
            own_keys: HashMap::with_hasher(hash.clone()),
            pause: Pause { times: 0, at: Instant::ZERO },
            clock: Instant::ZERO,
            peers: HashMap::with_hasher(hash),
            order: VecDeque::new(),
            limit,
        }
    }

    /// The keys of a listener's cookies: its own, or those of all.
    pub(super) fn keys(&self, listener: Handle) -> FastOpenKeys {
        self.own_keys.get(&listener).copied().unwrap_or(self.keys)
    }

    /// Gives a socket keys of its own.
    pub(super) fn set_own_keys(&mut self, handle: Handle, keys: FastOpenKeys) {
        self.own_keys.insert(handle, keys);
    }

    /// A socket is gone.
    pub(super) fn forget_socket(&mut self, handle: Handle) {
        if !self.own_keys.is_empty() {
            self.own_keys.remove(&handle);
        }
    }

    /// The option for a SYN to `peer`, and its segment size if that is known.
    fn ask(&self, peer: IpAddr) -> (FastOpenOption, Option<u16>) {
        let Some(known) = self.peers.get(&peer) else {
            return (FastOpenOption::request(false), None);
        };
        let ask = || FastOpenOption::request(known.older_form == 1);
        (known.cookie.unwrap_or_else(ask), Some(known.mss).filter(|mss| *mss != 0))
    }

    /// Keeps what a SYN-ACK has said.
    fn learn(&mut self, address: IpAddr, news: &FastOpenOutcome) {
        if !self.peers.contains_key(&address) {
            if self.order.len() >= self.limit
                && let Some(oldest) = self.order.pop_front()
            {
                self.peers.remove(&oldest);
            }
            self.order.push_back(address);
        }
        let peer = self.peers.entry(address).or_default();
        peer.mss = news.mss.unwrap_or(peer.mss);
        // One that was not asked for is none (RFC 7413 4.1.3).
        let answer = news.answer.filter(|answer| !answer.cookie().is_empty());
        match answer.filter(|_| news.asked.is_some()) {
            Some(cookie) => peer.cookie = Some(cookie),
            None if news.asked.is_none()
                || news.had_data
                || news.retransmitted
                || peer.cookie.is_some() => {}
            None => {
                let older = news.asked.is_some_and(|asked| asked.experimental);
                peer.older_form = peer.older_form.max(if older { 2 } else { 1 });
            }
        }
    }
}

/// What becomes of a SYN by Fast Open.
pub(super) enum Fast {
    /// Nothing: it is a request as any other.
    No,
    /// It is a request, and its answer carries this.
    Grant(FastOpenOption),
    /// It has become a connection.
    Child,
}

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Sets the keys of Fast Open cookies of all listeners that have none of their own
    /// ([`SockOption::FastOpenKeys`](crate::SockOption)).
    pub fn set_fast_open_keys(&mut self, keys: FastOpenKeys) {
        self.fast.keys = keys;
    }

    /// Forgets what peers have said of Fast Open.
    pub fn forget_fast_open_peers(&mut self) {
        self.fast.peers.clear();
        self.fast.order.clear();
    }

    /// Starts connecting a stream with Fast Open (MSG_FASTOPEN). Gives the number of bytes that may
    /// be sent ([`send`](Self::send)) before the next `poll` and will leave with the SYN; 0 if the
    /// peer's cookie is not known and is now being asked for.
    ///
    /// # Errors
    /// `Unsupported` if `TcpConfig::fastopen` does not allow it, or for datagrams; else those of
    /// [`connect`](Self::connect).
    pub fn connect_fast(
        &mut self,
        now: Instant,
        handle: Handle,
        address: SocketAddr,
    ) -> Result<usize, Error> {
        self.begin_fast(now, handle, address, false)
    }

    /// The same, but the SYN waits for data if the peer's cookie is known
    /// ([`deferred_room`](Self::deferred_room)), as after `connect` with `FastOpenConnect`.
    ///
    /// # Errors
    /// Those of [`connect_fast`](Self::connect_fast).
    pub fn connect_deferred(
        &mut self,
        now: Instant,
        handle: Handle,
        address: SocketAddr,
    ) -> Result<usize, Error> {
        self.begin_fast(now, handle, address, true)
    }

    fn begin_fast(
        &mut self,
        now: Instant,
        handle: Handle,
        address: SocketAddr,
        defer: bool,
    ) -> Result<usize, Error> {
        let socket = self.open_socket(handle)?;
        let datagram = matches!(socket.body, Body::Datagram(_));
        if datagram || !self.permits_fast_clients() {
            return Err(Error::Unsupported);
        }
        self.connect_plainly(now, handle, address)?;
        Ok(usize::from(self.make_fast(now, handle, defer)))
    }

    /// Makes the connection attempt that was just begun a fast one, unless that is not done for
    /// now; `defer`: if there is a cookie, the SYN waits for data. How much data the SYN takes.
    pub(super) fn make_fast(&mut self, now: Instant, handle: Handle, defer: bool) -> u16 {
        if self.fast.pause.holds(now, self.tcp.fastopen_blackhole_timeout) {
            return 0;
        }
        let trial = self.fast.pause.times > 0;
        let Some(socket) = self.sockets.get_mut(handle) else { return 0 };
        let bare = self.tcp.fastopen & CLIENT_WITHOUT_COOKIE != 0;
        let without_cookie = bare || socket.options.fast_open_no_cookie;
        let Some(stream) = socket.connection() else { return 0 };
        let peer = stream.connection.endpoints().remote.ip();
        let own = stream.connection.durable().rcv_mss;
        let (option, mss) = self.fast.ask(peer);
        let room = mss.unwrap_or(own).min(own).saturating_sub(OPTION_SPACE);
        let (option, room) = if without_cookie {
            (None, room)
        } else if option.cookie().is_empty() {
            (Some(option), 0)
        } else {
            (Some(option), room)
        };
        stream.connection.connect_fast(option, room, defer && room > 0);
        if trial {
            stream.connection.watch_fast_open();
        }
        room
    }

    /// Counts what has happened on a connection, and draws the conclusions for others.
    pub(super) fn count(&mut self, stats: TcpStats) {
        self.tcp_stats.add(stats);
        if stats.fast_open_works > 0 {
            self.fast.pause.times = 0;
        }
        if stats.fast_open_black_holes > 0 && !self.tcp.fastopen_blackhole_timeout.is_zero() {
            self.fast.pause.begin(self.fast.clock);
            self.tcp_counters.tcp_fast_black_holes += 1;
        }
    }

    /// Whether `connect` is to be a fast one without being asked each time
    /// (TCP_FASTOPEN_CONNECT).
    pub(super) fn connects_fast(&self, options: &Options) -> bool {
        options.fast_open_connect && self.permits_fast_clients()
    }

    /// Whether `TcpConfig::fastopen` lets clients open fast.
    pub(super) fn permits_fast_clients(&self) -> bool {
        self.tcp.fastopen & CLIENT != 0
    }

    /// How many bytes the SYN of a connection attempt takes that waits for them, if it does: to its
    /// owner it looks connected, because writing is what makes it go on.
    pub fn deferred_room(&self, handle: Handle) -> Option<usize> {
        match &self.sockets.get(handle)?.body {
            Body::Connection(stream) => stream.connection.deferred_room(),
            _ => None,
        }
    }

    /// The owner of a connection attempt that waits for data has none: its SYN leaves without.
    pub fn stop_deferring(&mut self, handle: Handle) {
        if let Some(stream) = self.sockets.get_mut(handle).and_then(|socket| socket.connection()) {
            stream.connection.stop_deferring();
            self.mark_ready(handle);
        }
    }

    /// Keeps what a connection has learnt of its peer.
    pub(super) fn learn_fast_open(&mut self, ends: &Endpoints, news: &FastOpenOutcome) {
        self.fast.learn(ends.remote.ip(), news);
    }

    /// Looks at a SYN to a listener: a good cookie makes a connection at once (RFC 7413 4.2.2).
    pub(super) fn open_fast(
        &mut self,
        now: Instant,
        handle: Handle,
        ends: &Endpoints,
        syn: &SegmentRepr,
        payload: &mut Option<RxPiece<Frame<R>>>,
    ) -> Fast {
        let bits = self.tcp.fastopen;
        let asks = syn.fast_open.is_some_and(|said| said.cookie().is_empty());
        self.tcp_counters.tcp_fast_asked += u64::from(asks);
        let data = payload.as_ref().is_some_and(|piece| !piece.range.is_empty());
        let concerned = data || syn.fast_open.is_some();
        if bits & SERVER == 0 || !concerned || !self.has_room_for_fast(handle) {
            return Fast::No;
        }
        let Some(options) = self.sockets.get(handle).map(|socket| socket.options) else {
            return Fast::No;
        };
        let mut renewal = None;
        if bits & SERVER_WITHOUT_COOKIE == 0 && !options.fast_open_no_cookie {
            let Some(said) = syn.fast_open else { return Fast::No };
            let keys = self.fast.keys(handle);
            let grant = keys.grant(ends, said.experimental);
            match keys.check(ends, said.cookie()) {
                Cookie::Current => {}
                Cookie::Other => {
                    self.tcp_counters.tcp_fast_other_keys += 1;
                    renewal = grant;
                }
                Cookie::Bad => {
                    self.tcp_counters.tcp_fast_refused += u64::from(!asks);
                    return grant.map_or(Fast::No, Fast::Grant);
                }
            }
        }
        match self.add_fast_child(now, handle, ends, syn, payload, &options, renewal) {
            Some(()) => Fast::Child,
            None => {
                self.tcp_counters.tcp_fast_refused += 1;
                Fast::No
            }
        }
    }

    /// Whether a listener may have one more fast connection whose peer has not proved itself.
    fn has_room_for_fast(&mut self, handle: Handle) -> bool {
        let for_all = self.tcp.fastopen & ALL_LISTENERS != 0;
        let Some(socket) = self.sockets.get_mut(handle) else { return false };
        let asked = socket.options.fast_open;
        let Body::Listener(listener) = &mut socket.body else { return false };
        let backlog = usize::from(listener.backlog);
        let most = match asked {
            Some(most) => usize::try_from(most).unwrap_or(usize::MAX).min(backlog.max(1)),
            None if for_all => backlog,
            None => 0,
        };
        if listener.fast.len() < most {
            return true;
        }
        let mut fast = core::mem::take(&mut listener.fast);
        fast.retain(|child| {
            let body = self.sockets.get(*child).map(|socket| &socket.body);
            matches!(body, Some(Body::Connection(stream)) if stream.connection.is_half_open())
        });
        let room = fast.len() < most;
        self.with_listener(handle, |listener| listener.fast = fast);
        self.tcp_counters.tcp_fast_overflows += u64::from(most > 0 && !room);
        room
    }

    #[expect(clippy::too_many_arguments, reason = "a SYN, its payload, and its answer")]
    fn add_fast_child(
        &mut self,
        now: Instant,
        handle: Handle,
        ends: &Endpoints,
        syn: &SegmentRepr,
        payload: &mut Option<RxPiece<Frame<R>>>,
        options: &Options,
        renewal: Option<FastOpenOption>,
    ) -> Option<()> {
        let iss: Seq = self.cx.secret.isn(now, ends);
        let mut connection = self.passive(now, ends, syn, iss, options)?;
        let payload = payload
            .take()
            .map(|piece| RxPiece { frame: self.cx.held.hold(piece.frame), range: piece.range });
        connection.accept_fast(now, payload, syn.fin, renewal);
        let child = self.adopt(handle, *ends, connection)?;
        if let Some(stream) = self.sockets.get_mut(child).and_then(|socket| socket.connection()) {
            stream.told.connected = true;
        }
        self.tcp_counters.tcp_accepted += 1;
        self.tcp_counters.tcp_fast_accepted += 1;
        self.with_listener(handle, |listener| {
            listener.accept_queue.push_back(child);
            listener.fast.push(child);
        });
        if let Some(socket) = self.sockets.get_mut(handle) {
            self.events.add(handle, socket, EventKind::Acceptable);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end() {
        let timeout = Duration::from_secs(3600);
        let mut pause = Pause { times: 0, at: Instant::ZERO };
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

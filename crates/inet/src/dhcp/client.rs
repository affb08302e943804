//! The client's states (RFC 2131 4.4, figure 5).
//!
//! ```text
//!  Off ──link up──▶ Selecting ──offer──▶ Requesting ──ack──▶ Checking ──free──▶ Bound ◀──┐
//!        │  ▲ ▲         ▲  ▲                 │                  │ taken            │ T1   │ ack
//!        │  │ │         │  └────4 silences───┤                  ▼ decline          ▼      │
//!        │  │ └─link    └──(pause)◀──nak─────┘               (pause 10 s)      Renewing ──┤
//!        │  │  down, from any state                                                │ T2   │ ack
//!        │  └──────────────── lease over, or nak: unbound ◀─────────────────── Rebinding ─┘
//!        └─link up with a lease─▶ Rebooting ──ack──▶ Checking …, silence or nak ──▶ Selecting
//! ```
//!
//! The client takes time and messages, and gives [`DhcpAction`]s. It never acts faster than a
//! server could make it: refusals and conflicts pause it, each time for longer.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;

use smoltcp::wire::DhcpMessageType;

use super::wire::{self, DhcpLease, DhcpReply, DhcpRequest};
use crate::link::ethernet::Mac;
use crate::secret::Secret;
use crate::time::Instant;

/// RFC 2131 4.1: 4 s, doubled up to 64 s, each up to a second more or less.
const FIRST_RETRY: Duration = Duration::from_secs(4);
const LAST_RETRY: Duration = Duration::from_secs(64);
/// Requests without an answer before the client starts again (3.1.5: about a minute).
const REQUESTS: u32 = 4;
/// Verifications of an old lease without an answer before it is given up.
const REBOOTS: u32 = 2;
/// RFC 2131 4.4.5: between requests while renewing and rebinding at least this.
const LEAST_RENEWAL: Duration = Duration::from_secs(60);
/// RFC 2131 3.1.5: at least this after a decline.
const AFTER_DECLINE: Duration = Duration::from_secs(10);
/// After this many conflicts in a row, one try in a minute (RFC 5227 2.1.1).
const MOST_CONFLICTS: u32 = 10;
const AFTER_CONFLICTS: Duration = Duration::from_secs(60);

/// An action that the client requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DhcpAction {
    /// Send this UDP payload from the client's to the server's port. `to` holds this host's address
    /// and the server's; without it the packet goes from 0.0.0.0 to all hosts on the link.
    Send { payload: Vec<u8>, to: Option<(Ipv4Addr, Ipv4Addr)> },
    /// See whether another host has this address, and call [`Client::checked`].
    Check(Ipv4Addr),
    /// Stop checking, and do not use the address any more.
    Unbound,
    /// Use this.
    Bound(Box<DhcpLease>),
}

/// The state, as one would report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DhcpState {
    /// The link is down.
    Off,
    /// Asking for offers.
    Selecting,
    /// Asking for an offered address.
    Requesting,
    /// Asking whether an old lease still holds.
    Rebooting,
    /// Looking whether another host has the address (RFC 5227).
    Checking,
    /// Having an address.
    Bound,
    /// Having one and asking its server for more time.
    Renewing,
    /// Having one and asking any server for more time.
    Rebinding,
}

/// A lease and when it began.
#[derive(Debug, Clone)]
struct Held {
    lease: Box<DhcpLease>,
    since: Instant,
    /// The rest of the stack uses it.
    used: bool,
}

impl Held {
    /// The moment `after` the lease began; `None` for never.
    fn at(&self, after: Duration) -> Option<Instant> {
        (after != Duration::MAX).then(|| self.since + after)
    }

    fn end(&self) -> Option<Instant> {
        self.lease.lease.map(|lease| self.since + lease)
    }
}

/// A client on one interface.
#[derive(Debug)]
pub(crate) struct Client {
    mac: Mac,
    mtu: u16,
    state: DhcpState,
    xid: u32,
    /// When the present attempt began, and its last message was sent.
    began: Instant,
    sent: Instant,
    tries: u32,
    /// Refusals and conflicts since the last lease.
    refusals: u32,
    offer: Option<Box<DhcpLease>>,
    held: Option<Held>,
    too_short: Option<Duration>,
    timer: Option<Instant>,
    actions: VecDeque<DhcpAction>,
}

impl Client {
    pub(crate) fn new(mac: Mac, mtu: u16) -> Self {
        Self {
            mac,
            mtu,
            state: DhcpState::Off,
            xid: 0,
            began: Instant::ZERO,
            sent: Instant::ZERO,
            tries: 0,
            refusals: 0,
            offer: None,
            held: None,
            too_short: None,
            timer: None,
            actions: VecDeque::new(),
        }
    }

    pub(crate) fn state(&self) -> DhcpState {
        self.state
    }

    /// The lease in use.
    pub(crate) fn lease(&self) -> Option<&DhcpLease> {
        self.held.as_ref().filter(|held| held.used).map(|held| &*held.lease)
    }

    /// The length of the last lease that was refused because it is too short.
    pub(crate) fn too_short(&self) -> Option<Duration> {
        self.too_short
    }

    /// When the lease ends; `None` without a lease, and for one without an end.
    pub(crate) fn lease_end(&self) -> Option<Instant> {
        self.held.as_ref().filter(|held| held.used).and_then(Held::end)
    }

    /// The next thing to do.
    pub(crate) fn poll_action(&mut self) -> Option<DhcpAction> {
        self.actions.pop_front()
    }

    /// When to call [`handle_timer`](Self::handle_timer).
    pub(crate) fn poll_at(&self) -> Option<Instant> {
        self.timer
    }

    /// The link is usable. A lease that still runs is verified first (RFC 2131 3.2).
    pub(crate) fn link_up(&mut self, now: Instant, random: &mut Secret) {
        if self.state != DhcpState::Off {
            return;
        }
        self.expire(now);
        let state = if self.held.is_some() { DhcpState::Rebooting } else { DhcpState::Selecting };
        self.begin(now, state, random);
    }

    /// The link is down. The lease remains in use until its time is over, because the link may come
    /// back.
    pub(crate) fn link_down(&mut self) {
        if self.state == DhcpState::Checking {
            self.drop_lease();
        }
        self.state = DhcpState::Off;
        self.offer = None;
        self.timer = self.held.as_ref().and_then(Held::end);
    }

    /// Starts an attempt.
    fn begin(&mut self, now: Instant, state: DhcpState, random: &mut Secret) {
        self.state = state;
        self.offer = None;
        self.tries = 0;
        self.began = now;
        self.xid = random.below(u32::MAX);
        self.transmit(now, random);
    }

    /// Starts again after a while.
    fn pause(&mut self, now: Instant, time: Duration) {
        self.state = DhcpState::Selecting;
        self.offer = None;
        self.tries = 0;
        // Answers to earlier requests do not count any more.
        self.xid = self.xid.wrapping_add(1);
        self.timer = Some(now + time);
    }

    /// The time of the timer has come.
    pub(crate) fn handle_timer(&mut self, now: Instant, random: &mut Secret) {
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        self.timer = None;
        if self.expire(now) && self.state != DhcpState::Off {
            return self.begin(now, DhcpState::Selecting, random);
        }
        match self.state {
            DhcpState::Off | DhcpState::Checking => {}
            DhcpState::Selecting if self.tries == 0 => {
                self.begin(now, DhcpState::Selecting, random);
            }
            DhcpState::Selecting => self.transmit(now, random),
            DhcpState::Requesting if self.tries >= REQUESTS => {
                self.begin(now, DhcpState::Selecting, random);
            }
            DhcpState::Rebooting if self.tries >= REBOOTS => {
                self.drop_lease();
                self.begin(now, DhcpState::Selecting, random);
            }
            DhcpState::Requesting | DhcpState::Rebooting => self.transmit(now, random),
            DhcpState::Bound => self.begin(now, DhcpState::Renewing, random),
            DhcpState::Renewing if self.is_past_rebind(now) => {
                self.begin(now, DhcpState::Rebinding, random);
            }
            DhcpState::Renewing | DhcpState::Rebinding => self.transmit(now, random),
        }
    }

    /// Drops a lease whose time is over. True if it did.
    fn expire(&mut self, now: Instant) -> bool {
        let over = self.held.as_ref().and_then(Held::end).is_some_and(|end| end <= now);
        if over {
            self.drop_lease();
        }
        over
    }

    fn drop_lease(&mut self) {
        if self.held.take().is_some() {
            self.actions.push_back(DhcpAction::Unbound);
        }
    }

    fn is_past_rebind(&self, now: Instant) -> bool {
        self.held.as_ref().and_then(|held| held.at(held.lease.rebind)).is_some_and(|at| at <= now)
    }

    /// Sends the message of the present state, and sets the timer for the next one.
    fn transmit(&mut self, now: Instant, random: &mut Secret) {
        self.tries = self.tries.saturating_add(1);
        self.sent = now;
        let secs = u16::try_from(now.since(self.began).as_secs()).unwrap_or(u16::MAX);
        let request = DhcpRequest {
            kind: DhcpMessageType::Request,
            xid: self.xid,
            secs,
            client: Ipv4Addr::UNSPECIFIED,
            broadcast: true,
            requested: None,
            server: None,
        };
        // RFC 2131 4.3.6, table 4.
        let held = self.held.as_ref().map(|held| (held.lease.address, held.lease.server));
        let (request, to) = match (self.state, &self.offer, held) {
            (DhcpState::Selecting, ..) => {
                (DhcpRequest { kind: DhcpMessageType::Discover, ..request }, None)
            }
            (DhcpState::Requesting, Some(offer), _) => {
                let (requested, server) = (Some(offer.address), Some(offer.server));
                (DhcpRequest { requested, server, ..request }, None)
            }
            (DhcpState::Rebooting, _, Some((address, _))) => {
                (DhcpRequest { requested: Some(address), ..request }, None)
            }
            (DhcpState::Renewing, _, Some((client, server))) => {
                (DhcpRequest { client, broadcast: false, ..request }, Some((client, server)))
            }
            (DhcpState::Rebinding, _, Some((client, _))) => {
                let everybody = Ipv4Addr::BROADCAST;
                (DhcpRequest { client, broadcast: false, ..request }, Some((client, everybody)))
            }
            _ => return,
        };
        self.send(&request, to);
        let end = self.held.as_ref().and_then(Held::end);
        self.timer = [Some(self.next_try(now, random)), end].into_iter().flatten().min();
    }

    fn send(&mut self, request: &DhcpRequest, to: Option<(Ipv4Addr, Ipv4Addr)>) {
        let payload = request.emit(self.mac, self.mtu);
        self.actions.push_back(DhcpAction::Send { payload, to });
    }

    /// When to send again.
    fn next_try(&self, now: Instant, random: &mut Secret) -> Instant {
        let end = match (self.state, &self.held) {
            (DhcpState::Renewing, Some(held)) => held.at(held.lease.rebind),
            (DhcpState::Rebinding, Some(held)) => held.end(),
            _ => None,
        };
        if let Some(end) = end {
            // RFC 2131 4.4.5: half of the remaining time.
            return (now + (end.since(now) / 2).max(LEAST_RENEWAL)).min(end);
        }
        let doubled = FIRST_RETRY * (1 << self.tries.saturating_sub(1).min(4));
        let millis = Duration::from_millis(random.below(2001).into());
        now + doubled.min(LAST_RETRY) + millis - Duration::from_secs(1)
    }

    /// Handles a UDP payload from a server's port to the client's. True if it was a well-formed
    /// answer to the last request.
    pub(crate) fn handle(&mut self, now: Instant, bytes: &[u8], random: &mut Secret) -> bool {
        let known = match self.state {
            DhcpState::Requesting => self.offer.as_deref(),
            _ => self.held.as_ref().map(|held| &*held.lease),
        };
        let Some(reply) = wire::parse(bytes, self.mac, self.xid, known) else { return false };
        match (self.state, reply) {
            (_, DhcpReply::TooShort(time)) => {
                self.too_short = Some(time);
                return false;
            }
            (DhcpState::Selecting, DhcpReply::Offer(offer)) if self.tries > 0 => {
                // RFC 2131 4.4.1: the request has the same transaction number.
                self.offer = Some(Box::new(offer));
                self.state = DhcpState::Requesting;
                self.tries = 0;
                self.transmit(now, random);
            }
            (DhcpState::Requesting, DhcpReply::Ack(lease)) => {
                let asked = self.offer.as_ref().map(|offer| (offer.address, offer.server));
                if asked != Some((lease.address, lease.server)) {
                    return false;
                }
                self.check(lease);
            }
            (DhcpState::Rebooting, DhcpReply::Ack(lease)) => {
                if self.held.as_ref().is_none_or(|held| held.lease.address != lease.address) {
                    return false;
                }
                self.extend(lease, random);
            }
            (DhcpState::Renewing | DhcpState::Rebinding, DhcpReply::Ack(lease)) => {
                let (address, server) = match &self.held {
                    Some(held) => (held.lease.address, held.lease.server),
                    None => return false,
                };
                let from_other = self.state == DhcpState::Renewing && lease.server != server;
                if lease.address != address || from_other {
                    return false;
                }
                self.extend(lease, random);
            }
            (_, DhcpReply::Nak { server }) => return self.refused(now, server, random),
            _ => return false,
        }
        true
    }

    /// A server withdraws its offer, or says that the requested address is wrong here.
    fn refused(&mut self, now: Instant, server: Ipv4Addr, random: &mut Secret) -> bool {
        let asked = match self.state {
            DhcpState::Requesting => self.offer.as_ref().map(|offer| offer.server),
            DhcpState::Renewing => self.held.as_ref().map(|held| held.lease.server),
            DhcpState::Rebinding | DhcpState::Rebooting => Some(server),
            _ => None,
        };
        if asked != Some(server) {
            return false;
        }
        self.drop_lease();
        // A server that always says no is not to be asked all the time.
        self.refusals = self.refusals.saturating_add(1);
        match self.refusals {
            1 => self.begin(now, DhcpState::Selecting, random),
            n => self.pause(now, (FIRST_RETRY * (1 << n.min(6))).min(LAST_RETRY)),
        }
        true
    }

    /// RFC 2131 4.4.1: before it is used, the address is looked at.
    fn check(&mut self, lease: DhcpLease) {
        self.state = DhcpState::Checking;
        self.timer = None;
        self.actions.push_back(DhcpAction::Check(lease.address));
        // RFC 2131 4.4.1: time counts from when the request was sent.
        self.held = Some(Held { lease: Box::new(lease), since: self.sent, used: false });
        self.offer = None;
    }

    /// The lease in use is extended, perhaps with other parameters.
    fn extend(&mut self, lease: DhcpLease, random: &mut Secret) {
        let lease = Box::new(lease);
        self.held = Some(Held { lease, since: self.sent, used: true });
        self.bound(random);
    }

    fn bound(&mut self, random: &mut Secret) {
        let Some(held) = &mut self.held else { return };
        held.used = true;
        self.state = DhcpState::Bound;
        self.refusals = 0;
        self.actions.push_back(DhcpAction::Bound(held.lease.clone()));
        // RFC 2131 4.4.5: some chance in it, so that clients do not come all at once.
        let renew = held.lease.renew;
        self.timer = held.at(renew).map(|at| {
            let jitter = u32::try_from(renew.as_millis() / 32).unwrap_or(u32::MAX);
            at - Duration::from_millis(random.below(jitter).into())
        });
    }

    /// The result of [`DhcpAction::Check`]: whether no other host has the address.
    pub(crate) fn checked(&mut self, now: Instant, free: bool, random: &mut Secret) {
        if self.state != DhcpState::Checking {
            return;
        }
        if free {
            self.bound(random);
        } else {
            self.conflict(now, random);
        }
    }

    /// Another host has our address: it is declined and not used (RFC 2131 3.1.5, RFC 5227 2.4).
    pub(crate) fn conflict(&mut self, now: Instant, random: &mut Secret) {
        let Some(held) = &self.held else { return };
        let (requested, server) = (Some(held.lease.address), Some(held.lease.server));
        self.drop_lease();
        if self.state == DhcpState::Off {
            return;
        }
        let request = DhcpRequest {
            kind: DhcpMessageType::Decline,
            xid: random.below(u32::MAX),
            secs: 0,
            client: Ipv4Addr::UNSPECIFIED,
            broadcast: false,
            requested,
            server,
        };
        self.send(&request, None);
        self.refusals = self.refusals.saturating_add(1);
        let many = self.refusals >= MOST_CONFLICTS;
        self.pause(now, if many { AFTER_CONFLICTS } else { AFTER_DECLINE });
    }
}

#[cfg(test)]
mod tests;

//! Addresses from routers' prefixes (RFC 4862 5.5), networks on the link (RFC 4861 6.3.4), and the
//! ends of both.

use core::net::IpAddr;
use core::time::Duration;

use super::state::{MAX_RTR_SOLICITATION_DELAY, NdLayer};
use crate::cidr::Cidr;
use crate::context::Context;
use crate::interface_id::InterfaceId;
use crate::ip::ndp::Prefix;
use crate::ip::route::Route;
use crate::link::address::{Address, AddressOrigin, AddressState};
use crate::sockaddr::is_link_scope;
use crate::time::Instant;

/// RFC 4862 5.5.3 (e): the remaining lifetime is not shortened below this.
const TWO_HOURS: Duration = Duration::from_secs(2 * 3600);
/// Length of prefixes that addresses are made of (RFC 2464 4), bits.
const PREFIX_LEN: u8 = 64;
/// Metric of routes to advertised networks, as Linux's.
const METRIC: u32 = 256;

/// How long an address is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lifetimes {
    pub(super) preferred_until: Option<Instant>,
    pub(super) valid_until: Option<Instant>,
}

/// The end of a lifetime that begins now; `None` has none.
pub(super) fn end(now: Instant, lifetime: Option<Duration>) -> Option<Instant> {
    lifetime.map(|lifetime| now + lifetime)
}

impl NdLayer {
    /// A router advertises a prefix.
    pub(super) fn handle_prefix(
        &mut self,
        cx: &mut Context,
        now: Instant,
        id: InterfaceId,
        prefix: &Prefix,
    ) {
        let network = prefix.network;
        // RFC 4862 5.5.3 (b), and RFC 4861 6.3.4: the link-local prefix is not theirs to give.
        if is_link_scope(network.address) || network.address.is_multicast() {
            return;
        }
        if prefix.on_link {
            self.keep_prefix(cx, now, (id, network), prefix.valid);
        }
        // (c): a longer preferred than valid lifetime is a mistake.
        let is_possible = match (prefix.preferred, prefix.valid) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(preferred), Some(valid)) => preferred <= valid,
        };
        let is_wanted = self.config.autoconf && prefix.autonomous && network.prefix == PREFIX_LEN;
        if is_wanted && is_possible {
            self.keep_slaac(cx, now, id, prefix);
        }
    }

    /// The network is on the link until the lifetime ends, or no more.
    fn keep_prefix(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (id, network): (InterfaceId, Cidr),
        valid: Option<Duration>,
    ) {
        let most = self.config.prefixes;
        let Some(interface) = self.interface_mut(id) else { return };
        let prefixes = &mut interface.prefixes;
        let known = prefixes.iter().position(|(known, _)| *known == network);
        if valid.is_some_and(|valid| valid.is_zero()) {
            if let Some(index) = known {
                prefixes.remove(index);
                cx.ip.remove_route(&prefix_route(network, id));
            }
            return;
        }
        let until = end(now, valid);
        if let Some((_, known)) = known.and_then(|index| prefixes.get_mut(index)) {
            *known = until;
            return;
        }
        if prefixes.len() >= most || cx.ip.insert_route(prefix_route(network, id)).is_err() {
            self.counters.nd_refused += 1;
            return;
        }
        if let Some(interface) = self.interface_mut(id) {
            interface.prefixes.push((network, until));
        }
    }

    /// RFC 4862 5.5.3 (d) and (e): makes an address of the prefix, or changes the lifetimes of the
    /// existing one.
    fn keep_slaac(&mut self, cx: &mut Context, now: Instant, id: InterfaceId, prefix: &Prefix) {
        let Some(interface) = cx.link.interface_mut(id) else { return };
        let mut ours = interface.addresses_mut().iter_mut();
        let known = ours.find(|ours| {
            ours.origin == AddressOrigin::Slaac && ours.cidr.network() == prefix.network
        });
        let Some(known) = known else {
            if prefix.valid.is_none_or(|valid| !valid.is_zero()) {
                let lifetimes = Lifetimes {
                    preferred_until: end(now, prefix.preferred),
                    valid_until: end(now, prefix.valid),
                };
                self.add_slaac(cx, now, (id, prefix.network), lifetimes, 0);
            }
            return;
        };
        known.preferred_until = end(now, prefix.preferred);
        let over = prefix.preferred.is_some_and(|preferred| preferred.is_zero());
        known.state = match known.state {
            AddressState::Tentative => AddressState::Tentative,
            _ if over => AddressState::Deprecated,
            _ => AddressState::Preferred,
        };
        let left = known.valid_until.map(|until| until.since(now));
        known.valid_until = match (prefix.valid, left) {
            (None, _) => None,
            (Some(valid), Some(left)) if valid <= TWO_HOURS && valid <= left => {
                // RFC 4862 5.5.3 (e): a node on the link must not be able to end an address at
                // once.
                if left <= TWO_HOURS { known.valid_until } else { Some(now + TWO_HOURS) }
            }
            (Some(valid), None) if valid <= TWO_HOURS => Some(now + TWO_HOURS),
            (Some(valid), _) => Some(now + valid),
        };
    }

    /// Makes an address of the prefix of `network`.
    pub(super) fn add_slaac(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (id, network): (InterfaceId, Cidr),
        lifetimes: Lifetimes,
        attempt: u8,
    ) {
        let Some(interface) = cx.link.interface(id) else { return };
        let of_routers = |ours: &&Address| ours.origin == AddressOrigin::Slaac;
        if interface.addresses().iter().filter(of_routers).count() >= self.config.max_addresses {
            self.counters.nd_refused += 1;
            return;
        }
        let Some(cidr) = self.autoconfigured(cx, id, network, attempt) else { return };
        let Lifetimes { preferred_until, valid_until } = lifetimes;
        let new = Address::new(cidr, AddressOrigin::Slaac);
        let mut address = Address { preferred_until, valid_until, attempt, ..new };
        if preferred_until.is_some_and(|until| until <= now) {
            address.state = AddressState::Deprecated;
        }
        // RFC 4862 5.4.2: all nodes receive the same advertisement, so a random delay spreads their
        // probes.
        let delay = self.random_below(MAX_RTR_SOLICITATION_DELAY);
        address.begin_dad(now + delay, self.dad_transmits(id));
        // The network is on the link only if the router says that, too (RFC 5942 4).
        if self.assign(cx, id, address, false).is_err() {
            self.counters.nd_refused += 1;
        }
    }

    /// Acts on lifetimes that have ended.
    pub(super) fn end_lifetimes(&mut self, cx: &mut Context, now: Instant, id: InterfaceId) {
        self.end_routers(cx, now, id);
        let is_over = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        let Some(interface) = cx.link.interface_mut(id) else { return };
        for address in interface.addresses_mut() {
            if address.is_preferred() && is_over(address.preferred_until) {
                address.state = AddressState::Deprecated;
            }
        }
        while let Some(interface) = cx.link.interface(id)
            && let Some(expired) =
                interface.addresses().iter().find(|ours| is_over(ours.valid_until))
        {
            let ip: IpAddr = expired.cidr.address;
            self.withdraw(cx, id, ip);
        }
        while let Some(interface) = self.interface_mut(id)
            && let prefixes = &mut interface.prefixes
            && let Some(index) = prefixes.iter().position(|(_, until)| is_over(*until))
        {
            let (network, _) = prefixes.remove(index);
            cx.ip.remove_route(&prefix_route(network, id));
        }
    }
}

fn prefix_route(network: Cidr, interface: InterfaceId) -> Route {
    Route { metric: METRIC, ..Route::on_link(network, interface) }
}

//! Routers: asking for them (RFC 4861 6.3.7, RFC 7559), what they advertise (6.3.4), and the
//! default routes that come of it, by preference (RFC 4191) and as long as the router answers.

use core::net::Ipv6Addr;
use core::time::Duration;

use super::wire::{Opt, Outgoing, Preference, RouterAdvert};
use super::{Found, slaac};
use crate::bytes::{Egress, TxBytes};
use crate::interface_id::InterfaceId;
use crate::ip::route::Route;
use crate::ip::{source, v6};
use crate::link::ethernet;
use crate::link::neighbour::{Key, Times};
use crate::net::Net;
use crate::time::Instant;

/// RFC 4861 10.
pub(super) const MAX_RTR_SOLICITATION_DELAY: Duration = Duration::from_secs(1);
/// RFC 7559 2: times between questions, which double up to the second.
const FIRST_INTERVAL: Duration = Duration::from_secs(4);
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);
/// Metric of the default routes that come from advertisements, as Linux's.
const METRIC: u32 = 1024;
/// RFC 4861 6.2.1: longest reachable time that a router may say.
const LONGEST_REACHABLE: Duration = Duration::from_secs(3600);

/// A default router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Router {
    pub(super) address: Ipv6Addr,
    preference: Preference,
    pub(super) until: Instant,
    /// It did not answer when asked: others are better (RFC 4861 6.3.6).
    is_silent: bool,
}

impl Router {
    fn route(&self, interface: InterfaceId) -> Route {
        let by_preference = match self.preference {
            Preference::High => 0,
            Preference::Medium => 1,
            Preference::Low => 2,
        };
        let metric = METRIC + by_preference + if self.is_silent { METRIC } else { 0 };
        Route { metric, ..Route::default(self.address.into(), interface) }
    }
}

/// When routers are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Solicit {
    pub(super) at: Instant,
    /// Between the last question and the next.
    interval: Duration,
}

impl<T: TxBytes> Net<T> {
    /// Begins to ask for routers at `at`, if the interface is to configure itself.
    pub(super) fn begin_soliciting(&mut self, at: Instant, id: InterfaceId) {
        let wanted = self.v6.accept_ra;
        let Some(interface) = self.interface_mut(id) else { return };
        let link = &mut interface.link;
        if wanted && link.is_started && link.solicit.is_none() && link.routers.is_empty() {
            link.solicit = Some(Solicit { at, interval: FIRST_INTERVAL });
            self.reschedule(id);
        }
    }

    /// Asks for routers if it is time.
    pub(super) fn solicit_due(&mut self, now: Instant, id: InterfaceId, out: &mut dyn Egress<T>) {
        let Some(interface) = self.interface(id) else { return };
        let (mac, solicit) = (interface.mac(), interface.link.solicit);
        let Some(solicit) = solicit.filter(|solicit| solicit.at <= now) else { return };
        // RFC 7559 2.1: about the interval, one tenth more or less.
        let spread = self.random_below(solicit.interval / 5);
        let at = now + solicit.interval - solicit.interval / 10 + spread;
        let interval = (2 * solicit.interval).min(LONGEST_INTERVAL);
        if let Some(interface) = self.interface_mut(id) {
            interface.link.solicit = Some(Solicit { at, interval });
        }
        let source = source::select(v6::ALL_ROUTERS, id, &self.interfaces);
        let source = source.unwrap_or(Ipv6Addr::UNSPECIFIED);
        // RFC 4861 4.1: the option needs a source.
        let mac = (!source.is_unspecified()).then_some(mac);
        let to = ethernet::multicast(v6::ALL_ROUTERS.into());
        self.counters.nd_solicits += 1;
        self.send_nd(id, source, v6::ALL_ROUTERS, to, &Outgoing::RouterSolicit { mac }, out);
    }

    /// A router advertises itself.
    pub(super) fn handle_router(
        &mut self,
        now: Instant,
        id: InterfaceId,
        source: Ipv6Addr,
        advert: &RouterAdvert<'_>,
    ) -> Option<Found<T>> {
        let accept = self.v6.accept_ra;
        let spread = self.random_below(Duration::from_secs(1));
        let interface = self.interface_mut(id)?;
        if !accept || !interface.link.is_started {
            self.counters.nd_ignored += 1;
            return None;
        }
        let link = &mut interface.link;
        link.hop_limit = advert.hop_limit.or(link.hop_limit);
        link.times.retrans = advert.retrans.unwrap_or(link.times.retrans);
        if let Some(base) = advert.reachable.filter(|base| *base <= LONGEST_REACHABLE)
            && link.base_reachable != Some(base)
        {
            link.base_reachable = Some(base);
            // RFC 4861 6.3.4: between half of it and one and a half.
            link.times.reachable = base / 2 + base.mul_f64(spread.as_secs_f64());
        }
        link.times = sane(link.times);
        self.counters.nd_router_adverts += 1;
        self.keep_router(now, id, source, advert);
        let mut found = None;
        for option in advert.options.iter() {
            match option {
                Opt::SourceMac(mac) => {
                    let key = Key { interface: id, address: source.into() };
                    if let Some(learnt) = self.neighbours.observe(now, key, mac, true) {
                        found = Some(self.apply(now, key, learnt));
                    }
                }
                Opt::Mtu(mtu) => self.set_link_mtu(id, mtu),
                Opt::Prefix(prefix) => self.handle_prefix(now, id, &prefix),
                Opt::Dns { lifetime, servers } => self.handle_dns(now, id, lifetime, servers),
                Opt::TargetMac(_) | Opt::Nonce(_) | Opt::Other => {}
            }
        }
        self.reschedule(id);
        found
    }

    /// RFC 4861 6.3.4: the router is a default one for some time, or no more.
    fn keep_router(
        &mut self,
        now: Instant,
        id: InterfaceId,
        address: Ipv6Addr,
        advert: &RouterAdvert<'_>,
    ) {
        if advert.lifetime.is_zero() {
            return self.remove_router(id, address);
        }
        let most = self.v6.routers;
        let Some(interface) = self.interface_mut(id) else { return };
        let link = &mut interface.link;
        // RFC 7559 2.1: the question is answered.
        link.solicit = None;
        let preference = advert.preference;
        let until = now + advert.lifetime;
        let is_full = link.routers.len() >= most;
        let known = link.routers.iter_mut().find(|router| router.address == address);
        let (old, new) = match known {
            Some(router) => {
                let old = *router;
                *router = Router { preference, until, ..old };
                (Some(old), *router)
            }
            None if !is_full => {
                let router = Router { address, preference, until, is_silent: false };
                link.routers.push(router);
                (None, router)
            }
            None => {
                self.counters.nd_refused += 1;
                return;
            }
        };
        if let Some(old) = old.filter(|old| old.route(id) != new.route(id)) {
            self.routes.remove(&old.route(id));
        }
        // A table without room loses the route, not the router: the next advertisement tries again.
        if self.routes.add(new.route(id)).is_err() {
            self.counters.nd_refused += 1;
        }
    }

    /// A router is none any more; if it was the last, others are asked for.
    pub(super) fn remove_router(&mut self, id: InterfaceId, address: Ipv6Addr) {
        let Some(interface) = self.interface_mut(id) else { return };
        let routers = &mut interface.link.routers;
        let Some(place) = routers.iter().position(|router| router.address == address) else {
            return;
        };
        let route = routers.remove(place).route(id);
        self.routes.remove(&route);
        self.reschedule(id);
    }

    /// A router has answered, or has not.
    pub(crate) fn router_answers(&mut self, id: InterfaceId, address: Ipv6Addr, answers: bool) {
        let Some(interface) = self.interface_mut(id) else { return };
        let routers = &mut interface.link.routers;
        let Some(router) = routers.iter_mut().find(|router| router.address == address) else {
            return;
        };
        if router.is_silent != answers {
            return;
        }
        let old = *router;
        router.is_silent = !answers;
        let new = *router;
        self.routes.remove(&old.route(id));
        // There is room: one has just gone.
        let _ = self.routes.add(new.route(id));
    }

    /// Takes away the routers whose time is over.
    pub(super) fn end_routers(&mut self, now: Instant, id: InterfaceId) {
        while let Some(interface) = self.interface(id)
            && let Some(over) = interface.link.routers.iter().find(|router| router.until <= now)
        {
            let address = over.address;
            self.remove_router(id, address);
            self.begin_soliciting(now, id);
        }
    }

    /// RFC 4861 6.3.4: an MTU between the least of IPv6 and the interface's own.
    fn set_link_mtu(&mut self, id: InterfaceId, mtu: u32) {
        let Some(interface) = self.interface_mut(id) else { return };
        let Ok(mtu) = u16::try_from(mtu) else { return };
        if (v6::LEAST_MTU..=interface.config.mtu).contains(&mtu) {
            interface.link.mtu = Some(mtu);
        }
    }

    /// RFC 8106 5.3.1: resolvers, of which the nearest to their end give way.
    fn handle_dns(&mut self, now: Instant, id: InterfaceId, lifetime: Duration, servers: &[u8]) {
        let most = self.v6.dns_servers;
        let Some(interface) = self.interface_mut(id) else { return };
        let list = &mut interface.link.dns;
        let (addresses, _) = servers.as_chunks::<16>();
        for octets in addresses {
            let address = Ipv6Addr::from(*octets);
            list.retain(|(known, until)| {
                *known != address && until.is_none_or(|until| until > now)
            });
            if lifetime.is_zero() || address.is_unspecified() || address.is_multicast() {
                continue;
            }
            let until =
                slaac::end(now, (lifetime.as_secs() != u32::MAX.into()).then_some(lifetime));
            list.push((address, until));
            if list.len() > most {
                let first = (0..list.len()).min_by_key(|place| {
                    list.get(*place).map(|(_, until)| (until.is_none(), *until))
                });
                first.map(|place| list.remove(place));
            }
        }
    }

    /// The resolvers that routers have told of, and that are still to be used.
    pub(crate) fn dns_servers(
        &self,
        now: Instant,
        id: InterfaceId,
    ) -> impl Iterator<Item = Ipv6Addr> {
        let list = self.interface(id).into_iter().flat_map(|interface| &interface.link.dns);
        list.filter(move |(_, until)| until.is_none_or(|until| until > now)).map(|(ip, _)| *ip)
    }
}

/// What a router says is used as far as it does not make us busy: a question each millisecond is
/// one too many.
fn sane(times: Times) -> Times {
    const LEAST_RETRANS: Duration = Duration::from_millis(100);
    const LEAST_REACHABLE: Duration = Duration::from_secs(1);
    const LONGEST_RETRANS: Duration = Duration::from_secs(60);
    Times {
        retrans: times.retrans.clamp(LEAST_RETRANS, LONGEST_RETRANS),
        reachable: times.reachable.max(LEAST_REACHABLE),
    }
}

//! Routers: soliciting them (RFC 4861 6.3.7, RFC 7559), handling their advertisements (6.3.4), and
//! the resulting default routes. Routes are ordered by preference (RFC 4191) and used as long as
//! the router answers.

use core::net::Ipv6Addr;
use core::time::Duration;

use super::slaac;
use super::state::{NdLayer, Router, RouterSolicitation};
use crate::bytes::{Egress, TxBytes};
use crate::context::Context;
use crate::interface_id::{InterfaceId, NeighbourKey};
use crate::ip::ndp::{self, NdpOption, OutgoingNdp, Preference, RouterAdvert};
use crate::ip::route::Route;
use crate::ip::{source, v6};
use crate::link::ResolvedNeighbour;
use crate::link::neighbour::NeighbourTimes;
use crate::time::Instant;

/// RFC 7559 2: intervals between solicitations. They double from the first up to the longest.
const FIRST_INTERVAL: Duration = Duration::from_secs(4);
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);
/// Metric of the default routes that come from advertisements, as Linux's.
const METRIC: u32 = 1024;
/// RFC 4861 6.2.1: longest reachable time that a router may advertise.
const LONGEST_REACHABLE: Duration = Duration::from_secs(3600);

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

impl NdLayer {
    /// Begins to ask for routers at `at`, if the interface is to configure itself.
    pub(super) fn begin_soliciting(&mut self, cx: &mut Context, at: Instant, id: InterfaceId) {
        let wanted = self.config.accept_ra;
        let Some(link) = self.interface_mut(id) else { return };
        if wanted && link.is_started && link.solicitation.is_none() && link.routers.is_empty() {
            link.solicitation = Some(RouterSolicitation { at, interval: FIRST_INTERVAL });
            self.reschedule(cx, id);
        }
    }

    /// Asks for routers if it is time.
    pub(super) fn send_due_solicitation<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        id: InterfaceId,
        out: &mut dyn Egress<T>,
    ) {
        let Some(mac) = cx.link.interface(id).map(|interface| interface.mac()) else { return };
        let Some(link) = self.interface(id) else { return };
        let Some(due) = link.solicitation.filter(|due| due.at <= now) else { return };
        // RFC 7559 2.1: about the interval, one tenth more or less.
        let spread = self.random_below(due.interval / 5);
        let at = now + due.interval - due.interval / 10 + spread;
        let interval = (2 * due.interval).min(LONGEST_INTERVAL);
        if let Some(link) = self.interface_mut(id) {
            link.solicitation = Some(RouterSolicitation { at, interval });
        }
        let source = source::select(v6::ALL_ROUTERS, id, cx.link.interfaces().all());
        let source = source.unwrap_or(Ipv6Addr::UNSPECIFIED);
        // RFC 4861 4.1: the option needs a source.
        let mac = (!source.is_unspecified()).then_some(mac);
        self.counters.nd_solicits += 1;
        let message = OutgoingNdp::RouterSolicit { mac };
        ndp::send_to_group(&mut cx.link, id, source, v6::ALL_ROUTERS, &message, out);
    }

    /// A router advertises itself.
    pub(super) fn handle_router<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (id, source): (InterfaceId, Ipv6Addr),
        advert: &RouterAdvert<'_>,
        out: &mut dyn Egress<T>,
    ) -> Option<ResolvedNeighbour> {
        let spread = self.random_below(Duration::from_secs(1));
        let accept = self.config.accept_ra;
        let link = self.interface_mut(id)?;
        if !accept || !link.is_started {
            self.counters.nd_ignored += 1;
            return None;
        }
        let parameters = cx.link.interface_mut(id)?.parameters_mut();
        parameters.hop_limit = advert.hop_limit.or(parameters.hop_limit);
        let times = &mut parameters.times;
        times.retrans = advert.retrans.unwrap_or(times.retrans);
        if let Some(base) = advert.reachable.filter(|base| *base <= LONGEST_REACHABLE)
            && link.base_reachable != Some(base)
        {
            link.base_reachable = Some(base);
            // RFC 4861 6.3.4: between half of it and one and a half.
            times.reachable = base / 2 + base.mul_f64(spread.as_secs_f64());
        }
        *times = sane(*times);
        self.counters.nd_router_adverts += 1;
        self.keep_router(cx, now, (id, source), advert);
        let mut resolved = None;
        for option in advert.options.iter() {
            match option {
                NdpOption::SourceMac(mac) => {
                    let key = NeighbourKey { interface: id, address: source.into() };
                    let news = cx.link.observe(now, key, (mac, true), &mut cx.timers, out);
                    resolved = news.or(resolved);
                }
                NdpOption::Mtu(mtu) => set_mtu(cx, id, mtu),
                NdpOption::Prefix(prefix) => self.handle_prefix(cx, now, id, &prefix),
                NdpOption::Dns { lifetime, servers } => {
                    self.handle_dns(now, id, lifetime, servers);
                }
                NdpOption::TargetMac(_) | NdpOption::Nonce(_) | NdpOption::Other => {}
            }
        }
        self.reschedule(cx, id);
        resolved
    }

    /// RFC 4861 6.3.4: the router is a default one for some time, or no more.
    fn keep_router(
        &mut self,
        cx: &mut Context,
        now: Instant,
        (id, address): (InterfaceId, Ipv6Addr),
        advert: &RouterAdvert<'_>,
    ) {
        if advert.lifetime.is_zero() {
            return self.remove_router(cx, id, address);
        }
        let most = self.config.routers;
        let Some(link) = self.interface_mut(id) else { return };
        // RFC 7559 2.1: the question is answered.
        link.solicitation = None;
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
            cx.ip.remove_route(&old.route(id));
        }
        // A table without room loses the route, not the router: the next advertisement tries again.
        if cx.ip.insert_route(new.route(id)).is_err() {
            self.counters.nd_refused += 1;
        }
    }

    /// A router is none any more; if it was the last, others are asked for.
    pub(super) fn remove_router(&mut self, cx: &mut Context, id: InterfaceId, address: Ipv6Addr) {
        let Some(interface) = self.interface_mut(id) else { return };
        let routers = &mut interface.routers;
        let Some(index) = routers.iter().position(|router| router.address == address) else {
            return;
        };
        let route = routers.remove(index).route(id);
        cx.ip.remove_route(&route);
        self.reschedule(cx, id);
    }

    /// A router has answered, or has not.
    pub(crate) fn set_router_answers(
        &mut self,
        cx: &mut Context,
        id: InterfaceId,
        address: Ipv6Addr,
        answers: bool,
    ) {
        let Some(interface) = self.interface_mut(id) else { return };
        let routers = &mut interface.routers;
        let Some(router) = routers.iter_mut().find(|router| router.address == address) else {
            return;
        };
        if router.is_silent != answers {
            return;
        }
        let old = *router;
        router.is_silent = !answers;
        let new = *router;
        cx.ip.remove_route(&old.route(id));
        // There is room, because a route has just been removed.
        let _ = cx.ip.insert_route(new.route(id));
    }

    /// Removes routers whose lifetime is over.
    pub(super) fn end_routers(&mut self, cx: &mut Context, now: Instant, id: InterfaceId) {
        while let Some(interface) = self.interface(id)
            && let Some(over) = interface.routers.iter().find(|router| router.until <= now)
        {
            let address = over.address;
            self.remove_router(cx, id, address);
            self.begin_soliciting(cx, now, id);
        }
    }

    /// RFC 8106 5.3.1: stores resolvers. Without room, those with the shortest remaining lifetime
    /// are replaced.
    fn handle_dns(&mut self, now: Instant, id: InterfaceId, lifetime: Duration, servers: &[u8]) {
        let most = self.config.dns_servers;
        let Some(interface) = self.interface_mut(id) else { return };
        let list = &mut interface.dns;
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
                let first = (0..list.len()).min_by_key(|index| {
                    list.get(*index).map(|(_, until)| (until.is_none(), *until))
                });
                first.map(|index| list.remove(index));
            }
        }
    }

    /// The resolvers that routers have advertised, and whose lifetime is not over.
    pub(crate) fn dns_servers(
        &self,
        now: Instant,
        id: InterfaceId,
    ) -> impl Iterator<Item = Ipv6Addr> {
        let list = self.interface(id).into_iter().flat_map(|interface| &interface.dns);
        list.filter(move |(_, until)| until.is_none_or(|until| until > now)).map(|(ip, _)| *ip)
    }
}

/// RFC 4861 6.3.4: an MTU between the least of IPv6 and the interface's own.
fn set_mtu(cx: &mut Context, id: InterfaceId, mtu: u32) {
    let Some(interface) = cx.link.interface_mut(id) else { return };
    let Ok(mtu) = u16::try_from(mtu) else { return };
    if (v6::LEAST_MTU..=interface.link_mtu()).contains(&mtu) {
        interface.parameters_mut().mtu = Some(mtu);
    }
}

/// A router's values, within bounds: a solicitation each millisecond would be too many.
fn sane(times: NeighbourTimes) -> NeighbourTimes {
    const LEAST_RETRANS: Duration = Duration::from_millis(100);
    const LEAST_REACHABLE: Duration = Duration::from_secs(1);
    const LONGEST_RETRANS: Duration = Duration::from_secs(60);
    NeighbourTimes {
        retrans: times.retrans.clamp(LEAST_RETRANS, LONGEST_RETRANS),
        reachable: times.reachable.max(LEAST_REACHABLE),
    }
}

//! The state of Neighbour Discovery for each interface's link, and its timer.

use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::Ipv6Addr;
use core::time::Duration;

use crate::bytes::{Egress, TxBytes};
use crate::cidr::Cidr;
use crate::config::{Config, V6Config};
use crate::context::Context;
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::ip::ndp::Preference;
use crate::secret::{KeyedHash, Secret};
use crate::time::Instant;
use crate::timers::Timer;
use crate::wheel::TimerId;

counters! { NdCounters:
    nd_malformed "nd.malformed" "Neighbour Discovery messages that fail a check."
    nd_ignored "nd.ignored" "Redirects, questions to routers, and unwanted advertisements."
    nd_conflicts "nd.conflicts" "Advertisements whose sender claims one of our addresses."
    nd_duplicates "nd.duplicates" "Addresses not used because somebody else has them."
    nd_looped "nd.looped" "Our own probes that came back."
    nd_refused "nd.refused" "Routers, prefixes and addresses of routers that there was no room for."
    nd_solicits "nd.router-solicits" "Questions for routers."
    nd_router_adverts "nd.router-adverts" "Router advertisements followed."
}

/// RFC 4861 10.
pub(super) const MAX_RTR_SOLICITATION_DELAY: Duration = Duration::from_secs(1);

/// A default router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Router {
    pub(super) address: Ipv6Addr,
    pub(super) preference: Preference,
    pub(super) until: Instant,
    /// The router did not answer a solicitation, so others are preferred (RFC 4861 6.3.6).
    pub(super) is_silent: bool,
}

/// When routers are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RouterSolicitation {
    pub(super) at: Instant,
    /// Between the last question and the next.
    pub(super) interval: Duration,
}

/// The state of one interface's link.
#[derive(Debug, Default)]
pub(super) struct NdInterface {
    /// [`Stack::start_ipv6`](crate::Stack::start_ipv6) was called, and no duplicate of the
    /// link-local address has ended it.
    pub(super) is_started: bool,
    /// Probes for an address of this interface; `None` for as many as the configuration says.
    pub(super) dad_transmits: Option<u8>,
    /// The router's own value, of which the neighbours' reachable time is made.
    pub(super) base_reachable: Option<Duration>,
    pub(super) routers: Vec<Router>,
    /// Networks on the link by a router's word, and until when.
    pub(super) prefixes: Vec<(Cidr, Option<Instant>)>,
    /// Resolvers, and until when.
    pub(super) dns: Vec<(Ipv6Addr, Option<Instant>)>,
    pub(super) solicitation: Option<RouterSolicitation>,
    timer: Option<(TimerId, Instant)>,
}

/// Neighbour Discovery of one stack.
#[derive(Debug)]
pub(crate) struct NdLayer {
    interfaces: Vec<NdInterface>,
    /// Most addresses of an interface.
    pub(super) most_addresses: usize,
    pub(super) config: V6Config,
    /// Of unpredictable numbers, and how many were drawn.
    random: KeyedHash,
    drawn: u64,
    pub(super) counters: NdCounters,
}

impl NdLayer {
    pub(crate) fn new(config: &Config, secret: &Secret) -> Self {
        Self {
            interfaces: Vec::new(),
            most_addresses: config.addresses,
            config: config.v6,
            random: secret.links(),
            drawn: 0,
            counters: NdCounters::default(),
        }
    }

    /// Applies a change of the configuration.
    pub(crate) fn configure(&mut self, config: &V6Config) {
        self.config = *config;
    }

    /// An interface was added.
    pub(crate) fn add_interface(&mut self) {
        self.interfaces.push(NdInterface::default());
    }

    /// Name and value of each counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.counters.iter()
    }

    /// How many addresses were found to be another node's so far.
    pub(crate) fn duplicates(&self) -> u64 {
        self.counters.nd_duplicates
    }

    pub(super) fn interface(&self, id: InterfaceId) -> Option<&NdInterface> {
        self.interfaces.get(usize::from(id.0))
    }

    pub(super) fn interface_mut(&mut self, id: InterfaceId) -> Option<&mut NdInterface> {
        self.interfaces.get_mut(usize::from(id.0))
    }

    /// Probes for an address of an interface before it is used.
    pub(crate) fn dad_transmits(&self, id: InterfaceId) -> u8 {
        let own = self.interface(id).and_then(|interface| interface.dad_transmits);
        own.unwrap_or(self.config.dad_transmits)
    }

    /// Sets the number of probes for an address of an interface.
    ///
    /// # Errors
    /// `BadHandle` without such an interface.
    pub(crate) fn set_dad_transmits(&mut self, id: InterfaceId, count: u8) -> Result<(), Error> {
        self.interface_mut(id).ok_or(Error::BadHandle)?.dad_transmits = Some(count);
        Ok(())
    }

    /// See [`Stack::start_ipv6`](crate::Stack::start_ipv6).
    pub(crate) fn start(&mut self, cx: &mut Context, now: Instant, id: InterfaceId) {
        let Some(interface) = self.interface_mut(id) else { return };
        if core::mem::replace(&mut interface.is_started, true) {
            return;
        }
        // RFC 4862 5.4.2: not all at once after a power failure. A link where nothing is probed
        // has no other hosts.
        let delay = match self.dad_transmits(id) {
            0 => Duration::ZERO,
            _ => self.random_below(MAX_RTR_SOLICITATION_DELAY),
        };
        self.add_link_local(cx, now + delay, id, 0);
        self.reschedule(cx, id);
    }

    /// An unpredictable number.
    pub(super) fn random(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        self.random.hash_one(self.drawn)
    }

    /// An unpredictable time below `bound`.
    pub(super) fn random_below(&mut self, bound: Duration) -> Duration {
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random() % nanos.max(1))
    }

    /// Sets the interface's timer to its earliest deadline.
    pub(super) fn reschedule(&mut self, cx: &mut Context, id: InterfaceId) {
        let Some(link) = self.interfaces.get_mut(usize::from(id.0)) else { return };
        let Some(interface) = cx.link.interface(id) else { return };
        let probes = interface.addresses().iter().filter_map(|ours| Some(ours.dad?.at));
        let adverts = interface.addresses().iter().filter_map(|ours| ours.advertise_at);
        let ends = interface.addresses().iter().flat_map(|ours| {
            let preferred = ours.preferred_until.filter(|_| ours.is_preferred());
            [preferred, ours.valid_until].into_iter().flatten()
        });
        let prefixes = link.prefixes.iter().filter_map(|(_, until)| *until);
        let routers = link.routers.iter().map(|router| router.until);
        let solicit = link.solicitation.map(|solicitation| solicitation.at);
        let first =
            probes.chain(adverts).chain(ends).chain(prefixes).chain(routers).chain(solicit).min();
        if link.timer.map(|(_, at)| at) == first {
            return;
        }
        if let Some((timer, _)) = link.timer.take() {
            cx.timers.cancel(timer);
        }
        link.timer = first.map(|at| (cx.timers.arm(at, Timer::Discovery(id)), at));
    }

    /// The interface's timer has fired.
    pub(crate) fn handle_timer<T: TxBytes>(
        &mut self,
        cx: &mut Context,
        now: Instant,
        id: InterfaceId,
        out: &mut dyn Egress<T>,
    ) {
        if let Some(interface) = self.interface_mut(id) {
            interface.timer = None;
        }
        self.send_due_probes(cx, now, id, out);
        self.send_due_adverts(cx, now, id, out);
        self.end_lifetimes(cx, now, id);
        self.send_due_solicitation(cx, now, id, out);
        self.reschedule(cx, id);
    }
}

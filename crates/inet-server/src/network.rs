//! The stack's interfaces, addresses and routes: setting them up as the supervisor says, and
//! reporting their status.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use abi::frame::IfAttach;
use abi::network::{
    AddressStatus, InterfaceSettings, InterfaceStatus, Ipv6Mode, NeighbourStatus, NetworkStatus,
    Prefixed, ResolverStatus, RouteSettings, RouteStatus,
};
use abi::offload::Features;
use inet::{
    Address, AddressOrigin, AddressState, Cidr, Instant, InterfaceConfig, InterfaceId, Route,
};

use crate::engine::Engine;

/// An interface of the stack, for its status.
struct InterfaceRecord {
    id: InterfaceId,
    name: String,
    mac: [u8; 6],
    mtu: u16,
    features: Features,
    /// Duplicate addresses that are in the log.
    logged: Vec<IpAddr>,
}

/// An interface whose addresses programs wait for.
struct AwaitedInterface {
    nic: u16,
    id: InterfaceId,
    /// Also for an address from a router.
    router: bool,
    /// End of the wait.
    until: Instant,
}

/// How long programs wait for an interface's addresses beyond the time of its probes. A probe may
/// start up to a second late (RFC 4862 5.4.2), and a router may have set a longer interval.
const PATIENCE: Duration = Duration::from_secs(2);

/// All interfaces, in order of their ids.
#[derive(Default)]
pub(crate) struct Network {
    interfaces: Vec<InterfaceRecord>,
    settling: Vec<AwaitedInterface>,
    /// The core's count of duplicate addresses when the log was last brought up to date.
    duplicates: u64,
    /// The same of ignored messages of DHCP servers, and whether a short lease was logged.
    dhcp_ignored: u64,
    short_lease_logged: bool,
}

impl Network {
    /// Adds an interface to the stack, with its addresses and routes. The supervisor has checked
    /// them as far as it can; the log has those that the stack refuses.
    pub(crate) fn attach(
        &mut self,
        engine: &mut Engine,
        settings: &InterfaceSettings,
        IfAttach { mac, mtu, features }: IfAttach,
        ipv6: Ipv6Mode,
    ) -> InterfaceId {
        let InterfaceSettings { name, addresses, routes, dhcp, dad_transmits, .. } = settings;
        let id = engine.stack.add_interface(InterfaceConfig { mac, mtu });
        // The interface was just added.
        let _ = engine.stack.set_dad_transmits(id, *dad_transmits);
        if ipv6 != Ipv6Mode::Off {
            engine.stack.start_ipv6(engine.now, id);
        }
        for address in addresses {
            match engine.stack.add_address(id, Cidr::new(address.address, address.prefix)) {
                Ok(()) => tracing::info!(interface = name, %address, "address added"),
                Err(error) => {
                    tracing::error!(interface = name, %address, %error, "address refused");
                }
            }
        }
        for &RouteSettings { to, via, metric } in routes {
            let network = Cidr::new(to.address, to.prefix).network();
            let route = Route { network, gateway: via, interface: id, source: None, metric };
            if let Err(error) = engine.stack.add_route(route) {
                tracing::error!(interface = name, %to, ?via, %error, "route refused");
            }
        }
        if *dhcp && let Err(error) = engine.stack.enable_dhcp(engine.now, id) {
            tracing::error!(interface = name, %error, "DHCP refused");
        }
        let (name, logged) = (name.clone(), Vec::new());
        tracing::info!(interface = name, mtu, "interface attached");
        self.interfaces.push(InterfaceRecord { id, name, mac, mtu, features, logged });
        id
    }

    /// Makes programs wait for the addresses of driver `nic`'s interface, which was just attached.
    pub(crate) fn await_addresses(
        &mut self,
        now: Instant,
        nic: u16,
        id: InterfaceId,
        settings: &InterfaceSettings,
    ) {
        let probes = Duration::from_secs(settings.dad_transmits.into());
        let (router, until) = (settings.awaits_router, now + probes + PATIENCE);
        self.settling.push(AwaitedInterface { nic, id, router, until });
    }

    /// Drivers whose interfaces programs need not wait for any more. They wait for the address of a
    /// router only where one is known to be there: elsewhere there may be none, or always another.
    pub(crate) fn settled(&mut self, engine: &Engine) -> Vec<u16> {
        let mut settled = Vec::new();
        self.settling.retain(|&AwaitedInterface { nic, id, router, until }| {
            let mut probed = engine.stack.addresses(id).filter(|ours| {
                ours.state == AddressState::Tentative && ours.origin != AddressOrigin::Slaac
            });
            let tentative = probed.next().map(|ours| ours.cidr.address);
            if let Some(address) = tentative.filter(|_| until <= engine.now) {
                tracing::warn!(nic, %address, "still tentative, and not waited for any longer");
            }
            let has_router = || {
                let mut all = engine.stack.addresses(id);
                all.any(|ours| {
                    ours.origin == AddressOrigin::Slaac && ours.state == AddressState::Preferred
                })
            };
            let waits = (tentative.is_some() || router && !has_router()) && engine.now < until;
            if !waits {
                settled.push(nic);
            }
            waits
        });
        settled
    }

    /// Does no program have to wait for an interface?
    pub(crate) fn is_settled(&self) -> bool {
        self.settling.is_empty()
    }

    /// The latest time to call [`Network::settled`] again.
    pub(crate) fn settling_until(&self) -> Option<Instant> {
        self.settling.iter().map(|settling| settling.until).min()
    }

    /// Logs duplicate addresses, each once.
    pub(crate) fn log_duplicates(&mut self, engine: &Engine) {
        let duplicates = engine.stack.duplicates();
        if std::mem::replace(&mut self.duplicates, duplicates) == duplicates {
            return;
        }
        for InterfaceRecord { id, name, logged, .. } in &mut self.interfaces {
            let lost = engine.stack.addresses(*id);
            let lost = lost.filter(|ours| ours.state == AddressState::Duplicate);
            let mut duplicates = Vec::new();
            for ours in lost {
                let address = ours.cidr.address;
                duplicates.push(address);
                if !logged.contains(&address) {
                    tracing::error!("{}", duplicate_text(name, ours));
                }
            }
            *logged = duplicates;
        }
    }

    /// Logs, once, that a DHCP server gives leases that are too short to be used.
    pub(crate) fn log_short_leases(&mut self, engine: &Engine) {
        let ignored = engine.stack.dhcp_ignored();
        let same = std::mem::replace(&mut self.dhcp_ignored, ignored) == ignored;
        if same || self.short_lease_logged {
            return;
        }
        for InterfaceRecord { id, name, .. } in &self.interfaces {
            if let Some(time) = engine.stack.dhcp_too_short(*id) {
                let seconds = time.as_secs();
                tracing::warn!(
                    "the DHCP server on {name} gives leases of {seconds} s, which are refused: \
                     let it give leases of 2 s or more"
                );
                self.short_lease_logged = true;
            }
        }
    }

    /// The status of the network.
    pub(crate) fn status(&self, engine: &Engine) -> NetworkStatus {
        let ethernet = self.interfaces.iter().map(|interface| {
            let InterfaceRecord { id, name, mac, mtu, features, .. } = interface;
            let lease = engine.stack.dhcp_lease(*id);
            let leased = lease.map(|lease| IpAddr::V4(lease.address));
            let address = |ours: &Address| {
                let mut status = address_status(engine.now, ours);
                if leased == Some(status.address) {
                    "dhcp".clone_into(&mut status.origin);
                    let end = engine.stack.dhcp_lease_end(*id);
                    status.valid = end.map(|end| end.since(engine.now).as_secs());
                }
                status
            };
            let servers = lease.into_iter().flat_map(|lease| &lease.dns);
            let servers = servers.copied().map(IpAddr::V4);
            let name_servers = servers.chain(engine.stack.dns_servers(engine.now, *id)).collect();
            InterfaceStatus {
                index: id.scope_id(),
                name: name.clone(),
                mac: Some(mac_text(*mac)),
                mtu: (*mtu).into(),
                state: "UP".to_owned(),
                addresses: engine.stack.addresses(*id).map(address).collect(),
                name_servers,
                // The supervisor knows the device and fills it in.
                device: String::new(),
                features: features.names().map(str::to_owned).collect(),
            }
        });
        let routes = engine.stack.routes().map(|route| RouteStatus {
            to: Prefixed { address: route.network.address, prefix: route.network.prefix },
            via: route.gateway,
            interface: self.name(route.interface).to_owned(),
            source: route.source,
            metric: route.metric,
        });
        let interfaces = ethernet.chain([loopback()]).collect();
        let mut neighbours: Vec<_> = engine.stack.neighbours().collect();
        neighbours.sort_by_key(|one| (one.interface.scope_id(), one.address));
        let neighbours = neighbours.iter().map(|one| NeighbourStatus {
            address: one.address,
            interface: self.name(one.interface).to_owned(),
            mac: one.mac.map(mac_text),
            state: one.state.to_owned(),
        });
        let (routes, neighbours) = (routes.collect(), neighbours.collect());
        let resolver = self.resolver(engine);
        NetworkStatus { interfaces, routes, neighbours, resolver, raw_sockets: false }
    }

    /// The name servers and domains learnt on all interfaces, each once.
    fn resolver(&self, engine: &Engine) -> ResolverStatus {
        let mut resolver = ResolverStatus::default();
        for InterfaceRecord { id, .. } in &self.interfaces {
            let lease = engine.stack.dhcp_lease(*id);
            let leased = lease.into_iter().flat_map(|lease| &lease.dns).copied().map(IpAddr::V4);
            for server in leased.chain(engine.stack.dns_servers(engine.now, *id)) {
                if !resolver.servers.contains(&server) {
                    resolver.servers.push(server);
                }
            }
            if let Some(domain) = lease.and_then(|lease| lease.domain.as_ref())
                && !resolver.search.contains(domain)
            {
                resolver.search.push(domain.clone());
            }
        }
        resolver
    }

    fn name(&self, id: InterfaceId) -> &str {
        let found = self.interfaces.iter().find(|interface| interface.id == id);
        found.map_or("?", |interface| &interface.name)
    }
}

/// The log line of a duplicate address: the fault, and what to do about it.
fn duplicate_text(interface: &str, ours: &Address) -> String {
    let owner = ours.owner.map_or_else(String::new, |mac| format!(" ({})", mac_text(mac)));
    let remedy = match ours.origin {
        AddressOrigin::LinkLocal => {
            "its hardware address is the same, or it answers for everybody; IPv6 \
             autoconfiguration has ended there"
        }
        AddressOrigin::Static | AddressOrigin::Slaac => {
            "give the stack another one (--address, inet.address), or that host"
        }
    };
    format!(
        "duplicate address: {} is not used on {interface}, because another host on the link{owner} \
         has it: {remedy}; it is probed again when the link has been down",
        ours.cidr.address
    )
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn address_status(now: Instant, ours: &Address) -> AddressStatus {
    AddressStatus {
        address: ours.cidr.address,
        prefix: ours.cidr.prefix,
        state: match ours.state {
            AddressState::Tentative => "tentative",
            AddressState::Preferred => "preferred",
            AddressState::Deprecated => "deprecated",
            AddressState::Duplicate => "dadfailed",
        }
        .to_owned(),
        origin: match ours.origin {
            AddressOrigin::Static => "static",
            AddressOrigin::LinkLocal => "link-local",
            AddressOrigin::Slaac => "slaac",
        }
        .to_owned(),
        valid: ours.valid_until.map(|until| until.since(now).as_secs()),
    }
}

/// The loopback interface, which is always there.
fn loopback() -> InterfaceStatus {
    let address = |address: IpAddr, prefix| AddressStatus {
        address,
        prefix,
        state: "preferred".to_owned(),
        origin: "static".to_owned(),
        valid: None,
    };
    InterfaceStatus {
        index: InterfaceId::LOOPBACK.scope_id(),
        name: "lo".to_owned(),
        mac: None,
        mtu: u16::MAX.into(),
        state: "UP".to_owned(),
        addresses: vec![
            address(Ipv4Addr::LOCALHOST.into(), 8),
            address(Ipv6Addr::LOCALHOST.into(), 128),
        ],
        name_servers: vec![],
        device: String::new(),
        features: vec![],
    }
}

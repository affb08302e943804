//! The stack's interfaces, addresses and routes: set up as the supervisor says, and told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use abi::network::{
    AddressStatus, InterfaceSettings, InterfaceStatus, Ipv6Mode, NeighbourStatus, NetworkStatus,
    Prefixed, RouteSettings, RouteStatus,
};
use abi::offload::Features;
use inet::{
    Address, AddressOrigin, AddressState, Cidr, Instant, InterfaceConfig, InterfaceId, Route,
};

use crate::engine::Engine;
use crate::nic::Link;

/// An interface of the stack, as it is told.
struct Interface {
    id: InterfaceId,
    name: String,
    mac: [u8; 6],
    mtu: u16,
    features: Features,
}

/// All interfaces, in order of their ids.
#[derive(Default)]
pub(crate) struct Network {
    interfaces: Vec<Interface>,
}

impl Network {
    /// Adds an interface to the stack, with its addresses and routes. What the stack does not take
    /// is in the log: the supervisor has checked what it can.
    pub(crate) fn attach(
        &mut self,
        engine: &mut Engine,
        settings: &InterfaceSettings,
        Link { mac, mtu, features }: Link,
        ipv6: Ipv6Mode,
    ) -> InterfaceId {
        let InterfaceSettings { name, addresses, routes, dhcp } = settings;
        let id = engine.stack.add_interface(InterfaceConfig { mac, mtu });
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
        self.interfaces.push(Interface { id, name: name.clone(), mac, mtu, features });
        tracing::info!(interface = name, mtu, "interface attached");
        id
    }

    /// How things are.
    pub(crate) fn status(&self, engine: &Engine) -> NetworkStatus {
        let ethernet = self.interfaces.iter().map(|interface| {
            let Interface { id, name, mac, mtu, features } = interface;
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
                // The supervisor knows.
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
        NetworkStatus { interfaces, routes, neighbours }
    }

    fn name(&self, id: InterfaceId) -> &str {
        let found = self.interfaces.iter().find(|interface| interface.id == id);
        found.map_or("?", |interface| &interface.name)
    }
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

/// The interface to the stack itself, which is always there.
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

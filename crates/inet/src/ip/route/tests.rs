use super::*;
use crate::link::address::{Address, AddressOrigin};
use crate::link::interfaces::InterfaceConfig;
use core::net::Ipv6Addr;
use proptest::prelude::*;
use std::vec::Vec;

fn interface(addresses: &[Cidr]) -> Interface {
    let config = InterfaceConfig { mac: [2, 0, 0, 0, 0, 1], mtu: 1500 };
    let mut interface = Interface::new(config);
    let of = |cidr: &Cidr| Address::new(*cidr, AddressOrigin::Static);
    addresses.iter().map(of).for_each(|address| interface.add_address(address));
    interface
}

/// The interfaces' own networks, and the routes given.
fn table(interfaces: &[Interface], more: &[Route]) -> Routes {
    let mut routes = Routes::new(100);
    for (id, interface) in (0..).zip(interfaces) {
        for address in interface.addresses() {
            routes.add(Route::on_link(address.cidr, InterfaceId(id))).unwrap();
        }
    }
    more.iter().for_each(|route| routes.add(*route).unwrap());
    routes
}

fn to(ip: impl Into<IpAddr>) -> SocketAddr {
    SocketAddr::new(ip.into(), 1)
}

#[test]
fn the_longest_prefix_wins() {
    let interfaces =
        [interface(&[Cidr::new([10, 0, 0, 2], 8)]), interface(&[Cidr::new([10, 1, 0, 2], 16)])];
    let router = Route::default([10, 0, 0, 1].into(), InterfaceId(0));
    let routes = table(&interfaces, &[router]);
    let neighbour = |a: [u8; 4]| Ok(Hop::Neighbour(a.into()));
    let table = [
        ([10, 9, 9, 9], 0, neighbour([10, 9, 9, 9])),
        ([10, 1, 9, 9], 1, neighbour([10, 1, 9, 9])),
        ([192, 0, 2, 1], 0, neighbour([10, 0, 0, 1])),
        ([10, 1, 255, 255], 1, Ok(Hop::Group(Mac::BROADCAST))),
        ([255, 255, 255, 255], 0, Ok(Hop::Group(Mac::BROADCAST))),
        (
            [224, 129, 0, 251],
            0,
            Ok(Hop::Group(smoltcp::wire::EthernetAddress([1, 0, 0x5e, 1, 0, 251]))),
        ),
        ([0, 0, 0, 0], 0, Err(Error::NetUnreachable)),
    ];
    for (destination, id, hop) in table {
        let path = routes.find(&to(destination), None, &interfaces);
        assert_eq!(path.map(|path| path.hop), hop, "{destination:?}");
        if let Ok(path) = path {
            assert_eq!(path.interface, InterfaceId(id));
            assert_eq!(path.source, interfaces[usize::from(id)].addresses()[0].cidr.address);
        }
    }
}

#[test]
fn a_route_can_say_that_a_network_is_unreachable() {
    let interfaces = [interface(&[Cidr::new([10, 0, 0, 2], 8)])];
    let router = Route::default([10, 0, 0, 1].into(), InterfaceId(0));
    let refused = Route {
        gateway: Some([0, 0, 0, 0].into()),
        ..Route::on_link(Cidr::new([169, 254, 0, 0], 16), InterfaceId(0))
    };
    let routes = table(&interfaces, &[router, refused]);
    let hop = |ip: [u8; 4]| routes.find(&to(ip), None, &interfaces).map(|path| path.hop);
    assert_eq!(hop([169, 254, 169, 254]), Err(Error::NetUnreachable));
    assert_eq!(hop([169, 253, 0, 1]), Ok(Hop::Neighbour([10, 0, 0, 1].into())));
}

#[test]
fn without_a_router_other_networks_are_unreachable() {
    let interfaces = [interface(&[Cidr::new([10, 0, 0, 2], 24)])];
    let routes = table(&interfaces, &[]);
    assert_eq!(routes.find(&to([10, 0, 1, 2]), None, &interfaces), Err(Error::NetUnreachable));
    assert!(routes.find(&to([255, 255, 255, 255]), None, &interfaces).is_ok());
    let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    assert_eq!(routes.find(&to(far), None, &interfaces), Err(Error::NetUnreachable));
}

#[test]
fn metrics_hosts_and_preferred_sources() {
    let here = InterfaceId(0);
    let interfaces = [interface(&[Cidr::new([10, 0, 0, 2], 24), Cidr::new([192, 0, 2, 7], 24)])];
    let gateway = |last| IpAddr::from([10, 0, 0, last]);
    let default = |last, metric| Route { metric, ..Route::default(gateway(last), here) };
    let host = Route {
        network: Cidr::host([198, 51, 100, 1]),
        gateway: Some([192, 0, 2, 1].into()),
        ..Route::on_link(Cidr::ANY_V4, here)
    };
    let named = Route { source: Some([192, 0, 2, 7].into()), ..default(9, 1) };
    let mut routes = table(&interfaces, &[default(1, 20), default(2, 10), host]);
    let hop = |routes: &Routes, ip: [u8; 4]| {
        let path = routes.find(&to(ip), None, &interfaces).unwrap();
        (path.hop, path.source)
    };
    let far = [203, 0, 113, 1];
    assert_eq!(hop(&routes, far), (Hop::Neighbour(gateway(2)), [10, 0, 0, 2].into()));
    let via = (Hop::Neighbour([192, 0, 2, 1].into()), [192, 0, 2, 7].into());
    assert_eq!(hop(&routes, [198, 51, 100, 1]), via);
    routes.add(named).unwrap();
    assert_eq!(hop(&routes, far), (Hop::Neighbour(gateway(9)), [192, 0, 2, 7].into()));
    assert!(routes.remove(&named) && !routes.remove(&named));
    assert!(routes.remove(&default(2, 10)));
    assert_eq!(hop(&routes, far).0, Hop::Neighbour(gateway(1)));
    // The same entry again changes it and takes no more room.
    let before = routes.iter().count();
    routes.add(Route { source: Some([192, 0, 2, 7].into()), ..default(1, 20) }).unwrap();
    assert_eq!(routes.iter().count(), before);
    assert_eq!(hop(&routes, far).1, IpAddr::from([192, 0, 2, 7]));
}

#[test]
fn the_table_is_bounded() {
    let mut routes = Routes::new(2);
    for n in 0..4 {
        let added = routes.add(Route::on_link(Cidr::host([10, 0, 0, n]), InterfaceId(0)));
        assert_eq!(added.is_ok(), n < 2);
    }
    assert_eq!(routes.iter().count(), 2);
}

#[derive(Debug, Clone)]
enum Step {
    Add(Route),
    Remove(usize),
    Look(IpAddr, Option<InterfaceId>),
}

/// Addresses of few bits, so that prefixes meet.
fn any_ip() -> impl Strategy<Value = IpAddr> {
    let few = prop::sample::select(std::vec![0u8, 1, 128, 255]);
    (any::<bool>(), few.clone(), few.clone(), few).prop_map(|(v4, a, b, c)| {
        if v4 {
            IpAddr::from([a, b, 0, c])
        } else {
            let mut octets = [0; 16];
            (octets[0], octets[7], octets[15]) = (a, b, c);
            IpAddr::from(octets)
        }
    })
}

fn any_route() -> impl Strategy<Value = Route> {
    (any_ip(), 0..=128u8, 0..3u16, 0..3u32, any::<Option<u8>>()).prop_map(
        |(ip, prefix, interface, metric, source)| Route {
            network: Cidr::new(ip, prefix),
            gateway: None,
            interface: InterfaceId(interface),
            source: source.map(|last| [10, 0, 0, last].into()),
            metric,
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any_route().prop_map(Step::Add),
        1 => any::<usize>().prop_map(Step::Remove),
        4 => (any_ip(), prop::option::of((0..3u16).prop_map(InterfaceId)))
            .prop_map(|(ip, via)| Step::Look(ip, via)),
    ]
}

proptest! {
    /// Against a list without order, searched for the best.
    #[test]
    fn looks_are_those_of_a_naive_table(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut routes = Routes::new(1000);
        let mut naive: Vec<Route> = Vec::new();
        for step in steps {
            match step {
                Step::Add(route) => {
                    routes.add(route).unwrap();
                    let network = route.network.network();
                    let route = Route { network, ..route };
                    match naive.iter_mut().find(|other| other.is_same(&route)) {
                        Some(same) => *same = route,
                        None => naive.push(route),
                    }
                }
                Step::Remove(n) if !naive.is_empty() => {
                    let route = naive.remove(n % naive.len());
                    prop_assert!(routes.remove(&route));
                }
                Step::Remove(_) => {}
                Step::Look(ip, via) => {
                    let mut best: Option<&Route> = None;
                    for route in &naive {
                        let fits = route.network.contains(ip)
                            && via.is_none_or(|via| via == route.interface);
                        let better = best.is_none_or(|best| {
                            (route.network.prefix, best.metric)
                                > (best.network.prefix, route.metric)
                        });
                        if fits && better {
                            best = Some(route);
                        }
                    }
                    prop_assert_eq!(routes.look_up(ip, via), best);
                }
            }
            prop_assert_eq!(routes.iter().count(), naive.len());
        }
    }
}

#[test]
fn own_addresses_are_reached_within() {
    let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    let interfaces = [
        interface(&[Cidr::new([10, 0, 0, 2], 8)]),
        interface(&[Cidr::new([10, 1, 0, 2], 16), Cidr::new(link_local, 64)]),
    ];
    let routes = table(&interfaces, &[]);
    let here = |ip: IpAddr| routes.find(&to(ip), None, &interfaces);
    let own: IpAddr = [10, 1, 0, 2].into();
    let localhost: IpAddr = Ipv4Addr::LOCALHOST.into();
    let v6: IpAddr = Ipv6Addr::LOCALHOST.into();
    for (to, source) in
        [(own, own), (localhost, localhost), ([127, 9, 9, 9].into(), localhost), (v6, v6)]
    {
        let path = here(to).unwrap();
        assert_eq!(
            (path.hop, path.source, path.exit()),
            (Hop::Local, source, InterfaceId::LOOPBACK)
        );
        assert_eq!((path.interface, path.mtu), (InterfaceId::LOOPBACK, u16::MAX), "{to}");
    }
    // An address of link scope is ours on its own link only.
    let on = |scope| core::net::SocketAddrV6::new(link_local, 1, 0, scope).into();
    let path = routes.find(&on(3), None, &interfaces).unwrap();
    assert_eq!((path.interface, path.exit()), (InterfaceId(1), InterfaceId::LOOPBACK));
    assert_ne!(routes.find(&on(2), None, &interfaces).map(|path| path.hop), Ok(Hop::Local));
}

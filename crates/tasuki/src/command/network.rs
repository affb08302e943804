//! `tasuki addr`, `tasuki route` and `tasuki neigh`: the stack's side of the network, as `ip`
//! writes it.

use std::fmt::Write;
use std::net::IpAddr;

use abi::control::{ClientReply, ClientRequest};
use abi::network::{InterfaceStatus, NeighbourStatus, NetworkStatus, RouteStatus};

use super::{print, print_json};
use crate::cli::NetworkArgs;
use crate::exit::Failure;
use crate::operator::Operator;

fn ask(args: &NetworkArgs) -> Result<NetworkStatus, Failure> {
    let mut operator = Operator::connect_or_guess(args.net.as_ref())?;
    match operator.ask(&ClientRequest::Network)? {
        (ClientReply::Network(status), _) => Ok(status),
        (other, _) => Err(operator.unexpected(&other)),
    }
}

/// Shows interfaces and addresses.
///
/// # Errors
/// When the instance does not run.
pub(crate) fn addr(args: &NetworkArgs) -> Result<u8, Failure> {
    let mut interfaces = ask(args)?.interfaces;
    for interface in &mut interfaces {
        interface.addresses.retain(|address| wanted(args, address.address));
    }
    if args.json {
        print_json(&interfaces)?;
    } else {
        print(&interfaces.iter().map(interface_text).collect::<String>())?;
    }
    Ok(0)
}

/// Shows the routing table.
///
/// # Errors
/// When the instance does not run.
pub(crate) fn route(args: &NetworkArgs) -> Result<u8, Failure> {
    let mut routes = ask(args)?.routes;
    routes.retain(|route| wanted(args, route.to.address));
    if args.json {
        print_json(&routes)?;
    } else {
        print(&routes.iter().map(route_text).collect::<String>())?;
    }
    Ok(0)
}

/// Shows the neighbours.
///
/// # Errors
/// When the instance does not run.
pub(crate) fn neigh(args: &NetworkArgs) -> Result<u8, Failure> {
    let mut neighbours = ask(args)?.neighbours;
    neighbours.retain(|one| wanted(args, one.address));
    if args.json {
        print_json(&neighbours)?;
    } else {
        print(&neighbours.iter().map(neighbour_text).collect::<String>())?;
    }
    Ok(0)
}

fn wanted(args: &NetworkArgs, address: IpAddr) -> bool {
    args.ipv4 == args.ipv6 || args.ipv4 == address.is_ipv4()
}

fn neighbour_text(neighbour: &NeighbourStatus) -> String {
    let NeighbourStatus { address, interface, mac, state } = neighbour;
    let mac = mac.as_ref().map_or_else(String::new, |mac| format!("lladdr {mac} "));
    format!("{address} dev {interface} {mac}{state}\n")
}

// Writing to a string does not fail.

fn interface_text(interface: &InterfaceStatus) -> String {
    let InterfaceStatus { index, name, mac, mtu, state, addresses, name_servers, .. } = interface;
    let flags = match mac {
        Some(_) if state == "LOWERLAYERDOWN" => "NO-CARRIER,BROADCAST,MULTICAST,UP",
        Some(_) if state != "UP" => "BROADCAST,MULTICAST",
        Some(_) => "BROADCAST,MULTICAST,UP,LOWER_UP",
        None => "LOOPBACK,UP,LOWER_UP",
    };
    let mut text = format!("{index}: {name}: <{flags}> mtu {mtu}");
    if state != "UP" {
        let _ = write!(text, " state {state}");
    }
    text.push('\n');
    let _ = match mac {
        Some(mac) => writeln!(text, "    link/ether {mac}"),
        None => writeln!(text, "    link/loopback"),
    };
    if !interface.device.is_empty() {
        let words = [&[interface.device.clone()][..], &interface.features].concat();
        let _ = writeln!(text, "    device {}", words.join(" "));
    }
    for address in addresses {
        let (ip, prefix) = (address.address, address.prefix);
        let family = if ip.is_ipv4() { "inet" } else { "inet6" };
        let _ = write!(text, "    {family} {ip}/{prefix} scope {}", scope(ip));
        if address.origin != "static" {
            let _ = write!(text, " {}", address.origin);
        }
        // An address that another host has is tentative for ever, to `ip`.
        let _ = match address.state.as_str() {
            "preferred" => Ok(()),
            "dadfailed" => write!(text, " dadfailed tentative"),
            state => write!(text, " {state}"),
        };
        let _ = match address.valid {
            Some(seconds) => writeln!(text, " valid {seconds}sec"),
            None => writeln!(text),
        };
    }
    for server in name_servers {
        let _ = writeln!(text, "    nameserver {server}");
    }
    text
}

fn scope(ip: IpAddr) -> &'static str {
    match ip {
        _ if ip.is_loopback() => "host",
        IpAddr::V4(v4) if v4.is_link_local() => "link",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "link",
        _ => "global",
    }
}

fn route_text(route: &RouteStatus) -> String {
    let RouteStatus { to, via, interface, source, metric } = route;
    let host = to.prefix == to.width();
    let mut text = match (to.is_all(), host) {
        (true, _) => "default".to_owned(),
        (_, true) => to.address.to_string(),
        _ => to.to_string(),
    };
    match via {
        Some(none) if none.is_unspecified() => text.insert_str(0, "unreachable "),
        Some(via) => text += &format!(" via {via}"),
        None => {}
    }
    let _ = write!(text, " dev {interface}");
    if via.is_none() {
        text.push_str(" scope link");
    }
    if let Some(source) = source {
        let _ = write!(text, " src {source}");
    }
    if *metric > 0 {
        let _ = write!(text, " metric {metric}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use abi::network::AddressStatus;

    use super::*;

    #[test]
    fn a_state_other_than_up_is_in_flags_and_words() {
        let first = |state: &str| {
            let interface = InterfaceStatus {
                index: 1,
                name: "eth0".to_owned(),
                mac: Some("02:00:00:00:00:01".to_owned()),
                mtu: 1500,
                state: state.to_owned(),
                addresses: vec![],
                name_servers: vec![],
                device: String::new(),
                features: vec![],
            };
            interface_text(&interface).lines().next().map(str::to_owned).unwrap()
        };
        let none = "1: eth0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 state LOWERLAYERDOWN";
        assert_eq!(first("LOWERLAYERDOWN"), none);
        assert_eq!(first("DOWN"), "1: eth0: <BROADCAST,MULTICAST> mtu 1500 state DOWN");
        assert_eq!(first("UP"), "1: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500");
    }

    #[test]
    fn interfaces_and_routes_as_ip_writes_them() {
        let address = |text: &str, prefix| AddressStatus {
            address: text.parse().unwrap(),
            prefix,
            state: "preferred".to_owned(),
            origin: "static".to_owned(),
            valid: None,
        };
        let lost = AddressStatus { state: "dadfailed".to_owned(), ..address("fd00::2", 64) };
        let slaac = AddressStatus {
            state: "deprecated".to_owned(),
            origin: "slaac".to_owned(),
            valid: Some(60),
            ..address("2001:db8::9", 64)
        };
        let interface = InterfaceStatus {
            index: 1,
            name: "eth0".to_owned(),
            mac: Some("02:00:00:00:00:01".to_owned()),
            mtu: 1500,
            state: "UP".to_owned(),
            addresses: vec![address("10.219.0.2", 24), address("fe80::1", 64), lost, slaac],
            name_servers: vec![IpAddr::from([9, 9, 9, 9])],
            device: "xdp:eth1".to_owned(),
            features: vec!["rx-checksumming".to_owned(), "tx-checksumming".to_owned()],
        };
        assert_eq!(
            interface_text(&interface),
            "\
1: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500
    link/ether 02:00:00:00:00:01
    device xdp:eth1 rx-checksumming tx-checksumming
    inet 10.219.0.2/24 scope global
    inet6 fe80::1/64 scope link
    inet6 fd00::2/64 scope global dadfailed tentative
    inet6 2001:db8::9/64 scope global slaac deprecated valid 60sec
    nameserver 9.9.9.9
"
        );
        crate::command::tests::every_key_is_documented(&[interface]);
        let mut neighbour = NeighbourStatus {
            address: IpAddr::from([10, 0, 0, 1]),
            interface: "eth0".to_owned(),
            mac: Some("02:00:00:00:00:02".to_owned()),
            state: "STALE".to_owned(),
        };
        let text = neighbour_text(&neighbour);
        assert_eq!(text, "10.0.0.1 dev eth0 lladdr 02:00:00:00:00:02 STALE\n");
        (neighbour.mac, neighbour.state) = (None, "INCOMPLETE".to_owned());
        assert_eq!(neighbour_text(&neighbour), "10.0.0.1 dev eth0 INCOMPLETE\n");
        crate::command::tests::every_key_is_documented(&[neighbour]);
        let route = |to: &str, via: &str, metric| RouteStatus {
            to: to.parse().unwrap(),
            via: via.parse().ok(),
            interface: "eth0".to_owned(),
            source: None,
            metric,
        };
        let table = [
            (route("0.0.0.0/0", "10.0.0.1", 0), "default via 10.0.0.1 dev eth0\n"),
            (route("::/0", "fe80::1", 9), "default via fe80::1 dev eth0 metric 9\n"),
            (route("169.254.0.0/16", "0.0.0.0", 0), "unreachable 169.254.0.0/16 dev eth0\n"),
            (route("10.0.0.0/24", "", 0), "10.0.0.0/24 dev eth0 scope link\n"),
            (route("192.0.2.1/32", "10.0.0.9", 0), "192.0.2.1 via 10.0.0.9 dev eth0\n"),
        ];
        for (route, text) in table {
            assert_eq!(route_text(&route), text);
            crate::command::tests::every_key_is_documented(&[route]);
        }
    }
}

//! An instance that gets its address from a DHCP server beside it.

use std::net::IpAddr;

use abi::network::InterfaceStatus;
use tasuki_tests::{DEVICE, HOST, Mode, Nic, Running, STACK, World, eventually};

const NET: &str = "leased";

fn up(world: &World, mode: Mode) {
    let nic = format!("tap:{DEVICE}");
    let words = ["up", "--mode", mode.name(), "--nic", &nic, "--dhcp", NET];
    let _ = Running::start(world.tasuki(&words)).finish().success();
}

/// The interface, once its driver has registered it.
fn eth0(world: &World) -> InterfaceStatus {
    let words = ["addr", "--json", "--net", NET];
    let mut found = None;
    eventually("the driver registers eth0", || {
        let said = Running::start(world.tasuki(&words)).finish().success();
        let all: Vec<InterfaceStatus> =
            serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        found = all.into_iter().find(|one| one.name == "eth0");
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn the_address_router_and_name_server_come_from_the_server() {
    for mode in [Mode::Split, Mode::Fused] {
        let Some(world) = World::over(Nic::Tap) else { return };
        up(&world, mode);
        assert!(
            eth0(&world).addresses.iter().all(|one| !one.address.is_ipv4()),
            "no IPv4 address without a DHCP server"
        );
        let said = world.run(&["ip", "-4", "addr", "show", "dev", DEVICE]).success();
        assert_eq!(said.stdout.trim(), "", "the host's end has no IPv4 address");
        let host = format!("{HOST}/24");
        let _ = world.run(&["ip", "addr", "add", &host, "dev", DEVICE]).success();
        let server = world.spawn(&world.script("dhcp.py", &[DEVICE, STACK, HOST]));
        let _ = server.line("ready");
        let said = server.finish().success();
        assert!(said.stdout.contains("message 3 of 0.0.0.0"), "{said}");
        let mut leased = None;
        // The stack probes for a second or more whether another host has the address.
        eventually("the stack has the address", || {
            let mut all = eth0(&world).addresses.into_iter();
            leased = all.find(|one| one.origin == "dhcp");
            leased.is_some()
        });
        let leased = leased.unwrap();
        assert_eq!((leased.address, leased.prefix), (STACK.parse::<IpAddr>().unwrap(), 24));
        assert!(leased.valid.is_some_and(|left| (3000..=3600).contains(&left)), "{leased:?}");
        assert_eq!(eth0(&world).name_servers, [HOST.parse::<IpAddr>().unwrap()]);
        let said = Running::start(world.tasuki(&["addr", "--net", NET])).finish().success();
        for text in [format!("inet {STACK}/24 scope global dhcp"), format!("nameserver {HOST}")] {
            assert!(said.stdout.contains(&text), "{text} is not in: {said}");
        }
        let said = Running::start(world.tasuki(&["route", "-4", "--net", NET])).finish().success();
        assert!(said.stdout.contains(&format!("default via {HOST} dev eth0")), "{said}");
        let server = Running::start(world.on_net(NET, &world.script("dual.py", &["8000", "1"])));
        let _ = server.line("ready");
        let said = world.run(&world.script("ask.py", &[STACK, "8000"])).success();
        assert!(said.stdout.contains(&format!("::ffff:{HOST} at ::ffff:{STACK}")), "{said}");
        let _ = server.finish().success();
        world.down(NET);
        world.assert_nothing_left();
    }
}

#[test]
fn an_ipv4_address_beside_dhcp_is_refused() {
    let Some(world) = World::over(Nic::Tap) else { return };
    let address = format!("{STACK}/24");
    let words = ["up", "--dhcp", "--address", &address, NET];
    let said = Running::start(world.tasuki(&words)).finish().code(118);
    assert!(said.stderr.contains("DHCP"), "{said}");
}

//! What programs learn of interfaces and routes by rtnetlink: those of the instance.

use tasuki_tests::{HOST, Mode, Running, STACK, STACK6, World, program};

#[test]
fn programs_see_the_instances_interfaces_by_netlink() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = World::with_kernel() else { return };
    let words = ["gcc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", "interfaces"];
    let source = program("interfaces.c");
    let words: Vec<_> = words.into_iter().chain([&*source]).collect();
    let _ = world.run(&words).success();
    let six = format!("{STACK6}/64");
    world.up("net", mode, &["--address", &six]);
    let on_net = |words: &[&str]| Running::start(world.on_net("net", words)).finish().success();

    let said = on_net(&["./interfaces"]);
    assert!(said.stdout.contains("lo 127.0.0.1 255.0.0.0 up=1 loopback=1"), "{said}");
    assert!(said.stdout.contains(&format!("eth0 {STACK} 255.255.255.0 up=1 loopback=0")), "{said}");
    assert_eq!(said.stdout.lines().count(), 2, "only these: {said}");

    let known = Running::start(world.tasuki(&["addr", "--net", "net"])).finish().success();
    let mac = on_net(&["ip", "-o", "link", "show", "eth0"]);
    assert!(mac.stdout.contains("mtu 1500") && mac.stdout.contains("state U"), "{mac}");
    let address = mac.stdout.split_whitespace().skip_while(|word| *word != "link/ether").nth(1);
    assert!(address.is_some_and(|address| known.stdout.contains(address)), "{mac}{known}");

    let routes = on_net(&["ip", "route"]);
    assert!(routes.stdout.contains(&format!("default via {HOST} dev eth0")), "{routes}");
    assert!(routes.stdout.contains(&format!("dev eth0 proto kernel scope link src {STACK}")));
    let said = on_net(&["ip", "-6", "-o", "addr", "show", "eth0"]);
    assert!(said.stdout.contains(&six), "{said}");
    // Looking at them changes nothing for sockets, and other netlink is the kernel's own.
    let _ = on_net(&["ip", "route", "get", HOST]);
    world.down("net");
    world.assert_nothing_left();
}

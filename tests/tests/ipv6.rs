//! IPv6 with unmodified programs: beside the kernel's IPv6, to oneself, and configured by a router.

use std::net::IpAddr;

use abi::network::InterfaceStatus;
use tasuki_tests::{
    DEVICE, HOST, HOST6, Mode, Running, STACK, STACK6, World, eventually, sha256, write_noise,
};

const NET: &str = "six";

/// A world whose other host has an IPv6 address as well.
fn world() -> Option<World> {
    World::new_with(&["--ip", &format!("{HOST6}/64")])
}

fn with_six() -> [String; 2] {
    ["--ip".to_owned(), format!("{STACK6}/64")]
}

fn up(world: &World, mode: Mode) {
    let six = with_six();
    world.up(NET, mode, &[&six[0], &six[1]]);
}

#[test]
fn curl_over_ipv6_in_both_directions() {
    for mode in [Mode::Split, Mode::Fused, Mode::Library] {
        let Some(world) = world() else { return };
        write_noise(&world.path("file"), 4 << 20, 6);
        let digest = sha256(&world.path("file"));
        up(&world, mode);
        let server = ["-m", "http.server", "--bind", "::", "8000"];
        let theirs = world.spawn(&world.python(&server));
        let _ = theirs.line("Serving HTTP");
        let url = format!("http://[{HOST6}]:8000/file");
        let get = ["curl", "-6", "-sS", "-o", "back", &url];
        let _ = Running::start(world.on_net(NET, &get)).finish().success();
        assert_eq!(sha256(&world.path("back")), digest);
        let ours = Running::start(world.on_net(NET, &world.python(&server)));
        let _ = ours.line("Serving HTTP");
        // The same server, by both families.
        for (at, address) in [format!("[{STACK6}]"), STACK.to_owned()].iter().enumerate() {
            let back = format!("back{at}");
            let url = format!("http://{address}:8000/file");
            let _ = world.run(&["curl", "-sS", "-o", &back, &url]).success();
            assert_eq!(sha256(&world.path(&back)), digest, "{address}");
        }
        drop((theirs, ours));
        world.down(NET);
        world.assert_nothing_left();
    }
}

#[test]
fn iperf3_over_both_families_and_udp() {
    let Some(world) = world() else { return };
    up(&world, Mode::given());
    for words in [
        &["-6", "-n", "8M", "-c", HOST6][..],
        &["-6", "-n", "8M", "-c", HOST6, "-R"],
        &["-4", "-n", "8M", "-c", HOST],
        &["-6", "-n", "2M", "-u", "-b", "20M", "-c", HOST6],
        &["-4", "-n", "2M", "-u", "-b", "20M", "-c", HOST],
    ] {
        // A server that has not ended the last test yet calls itself busy.
        let server = world.spawn(&["iperf3", "--server", "--one-off", "--forceflush"]);
        let _ = server.line("Server listening");
        let all = [&["iperf3", "--json"][..], words].concat();
        let said = Running::start(world.on_net(NET, &all)).finish().success();
        let told: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        // The receiver does not count the bytes that are still on their way when the sender is
        // done. These can be all that a send buffer holds.
        let sum = &told["end"][if words.contains(&"-u") { "sum" } else { "sum_received" }];
        assert!(sum["bytes"].as_u64() >= Some(1_000_000), "{words:?}: {said}");
        let _ = server.finish();
    }
    world.down(NET);
}

#[test]
fn a_dual_stack_server_sees_both_families() {
    let Some(world) = world() else { return };
    up(&world, Mode::given());
    let server = Running::start(world.on_net(NET, &world.script("dual.py", &["8000", "2"])));
    let _ = server.line("ready");
    let ask = |to: &str| world.run(&world.script("ask.py", &[to, "8000"])).success().stdout;
    assert_eq!(ask(STACK6).trim(), format!("{HOST6} at {STACK6}"));
    assert_eq!(ask(STACK).trim(), format!("::ffff:{HOST} at ::ffff:{STACK}"));
    let said = server.finish().success();
    assert!(said.stdout.contains(&format!("from ::ffff:{HOST}")), "{said}");
}

#[test]
fn programs_of_an_instance_reach_each_other_and_themselves() {
    let Some(world) = world() else { return };
    let Some(mode) = Mode::shared() else { return };
    up(&world, mode);
    let server = Running::start(world.on_net(NET, &world.script("dual.py", &["8000", "4"])));
    let _ = server.line("ready");
    for (to, seen) in [
        ("::1", "::1 at ::1".to_owned()),
        ("127.0.0.1", "::ffff:127.0.0.1 at ::ffff:127.0.0.1".to_owned()),
        (STACK6, format!("{STACK6} at {STACK6}")),
        (STACK, format!("::ffff:{STACK} at ::ffff:{STACK}")),
    ] {
        let ask = world.on_net(NET, &world.script("ask.py", &[to, "8000"]));
        assert_eq!(Running::start(ask).finish().success().stdout.trim(), seen, "{to}");
    }
    let _ = server.finish().success();
}

fn interfaces(world: &World) -> Vec<InterfaceStatus> {
    let words = ["addr", "-6", "--json", "--net", NET];
    let said = Running::start(world.tasuki(&words)).finish().success();
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn an_address_comes_from_a_router() {
    let Some(world) = World::with_kernel() else { return };
    let Some(mode) = Mode::shared() else { return };
    world.up(NET, mode, &[]);
    let prefix = "2001:db8:7::";
    let route = ["ip", "-6", "route", "add", "2001:db8:7::/64", "dev", DEVICE];
    let _ = world.run(&route).success();
    let _ = world.run(&world.script("advertise.py", &[DEVICE, prefix])).success();
    let mut address = None;
    eventually("the stack has an address of that prefix", || {
        let all = interfaces(&world).into_iter().flat_map(|one| one.addresses);
        address = all.filter(|one| one.origin == "slaac").map(|one| one.address).next();
        address.is_some()
    });
    let address: IpAddr = address.unwrap();
    assert!(address.to_string().starts_with("2001:db8:7:"), "{address}");
    let said = Running::start(world.tasuki(&["route", "-6", "--net", NET])).finish().success();
    assert!(said.stdout.contains("default via fe80::"), "{said}");
    let server = Running::start(world.on_net(NET, &world.script("dual.py", &["8000", "1"])));
    let _ = server.line("ready");
    let to = address.to_string();
    let said = world.run(&world.script("ask.py", &[&to, "8000"])).success();
    assert!(said.stdout.contains(&to), "{said}");
    let said = Running::start(world.tasuki(&["addr", "--net", NET])).finish().success();
    for word in ["eth0:", "lo:", "link/ether", "scope link", "slaac", STACK] {
        assert!(said.stdout.contains(word), "{word} is not in: {said}");
    }
    let _ = server.finish().success();
}

#[test]
fn without_ipv6_there_is_none() {
    let Some(world) = World::with_kernel() else { return };
    let Some(mode) = Mode::shared() else { return };
    world.up(NET, mode, &["--ipv6", "off"]);
    let eth0 = interfaces(&world).into_iter().find(|one| one.name == "eth0").unwrap();
    assert_eq!(eth0.addresses, []);
    let connect = "import socket\nsix = socket.socket(socket.AF_INET6)\n\
                   print(six.connect_ex(('2001:db8::1', 9)) == __import__('errno').ENETUNREACH)";
    let connect = world.on_net(NET, &world.python(&["-c", connect]));
    assert_eq!(Running::start(connect).finish().success().stdout.trim(), "True");
    let six = with_six();
    let words = ["up", "--ipv6", "off", &six[0], &six[1], "other"];
    let said = Running::start(world.tasuki(&words)).finish().code(118);
    assert!(said.stderr.contains("IPv6 is off"), "{said}");
}

//! Several interfaces in one instance. Each has a driver, addresses and routes of its own, and
//! programs can choose between them.

use std::fs;

use abi::network::{InterfaceStatus, RouteStatus};
use tasuki_tests::{Mode, Running, World};

const NET: &str = "links";
/// The kernel's and Tasuki's addresses on the second link, and a network behind the kernel there.
const HOST2: &str = "10.219.8.1";
const STACK2: &str = "10.219.8.2";
const CONFIG: &str = r#"
[[interface]]
device = "tap:tsk1"
mtu = 1400
address = ["10.219.8.2/24", "fd00:219:8::2/64"]
routes = [{ to = "198.51.100.0/24", via = "10.219.8.1" }]
"#;

fn up(world: &World, mode: Mode) {
    let config = world.path("links.toml");
    fs::write(&config, CONFIG).unwrap();
    world.up(NET, mode, &["--config", &config.display().to_string()]);
}

/// The JSON that a command prints.
fn told(world: &World, words: &[&str]) -> String {
    let words = [words, &["--json", "--net", NET]].concat();
    Running::start(world.tasuki(&words)).finish().success().stdout
}

#[test]
fn each_link_has_its_driver_addresses_and_routes() {
    for mode in [Mode::Split, Mode::Fused] {
        let Some(world) = World::with_kernel() else { return };
        up(&world, mode);
        let all: Vec<InterfaceStatus> = serde_json::from_str(&told(&world, &["addr"])).unwrap();
        let seen: Vec<_> = all.iter().map(|one| (one.index, one.name.as_str(), one.mtu)).collect();
        assert_eq!(seen[..2], [(2, "eth0", 1500), (3, "eth1", 1400)]);
        assert!(all[1].addresses.iter().any(|one| one.address.to_string() == STACK2), "{all:?}");
        assert_ne!(all[0].mac, all[1].mac);
        let routes: Vec<RouteStatus> =
            serde_json::from_str(&told(&world, &["route", "-4"])).unwrap();
        let metric = |name: &str| {
            let default = |route: &&RouteStatus| route.to.is_all() && route.interface == name;
            routes.iter().find(default).map(|route| route.metric)
        };
        assert_eq!((metric("eth0"), metric("eth1")), (Some(0), Some(100)), "{routes:?}");
        let said = Running::start(world.tasuki(&["ps", NET])).finish().success();
        assert!(said.stdout.contains("tsk0") && said.stdout.contains("tsk1"), "{said}");
        // A server on all of its addresses, reached over both links.
        let server = Running::start(world.on_net(NET, &world.script("dual.py", &["8000", "3"])));
        let _ = server.line("ready");
        for (to, from) in [(tasuki_tests::STACK, tasuki_tests::HOST), (STACK2, HOST2)] {
            let said = world.run(&world.script("ask.py", &[to, "8000"])).success();
            assert_eq!(said.stdout.trim(), format!("::ffff:{from} at ::ffff:{to}"));
        }
        let said = world.run(&world.script("ask.py", &["fd00:219:8::2", "8000"])).success();
        assert_eq!(said.stdout.trim(), "fd00:219:8::1 at fd00:219:8::2");
        let _ = server.finish().success();
        world.down(NET);
        world.assert_nothing_left();
    }
}

#[test]
fn programs_reach_what_lies_behind_each_link() {
    let Some(world) = World::with_kernel() else { return };
    up(&world, Mode::Split);
    let _ = world.run(&["ip", "addr", "add", "198.51.100.7/32", "dev", "lo"]).success();
    let echo = world.spawn(&world.script("dual.py", &["8000", "2"]));
    let _ = echo.line("ready");
    // By the route; and a link's own network.
    for (to, from) in [("198.51.100.7", STACK2), (HOST2, STACK2)] {
        let ask = world.on_net(NET, &world.script("ask.py", &[to, "8000"]));
        let said = Running::start(ask).finish().success();
        assert_eq!(said.stdout.trim(), format!("::ffff:{from} at ::ffff:{to}"));
    }
    let _ = echo.finish().success();
    let said = Running::start(world.tasuki(&["neigh", "-4", "--net", NET])).finish().success();
    assert!(said.stdout.contains(&format!("{HOST2} dev eth1 lladdr ")), "{said}");
    // A socket that keeps to one link.
    let bound = format!(
        "import socket\nudp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         udp.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'eth1')\n\
         udp.connect(('{HOST2}', 9))\nprint(udp.getsockname()[0])"
    );
    let bound = world.on_net(NET, &world.python(&["-c", &bound]));
    assert_eq!(Running::start(bound).finish().success().stdout.trim(), STACK2);
    // Frames of the second link only.
    let file = world.path("second.pcapng").display().to_string();
    let words = ["capture", "-i", NET, "--interface", "eth1", "-c", "1", "-w", &file];
    let capture = Running::start(world.tasuki(&words));
    let _ = capture.line("capturing");
    let send = format!(
        "import socket\nudp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         udp.sendto(b'only here', ('{HOST2}', 9))"
    );
    let _ = Running::start(world.on_net(NET, &world.python(&["-c", &send]))).finish().success();
    let _ = capture.finish().success();
    let frames = fs::read(world.path("second.pcapng")).unwrap();
    assert!(!frames.is_empty());
    let words = ["capture", "-i", NET, "--interface", "eth7", "-w", &file];
    let said = Running::start(world.tasuki(&words)).finish();
    assert!(!said.status.success() && said.stderr.contains("eth7"), "{said}");
    world.down(NET);
}

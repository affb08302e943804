//! Duplicate address detection over links with other hosts. A unique address can be used as soon as
//! the instance is there. An address of another host cannot.

use std::fs;

use tasuki_tests::{
    DEVICE, FAR_END, HOST, HOST6, Mode, Nic, Running, STACK6, World, eventually, sha256,
    write_noise,
};

const NET: &str = "dad";

fn with_six() -> [String; 2] {
    ["--ip".to_owned(), format!("{STACK6}/64")]
}

fn ip(world: &World, words: &str) {
    let words: Vec<_> = ["ip"].into_iter().chain(words.split(' ')).collect();
    let _ = world.run(&words).success();
}

/// The other host has the stack's address, too.
fn take(world: &World) {
    ip(world, &format!("addr add {STACK6}/64 dev {DEVICE} nodad"));
}

/// The kernel's server of both families on port 8000.
fn server(world: &World) -> Running {
    let server = world.spawn(&world.python(&["-m", "http.server", "--bind", "::", "8000"]));
    let _ = server.line("Serving HTTP");
    server
}

/// A program that connects from the stack's address, and says from where it has.
fn connect(world: &World) -> Vec<String> {
    let program = format!(
        "import socket\n\
         six = socket.create_connection(('{HOST6}', 8000), 20, ('{STACK6}', 0))\n\
         print('from', six.getsockname()[0])"
    );
    world.python(&["-c", &program])
}

/// The line of `tasuki addr` about the stack's address.
fn told(world: &World) -> String {
    let words = ["addr", "-6", "--net", NET];
    let said = Running::start(world.tasuki(&words)).finish().success();
    let line = said.stdout.lines().find(|line| line.contains(STACK6));
    line.unwrap_or_else(|| panic!("no {STACK6}: {said}")).trim().to_owned()
}

fn free() -> String {
    format!("inet6 {STACK6}/64 scope global")
}

fn taken() -> String {
    format!("inet6 {STACK6}/64 scope global dadfailed tentative")
}

/// IPv4 is not concerned.
fn assert_four_works(world: &World) {
    let url = format!("http://{HOST}:8000/file");
    let get = ["curl", "-4", "-sS", "-o", "back", &url];
    let _ = Running::start(world.on_net(NET, &get)).finish().success();
    assert_eq!(sha256(&world.path("back")), sha256(&world.path("file")));
}

#[test]
fn unique_addresses_are_there_for_the_first_connection() {
    let six = with_six();
    for (nic, modes) in [
        (Nic::Packet, &[Mode::Split, Mode::Library][..]),
        (Nic::Xdp, &[Mode::Fused, Mode::Library]),
    ] {
        let Some(world) = World::over(nic) else { return };
        let server = server(&world);
        for mode in modes {
            let run = world.on_stack_with(*mode, &[&six[0], &six[1]], &connect(&world));
            let said = Running::start(run).finish().success();
            assert_eq!(said.stdout.trim(), format!("from {STACK6}"), "{nic:?} {mode:?}");
        }
        if nic == Nic::Packet {
            world.up(NET, Mode::Split, &[&six[0], &six[1]]);
            // The link-local address too: an instance that is ready has no tentative address left.
            let words = ["addr", "-6", "--net", NET];
            let said = Running::start(world.tasuki(&words)).finish().success();
            assert!(said.stdout.contains("scope link"), "{said}");
            assert!(!said.stdout.contains("tentative"), "{said}");
            let said = Running::start(world.on_net(NET, &connect(&world))).finish().success();
            assert_eq!(said.stdout.trim(), format!("from {STACK6}"));
            world.down(NET);
        }
        drop(server);
        world.assert_nothing_left();
    }
}

#[test]
fn an_address_that_the_other_host_has_is_not_used() {
    let Some(world) = World::over(Nic::Packet) else { return };
    write_noise(&world.path("file"), 1 << 20, 4);
    // The other address is in a host of its own: an address of this host is refused before anything
    // is made.
    ip(&world, "netns add other");
    ip(&world, &format!("link set {DEVICE} netns other"));
    ip(&world, &format!("-n other link set {DEVICE} up"));
    ip(&world, &format!("-n other addr add {HOST}/24 dev {DEVICE}"));
    ip(&world, &format!("-n other addr add {STACK6}/64 dev {DEVICE} nodad"));
    let python = world.python(&["-m", "http.server", "--bind", "::", "8000"]);
    let there = ["nsenter".to_owned(), "--net=/run/netns/other".to_owned()];
    let server = world.spawn(&[&there[..], &python].concat());
    let _ = server.line("Serving HTTP");
    let six = with_six();
    world.up(NET, Mode::Split, &[&six[0], &six[1]]);
    assert_eq!(told(&world), taken());
    assert_four_works(&world);
    let bind = format!(
        "import errno, socket\n\
         try:\n    socket.socket(socket.AF_INET6).bind(('{STACK6}', 9))\n\
         except OSError as error:\n    print(errno.errorcode[error.errno])"
    );
    let said = Running::start(world.on_net(NET, &world.python(&["-c", &bind]))).finish().success();
    assert_eq!(said.stdout.trim(), "EADDRNOTAVAIL");
    let log = fs::read_to_string(world.outside(&format!("/run/tasuki/{NET}.log"))).unwrap();
    for part in ["duplicate address: ", STACK6, "eth0", "another host", "--address"] {
        assert!(log.contains(part), "{part} is not in the log: {log}");
    }
    assert_eq!(world.counter(NET, "nd.duplicates"), 1);
    drop(server);
    world.down(NET);
}

#[test]
fn a_device_that_was_down_may_be_on_another_link() {
    let Some(world) = World::over(Nic::Packet) else { return };
    write_noise(&world.path("file"), 1 << 20, 4);
    let server = server(&world);
    let six = with_six();
    // The kernel drops multicast for some milliseconds after its carrier has come back. The stack
    // has already sent its probe in that time.
    fs::write(world.path("config"), "[inet]\ndad_transmits = 3\n").unwrap();
    let config = world.file("config");
    world.up(NET, Mode::Fused, &[&six[0], &six[1], "--config", &config]);
    assert_eq!(told(&world), free());
    ip(&world, &format!("link set {FAR_END} down"));
    take(&world);
    ip(&world, &format!("link set {FAR_END} up"));
    eventually("the stack does not use the other host's address", || told(&world) == taken());
    assert_four_works(&world);
    ip(&world, &format!("addr del {STACK6}/64 dev {DEVICE}"));
    ip(&world, &format!("link set {FAR_END} down"));
    ip(&world, &format!("link set {FAR_END} up"));
    eventually("the address is the stack's again", || told(&world) == free());
    let said = Running::start(world.on_net(NET, &connect(&world))).finish().success();
    assert_eq!(said.stdout.trim(), format!("from {STACK6}"));
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

/// A TAP device is at first alone with this host; in a bridge it is on a link with others.
#[test]
fn a_device_that_is_put_into_a_bridge_is_on_another_link() {
    let Some(world) = World::over(Nic::Tap) else { return };
    let (nic, address) = (format!("tap:{DEVICE}"), format!("{STACK6}/64"));
    let up = world.tasuki(&["up", "--nic", &nic, "--dhcp", "--address", &address, NET]);
    let _ = Running::start(up).finish().success();
    assert_eq!(told(&world), free());
    ip(&world, "netns add other");
    ip(&world, "link add bridge0 type bridge");
    ip(&world, "link add port0 type veth peer name port1 netns other");
    ip(&world, "-n other link set port1 up");
    ip(&world, &format!("-n other addr add {STACK6}/64 dev port1 nodad"));
    ip(&world, "link set port0 master bridge0");
    ip(&world, "link set port0 up");
    ip(&world, "link set bridge0 up");
    assert_eq!(told(&world), free(), "the other host is not on its link");
    ip(&world, &format!("link set {DEVICE} master bridge0"));
    eventually("the stack does not use the other host's address", || told(&world) == taken());
    ip(&world, &format!("link set {DEVICE} nomaster"));
    eventually("the address is the stack's again", || told(&world) == free());
    assert_eq!(world.counter(NET, "nic.devices-lost"), 0, "the device has been there all the time");
    ip(&world, "link del bridge0");
    ip(&world, "link del port0");
    world.down(NET);
    world.assert_nothing_left();
}

//! Back ends other than TAP: whole files through them, the configurations they refuse, and a device
//! that goes and comes back.

use std::fs;

use abi::network::InterfaceStatus;
use tasuki_tests::{
    DEVICE, FAR_END, HOST, LARGE, Mode, Nic, Running, STACK, STACK6, World, eventually, sha256,
    write_noise,
};

const NET: &str = "net";

/// A world over this back end with a file of noise and its SHA-256.
fn world(nic: Nic, len: usize) -> Option<(World, String)> {
    let world = World::over(nic)?;
    write_noise(&world.path("file"), len, 1);
    let digest = sha256(&world.path("file"));
    Some((world, digest))
}

/// Real programs get and put a file, in both modes.
fn transfers(nic: Nic, offloads: bool) {
    let Some((world, digest)) = world(nic, LARGE) else { return };
    world.offloads(offloads);
    let server = world.http_server();
    let sink = world.spawn(&world.script("sink.py", &["0.0.0.0", "8001"]));
    let _ = sink.line("ready");
    for mode in [Mode::Split, Mode::Fused] {
        let get = ["curl", "-sS", "-o", "back", &format!("http://{HOST}:8000/file")];
        let _ = Running::start(world.on_stack(mode, &get)).finish().success();
        assert_eq!(sha256(&world.path("back")), digest);
        let put = ["curl", "-sS", "-T", "file", &format!("http://{HOST}:8001/file")];
        let _ = Running::start(world.on_stack(mode, &put)).finish().success();
        assert_eq!(sink.line("sha256"), format!("sha256 {digest}"));
    }
    drop((server, sink));
    world.assert_nothing_left();
}

#[test]
fn files_go_both_ways_over_a_packet_socket() {
    transfers(Nic::Packet, true);
}

#[test]
fn files_go_both_ways_over_a_packet_socket_from_a_peer_without_offloads() {
    transfers(Nic::Packet, false);
}

#[test]
fn files_go_both_ways_over_an_xdp_socket() {
    transfers(Nic::Xdp, true);
}

#[test]
fn files_go_both_ways_over_an_xdp_socket_from_a_peer_without_offloads() {
    transfers(Nic::Xdp, false);
}

/// The stack's interface, in the output of `tasuki addr`.
fn interface(world: &World) -> InterfaceStatus {
    let words = ["addr", "--json", "--net", NET];
    let said = Running::start(world.tasuki(&words)).finish().success();
    let all: Vec<InterfaceStatus> =
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let found = all.into_iter().find(|one| one.name == "eth0");
    found.unwrap_or_else(|| panic!("there is no eth0: {said}"))
}

fn state(world: &World) -> String {
    interface(world).state
}

fn ip(world: &World, words: &str) {
    let words: Vec<_> = ["ip"].into_iter().chain(words.split(' ')).collect();
    let _ = world.run(&words).success();
}

/// A download goes on after its device was away; meanwhile it is in one of `states`.
fn survives(nic: Nic, mode: Mode, away: &dyn Fn(&World), states: &[&str], back: &dyn Fn(&World)) {
    let Some((world, digest)) = world(nic, LARGE / 8) else { return };
    world.up(NET, mode, &[]);
    assert_eq!(state(&world), "UP", "as soon as the instance is");
    let server = world.http_server();
    let url = format!("http://{HOST}:8000/file");
    let get = ["curl", "-sS", "--limit-rate", "8M", "-o", "back", &url];
    let get = Running::start(world.on_net(NET, &get));
    let arrived = || fs::metadata(world.path("back")).map_or(0, |file| file.len());
    eventually("the download has begun", || arrived() > 1 << 20);
    away(&world);
    eventually("the loss is seen", || states.contains(&state(&world).as_str()));
    back(&world);
    eventually("it is back", || state(&world) == "UP");
    let _ = get.finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    drop(server);
    world.down(NET);
}

#[test]
fn an_interface_that_is_deleted_and_comes_back_breaks_no_connection() {
    let away = |world: &World| ip(world, &format!("link delete {DEVICE}"));
    let laid = |world: &World| world.lay_cable();
    survives(Nic::Packet, Mode::Split, &away, &["NOTPRESENT"], &laid);
    survives(Nic::Packet, Mode::Fused, &away, &["NOTPRESENT"], &laid);
    survives(Nic::Xdp, Mode::Split, &away, &["NOTPRESENT"], &laid);
}

#[test]
fn a_deleted_tap_device_is_made_again() {
    let away = |world: &World| ip(world, &format!("link delete {DEVICE}"));
    survives(Nic::Tap, Mode::Split, &away, &["UP"], &|_| {});
    survives(Nic::Tap, Mode::Fused, &away, &["UP"], &|_| {});
}

#[test]
fn an_interface_set_down_and_a_lost_carrier_are_told_and_survived() {
    let set = |what: &'static str, how: &'static str| {
        move |world: &World| {
            ip(world, &format!("link set {what} {how}"));
            if (what, how) == (DEVICE, "up") {
                // A kernel's interface that is set down loses its routes, if anything.
                ip(world, &format!("addr replace {HOST}/24 dev {DEVICE}"));
            }
        }
    };
    let (far, near) = (FAR_END, DEVICE);
    survives(Nic::Packet, Mode::Split, &set(far, "down"), &["DOWN"], &set(far, "up"));
    let none = ["LOWERLAYERDOWN"];
    survives(Nic::Packet, Mode::Split, &set(near, "down"), &none, &set(near, "up"));
    survives(Nic::Tap, Mode::Split, &set(near, "down"), &["DOWN"], &set(near, "up"));
}

#[test]
fn neighbours_of_a_former_stack_learn_of_the_new_one_at_once() {
    for (nic, mode) in [(Nic::Packet, Mode::Split), (Nic::Xdp, Mode::Fused)] {
        let Some(world) = World::over(nic) else { return };
        let forget = || {
            for address in [STACK, STACK6] {
                let former = format!("{address} lladdr 02:00:00:00:00:99 dev {DEVICE} nud stale");
                ip(&world, &format!("neigh replace {former}"));
            }
        };
        let learnt = |mac: &str| {
            let known = world.run(&["ip", "neigh", "show", "dev", DEVICE]).success().stdout;
            let right =
                |address: &str| known.lines().any(|l| l.starts_with(address) && l.contains(mac));
            right(&format!("{STACK} ")) && right(&format!("{STACK6} "))
        };
        forget();
        world.up(NET, mode, &["--ip", &format!("{STACK6}/64")]);
        let InterfaceStatus { mac, device, features, .. } = interface(&world);
        assert!(device.ends_with(FAR_END), "{device}");
        assert!(features.iter().any(|one| one == "rx-checksumming"), "{features:?}");
        let mac = mac.unwrap();
        eventually("the host has learnt the stack's addresses", || learnt(&mac));
        // After that the stack cannot know whether it is still the same link.
        ip(&world, &format!("link set {FAR_END} down"));
        eventually("it is down", || state(&world) == "DOWN");
        forget();
        ip(&world, &format!("link set {FAR_END} up"));
        eventually("the host has learnt the stack's addresses again", || learnt(&mac));
        world.down(NET);
    }
}

#[test]
fn unusable_devices_are_refused_in_one_sentence() {
    let Some(world) = World::over(Nic::Packet) else { return };
    ip(&world, &format!("link set {FAR_END} mtu 1400"));
    let address = format!("{STACK}/24");
    for (nic, with, code, said) in [
        ("packet:nowhere", Some(&address), 118, "no interface nowhere"),
        ("xdp:nowhere", Some(&address), 118, "no interface nowhere"),
        ("packet:lo", Some(&address), 118, "not an Ethernet interface"),
        (&format!("packet:{FAR_END}"), Some(&address), 118, "1400"),
        (&format!("packet:{FAR_END}"), None, 118, "--address"),
    ] {
        let mut words = vec!["run", "--nic", nic];
        words.extend(with.iter().flat_map(|address| ["--address", address.as_str()]));
        words.extend(["--", "true"]);
        let finished = Running::start(world.tasuki(&words)).finish();
        assert!(finished.stderr.contains(said), "{finished}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished}");
        assert_eq!(finished.status.code(), Some(code), "{finished}");
    }
    world.assert_nothing_left();
}

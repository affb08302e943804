//! Back ends other than TAP: whole files through them, what they refuse, and a device that goes
//! and comes back.

use tasuki_tests::{HOST, LARGE, Mode, Nic, Running, World, sha256, write_noise};

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

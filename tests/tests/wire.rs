//! `--nic wire:PATH`: two instances, and nothing of the kernel's network between them.

use rustix::process::{Pid, Signal};
use tasuki_tests::{Mode, Running, World, eventually, sha256, write_noise};

const A: &str = "10.55.0.1";
const B: &str = "10.55.0.2";

fn up(world: &World, net: &str, mode: Mode, address: &str) {
    let (nic, cidr) = (format!("wire:{}", world.file("wire")), format!("{address}/24"));
    let words = ["up", "--mode", mode.name(), "--nic", &nic, "--ip", &cidr, net];
    let _ = Running::start(world.tasuki(&words)).finish().success();
}

/// A world with a file of noise, its SHA-256, and two instances on a wire.
fn joined(modes: [Mode; 2], len: usize) -> Option<(World, String)> {
    let world = World::new()?;
    write_noise(&world.path("file"), len, 1);
    let digest = sha256(&world.path("file"));
    up(&world, "a", modes[0], A);
    up(&world, "b", modes[1], B);
    for net in ["a", "b"] {
        eventually("both ends have met", || world.counter(net, "wire.carrier") == 1);
    }
    Some((world, digest))
}

/// A server on `net` that the other instance can reach.
fn serve(world: &World, net: &str, address: &str) -> Running {
    let server = world.script("serve.py", &[address, "8000"]);
    let server = Running::start(world.on_net(net, &server));
    let _ = server.line("ready");
    server
}

/// The file goes from the server at `address` to a program on `net`.
fn fetch(world: &World, net: &str, address: &str, digest: &str) {
    let url = format!("http://{address}:8000/file");
    let curl = world.on_net(net, &["curl", "-sS", "-o", "back", &url]);
    let _ = Running::start(curl).finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    std::fs::remove_file(world.path("back")).unwrap();
}

fn both_ways(modes: [Mode; 2]) {
    let Some((world, digest)) = joined(modes, 64 << 20) else { return };
    let servers = [serve(&world, "a", A), serve(&world, "b", B)];
    fetch(&world, "b", A, &digest);
    fetch(&world, "a", B, &digest);
    for server in servers {
        server.signal(Signal::INT);
        let _ = server.finish();
    }
    assert_eq!(world.counter("a", "wire.peer-faults") + world.counter("b", "wire.peer-faults"), 0);
    world.down("a");
    world.down("b");
    assert!(!world.path("wire").exists(), "the socket is left");
    world.assert_nothing_left();
}

#[test]
fn files_go_both_ways_between_split_instances() {
    both_ways([Mode::Split, Mode::Split]);
}

#[test]
fn files_go_both_ways_between_fused_instances() {
    both_ways([Mode::Fused, Mode::Fused]);
}

#[test]
fn the_ends_need_not_be_alike() {
    both_ways([Mode::Split, Mode::Fused]);
}

/// Each end in turn is killed in mid-transfer and started anew; the other one lives on.
#[test]
fn a_killed_end_is_replaced() {
    let Some((world, digest)) = joined([Mode::Split, Mode::Fused], 4 << 20) else { return };
    for (victim, mode, address, other, others) in
        [("a", Mode::Split, A, "b", B), ("b", Mode::Fused, B, "a", A)]
    {
        let ups = world.counter(other, "wire.ups");
        let server = serve(&world, other, others);
        let url = format!("http://{others}:8000/file");
        let slow = ["curl", "-sS", "--limit-rate", "1M", "-o", "part", &url];
        let slow = Running::start(world.on_net(victim, &slow));
        eventually("it is under way", || {
            std::fs::metadata(world.path("part")).is_ok_and(|part| part.len() > 0)
        });
        let all = world.ps(victim).processes;
        let supervisor = all.iter().find(|process| process.role == "supervisor").unwrap();
        let pid = Pid::from_raw(i32::try_from(supervisor.pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        assert!(!slow.finish().status.success());
        eventually("the end is noticed", || world.counter(other, "wire.carrier") == 0);
        up(&world, victim, mode, address);
        eventually("they meet again", || world.counter(other, "wire.ups") > ups);
        fetch(&world, victim, others, &digest);
        std::fs::remove_file(world.path("part")).unwrap();
        server.signal(Signal::INT);
        let _ = server.finish();
    }
    world.down("a");
    world.down("b");
    world.assert_nothing_left();
}

#[test]
fn a_wire_needs_an_address() {
    let Some(world) = World::new() else { return };
    let said = Running::start(world.tasuki(&["run", "--nic", "wire:w", "--", "true"]));
    let said = said.finish().code(118);
    assert!(said.stderr.contains("--address"), "{said}");
}

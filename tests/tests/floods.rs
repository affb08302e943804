//! Frames that any host can send fill queues of their own in the device. Nobody else loses frames.

use rustix::process::{Pid, Signal, kill_process};
use tasuki_tests::{HOST, Mode, Nic, Running, STACK, World, eventually};

const NET: &str = "floods";
/// More than a queue of the device holds.
const FLOOD: &str = "20000";
const DATAGRAMS: &str = "500";

/// The processes that take frames out of the device stand still while a flood comes. After it come
/// datagrams for a program, and all of them arrive.
fn beside(kind: &str, mode: Mode, with: &[&str]) {
    let Some(world) = World::over(Nic::Tap) else { return };
    world.up(NET, mode, with);
    assert_eq!(world.counter(NET, "tap.rx-queues"), 3);
    let taker = world.script("datagrams.py", &["0.0.0.0", "7000", DATAGRAMS]);
    let taker = Running::start(world.on_net(NET, &taker));
    let _ = taker.line("ready");
    // The host knows the stack's hardware address.
    let _ = world.run(&["ping", "-c", "1", "-W", "10", STACK]).success();
    let servers = world.ps(NET).processes.into_iter().filter(|p| p.role.starts_with("nic"));
    let mut servers: Vec<u32> = servers.map(|p| p.pid).collect();
    if mode == Mode::Fused {
        let all = world.ps(NET).processes.into_iter();
        servers = all.filter(|p| p.role.starts_with("inet")).map(|p| p.pid).collect();
    }
    assert!(!servers.is_empty(), "{:?}", world.ps(NET).processes);
    let signal = |signal| {
        for pid in &servers {
            kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
        }
    };
    signal(Signal::STOP);
    let _ = world.run(&world.script("flood.py", &[kind, HOST, STACK, FLOOD])).success();
    let send = world.script("datagrams.py", &["send", STACK, "7000", DATAGRAMS]);
    let _ = world.run(&send).success();
    signal(Signal::CONT);
    let _ = taker.line(&format!("took {DATAGRAMS}"));
    let _ = taker.finish().success();
    assert!(world.counter(NET, "nic.rx-unsolicited") > 0);
    // Behind what is left of the flood.
    let ping = ["ping", "-c", "1", "-W", "10", STACK];
    eventually("pings are answered again", || world.run(&ping).status.success());
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn a_flood_of_echo_requests_takes_no_frame_of_a_neighbour() {
    let Some(mode) = Mode::shared() else { return };
    beside("ping", mode, &[]);
}

#[test]
fn a_flood_of_syns_takes_no_frame_of_a_neighbour() {
    let Some(mode) = Mode::shared() else { return };
    beside("syn", mode, &[]);
}

#[test]
fn nor_without_offloads() {
    let Some(mode) = Mode::shared() else { return };
    beside("ping", mode, &["--offload", "off"]);
}

#[test]
fn nor_in_fused_mode() {
    beside("syn", Mode::Fused, &[]);
}

/// The host floods the stack all the while that a program's connections carry data both ways.
fn data_arrive_beside(kind: &str, counter: &str) {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = World::over(Nic::Tap) else { return };
    world.up(NET, mode, &[]);
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let flood = world.spawn(&world.script("flood.py", &[kind, HOST, STACK, "100000000"]));
    eventually("the flood is under way", || world.counter(NET, counter) > 1000);
    let many = world.script("many.py", &[HOST, "8000", "4", "1048576"]);
    let said = Running::start(world.on_net(NET, &many)).finish().success();
    assert!(said.stdout.contains("connected 4\nechoed 4194304"), "{said}");
    flood.signal(Signal::KILL);
    drop((flood, echo));
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn data_arrive_during_a_flood_of_pings() {
    data_arrive_beside("ping", "nic.rx-unsolicited");
}

#[test]
fn data_arrive_during_a_flood_of_fragments() {
    data_arrive_beside("fragment", "nic.rx-packets");
}

//! Descriptors that somebody else chose: what closing them takes, and how many there are.

use rustix::process::Signal;
use tasuki_tests::{
    HOST, Mode, Nic, Running, World, eventually, sha256, tasuki_binary, write_noise,
};

const NET: &str = "lingers";

/// The instance answers, and so does its driver, whatever descriptors wait to be closed.
fn answers(world: &World, net: &str) {
    let binary = tasuki_binary();
    let tasuki = binary.to_str().expect("a plain path");
    for words in [["ps", net], ["stats", net]] {
        let bounded = ["timeout", "30", tasuki, words[0], words[1]];
        let _ = Running::start(world.command(&bounded)).finish().success();
    }
}

/// A connection with SO_LINGER whose peer takes no data: its close takes as long as its owner
/// chose.
fn supervisor_goes_on(mode: Mode) {
    let Some(world) = World::over(Nic::Tap) else { return };
    world.up(NET, mode, &[]);
    let socket = format!("/run/tasuki/{NET}.sock");
    let hostile = world.script("lingering.py", &["supervisor", &socket]);
    let hostile = Running::start(world.command(&hostile));
    let _ = hostile.line("all given");
    answers(&world, NET);
    world.down(NET);
    hostile.signal(Signal::KILL);
    let _ = hostile.finish();
    world.assert_nothing_left();
}

#[test]
fn a_supervisor_waits_for_no_close_of_a_programs_descriptor() {
    supervisor_goes_on(Mode::Split);
}

#[test]
fn nor_does_that_of_a_fused_instance() {
    supervisor_goes_on(Mode::Fused);
}

/// The same on a kernel that lets programs pass descriptors to a supervisor. Honest programs and
/// operators find it as if nothing was, while hundreds of closes take as long as a hostile one
/// chose.
fn supervisor_goes_on_before_linux_6_16(mode: Mode) {
    let Some(world) = World::over(Nic::Tap) else { return };
    write_noise(&world.path("file"), 1 << 20, 7);
    let server = world.http_server();
    let old = world.script("old_kernel.py", &[]);
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    world.up_by(&old, NET, mode, &[]);
    let socket = format!("/run/tasuki/{NET}.sock");
    let hostile = world.script("lingering.py", &["supervisor", &socket]);
    let hostile = Running::start(world.command(&hostile));
    let _ = hostile.line("all given");
    for _ in 0..5 {
        answers(&world, NET);
    }
    let url = format!("http://{HOST}:8000/file");
    let words = world.on_net(NET, &["curl", "-sS", "-m", "30", "-o", "back", &url]);
    let _ = Running::start(words).finish().success();
    assert_eq!(sha256(&world.path("back")), sha256(&world.path("file")));
    drop(server);
    world.down(NET);
    hostile.signal(Signal::KILL);
    let said = hostile.finish();
    assert!(!said.stdout.contains("refused"), "the program could pass descriptors: {said}");
    world.assert_nothing_left();
}

#[test]
fn a_supervisor_on_an_older_kernel_waits_for_no_close_either() {
    supervisor_goes_on_before_linux_6_16(Mode::Split);
}

#[test]
fn nor_does_that_of_a_fused_instance_on_an_older_kernel() {
    supervisor_goes_on_before_linux_6_16(Mode::Fused);
}

fn up(world: &World, net: &str, mode: Mode, wire: &str, address: &str) {
    let (nic, cidr) = (format!("wire:{}", world.file(wire)), format!("{address}/24"));
    let words = ["up", "--mode", mode.name(), "--nic", &nic, "--ip", &cidr, net];
    let _ = Running::start(world.tasuki(&words)).finish().success();
}

fn wire_goes_on(mode: Mode) {
    let Some(world) = World::over(Nic::Tap) else { return };
    up(&world, "a", mode, "one", "10.55.0.1");
    let hostile = world.script("lingering.py", &["wire", &world.file("one"), &world.file("two")]);
    let hostile = Running::start(world.command(&hostile));
    let _ = hostile.line("listening");
    up(&world, "b", mode, "two", "10.55.0.2");
    let _ = hostile.line("all given");
    for net in ["a", "b"] {
        answers(&world, net);
    }
    let met = |net: &str| {
        eventually("an honest end is met", || world.counter(net, "wire.carrier") == 1);
    };
    up(&world, "c", mode, "one", "10.55.0.3");
    met("a");
    // Hundreds of descriptors wait to be closed in the other driver. They are closed with their
    // peers.
    hostile.signal(Signal::KILL);
    let _ = hostile.finish();
    up(&world, "d", mode, "two", "10.55.0.4");
    met("b");
    for net in ["a", "b", "c", "d"] {
        world.down(net);
    }
    world.assert_nothing_left();
}

#[test]
fn a_wires_driver_waits_for_no_close_of_its_peers_descriptor() {
    wire_goes_on(Mode::Split);
}

#[test]
fn nor_does_that_of_a_fused_instance_on_a_wire() {
    wire_goes_on(Mode::Fused);
}

/// Many clients with many threads, where a process may have 1,024 open files. Servers go on, and so
/// do the clients that are there. Others are refused with a sentence.
fn descriptors_are_promised_once(mode: Mode) {
    let Some(world) = World::over(Nic::Tap) else { return };
    write_noise(&world.path("file"), 128 << 20, 7);
    let server = world.http_server();
    world.up_by(&["prlimit", "--nofile=1024:1024", "--"], NET, mode, &[]);

    let url = format!("http://{HOST}:8000/file");
    let other = world.script("slowly.py", &[&url, "back", "go"]);
    let mut other = Running::start(world.on_net(NET, &other));
    let _ = other.line("begun");

    let socket = format!("/run/tasuki/{NET}.sock");
    let crowd = |clients: &str, threads: &str| {
        let words = [env!("CARGO_BIN_EXE_thread_crowd"), &socket, clients, threads];
        let crowd = Running::start(world.command(&words));
        let _ = crowd.line("done");
        crowd
    };
    let mut crowds: Vec<Running> = (0..4).map(|_| crowd("12", "32")).collect();
    let said = crowds[3].line("no thread");
    assert!(said.contains("LimitNOFILE") && said.contains("1024"), "{said}");
    answers(&world, NET);
    // Single-threaded clients still find room, until that is over as well.
    let words = world.on_net(NET, &["curl", "-sS", "-o", "one", &url]);
    let _ = Running::start(words).finish().success();
    crowds.extend((0..12).map(|_| crowd("16", "1")));
    let said = crowds.last().expect("there are some").line("no client");
    assert!(said.contains("LimitNOFILE") && said.contains("1024"), "{said}");
    let refused = world.on_net(NET, &["curl", "-sS", "-o", "none", &url]);
    let refused = Running::start(refused).finish();
    assert!(!refused.status.success() && refused.stderr.contains("LimitNOFILE"), "{refused}");
    answers(&world, NET);

    assert!(!other.has_ended(), "the transfer ended too early to show anything");
    std::fs::write(world.path("go"), "").unwrap();
    let _ = other.finish().success();
    assert_eq!(sha256(&world.path("back")), sha256(&world.path("file")));
    for crowd in crowds {
        crowd.signal(Signal::KILL);
        let _ = crowd.finish();
    }
    eventually("there is room again", || {
        let words = world.on_net(NET, &["curl", "-sS", "-o", "again", &url]);
        Running::start(words).finish().status.success()
    });
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn no_server_runs_out_of_descriptors() {
    descriptors_are_promised_once(Mode::Split);
}

#[test]
fn nor_does_a_fused_one() {
    descriptors_are_promised_once(Mode::Fused);
}

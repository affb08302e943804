//! A client is killed in the middle of a transfer. Its peer gets the end of the connection, its
//! memory comes back, and no other process notices.

use std::os::unix::process::ExitStatusExt as _;

use tasuki_tests::{HOST, Mode, Running, World, eventually, sha256, write_noise};

const NET: &str = "death";

fn clients(world: &World) -> usize {
    world.ps(NET).processes.iter().filter(|process| process.role == "client").count()
}

fn kill_in_mid_transfer(mode: Mode) {
    let Some(world) = World::new() else { return };
    world.up(NET, mode, &[]);
    let before = world.ps(NET).pools;
    write_noise(&world.path("file"), 128 << 20, 3);
    let server = world.http_server();
    let other = world.script("slowly.py", &[&format!("http://{HOST}:8000/file"), "back", "go"]);
    let mut other = Running::start(world.on_net(NET, &other));
    let _ = other.line("begun");
    eventually("the other client is admitted", || clients(&world) == 1);

    // Several times, so that the losses of each death add up.
    for port in ["9000", "9001", "9002"] {
        let witness = world.spawn(&world.script("witness.py", &["0.0.0.0", port]));
        let _ = witness.line("ready");
        let victim = Running::start(world.on_net(NET, &world.script("pour.py", &[HOST, port])));
        let _ = witness.line("got 1 MiB");
        // `tasuki run --net` becomes the program.
        victim.signal(rustix::process::Signal::KILL);
        let _ = witness.line("ended by");
        eventually("the victim is gone", || clients(&world) == 1);
        assert_eq!(victim.finish().status.signal(), Some(9));
    }
    assert!(!other.has_ended(), "the other transfer ended too early to show anything");
    std::fs::write(world.path("go"), "").unwrap();
    let _ = other.finish().success();
    assert_eq!(sha256(&world.path("back")), sha256(&world.path("file")));
    world.assert_pools_return(NET, &before);
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn in_split_mode() {
    kill_in_mid_transfer(Mode::Split);
}

#[test]
fn in_fused_mode() {
    kill_in_mid_transfer(Mode::Fused);
}

/// The program of a private instance is killed, or `tasuki run` itself: all of it goes.
#[test]
fn a_private_instance_ends_with_its_program() {
    let Some(world) = World::new() else { return };
    let before = world.processes();
    let witness = world.spawn(&world.script("witness.py", &["0.0.0.0", "9000"]));
    let _ = witness.line("ready");
    let pour = world.script("pour.py", &[HOST, "9000"]);
    let run = Running::start(world.on_stack(Mode::Split, &pour));
    let _ = witness.line("got 1 MiB");
    run.signal(rustix::process::Signal::KILL);
    drop(run);
    drop(witness);
    eventually("every process has ended", || world.processes() == before);
}

/// An event loop learns once of each socket that the instance is gone, and does not spin.
#[test]
fn servers_that_outlive_their_instance_are_quiet() {
    let Some(world) = World::new() else { return };
    let Some(mode) = Mode::shared() else { return };
    world.up(NET, mode, &[]);
    let server = Running::start(world.on_net(NET, &world.script("outliving.py", &["8000"])));
    let _ = server.line("ready");
    world.down(NET);
    let said = server.finish().success();
    let errors = "{'EAGAIN': 2, 'ENETDOWN': 2}";
    let loops = ["EpollSelector", "PollSelector", "SelectSelector"];
    let loops: String = loops.iter().map(|kind| format!("{kind} {errors}\n")).collect();
    let all = format!("ready\nasyncio ENETDOWN\ntold True\n{loops}edges 2\nENETDOWN\n");
    assert_eq!(said.stdout, all, "{said}");
    world.assert_nothing_left();
}

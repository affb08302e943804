//! `tasuki ps` and `tasuki ss`: for people, and with --json for programs.

use std::net::SocketAddr;

use abi::control::SocketStatus;
use tasuki_tests::{HOST, Mode, Running, STACK, World, eventually};

const NET: &str = "show";

#[test]
fn ps_shows_the_processes_and_their_memory() {
    for mode in [Mode::Split, Mode::Fused] {
        let Some(world) = World::new() else { return };
        world.up(NET, mode, &[]);
        let echo = world.script("echo.py", &["0.0.0.0", "8000"]);
        let echo = Running::start(world.on_net(NET, &echo));
        let _ = echo.line("ready");
        let status = world.ps(NET);
        assert_eq!((status.instance.as_str(), status.mode.as_str()), (NET, mode.name()));
        assert_eq!(status.address, format!("{STACK}/24"));
        let roles: Vec<&str> = status.processes.iter().map(|p| p.role.as_str()).collect();
        assert_eq!(roles[0], "supervisor", "{roles:?}");
        assert_eq!(roles.contains(&"nic"), mode == Mode::Split, "{roles:?}");
        assert!(roles.contains(&"client"), "{roles:?}");
        let pids = world.processes();
        for process in &status.processes {
            assert!(pids.contains(&process.pid), "{process:?} is not a process: {pids:?}");
        }
        let frames = status.pools.iter().find(|pool| pool.name == "frames").expect("a frame pool");
        assert!(
            frames.free <= frames.pages
                && frames.pages == abi::nic::NicLayout::new(true).pool.pages,
            "{frames:?}"
        );
        assert!(status.pools.iter().any(|pool| pool.name.starts_with("client ")));

        let said = Running::start(world.tasuki(&["ps", NET])).finish().success();
        for word in [NET, mode.name(), STACK, "supervisor", "python"] {
            assert!(said.stdout.contains(word), "{word} is not in: {said}");
        }
        let said = Running::start(world.tasuki(&["ps", "-v", NET])).finish().success();
        assert!(said.stdout.contains("nic.rx-packets"), "{said}");
        drop(echo);
        eventually("the client is gone", || {
            !world.ps(NET).processes.iter().any(|process| process.role == "client")
        });
        world.down(NET);
        world.assert_nothing_left();
    }
}

#[test]
fn ss_shows_the_sockets_of_both_ends() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::Split, &[]);
    let echo = world.script("echo.py", &["0.0.0.0", "8000"]);
    let echo = Running::start(world.on_net(NET, &echo));
    let _ = echo.line("ready");
    let witness = world.spawn(&world.script("witness.py", &["0.0.0.0", "9000"]));
    let _ = witness.line("ready");
    let pour = Running::start(world.on_net(NET, &world.script("pour.py", &[HOST, "9000"])));
    let _ = witness.line("got 1 MiB");

    let sockets = world.ss(NET);
    let find = |state: &str| -> Vec<SocketStatus> {
        sockets.iter().filter(|socket| socket.state == state).cloned().collect()
    };
    let listening = find("LISTEN");
    assert_eq!(listening.len(), 1, "{sockets:?}");
    assert_eq!(listening[0].local, SocketAddr::from(([0, 0, 0, 0], 8000)));
    assert_eq!((listening[0].netid.as_str(), listening[0].recv_q), ("tcp", 0));
    assert!(listening[0].send_q > 0, "the backlog: {listening:?}");
    let connected = find("ESTAB");
    assert_eq!(connected.len(), 1, "{sockets:?}");
    assert_eq!(connected[0].local.ip().to_string(), STACK);
    assert_eq!(connected[0].peer.map(|peer| peer.to_string()), Some(format!("{HOST}:9000")));
    assert!(connected[0].client.is_some());

    let said = Running::start(world.tasuki(&["ss", "--net", NET])).finish().success();
    for word in ["Recv-Q", "LISTEN", "ESTAB", "0.0.0.0:8000", "10.219.7.1:9000"] {
        assert!(said.stdout.contains(word), "{word} is not in: {said}");
    }
    let said = Running::start(world.tasuki(&["ss", "-Htlnp", "-i", NET])).finish().code(2);
    assert!(said.stderr.contains("--help"), "{said}");
    let said = Running::start(world.tasuki(&["ss", "-Htlnp", "--net", NET])).finish().success();
    assert_eq!(said.stdout.lines().count(), 1, "only the listener: {said}");
    let users = format!("users:((\"python3\",pid={}))", echo.pid());
    assert!(said.stdout.contains(&users), "{users} is not in: {said}");
    let said = Running::start(world.tasuki(&["ss", "-u", "--json", "--net", NET])).finish();
    assert_eq!(said.success().stdout.trim(), "[]");
    drop((pour, echo));
    eventually("no socket has a client", || world.ss(NET).iter().all(|s| s.client.is_none()));
    world.down(NET);
}

/// A supervisor that is stopped answers nobody: `tasuki ps` says so and ends.
#[test]
fn ps_does_not_wait_for_a_stopped_supervisor() {
    let Some(world) = World::new() else { return };
    let Some(mode) = Mode::shared() else { return };
    world.up(NET, mode, &[]);
    let supervisor =
        world.ps(NET).processes.iter().find(|one| one.role == "supervisor").map(|one| one.pid);
    let pid = supervisor.and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    let pid = pid.expect("an instance has a supervisor");
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it runs");
    for words in [&["ps", NET][..], &["ps"]] {
        let said = Running::start(world.tasuki(words)).finish();
        assert!(said.stderr.contains("has not answered for 20 s"), "{said}");
        assert_eq!(said.status.code(), Some(if words.len() == 2 { 125 } else { 0 }), "{said}");
    }
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("it is there");
    world.down(NET);
    world.assert_nothing_left();
}

//! Programs that do their worst with the relay's sockets hurt themselves only: they get the errors
//! that Linux gives. The relay lives, others go on, and nothing stays behind.

use std::path::PathBuf;

use tasuki_tests::{HOST, Mode, Running, World, eventually, program};

const NET: &str = "abuse";

/// Exchanges bytes by the library until the file `stop` is there.
const OTHER: &str = r#"
import os, socket, sys
one = socket.create_connection((sys.argv[1], 8000), 30)
print('begun', flush=True)
rounds = 0
while not os.path.exists('stop'):
    data = bytes([rounds % 256]) * 1000
    one.sendall(data)
    back = b''
    while len(back) < len(data):
        back += one.recv(1000) or sys.exit('it ended')
    assert back == data
    rounds += 1
print('exchanged', rounds > 0)
"#;

/// Descriptors of a process; `None` when it has ended.
fn descriptors(pid: u32) -> Option<usize> {
    std::fs::read_dir(format!("/proc/{pid}/fd")).ok().map(Iterator::count)
}

/// The relays in the world.
fn relays(world: &World) -> Vec<u32> {
    let is_relay = |pid: &u32| {
        let name = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/comm")));
        name.is_ok_and(|name| name.trim() == "tasuki-relay")
    };
    world.processes().into_iter().filter(is_relay).collect()
}

/// Has the instance no socket but of connections that have ended?
fn is_empty(world: &World) -> bool {
    world.ss(NET).iter().all(|one| one.state == "TIME-WAIT")
}

/// Runs `abuse` with these words beside a program with the library. Returns its output.
fn abuse(words: &str) -> Option<String> {
    let mode = Mode::shared()?;
    let world = World::with_kernel()?;
    let source = program("abuse.c");
    let gcc = ["gcc", "-static", "-O1", "-pthread", "-Wall", "-Wextra", "-Werror", "-o", "abuse"];
    let _ = world.run(&[&gcc[..], &[&*source]].concat()).success();
    world.up(NET, mode, &[]);
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    // All behind one relay. It has served a program before its descriptors are counted.
    let ask = format!("./abuse ask {HOST} 8000");
    let script = format!(
        "{ask}; echo first; while [ ! -e go ]; do sleep 0.05; done; ./abuse {words}; echo second; \
         while [ ! -e end ]; do sleep 0.05; done; {ask}; echo last"
    );
    let all = Running::start(world.on_net(NET, &["sh", "-c", &script]));
    let _ = all.line("first");
    eventually("no socket is left", || is_empty(&world));
    let servers = world.ps(NET).processes.into_iter().filter(|one| one.role != "client");
    let watched: Vec<_> = servers.map(|one| one.pid).chain(relays(&world)).collect();
    let before: Vec<_> = watched.iter().map(|pid| (*pid, descriptors(*pid))).collect();
    let other = Running::start(world.on_net(NET, &world.python(&["-c", OTHER, HOST])));
    let _ = other.line("begun");
    std::fs::write(world.path("go"), "").expect("a file in the world");
    let _ = all.line("second");
    std::fs::write(world.path("stop"), "").expect("a file in the world");
    let said = other.finish().success();
    assert!(said.stdout.contains("exchanged True"), "{said}");
    eventually("no socket is left", || is_empty(&world));
    for (pid, count) in before {
        let what = format!("process {pid} has {count:?} descriptors again");
        eventually(&what, || count.is_some() && descriptors(pid) <= count);
        assert!(descriptors(pid).is_some(), "process {pid} has ended");
    }
    std::fs::write(world.path("end"), "").expect("a file in the world");
    let said = all.finish().success();
    assert_eq!(
        said.stdout.matches("exchanged: 1\n").count(),
        2 + usize::from(words.contains("killed"))
    );
    assert_eq!(said.stderr, "", "{said}");
    drop(echo);
    world.down(NET);
    world.assert_nothing_left();
    let output = said.stdout.split_once("first\n").and_then(|(_, rest)| rest.split_once("second"));
    Some(output.expect("it says both words").0.to_owned())
}

#[test]
fn all_descriptors() {
    let Some(said) = abuse("descriptors") else { return };
    assert_eq!(said, "EMFILE after 63\n".repeat(3));
}

#[test]
fn many_processes() {
    let Some(said) = abuse("processes 64") else { return };
    assert_eq!(said, "64 of 64\n");
}

#[test]
fn programs_that_are_killed_amid_their_calls() {
    let Some(said) = abuse(&format!("killed {HOST} 8000 200")) else { return };
    assert_eq!(said, "exchanged: 1\nkilled 200, the other one: 0\n");
}

#[test]
fn addresses_that_change_during_the_call() {
    let Some(said) = abuse(&format!("changing {HOST} 8000")) else { return };
    assert_eq!(said, "connected: 1\n");
}

#[test]
fn addresses_that_cannot_be_read() {
    let Some(said) = abuse("pointers") else { return };
    assert_eq!(said, "unmapped: 3 of 3\nnone: 3 of 3\nshared: done\n");
}

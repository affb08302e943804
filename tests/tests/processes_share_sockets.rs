//! Sockets that several processes hold: inherited, passed on, listened on together.

use tasuki_tests::{Mode, Running, STACK, World, eventually};

const NET: &str = "many";

/// A process for each connection: the parent accepts, forks and closes its copy; the child serves.
#[test]
fn a_child_serves_the_connection_that_its_parent_accepted() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::given(), &[]);
    let server = world.script("forking.py", &["0.0.0.0", "8000"]);
    let server = Running::start(world.on_net(NET, &server));
    let _ = server.line("ready");
    for (times, bytes, at_once) in [("5", "100", "1"), ("20", "300000", "4")] {
        let ask = world.script("ask_digest.py", &[STACK, "8000", times, bytes, at_once]);
        let said = world.run(&ask).success();
        assert_eq!(said.stdout.trim(), format!("answered {times}"), "{said}");
    }
    let listens = |row: &abi::control::SocketStatus| row.state == "LISTEN";
    eventually("only the listener is left", || {
        let rows = world.ss(NET);
        let open = rows.iter().filter(|row| !row.state.starts_with("TIME"));
        open.clone().count() == 1 && open.clone().all(listens)
    });
    server.signal(rustix::process::Signal::KILL);
    let _ = server.finish();
    eventually("nothing is left", || world.ss(NET).iter().all(|row| row.state.starts_with("TIME")));
    world.down(NET);
    world.assert_nothing_left();
}

/// Two children accept on their parent's listener at the same time, and both get connections. When
/// one has ended, the other goes on.
#[test]
fn children_accept_on_one_listener() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::given(), &[]);
    let server =
        Running::start(world.on_net(NET, &world.script("prefork.py", &["0.0.0.0", "8000", "2"])));
    let _ = (server.line("ready"), server.line("ready"));
    let ask = world.script("ask_digest.py", &[STACK, "8000", "40", "200000", "8"]);
    let said = world.run(&ask).success();
    assert_eq!(said.stdout.trim(), "answered 40", "{said}");
    server.signal(rustix::process::Signal::TERM);
    let said = server.finish().success();
    let served: Vec<u32> =
        said.stdout.lines().filter_map(|line| line.strip_prefix("served ")?.parse().ok()).collect();
    assert_eq!(served.iter().sum::<u32>(), 40, "{said}");
    assert!(served.len() == 2 && served.iter().all(|count| *count > 0), "{said}");
    eventually("nothing is left", || world.ss(NET).iter().all(|row| row.state.starts_with("TIME")));
    world.down(NET);
    world.assert_nothing_left();
}

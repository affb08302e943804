//! Servers that get their socket from another program: systemd-socket-activate.

use rustix::process::Signal;
use tasuki_tests::{ProgramWorld, STACK, program, sha256, write_noise};

/// Each connection is the standard input and output of a process of its own.
#[test]
fn systemd_socket_activate_gives_connections() {
    let Some(world) = ProgramWorld::new(&["systemd-socket-activate", "nc"]) else { return };
    write_noise(&world.path("file"), 3 << 20, 9);
    let words = ["systemd-socket-activate", "-l", "0.0.0.0:7000", "--inetd", "-a", "cat"];
    let mut server = world.start(&words);
    world.listens(&mut server, 7000);
    let exchange = format!("nc -N -w 60 {STACK} 7000 < file > copy");
    for _ in 0..2 {
        world.run_on_both(&["sh", "-c", &exchange], |said| {
            let _ = said.success();
            assert_eq!(sha256(&world.path("copy")), sha256(&world.path("file")));
        });
    }
    server.signal(Signal::TERM);
    let _ = server.finish();
    world.end();
}

/// The listener is descriptor 3 of the server, which the first connection starts.
#[test]
fn systemd_socket_activate_gives_the_listener() {
    let Some(world) = ProgramWorld::new(&["systemd-socket-activate"]) else { return };
    let activated = world.script("activated.py", &[]);
    let words = ["systemd-socket-activate", "-l", "0.0.0.0:7000"].map(str::to_owned);
    let mut server = world.start(&[&words[..], &activated].concat());
    world.listens(&mut server, 7000);
    let ask = world.python(&[&program("ask_digest.py"), STACK, "7000", "10", "100000", "2"]);
    world.run_on_both(&ask, |said| {
        let said = said.success();
        assert_eq!(said.stdout.trim(), "answered 10", "{said}");
    });
    server.signal(Signal::TERM);
    let _ = server.finish();
    world.end();
}

//! A static program in Rust, with musl as its C library.

use std::process::Command;

use tasuki_tests::{HOST, Mode, Running, STACK, World, build_for_musl};

const BYTES: &str = "5000000";

fn world() -> Option<World> {
    let mode = Mode::shared()?;
    let world = World::with_kernel()?;
    if !build_for_musl(&world.path("musl")) {
        return None;
    }
    let kind = Command::new(world.path("musl")).arg("names").arg("127.0.0.1").env_clear().output();
    assert!(kind.expect("it runs").status.success());
    world.up("net", mode, &[]);
    Some(world)
}

#[test]
fn it_is_a_client() {
    let Some(world) = world() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let words = ["./musl", "fetch", HOST, "8000", BYTES];
    let said = Running::start(world.on_net("net", &words)).finish().success();
    assert_eq!(said.stdout.trim(), format!("came {BYTES} from {STACK}"), "{said}");
    drop(echo);
    let script = "import socket, sys\n\
                  one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                  one.bind((sys.argv[1], 9000)); print('ready', flush=True)\n\
                  data, peer = one.recvfrom(100); one.sendto(data[::-1], peer)";
    let server = world.spawn(&world.python(&["-c", script, HOST]));
    let _ = server.line("ready");
    let words = ["./musl", "datagram", HOST, "9000"];
    let said = Running::start(world.on_net("net", &words)).finish().success();
    assert_eq!(said.stdout.trim(), "answer margatad a", "{said}");
    let _ = server.finish().success();
    world.down("net");
    world.assert_nothing_left();
}

#[test]
fn it_is_a_server_with_threads() {
    let Some(world) = world() else { return };
    let server = Running::start(world.on_net("net", &["./musl", "serve", "7000", "3"]));
    let _ = server.line("ready");
    let words = ["./musl", "fetch", STACK, "7000", BYTES];
    for _ in 0..2 {
        let said = world.run(&words).success();
        assert_eq!(said.stdout.trim(), format!("came {BYTES} from {HOST}"), "{said}");
    }
    // Two programs of one instance.
    let said = Running::start(world.on_net("net", &words)).finish().success();
    assert!(said.stdout.contains(&format!("came {BYTES}")), "{said}");
    let said = server.finish().success();
    assert_eq!(said.stdout.matches(&format!("{BYTES} for {HOST}")).count(), 2, "{said}");
    assert!(said.stdout.contains(&format!("{BYTES} for {STACK}")), "{said}");
    world.down("net");
    world.assert_nothing_left();
}

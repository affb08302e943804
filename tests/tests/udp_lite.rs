//! UDP-Lite (RFC 3828) between programs on Tasuki and on the kernel's stack, both ways.

use tasuki_tests::{HOST, Mode, Running, STACK, World, skip};

const NET: &str = "lite";

/// What the asking program says; the lines are those of two programs on Linux.
const LINES: [&str; 11] = [
    "protocol 136",
    "covers 0 answered",
    "covers 8 answered",
    "covers 20 answered",
    "covers 1000 answered",
    "long answered",
    "enough answered",
    "too little nothing",
    "all wanted nothing",
    "all given answered",
    "port without socket ECONNREFUSED",
];

fn assert_lines(stdout: &str) {
    assert_eq!(stdout.lines().collect::<Vec<_>>(), LINES, "{stdout}");
}

#[test]
fn coverage_is_as_on_linux() {
    let Some(world) = World::with_kernel() else { return };
    let Some(mode) = Mode::shared() else { return };
    world.up(NET, mode, &[]);
    // Two programs on one stack.
    let echo = Running::start(world.on_net(NET, &world.script("lite_echo.py", &[STACK, "9000"])));
    let _ = echo.line("ready");
    let ask = world.script("lite_ask.py", &[STACK, "9000"]);
    assert_lines(&Running::start(world.on_net(NET, &ask)).finish().success().stdout);
    let probe = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136)";
    if !world.run(&world.python(&["-c", probe])).status.success() {
        return skip("this kernel has no UDP-Lite");
    }
    // The kernel asks.
    assert_lines(&world.run(&ask).success().stdout);
    // The kernel answers.
    let echo = world.spawn(&world.script("lite_echo.py", &[HOST, "9000"]));
    let _ = echo.line("ready");
    let ask = world.script("lite_ask.py", &[HOST, "9000"]);
    assert_lines(&Running::start(world.on_net(NET, &ask)).finish().success().stdout);
}

//! UDP-Lite (RFC 3828) over IPv4 and IPv6, between programs on Tasuki and on the kernel's stack.

use tasuki_tests::{HOST, HOST6, Mode, Running, STACK, STACK6, World, skip};

const NET: &str = "lite";

/// The lines that the asking program prints; the lines are those of two programs on Linux.
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

/// Is UDP-Lite in this kernel, for that family of addresses?
fn kernel_has_it(world: &World, family: &str) -> bool {
    let probe = format!("import socket; socket.socket(socket.{family}, socket.SOCK_DGRAM, 136)");
    world.run(&world.python(&["-c", &probe])).status.success()
}

/// Programs ask each other on the addresses of one family: `host` is the kernel's.
fn coverage_is_as_on_linux(family: &str, host: &str, stack: &str, options: &[&str]) {
    let Some(world) = World::with_kernel() else { return };
    let Some(mode) = Mode::shared() else { return };
    world.up(NET, mode, options);
    // Two programs on one stack.
    let echo = Running::start(world.on_net(NET, &world.script("lite_echo.py", &[stack, "9000"])));
    let _ = echo.line("ready");
    let ask = world.script("lite_ask.py", &[stack, "9000"]);
    assert_lines(&Running::start(world.on_net(NET, &ask)).finish().success().stdout);
    if !kernel_has_it(&world, family) {
        return skip("this kernel has no UDP-Lite");
    }
    // The kernel asks.
    assert_lines(&world.run(&ask).success().stdout);
    // The kernel answers.
    let echo = world.spawn(&world.script("lite_echo.py", &[host, "9000"]));
    let _ = echo.line("ready");
    let ask = world.script("lite_ask.py", &[host, "9000"]);
    assert_lines(&Running::start(world.on_net(NET, &ask)).finish().success().stdout);
}

#[test]
fn coverage_is_as_on_linux_over_ipv4() {
    coverage_is_as_on_linux("AF_INET", HOST, STACK, &[]);
}

#[test]
fn coverage_is_as_on_linux_over_ipv6() {
    let address = format!("{STACK6}/64");
    coverage_is_as_on_linux("AF_INET6", HOST6, STACK6, &["--ip", &address]);
}

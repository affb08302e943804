//! A program's view of its sockets and of the network: options, TCP_INFO, interfaces. Also the
//! options that the kernel at the other end negotiated with Tasuki.

use tasuki_tests::{HOST, Mode, Running, World, eventually};

const NET: &str = "options";

#[test]
fn options_and_interfaces_as_linux_has_them() {
    let Some(world) = World::with_kernel() else { return };
    world.up(NET, Mode::given(), &[]);
    let echo = world.spawn(&world.script("echo.py", &[HOST, "8000"]));
    let _ = echo.line("ready");
    let inspect = world.script("inspect_socket.py", &[HOST, "8000"]);
    let said = Running::start(world.on_net(NET, &inspect)).finish().success();
    for line in [
        "interface 1 eth0",
        "interfaces ['eth0', 'lo']",
        "numbers True",
        "echoed 3000 AF_INET",
        // Established; timestamps, SACK and window scaling.
        "info 248 state 1 options 7",
        "acked 3000 received 3000",
        "short 9",
        "unknown ENOPROTOOPT",
        "wrong level ENOPROTOOPT",
        "user timeout EINVAL",
        "v6only 0",
        "only ENETUNREACH",
        "domain 10",
    ] {
        assert!(said.stdout.lines().any(|said| said == line), "{line} is not in: {said}");
    }
}

#[test]
fn both_ends_tell_the_same_of_a_connection() {
    let Some(world) = World::with_kernel() else { return };
    // The kernel asks for it; we agree (RFC 3168 6.1.1).
    let _ = world.run(&["sysctl", "-qw", "net.ipv4.tcp_ecn=1"]).success();
    world.up(NET, Mode::given(), &[]);
    let witness =
        Running::start(world.on_net(NET, &world.script("witness.py", &["0.0.0.0", "9000"])));
    let _ = witness.line("ready");
    let pour = world.spawn(&world.script("pour.py", &[tasuki_tests::STACK, "9000"]));
    let _ = witness.line("got 1 MiB");
    let theirs = world.run(&["ss", "-tinoH", "state", "established"]).success();
    for word in [" ts ", " sack ", " ecn ", "wscale:"] {
        assert!(theirs.stdout.contains(word), "{word} is not in the kernel's: {theirs}");
    }
    // The window is shown while it is open.
    let told = ["ESTAB", "ts sack ecn", "wscale:", "rto:", "cwnd:", "bytes_received:", "rcv_wnd:"];
    eventually("a row of the connection with all of it", || {
        let words = ["ss", "-tiH", "--net", NET];
        let said = Running::start(world.tasuki(&words)).finish().success();
        told.iter().all(|word| said.stdout.contains(word))
    });
    drop((pour, witness));
}

/// Between two sockets of one program, over the stack's loopback: the lines are Linux's.
#[test]
fn a_connection_that_is_over_has_no_peer() {
    let Some(world) = World::new() else { return };
    let names = world.script("peer_names.py", &[]);
    let said = Running::start(world.on_stack(Mode::given(), &names)).finish().success();
    let lines = [
        "listening: ENOTCONN",
        "before connect: ENOTCONN",
        "refused: ENOTCONN",
        "connected: a name and a name",
        "the peer has closed: a name",
        "reset: ENOTCONN",
        "its own name: 127.0.0.1",
        "one end has shut: a name and a name",
        "both have shut: ENOTCONN and ENOTCONN",
        "a datagram socket: ENOTCONN",
        "connected: a name",
    ];
    assert_eq!(said.stdout.lines().collect::<Vec<_>>(), lines, "{said}");
}

//! A program's view of its sockets and of the network: options, TCP_INFO, interfaces. Also the
//! options that the kernel at the other end negotiated with Tasuki.

use tasuki_tests::{DEVICE, HOST, Mode, Nic, Running, STACK, STACK6, World, eventually};

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
        "interface 2 lo",
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

/// The host's devices are neither seen nor changed by ioctls on the program's sockets.
#[test]
fn interfaces_by_ioctl_are_the_instances() {
    let Some(world) = World::over(Nic::Tap) else { return };
    let six = format!("{STACK6}/64");
    world.up(NET, Mode::given(), &["--ip", &six]);
    let links = || world.run(&["ip", "-o", "link", "show", "dev", DEVICE]).success().stdout;
    let before = links();
    let words = world.script("network_ioctls.py", &[DEVICE]);
    let said = Running::start(world.on_net(NET, &words)).finish().success();
    assert_eq!(links(), before, "the host's device is as before");
    let both = format!("[('eth0', '{STACK}'), ('lo', '127.0.0.1')]");
    let digits = format!("{:032x}", STACK6.parse::<std::net::Ipv6Addr>().unwrap().to_bits());
    let families = ["AF_INET", "AF_INET6"].into_iter().flat_map(|family| {
        [
            format!("{family} needed 80 []"),
            format!("{family} 39 0 []"),
            format!("{family} 400 80 {both}"),
        ]
    });
    let lines = [
        "negative (0, [])".to_owned(),
        "null EFAULT".to_owned(),
        "eth0 0x8917 020000000adb0702".to_owned(),
        "eth0 0x891d 0000000000000000".to_owned(),
        "lo 0x8942 e803000000000000".to_owned(),
        "host 0x8913 ENODEV".to_owned(),
        "host 0x8942 ENODEV".to_owned(),
        "host 0x8914 ENOTSUP".to_owned(),
        "host 0x8922 ENOTSUP".to_owned(),
        "host 0x8946 EFAULT".to_owned(),
        format!("eth0 times 41000000 00000000 ffffffff {}", "0".repeat(64)),
        "eth0 other question ENOTSUP".to_owned(),
        "host times ENODEV".to_owned(),
        "wireless ENOTSUP".to_owned(),
        "hardware True".to_owned(),
        format!("/proc/net/if_inet6 {digits} 02 40 00 80 eth0"),
        format!("/proc/self/net/if_inet6 {digits} 02 40 00 80 eth0"),
    ];
    for line in families.chain(lines) {
        assert!(said.stdout.lines().any(|said| said == line), "{line} is not in: {said}");
    }
    assert!(!said.stdout.contains(&format!(" {DEVICE}")), "{said}");
    world.down(NET);
    world.assert_nothing_left();
}

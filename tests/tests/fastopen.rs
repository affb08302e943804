//! Fast Open (RFC 7413) of programs: ours against the kernel's, both ways round, and curl.

use tasuki_tests::{HOST, Mode, Running, STACK, World, eventually};

const NET: &str = "fastopen";

#[test]
fn our_client_against_the_kernel() {
    let Some(world) = World::with_kernel() else { return };
    let _ = world.run(&["sysctl", "-qw", "net.ipv4.tcp_fastopen=3"]).success();
    let Some(mode) = Mode::shared() else { return };
    world.up(NET, mode, &[]);
    let server = world.spawn(&world.script("fastopen.py", &["serve", HOST, "8000"]));
    let _ = server.line("ready");
    let connect = |how: &str, len: &str| {
        let words = world.script("fastopen.py", &["connect", HOST, "8000", how, len]);
        Running::start(world.on_net(NET, &words)).finish().success().stdout
    };
    // How; length; results of the calls; whether the SYN took data. python3 sees the same on Linux.
    let first = connect("sendto-nonblocking", "100");
    assert_eq!(first, "calls EINPROGRESS\nanswer 100 syn-data False\n", "no cookie yet");
    for (how, len, calls) in [
        ("sendto", "100", "100"),
        ("sendto", "60000", "60000"),
        ("sendto-nonblocking", "100", "100"),
        ("sendto-nonblocking", "60000", "1420"),
        ("option", "100", "None again - writable True sent 100"),
        ("option-nonblocking", "60000", "None again EISCONN writable True sent 1420"),
    ] {
        let said = connect(how, len);
        assert_eq!(said, format!("calls {calls}\nanswer {len} syn-data True\n"), "{how} {len}");
    }
    assert_eq!(world.counter(NET, "tcp.fast-connects"), 6);
    drop(server);
    let words = world.script("fastopen.py", &["connect", HOST, "8000", "sendto"]);
    let said = Running::start(world.on_net(NET, &words)).finish().success().stdout;
    assert!(said.starts_with("calls ECONNREFUSED\n"), "{said}");
}

#[test]
fn the_kernels_client_against_ours() {
    let Some(world) = World::with_kernel() else { return };
    let _ = world.run(&["sysctl", "-qw", "net.ipv4.tcp_fastopen=1"]).success();
    let config = world.file("fast.toml");
    let key = "a0bf63f7-ed803d81-cd641d30-cebc4a90";
    let text = format!("[tcp]\nfastopen = 3\nfastopen_key = \"{key}\"\n");
    std::fs::write(&config, text).expect("a file");
    world.up(NET, Mode::given(), &["--config", &config]);
    let server =
        Running::start(world.on_net(NET, &world.script("fastopen.py", &["serve", STACK, "8000"])));
    let _ = server.line("ready");
    for syn_data in [false, true] {
        let words = world.script("fastopen.py", &["connect", STACK, "8000", "sendto", "1000"]);
        let said = world.run(&words).success().stdout;
        let taken = if syn_data { "True" } else { "False" };
        assert_eq!(said, format!("calls 1000\nanswer 1000 syn-data {taken}\n"));
    }
    let _ = server.line("got 1000 syn-data True");
    eventually("the connection was counted", || world.counter(NET, "tcp.fast-opens") == 1);
}

#[test]
fn curl_opens_fast() {
    let Some(world) = World::with_kernel() else { return };
    let _ = world.run(&["sysctl", "-qw", "net.ipv4.tcp_fastopen=3"]).success();
    let Some(mode) = Mode::shared() else { return };
    world.up(NET, mode, &[]);
    let server = world.spawn(&world.script("fastopen.py", &["serve", HOST, "8000"]));
    let _ = server.line("ready");
    let url = format!("http://{HOST}:8000/");
    let words = ["curl", "-s", "--http0.9", "--max-time", "20", "--tcp-fastopen", &url];
    for _ in 0..2 {
        let said = Running::start(world.on_net(NET, &words)).finish().success();
        assert!(said.stdout.trim().parse::<u32>().is_ok_and(|len| len > 0), "{said}");
    }
    let _ = server.line("syn-data True");
    assert_eq!(world.counter(NET, "tcp.fast-connects"), 1);
}

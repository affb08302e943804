//! `tasuki run --host-loopback`: servers on the host's own 127.0.0.1.

use tasuki_tests::{Mode, Running, World, program};

/// The usual address of the host.
const HOST_LOOPBACK: &str = "10.0.2.2";
const BYTES: &str = "5000000";

/// Connects, sends and gets back as many bytes; then connects to a port without a server.
const CLIENT: &str = r#"
import asyncio, errno, socket, sys, threading
address, count = sys.argv[1], int(sys.argv[2])
one = socket.socket()
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
one.settimeout(30)
one.connect((address, 8000))
peer, nodelay = one.getpeername()[0], one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
def send():
    one.sendall(bytes(count))
    one.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
came = 0
while data := one.recv(1 << 16):
    came += len(data)
print('came', came, 'from', peer, 'nodelay', nodelay != 0)
refused = socket.socket()
print('refused', errno.errorcode[refused.connect_ex((address, 9))])
async def exchange():
    reader, writer = await asyncio.open_connection(address, 8000)
    writer.write(b'hello')
    writer.write_eof()
    print('asyncio', await reader.read())
asyncio.run(exchange())
"#;

fn world() -> Option<(World, Mode)> {
    let mode = Mode::shared()?;
    let world = World::with_kernel()?;
    let words = ["gcc", "-static", "-O1", "-o", "raw"];
    let source = program("raw.c");
    let words: Vec<_> = words.into_iter().chain([&*source]).collect();
    let _ = world.run(&words).success();
    Some((world, mode))
}

#[test]
fn programs_reach_the_hosts_servers() {
    let Some((world, mode)) = world() else { return };
    let echo = world.spawn(&world.script("echo.py", &["127.0.0.1", "8000"]));
    let _ = echo.line("ready");
    for options in [&["--host-loopback"][..], &["--host-loopback", "--intercept", "seccomp"]] {
        let words = world.python(&["-c", CLIENT, HOST_LOOPBACK, BYTES]);
        let said = Running::start(world.on_stack_with(mode, options, &words)).finish().success();
        let came = format!("came {BYTES} from {HOST_LOOPBACK} nodelay True");
        for line in [came.as_str(), "refused ECONNREFUSED", "asyncio b'hello'"] {
            assert!(said.stdout.contains(line), "{options:?}: {said}");
        }
    }
    let words = ["./raw", "fetch", "10.9.9.9", "8000", BYTES];
    let options = &["--host-loopback=10.9.9.9"];
    let said = Running::start(world.on_stack_with(mode, options, &words)).finish().success();
    assert!(said.stdout.contains(&format!("came {BYTES}")), "{said}");
    drop(echo);
    world.assert_nothing_left();
}

#[test]
fn not_without_the_option() {
    let Some((world, mode)) = world() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let script = "import socket, sys\n\
                  for address in sys.argv[1], '127.0.0.1':\n\
                  \x20   one = socket.socket()\n\
                  \x20   one.settimeout(2)\n\
                  \x20   done = one.connect_ex((address, 8000))\n\
                  \x20   print(address, 'not' if done else 'reached')";
    for options in [&[][..], &["--intercept", "seccomp"]] {
        let words = world.python(&["-c", script, HOST_LOOPBACK]);
        let said = Running::start(world.on_stack_with(mode, options, &words)).finish().success();
        let expected = format!("{HOST_LOOPBACK} not\n127.0.0.1 not");
        assert_eq!(said.stdout.trim(), expected, "{options:?}: {said}");
    }
    drop(echo);
    world.assert_nothing_left();
}

#[test]
fn arrangements_without_a_relay_are_refused() {
    let Some(world) = World::with_kernel() else { return };
    let run = |words: &[&str]| {
        let words: Vec<_> = words.iter().chain(&["--", "true"]).copied().collect();
        Running::start(world.tasuki(&words)).finish().code(2)
    };
    let said = run(&["run", "--host-loopback", "--intercept", "preload"]);
    assert!(said.stderr.contains("does not go with --intercept preload"), "{said}");
    let said = run(&["run", "--host-loopback", "--mode", "library"]);
    assert!(said.stderr.contains("--host-loopback needs another --mode"), "{said}");
    let said = run(&["run", "--host-loopback=::1"]);
    assert!(said.stderr.contains("--host-loopback"), "{said}");
}

//! `tasuki run --host-loopback`: servers on the host's own 127.0.0.1 and ::1.

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

/// Answers datagrams and the first bytes of connections, at both loopback addresses: with the
/// address that they came from.
const BOTH_SERVER: &str = r#"
import selectors, socket
all = selectors.DefaultSelector()
for family, address in (socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1'):
    one = socket.socket(family, socket.SOCK_DGRAM)
    one.bind((address, 5000))
    all.register(one, selectors.EVENT_READ)
    one = socket.socket(family)
    one.bind((address, 8000))
    one.listen()
    all.register(one, selectors.EVENT_READ)
print('ready', flush=True)
while True:
    for key, _ in all.select():
        one = key.fileobj
        if one.type == socket.SOCK_STREAM:
            stream, peer = one.accept()
            stream.sendall(stream.recv(100) + f' from {peer[0]}'.encode())
            stream.close()
            continue
        data, peer = one.recvfrom(1 << 16)
        one.sendto(data + f' from {peer[0]}'.encode(), peer)
"#;

/// Asks a server for datagrams in all ways to send, then a port without a server; fetches from a
/// server for streams.
const BOTH_FAMILIES: &str = r#"
import errno, socket, sys
for address in sys.argv[1:]:
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    to = (address, 5000)
    def make():
        one = socket.socket(family, socket.SOCK_DGRAM)
        one.settimeout(10)
        return one
    one = make()
    one.sendto(b'sendto', to)
    print(*one.recvfrom(100))
    one.sendto(b'long' * 10000, to)
    print(len(one.recv(1 << 16)))
    one = make()
    one.sendmsg([b'send', b'msg'], [], 0, to)
    print(*one.recvfrom(100))
    one = make()
    one.bind(('', 6000 + family))
    one.connect(to)
    one.send(b'connected')
    print(one.recv(100), one.getpeername()[0], one.getsockname()[1] - family)
    one = make()
    one.connect((address, 9))
    one.send(b'x')
    try:
        print(one.recv(100))
    except OSError as error:
        print('refused', errno.errorcode[error.errno])
    with socket.create_connection((address, 8000), 10) as one:
        one.sendall(b'hello')
        print(one.recv(100), one.getpeername()[0])
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
fn by_datagrams_and_by_ipv6() {
    let Some((world, mode)) = world() else { return };
    let server = world.spawn(&world.python(&["-c", BOTH_SERVER]));
    let _ = server.line("ready");
    let expected = |address: &str, host: &str| {
        let from = if address.contains(':') {
            format!("('{address}', 5000, 0, 0)")
        } else {
            format!("('{address}', 5000)")
        };
        let long = 40_000 + " from ".len() + host.len();
        format!(
            "b'sendto from {host}' {from}\n{long}\n\
             b'sendmsg from {host}' {from}\n\
             b'connected from {host}' {address} 6000\n\
             refused ECONNREFUSED\nb'hello from {host}' {address}\n"
        )
    };
    let both = expected(HOST_LOOPBACK, "127.0.0.1") + &expected("fec0::2", "::1");
    let other = expected("fd77::5", "::1");
    for intercept in ["auto", "seccomp"] {
        for (option, addresses, expected) in [
            ("--host-loopback", &[HOST_LOOPBACK, "fec0::2"][..], &both),
            ("--host-loopback=fd77::5", &["fd77::5"], &other),
        ] {
            let words = world.python(&[&["-c", BOTH_FAMILIES], addresses].concat());
            // The instance has no IPv6 address.
            let options = [option, "--intercept", intercept];
            let said = Running::start(world.on_stack_with(mode, &options, &words));
            let said = said.finish().success();
            assert_eq!(said.stdout, *expected, "{options:?}: {said}");
        }
    }
    drop(server);
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
    let said = run(&["run", "--host-loopback=10.0.2.2,10.0.2.3"]);
    assert!(said.stderr.contains("one address of each family"), "{said}");
    let said = run(&["run", "--host-loopback=::1"]);
    assert!(said.stderr.contains("--host-loopback"), "{said}");
}

//! Programs without the library: static ones, and calls that pass through no library.

use tasuki_tests::{HOST, Mode, Running, STACK, World, program};

/// Bytes of a transfer: more than all buffers on its way.
const BYTES: &str = "20000000";

/// An address of the network that no host has.
const NOBODY: &str = "10.219.7.77";

/// Builds `raw` in the world, once for each.
fn build(world: &World) {
    let words = ["gcc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", "raw"];
    let source = program("raw.c");
    let words: Vec<_> = words.into_iter().chain([&*source]).collect();
    let _ = world.run(&words).success();
}

/// A world with an instance, and the program in it.
fn world() -> Option<World> {
    let mode = Mode::shared()?;
    let world = World::with_kernel()?;
    build(&world);
    world.up("net", mode, &[]);
    Some(world)
}

fn end(world: &World) {
    world.down("net");
    world.assert_nothing_left();
}

#[test]
fn a_static_program_exchanges_bytes() {
    let Some(world) = world() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let words = ["./raw", "fetch", HOST, "8000", BYTES];
    let said = Running::start(world.on_net("net", &words)).finish().success();
    assert!(said.stdout.contains(&format!("local {STACK}")), "the instance's address: {said}");
    assert!(said.stdout.contains(&format!("peer {HOST}")), "{said}");
    assert!(said.stdout.contains(&format!("came {BYTES}")), "{said}");
    drop(echo);
    end(&world);
}

#[test]
fn a_static_program_of_an_own_instance() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = World::with_kernel() else { return };
    build(&world);
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let words = ["./raw", "fetch", HOST, "8000", "100000"];
    let said = Running::start(world.on_stack(mode, &words)).finish().success();
    assert!(said.stdout.contains("came 100000"), "{said}");
    assert_eq!(said.stderr, "", "{said}");
    drop(echo);
    world.assert_nothing_left();
}

#[test]
fn a_static_program_serves_from_forked_children() {
    let Some(world) = world() else { return };
    let server = Running::start(world.on_net("net", &["./raw", "serve", STACK, "7000"]));
    let _ = server.line("ready");
    let from_host = world.run(&["./raw", "fetch", STACK, "7000", BYTES]).success();
    assert!(from_host.stdout.contains(&format!("came {BYTES}")), "{from_host}");
    // A program with the library, in the same instance.
    let words = world.python(&[
        "-c",
        "import socket, sys\n\
         s = socket.create_connection((sys.argv[1], 7000))\n\
         s.sendall(b'hello'); s.shutdown(socket.SHUT_WR); print(s.recv(100))",
        STACK,
    ]);
    let inside = Running::start(world.on_net("net", &words)).finish().success();
    assert!(inside.stdout.contains("hello"), "{inside}");
    let said = server.finish().success();
    assert!(said.stdout.contains(&format!("peer {HOST}")), "{said}");
    assert!(said.stdout.contains(&format!("peer {STACK}")), "{said}");
    end(&world);
}

#[test]
fn a_port_is_free_again_and_belongs_to_one() {
    let Some(world) = world() else { return };
    for _ in 0..2 {
        let server = Running::start(world.on_net("net", &["./raw", "serve", STACK, "7000"]));
        let _ = server.line("ready");
        let second = Running::start(world.on_net("net", &["./raw", "serve", STACK, "7000"]));
        let second = second.finish().code(1);
        assert!(second.stdout.contains("listen: EADDRINUSE"), "{second}");
        for _ in 0..2 {
            let said = world.run(&["./raw", "fetch", STACK, "7000", "1000"]).success();
            assert!(said.stdout.contains("came 1000"), "{said}");
        }
        let _ = server.finish().success();
    }
    end(&world);
}

/// As a proxy does: it has connections to the port of others at which it listens itself.
#[test]
fn a_program_connects_to_the_port_at_which_it_listens() {
    let Some(world) = world() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let script = "import socket, sys\n\
        def listen():\n\
        \x20   l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
        \x20   l.bind(('0.0.0.0', 8000)); l.listen(); return l\n\
        l = listen()\n\
        c = socket.create_connection((sys.argv[1], 8000), 10)\n\
        c.sendall(b'hello'); print(c.recv(5))\n\
        l.close(); l = listen()\n\
        c.sendall(b'again'); print(c.recv(5))\n";
    let words = world.python(&["-c", script, HOST]);
    let both = ["run", "--net", "net", "--intercept", "seccomp", "--"].map(str::to_owned);
    let words: Vec<_> = both.into_iter().chain(words).collect();
    let said = Running::start(world.tasuki(&words)).finish().success();
    assert_eq!(said.stdout, "b'hello'\nb'again'\n", "{said}");
    drop(echo);
    end(&world);
}

/// The relay's own sockets for connections that have just ended do not keep it from the next one.
#[test]
fn connections_to_another_program_of_the_instance_follow_each_other() {
    let Some(world) = world() else { return };
    let serve = world.script("echo.py", &["0.0.0.0", "8000"]);
    let echo = Running::start(world.on_net("net", &serve));
    let _ = echo.line("ready");
    let script = "import socket, struct, sys\n\
        done = 0\n\
        for number in range(2000):\n\
        \x20   c = socket.create_connection((sys.argv[1], 8000), 10)\n\
        \x20   c.sendall(b'hello'); assert c.recv(5) == b'hello'\n\
        \x20   linger = struct.pack('ii', number % 2, 0)\n\
        \x20   c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)\n\
        \x20   c.close(); done += 1\n\
        print(done)\n";
    let words = world.python(&["-c", script, STACK]);
    let relay = ["run", "--net", "net", "--intercept", "seccomp", "--"].map(str::to_owned);
    let words: Vec<_> = relay.into_iter().chain(words).collect();
    let said = Running::start(world.tasuki(&words)).finish().success();
    assert_eq!(said.stdout, "2000\n", "{said}");
    drop(echo);
    end(&world);
}

/// Each relay's kernel chooses ports by itself, so another one may have had the same connection.
#[test]
fn a_connection_of_another_relay_may_be_remembered() {
    let Some(world) = world() else { return };
    let serve = world.script("echo.py", &["0.0.0.0", "8000"]);
    let echo = Running::start(world.on_net("net", &serve));
    let _ = echo.line("ready");
    let script = "import socket, sys\n\
        c = socket.socket(); c.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
        c.bind(('0.0.0.0', 7777)); c.connect((sys.argv[1], 8000))\n\
        c.sendall(b'hello'); print(c.recv(5)); c.shutdown(socket.SHUT_WR); print(c.recv(5))\n";
    let words = world.python(&["-c", script, STACK]);
    let relay = ["run", "--net", "net", "--intercept", "seccomp", "--"].map(str::to_owned);
    let words: Vec<_> = relay.into_iter().chain(words).collect();
    for _ in 0..3 {
        let said = Running::start(world.tasuki(&words)).finish().success();
        assert_eq!(said.stdout, "b'hello'\nb''\n", "{said}");
    }
    drop(echo);
    end(&world);
}

/// A child connects to ports whose listening sockets come and go. None of its connections keeps the
/// program from its port.
#[test]
fn a_port_is_listened_at_again_and_again() {
    let Some(world) = world() else { return };
    let source = program("rebind.c");
    let words = ["gcc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", "rebind", &*source];
    let _ = world.run(&words).success();
    for address in ["127.0.0.1", STACK] {
        let words = ["./rebind", address, "7700", "4000"];
        let said = Running::start(world.on_net("net", &words)).finish().success();
        assert_eq!(said.stdout, "4000 of 4000\n", "{said}");
    }
    end(&world);
}

#[test]
fn connects_end_as_the_peer_says() {
    let Some(world) = world() else { return };
    let connect = |words: &[&str]| {
        let words: Vec<_> = ["./raw"].iter().chain(words).copied().collect();
        Running::start(world.on_net("net", &words)).finish()
    };
    let refused = connect(&["fetch", HOST, "9", "1"]).code(1);
    assert!(refused.stdout.contains("connect: ECONNREFUSED"), "{refused}");
    let later = connect(&["nonblocking", HOST, "9"]).success();
    assert!(later.stdout.contains("connect: EINPROGRESS\nerror ECONNREFUSED"), "{later}");
    let nowhere = connect(&["fetch", NOBODY, "9", "1"]).code(1);
    assert!(nowhere.stdout.contains("connect: EHOSTUNREACH"), "{nowhere}");
    let words = world.python(&[
        "-c",
        "import socket, struct\n\
         l = socket.create_server(('0.0.0.0', 8001)); print('ready', flush=True)\n\
         for _ in range(2):\n\
         \x20   s = l.accept()[0]\n\
         \x20   if _ == 0: s.recv(1); s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, \
         struct.pack('ii', 1, 0)); s.close()\n",
    ]);
    let host = world.spawn(&words);
    let _ = host.line("ready");
    let reset = connect(&["reset", HOST, "8001"]).success();
    assert!(reset.stdout.contains("read: ECONNRESET"), "{reset}");
    let later = connect(&["nonblocking", HOST, "8001"]).success();
    assert!(later.stdout.contains("error none"), "{later}");
    drop(host);
    end(&world);
}

#[test]
fn datagrams_both_ways() {
    let Some(world) = world() else { return };
    let host = world.spawn(&["./raw", "answer", HOST, "5000"]);
    let _ = host.line("ready");
    let said = Running::start(world.on_net("net", &["./raw", "ask", HOST, "5000"]));
    let said = said.finish().success();
    assert!(said.stdout.contains("question from port 5000"), "{said}");
    let _ = host.finish().success();
    let inside = Running::start(world.on_net("net", &["./raw", "answer", STACK, "5001"]));
    let _ = inside.line("ready");
    // The port is known to the instance a moment after bind(2), so the first may be lost.
    let words = world.python(&[
        "-c",
        "import socket, sys\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.2)\n\
         while True:\n\
         \x20   s.sendto(b'question', (sys.argv[1], 5001))\n\
         \x20   try: print(s.recvfrom(100)); break\n\
         \x20   except OSError: pass\n",
        STACK,
    ]);
    let said = world.run(&words).success();
    assert!(said.stdout.contains("question"), "{said}");
    let _ = inside.finish().success();
    end(&world);
}

#[test]
fn calls_that_would_reach_the_hosts_network_are_refused() {
    let Some(world) = world() else { return };
    let said = Running::start(world.on_net("net", &["./raw", "calls"])).finish().success();
    for line in
        ["packet: EAFNOSUPPORT", "raw: EPERM", "io_uring: ENOSYS", "unknown: EPROTONOSUPPORT"]
    {
        assert!(said.stdout.contains(line), "{line}: {said}");
    }
    end(&world);
}

/// A program with sockets of both families, another without, and one of their own kind.
#[test]
fn programs_of_one_relay_reach_each_other() {
    let Some(world) = world() else { return };
    let script = "import socket, sys\n\
        six = socket.socket(socket.AF_INET6); six.setsockopt(41, 26, 1); six.bind(('::', 7000))\n\
        four = socket.socket(); four.bind(('0.0.0.0', 7000)); six.listen(); four.listen()\n\
        for at in sys.argv[1:]:\n\
        \x20   c = socket.create_connection((at, 7000)); s = four.accept()[0]\n\
        \x20   c.sendall(b'hello'); print(s.recv(5), c.getpeername()[0]); c.close(); s.close()\n\
        u = socket.socket(2, 2); u.bind(('127.0.0.1', 0)); v = socket.socket(2, 2)\n\
        while True:\n\
        \x20   v.sendto(b'hello', u.getsockname()); u.settimeout(0.2)\n\
        \x20   try: print(u.recv(5)); break\n\
        \x20   except OSError: pass\n";
    let words = world.python(&["-c", script, "127.0.0.1", STACK]);
    let both = ["run", "--net", "net", "--intercept", "seccomp", "--"].map(str::to_owned);
    let words: Vec<_> = both.into_iter().chain(words).collect();
    let said = Running::start(world.tasuki(&words)).finish().success();
    assert_eq!(said.stdout.matches("b'hello'").count(), 3, "{said}");
    end(&world);
}

/// An interface that a program asks for would be ignored, so the call is refused.
#[test]
fn the_instance_chooses_the_interface() {
    let Some(world) = world() else { return };
    let script = "import socket\n\
        for name, value in (25, b'eth0'), (62, 2):\n\
        \x20   try: socket.socket().setsockopt(socket.SOL_SOCKET, name, value)\n\
        \x20   except PermissionError: print('refused', name)\n";
    let words = world.python(&["-c", script]);
    let relay = ["run", "--net", "net", "--intercept", "seccomp", "--"].map(str::to_owned);
    let words: Vec<_> = relay.into_iter().chain(words).collect();
    let said = Running::start(world.tasuki(&words)).finish().success();
    assert_eq!(said.stdout, "refused 25\nrefused 62\n", "{said}");
    end(&world);
}

/// In mode `library` the stack is in one program, and there is no relay.
#[test]
fn direct_calls_in_mode_library_are_refused() {
    let Some(world) = World::with_kernel() else { return };
    build(&world);
    let said =
        Running::start(world.on_stack(Mode::Library, &["sh", "-c", "./raw ask 127.0.0.1 1"]));
    let said = said.finish().code(1);
    assert!(said.stdout.contains("socket: ENETDOWN"), "{said}");
    let _ = Running::start(world.on_stack(Mode::Library, &["./raw", "calls"])).finish().code(121);
    // Of an instance that others may use after it: bind(2) of a Unix socket is made.
    world.up("net", Mode::Library, &[]);
    let words = world.python(&[
        "-c",
        "import socket, subprocess\n\
         socket.socket(socket.AF_UNIX).bind('unix')\n\
         s = socket.socket(); s.bind(('0.0.0.0', 7000)); s.listen()\n\
         print(subprocess.run(['./raw', 'ask', '127.0.0.1', '1'], capture_output=True).stdout)",
    ]);
    let said = Running::start(world.on_net("net", &words)).finish().success();
    assert!(said.stdout.contains("socket: ENETDOWN"), "{said}");
    assert!(said.stderr.contains("makes sockets without libc"), "{said}");
    world.down("net");
    world.assert_nothing_left();
}

/// The socket's path and the process's user do not let it in: its relay does.
#[test]
fn programs_that_change_their_user_or_root_stay_admitted() {
    let Some(world) = world() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let script = "import encodings.idna, os, socket, sys\n\
        if 'user' in sys.argv: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n\
        if 'root' in sys.argv: os.mkdir('empty'); os.chroot('empty'); os.chdir('/')\n\
        if 'closed' in sys.argv: os.closerange(3, 4096)\n\
        if 'daemon' in sys.argv and os.fork(): os.wait(); sys.exit()\n\
        if 'daemon' in sys.argv: os.setsid()\n\
        s = socket.create_connection((sys.argv[1], 8000))\n\
        s.sendall(b'hello'); s.shutdown(socket.SHUT_WR); print(s.recv(100), flush=True)\n";
    for what in ["user", "root", "closed", "daemon"] {
        let words = world.python(&["-c", script, HOST, what]);
        let said = Running::start(world.on_net("net", &words)).finish().success();
        assert!(said.stdout.contains("hello"), "{what}: {said}");
        assert_eq!(said.stderr, "", "{what}: {said}");
    }
    drop(echo);
    end(&world);
}

/// libc's resolver makes its sockets without the library. The query comes from the instance.
#[test]
fn names_are_asked_for_over_the_instance() {
    let Some(world) = world() else { return };
    let words = world.python(&[
        "-c",
        "import socket\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 53))\n\
         print('ready', flush=True)\n\
         while True:\n\
         \x20   q, peer = s.recvfrom(512)\n\
         \x20   end = q.index(b'\\0', 12) + 5\n\
         \x20   v4 = q[end - 4:end - 2] == b'\\0\\1'\n\
         \x20   print('asked by', peer[0], flush=True)\n\
         \x20   answer = b'\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x05\\0\\4\\x0a\\x01\\x02\\x03'\n\
         \x20   head = b'\\x81\\x80\\0\\1\\0' + (b'\\1' if v4 else b'\\0') + b'\\0\\0\\0\\0'\n\
         \x20   s.sendto(q[:2] + head + q[12:end] + (answer if v4 else b''), peer)\n",
    ]);
    let server = world.spawn(&words);
    let _ = server.line("ready");
    let said = Running::start(world.on_net("net", &["getent", "ahostsv4", "name.example"]));
    let said = said.finish().success();
    assert!(said.stdout.contains("10.1.2.3"), "{said}");
    let line = server.line("asked by");
    assert_eq!(line.trim(), format!("asked by {STACK}"));
    drop(server);
    end(&world);
}

/// A program that was not started by `tasuki run` has no relay, whatever it asks for.
#[test]
fn an_introduction_needs_the_filter() {
    let Some(world) = world() else { return };
    let words = world.python(&[
        "-c",
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n\
         print(libc.syscall(41, 2, 15, 0x7a5), ctypes.get_errno())",
    ]);
    let said = world.run(&words).success();
    assert_eq!(said.stdout.trim(), "-1 22", "EINVAL: {said}");
    end(&world);
}

/// Most programs need no network namespace of the relay's, and none is made for them.
#[test]
fn the_relay_leaves_the_hosts_network_when_a_program_needs_it() {
    let Some(world) = world() else { return };
    let script = r#"
import os, socket, subprocess, sys
def in_our_namespace():
    ours = os.readlink('/proc/self/ns/net')
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            comm = open(f'/proc/{pid}/comm').read().strip()
            if comm == 'tasuki-relay' and os.readlink(f'/proc/{pid}/ns/net') == ours:
                return True
        except OSError:
            pass
    return False
one = socket.socket()
print('with the library', in_our_namespace())
subprocess.run(['./raw', 'fetch', sys.argv[1], '9', '1'], stdout=subprocess.DEVNULL)
print('with a static program', in_our_namespace())
"#;
    let words = world.python(&["-c", script, HOST]);
    let said = Running::start(world.on_net("net", &words)).finish().success();
    assert_eq!(said.stdout.trim(), "with the library True\nwith a static program False", "{said}");
    end(&world);
}

/// An ICMP error reaches the socket that Linux would tell: that with its ends, if it has a peer,
/// and one without a peer only in its queue.
#[test]
fn errors_of_datagrams_reach_their_senders() {
    let Some(world) = world() else { return };
    let kernel = world.run(&world.script("unreachable.py", &[HOST, HOST])).success();
    let words = world.script("unreachable.py", &[STACK, HOST]);
    let both = ["run", "--net", "net", "--intercept", "seccomp", "--"].map(str::to_owned);
    let words: Vec<_> = both.into_iter().chain(words).collect();
    let said = Running::start(world.tasuki(&words)).finish().success();
    assert_eq!(said.stdout, kernel.stdout, "{said}");
    end(&world);
}

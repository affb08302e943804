//! Mode `library`: the stack is inside the program, and begins and ends with it.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tasuki_tests::{Finished, HOST, Mode, Running, STACK, World, eventually};

const NET: &str = "inside";

fn roles(world: &World) -> Vec<String> {
    world.ps(NET).processes.into_iter().map(|process| process.role).collect()
}

/// A program on the instance that fetches a small file and says how long it is.
fn fetches(world: &World) -> Running {
    let code = format!(
        "import urllib.request as r; print(len(r.urlopen('http://{HOST}:8000/file').read()))"
    );
    Running::start(world.on_net(NET, &world.python(&["-c", &code])))
}

/// A world with an instance, and a file on the host's HTTP server.
fn world() -> Option<(World, Running)> {
    let world = World::new()?;
    std::fs::write(world.path("file"), vec![b'x'; 12_345]).expect("a file in the world");
    let server = world.http_server();
    world.up(NET, Mode::Library, &[]);
    Some((world, server))
}

#[test]
fn one_program_at_a_time_has_the_stack() {
    let Some((world, server)) = world() else { return };
    // The stack has not begun yet, and the command does not wait for an answer.
    assert_eq!(roles(&world), ["supervisor"]);
    let said = Running::start(world.tasuki(&["ss", "--net", NET])).finish();
    assert!(said.stderr.contains("begins with the program's first socket"), "{said}");

    let echo = Running::start(world.on_net(NET, &world.script("echo.py", &["0.0.0.0", "9000"])));
    let _ = echo.line("ready");
    let status = world.ps(NET);
    assert_eq!(status.mode, "library");
    assert_eq!(roles(&world), ["supervisor", "client"]);
    assert_eq!(world.ss(NET).len(), 1);
    let said = Running::start(world.tasuki(&["addr", "--net", NET])).finish().success();
    assert!(said.stdout.contains(STACK), "{said}");
    // The program computes nothing and calls nothing, and is reached all the same.
    let _ = world.run(&["ping", "-c", "2", "-i", "0.1", "-W", "10", STACK]).success();

    let said = fetches(&world).finish();
    assert!(said.stderr.contains("the stack is inside one program"), "{said}");
    echo.signal(Signal::KILL);
    let _ = echo.finish();
    // Whatever the first one's end was like, the next one begins anew.
    eventually("the host is gone", || roles(&world) == ["supervisor"]);
    for _ in 0..2 {
        let said = fetches(&world).finish().success();
        assert_eq!(said.stdout.trim(), "12345", "{said}");
    }
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

/// A hostile program that hosts the servers in this way.
fn hostile(world: &World, kind: &str) -> Running {
    let socket = format!("/run/tasuki/{NET}.sock");
    let host = world.spawn(&[env!("CARGO_BIN_EXE_hostile"), &socket, kind]);
    let _ = host.line("hosting");
    host
}

/// `ps` within a bound, whatever the host of the servers does.
fn ps_in_time(world: &World) -> Finished {
    let tasuki = tasuki_tests::tasuki_binary();
    let words = ["timeout", "30", tasuki.to_str().expect("a plain path"), "ps", NET];
    Running::start(world.command(&words)).finish()
}

/// The host floods the supervisor with events, or answers nothing. The supervisor goes on.
#[test]
fn a_host_that_does_not_answer_keeps_nobody_waiting() {
    let Some((world, server)) = world() else { return };
    for kind in ["events", "silence"] {
        let host = hostile(&world, kind);
        let said = ps_in_time(&world).code(125);
        assert!(said.stderr.contains("does not answer"), "{kind}: {said}");
        assert!(said.stderr.contains(&format!("hostile (process {})", host.pid())), "{said}");
        let said = fetches(&world).finish();
        assert!(said.stderr.contains("the stack is inside one program"), "{kind}: {said}");
        drop(host);
        eventually("the host is gone", || roles(&world) == ["supervisor"]);
        let said = fetches(&world).finish().success();
        assert_eq!(said.stdout.trim(), "12345", "{kind}: {said}");
    }
    let host = hostile(&world, "events");
    world.down(NET);
    drop((host, server));
    world.assert_nothing_left();
}

/// A host that breaks the rules of its control connections is lost, and the instance goes on.
#[test]
fn a_host_that_breaks_the_rules_is_dropped_alone() {
    let Some((world, server)) = world() else { return };
    for kind in ["ids", "refusal", "device"] {
        let host = hostile(&world, kind);
        let _ = host.line("dropped");
        drop(host);
        eventually("the host is gone", || roles(&world) == ["supervisor"]);
        let said = fetches(&world).finish().success();
        assert_eq!(said.stdout.trim(), "12345", "{kind}: {said}");
    }
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

/// A forked child has no stack. Its parent's sockets are no descriptors in the child, and new
/// sockets are refused. The child does not keep the parent's stack from ending.
#[test]
fn a_forked_child_has_no_stack() {
    let Some((world, server)) = world() else { return };
    let code = format!(
        "import os, socket, sys\n\
         s = socket.create_connection(('{HOST}', 8000))\n\
         child = os.fork()\n\
         if child == 0:\n\
         \tfor act in (lambda: s.send(b'x'), lambda: socket.create_connection(('{HOST}', 8000))):\n\
         \t\ttry: act(); os._exit(1)\n\
         \t\texcept OSError: pass\n\
         \tos._exit(7)\n\
         status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n\
         s.send(b'GET /file HTTP/1.0\\r\\n\\r\\n')\n\
         got = b''\n\
         while True:\n\
         \tmore = s.recv(65536)\n\
         \tif not more: break\n\
         \tgot += more\n\
         print('child', status, 'parent', len(got) > 12345)\n\
         sys.stdout.flush()\n\
         if os.fork() == 0: os.execvp('sleep', ['sleep', '600'])\n"
    );
    let program = Running::start(world.on_net(NET, &world.python(&["-c", &code])));
    assert_eq!(program.line("child"), "child 7 parent True");
    // The grandchild sleeps on, but the stack has ended with the program.
    eventually("the host is gone", || roles(&world) == ["supervisor"]);
    let said = fetches(&world).finish().success();
    assert_eq!(said.stdout.trim(), "12345", "{said}");
    drop((program, server));
    world.down(NET);
}

/// Bytes that the program sent before its end arrive, though the stack ends with it.
/// Nobody waits for servers that ended with their program: so many runs would wait for servers that
/// hang for 90 seconds.
#[test]
fn an_instance_ends_with_its_program() {
    let Some(world) = World::new() else { return };
    let once = world.on_stack(Mode::Library, &["true"]);
    let again = "for i in $(seq 30); do \"$0\" \"$@\" || exit 1; done";
    let mut all = Command::new("sh");
    all.args(["-c", again]).arg(once.get_program()).args(once.get_args());
    let state = once.get_envs().filter_map(|(name, value)| Some((name, value?)));
    all.envs(state).stdin(Stdio::null());
    let _ = Running::start(all).finish_within(Duration::from_secs(45)).success();
    world.assert_nothing_left();
}

#[test]
fn bytes_sent_before_the_end_arrive() {
    let Some((world, server)) = world() else { return };
    let sink = world.spawn(&world.script("sink.py", &["0.0.0.0", "9001"]));
    let _ = sink.line("ready");
    let code = format!(
        "import socket\n\
         s = socket.create_connection(('{HOST}', 9001))\n\
         s.sendall(b'PUT / HTTP/1.0\\r\\nContent-Length: 3000000\\r\\n\\r\\n' + b'x' * 3000000)\n\
         s.close()\n"
    );
    let program = Running::start(world.on_net(NET, &world.python(&["-c", &code])));
    let _ = program.finish().success();
    let _ = sink.line("sha256");
    drop((sink, server));
    world.down(NET);
    world.assert_nothing_left();
}

/// Small writes that are collected leave although the program makes no other call after them.
#[test]
fn small_writes_leave_by_themselves() {
    let Some((world, server)) = world() else { return };
    let peer = "import socket\n\
                listener = socket.create_server(('0.0.0.0', 9002))\n\
                print('ready', flush=True)\n\
                s, got = listener.accept()[0], 0\n\
                while got < 20000: got += len(s.recv(65536))\n\
                print('all', flush=True)\n";
    let peer = world.spawn(&world.python(&["-c", peer]));
    let _ = peer.line("ready");
    let code = format!(
        "import socket, threading\n\
         s = socket.create_connection(('{HOST}', 9002))\n\
         s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
         for i in range(2000): s.send(b'0123456789')\n\
         threading.Event().wait()\n"
    );
    let program = Running::start(world.on_net(NET, &world.python(&["-c", &code])));
    let _ = peer.line("all");
    drop((program, peer, server));
    world.down(NET);
}

/// A program that only polls and never waits has the stack work, and sees received data.
#[test]
fn a_program_that_only_polls_sees_received_data() {
    let Some((world, server)) = world() else { return };
    let code = format!(
        "import select, socket\n\
         def fetch(look):\n\
         \ts = socket.create_connection(('{HOST}', 8000))\n\
         \tready, got = look(s), 0\n\
         \ts.send(b'GET /file HTTP/1.0\\r\\n\\r\\n')\n\
         \twhile True:\n\
         \t\twhile not ready(): pass\n\
         \t\tmore = len(s.recv(1000))\n\
         \t\tif not more: return got > 12345\n\
         \t\tgot += more\n\
         def polled(s):\n\
         \tpoll = select.poll()\n\
         \tpoll.register(s, select.POLLIN)\n\
         \treturn lambda: poll.poll(0)\n\
         def epolled(s):\n\
         \tepoll = select.epoll()\n\
         \tepoll.register(s, select.EPOLLIN)\n\
         \treturn lambda: epoll.poll(0)\n\
         selected = lambda s: lambda: select.select([s], [], [], 0)[0]\n\
         print(fetch(polled), fetch(epolled), fetch(selected))\n"
    );
    let program = Running::start(world.on_net(NET, &world.python(&["-c", &code])));
    let said = program.finish().success();
    assert_eq!(said.stdout.trim(), "True True True", "{said}");
    drop(server);
    world.down(NET);
}

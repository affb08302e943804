//! `tasuki run --trace`: a line for each call that goes to Tasuki.

use std::collections::BTreeSet;
use std::fs;

use tasuki_tests::{HOST, Mode, Running, STACK, World};

/// A world with an instance.
fn world() -> Option<World> {
    let mode = Mode::shared()?;
    let world = World::with_kernel()?;
    world.up("net", mode, &[]);
    Some(world)
}

fn end(world: &World) {
    world.down("net");
    world.assert_nothing_left();
}

/// `tasuki run --net net OPTION -- WORDS…`
fn run<S: AsRef<str>>(world: &World, options: &[&str], words: &[S]) -> Running {
    let mut all = vec!["run", "--net", "net"];
    all.extend(options);
    all.push("--");
    all.extend(words.iter().map(AsRef::as_ref));
    Running::start(world.tasuki(&all))
}

/// The parts of a line: process, seconds, call and result, duration.
fn parts(line: &str) -> (u32, f64, &str, f64) {
    let wrong = || panic!("not a line of the trace: {line}");
    let mut words = line.splitn(3, ' ');
    let pid = words.next().and_then(|word| word.parse().ok()).unwrap_or_else(wrong);
    let at = words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| parts(line).1);
    let rest = words.next().unwrap_or_default();
    let rest = rest.strip_suffix(" (relay)").unwrap_or(rest);
    let (call, took) = rest.rsplit_once(" <").unwrap_or_else(|| panic!("no duration: {line}"));
    let took = took.trim_end_matches('>').parse();
    (pid, at, call, took.unwrap_or_else(|_| panic!("no duration: {line}")))
}

/// Calls and results, without what differs from run to run.
fn calls(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let parts: Vec<_> = lines.iter().map(|line| parts(line)).collect();
    for (_, at, call, took) in &parts {
        assert!(*at > 1.7e9 && (0.0..600.0).contains(took), "{call}");
    }
    parts.into_iter().map(|(_, _, call, _)| call.to_owned()).collect()
}

#[test]
fn a_programs_calls_have_a_line_each() {
    let Some(world) = world() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let script = "import socket, sys\n\
        s = socket.socket(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
        s.connect((sys.argv[1], 8000)); print(s.getpeername())\n\
        s.sendall(b'hello\\n'); s.shutdown(socket.SHUT_WR); print(s.recv(100)); s.close()\n\
        r = socket.socket()\n\
        try: r.connect((sys.argv[1], 9))\n\
        except ConnectionRefusedError: print('refused')\n";
    let words = world.python(&["-c", script, HOST]);
    let said = run(&world, &["--trace"], &words).finish().success();
    assert!(said.stdout.contains("hello") && said.stdout.contains("refused"), "{said}");
    let calls = calls(&said.stderr);
    let mut at = 0;
    for expected in [
        "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_IP) = ",
        ", IPPROTO_TCP, TCP_NODELAY, [1], 4) = 0",
        &format!(", {{AF_INET, {HOST}:8000}}, 16) = 0"),
        &format!(", {{AF_INET, {HOST}:8000}}, [16]) = 0"),
        ", \"hello\\n\", 6, 0) = 6",
        ", SHUT_WR) = 0",
        ", \"hello\\n\", 100, 0) = 6",
        "close(",
        &format!(", {{AF_INET, {HOST}:9}}, 16) = -1 ECONNREFUSED (Connection refused)"),
    ] {
        let found = calls[at..].iter().position(|call| call.contains(expected));
        at += found.unwrap_or_else(|| panic!("{expected}: {said}")) + 1;
    }
    let silent = run(&world, &[], &words).finish().success();
    assert_eq!(silent.stderr, "", "{silent}");
    drop(echo);
    end(&world);
}

/// A program that forks, closes all descriptors and changes its directory; and one behind a shell.
#[test]
fn all_processes_write_to_one_file() {
    let Some(world) = world() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let script = "import os, socket, sys\n\
        def ask():\n\
        \x20   s = socket.create_connection((sys.argv[1], 8000))\n\
        \x20   s.sendall(b'hello'); s.shutdown(socket.SHUT_WR); assert s.recv(100)\n\
        ask()\n\
        for _ in range(3):\n\
        \x20   if os.fork() == 0:\n\
        \x20       os.chdir('/'); os.closerange(3, 4096); ask(); os._exit(0)\n\
        for _ in range(3): assert os.wait()[1] == 0\n\
        then = 'import socket, sys\\ns = socket.socket(); s.connect_ex((sys.argv[1], 9))'\n\
        words = ['-', sys.executable, '-c', then, sys.argv[1]]\n\
        os.execlp('sh', 'sh', '-c', 'exec \"$@\"', *words)\n";
    let words = world.python(&["-c", script, HOST]);
    let said = run(&world, &["-o", "calls.txt"], &words).finish().success();
    assert_eq!(said.stderr, "", "{said}");
    let text = fs::read_to_string(world.path("calls.txt")).unwrap();
    let connected = |line: &&str| line.contains(&format!("{{AF_INET, {HOST}:8000}}, 16) = 0"));
    let pids: BTreeSet<u32> = text.lines().filter(connected).map(|line| parts(line).0).collect();
    assert_eq!(pids.len(), 4, "{text}");
    assert!(text.contains(&format!("{{AF_INET, {HOST}:9}}, 16) = -1 ECONNREFUSED")), "{text}");
    let _ = calls(&text);
    drop(echo);
    end(&world);
}

#[test]
fn calls_that_the_relay_answers_have_lines() {
    let Some(world) = world() else { return };
    let script = "import socket, sys\n\
        s = socket.create_server((sys.argv[1], 7000)); print('listens')\n\
        try: socket.socket(2, 3, 1)\n\
        except PermissionError: print('refused')\n";
    let words = world.python(&["-c", script, STACK]);
    let options = ["--intercept", "seccomp", "--trace"];
    let said = run(&world, &options, &words).finish().success();
    assert!(said.stdout.contains("listens\nrefused"), "{said}");
    // The refusal has a sentence of its own.
    let lines = said.stderr.lines().filter(|line| !line.contains("--raw-sockets"));
    let lines: Vec<&str> = lines.collect();
    assert!(lines.iter().all(|line| line.ends_with(" (relay)")), "{said}");
    let calls = calls(&lines.join("\n"));
    for expected in [
        "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_IP) = ",
        ", 16) = ?",
        "listen(",
        "socket(AF_INET, SOCK_RAW|SOCK_CLOEXEC, IPPROTO_ICMP) = -1 EPERM (Operation not permitted)",
    ] {
        assert!(calls.iter().any(|call| call.contains(expected)), "{expected}: {said}");
    }
    // libc's resolver, beside the library.
    let words = ["getent", "ahostsv4", "name.example"];
    let said = run(&world, &["--trace=calls.txt"], &words).finish();
    let text = fs::read_to_string(world.path("calls.txt")).unwrap();
    let line = text.lines().find(|line| line.contains("socket(AF_INET, SOCK_DGRAM|"));
    assert!(line.is_some_and(|line| line.ends_with(" (relay)")), "{text}{said}");
    end(&world);
}

#[test]
fn curl_is_traced() {
    let Some(world) = world() else { return };
    let server = world.http_server();
    fs::write(world.path("file"), "content").unwrap();
    let url = format!("http://{HOST}:8000/file");
    let words = ["curl", "-sS", &url];
    let said = run(&world, &["--trace=calls.txt"], &words).finish().success();
    assert_eq!((&*said.stdout, &*said.stderr), ("content", ""), "{said}");
    let text = fs::read_to_string(world.path("calls.txt")).unwrap();
    for expected in [
        &*format!("{{AF_INET, {HOST}:8000}}, 16) = -1 EINPROGRESS (Operation now in progress)"),
        "poll([{fd=",
        "\"GET /file HTTP/1.1\\r\\nHost: 10.219\"...",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let _ = calls(&text);
    drop(server);
    end(&world);
}

#[test]
fn an_instance_of_its_own_is_traced_in_each_mode() {
    for mode in [Mode::Split, Mode::Library] {
        let Some(world) = World::with_kernel() else { return };
        let script = "import socket; socket.socket().listen()";
        let words = world.python(&["-c", script]);
        let said = Running::start(world.on_stack_with(mode, &["--trace"], &words)).finish();
        let said = said.success();
        assert!(said.stderr.contains("listen("), "{said}");
        let _ = calls(&said.stderr);
        world.assert_nothing_left();
    }
}

#[test]
fn a_file_that_cannot_be_made_is_refused() {
    let Some(world) = world() else { return };
    for options in [&["--trace=nowhere/calls"][..], &["-o", "nowhere/calls"]] {
        let said = run(&world, options, &["true"]).finish().code(1);
        assert!(said.stderr.contains("cannot write to nowhere/calls: No such file"), "{said}");
    }
    let said = run(&world, &["--trace", "-o", "file"], &["true"]).finish();
    assert!(!said.status.success() && said.stderr.contains("cannot be used with"), "{said}");
    end(&world);
}

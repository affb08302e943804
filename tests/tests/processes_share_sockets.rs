//! Sockets that several processes hold: inherited, passed on, listened on together.

use tasuki_tests::{
    HOST, Mode, Running, STACK, World, eventually, installed, program, sha256, skip, write_noise,
};

const NET: &str = "many";

/// A process for each connection: the parent accepts, forks and closes its copy; the child serves.
#[test]
fn a_child_serves_the_connection_that_its_parent_accepted() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::given(), &[]);
    let server = world.script("forking.py", &["0.0.0.0", "8000"]);
    let server = Running::start(world.on_net(NET, &server));
    let _ = server.line("ready");
    for (times, bytes, at_once) in [("5", "100", "1"), ("20", "300000", "4")] {
        let ask = world.script("ask_digest.py", &[STACK, "8000", times, bytes, at_once]);
        let said = world.run(&ask).success();
        assert_eq!(said.stdout.trim(), format!("answered {times}"), "{said}");
    }
    let listens = |row: &abi::control::SocketStatus| row.state == "LISTEN";
    eventually("only the listener is left", || {
        let rows = world.ss(NET);
        let open = rows.iter().filter(|row| !row.state.starts_with("TIME"));
        open.clone().count() == 1 && open.clone().all(listens)
    });
    server.signal(rustix::process::Signal::KILL);
    let _ = server.finish();
    eventually("nothing is left", || world.ss(NET).iter().all(|row| row.state.starts_with("TIME")));
    world.down(NET);
    world.assert_nothing_left();
}

/// Two children accept on their parent's listener at the same time, and both get connections. When
/// one has ended, the other goes on.
#[test]
fn children_accept_on_one_listener() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::given(), &[]);
    let server =
        Running::start(world.on_net(NET, &world.script("prefork.py", &["0.0.0.0", "8000", "2"])));
    let _ = (server.line("ready"), server.line("ready"));
    let ask = world.script("ask_digest.py", &[STACK, "8000", "40", "200000", "8"]);
    let said = world.run(&ask).success();
    assert_eq!(said.stdout.trim(), "answered 40", "{said}");
    server.signal(rustix::process::Signal::TERM);
    let said = server.finish().success();
    let served: Vec<u32> =
        said.stdout.lines().filter_map(|line| line.strip_prefix("served ")?.parse().ok()).collect();
    assert_eq!(served.iter().sum::<u32>(), 40, "{said}");
    assert!(served.len() == 2 && served.iter().all(|count| *count > 0), "{said}");
    eventually("nothing is left", || world.ss(NET).iter().all(|row| row.state.starts_with("TIME")));
    world.down(NET);
    world.assert_nothing_left();
}

/// nginx with two workers: the master's listener is in both of them. `reload` makes new workers.
fn nginx(listen: &str, user: &str) {
    let Some(world) = World::new() else { return };
    if !installed("nginx") {
        return skip("nginx is not installed");
    }
    std::fs::create_dir(world.path("www")).expect("a folder");
    write_noise(&world.path("www/file"), 1 << 20, 3);
    std::fs::write(world.path("nginx.conf"), nginx_conf(&world, listen, user)).expect("a file");
    world.up(NET, Mode::given(), &[]);
    let conf = world.file("nginx.conf");
    let server = ["nginx", "-c", &conf, "-e", &world.file("error.log")].map(str::to_owned);
    let mut server = Running::start(world.on_net(NET, &server));
    let url = format!("http://{STACK}:8000/file");
    let sum = format!("30 {}", sha256(&world.path("www/file")));
    let listeners = if listen.contains("reuseport") { 2 } else { 1 };
    eventually("nginx listens", || !server.has_ended() && serving(&world) == listeners);
    for _ in 0..2 {
        let said = world.run(&world.script("fetch_many.py", &[&url, "30"])).success();
        assert_eq!(said.stdout.trim(), sum, "{said} {}", log(&world));
        server.signal(rustix::process::Signal::HUP);
    }
    server.signal(rustix::process::Signal::QUIT);
    let said = server.finish().success();
    let log = log(&world);
    assert!(!log.contains("[alert]") && !log.contains("[crit]"), "{said} {log}");
    eventually("nothing is left", || world.ss(NET).iter().all(|row| row.state.starts_with("TIME")));
    world.down(NET);
    world.assert_nothing_left();
}

fn log(world: &World) -> String {
    std::fs::read_to_string(world.path("error.log")).unwrap_or_default()
}

fn serving(world: &World) -> usize {
    world.ss(NET).iter().filter(|row| row.state == "LISTEN").count()
}

fn nginx_conf(world: &World, listen: &str, user: &str) -> String {
    let (log, pid, root) = (world.file("error.log"), world.file("pid"), world.file("www"));
    format!(
        "user {user}; worker_processes 2; daemon off; error_log {log} info; pid {pid};
         events {{ worker_connections 256; }}
         http {{ access_log off; sendfile on; server {{ listen {listen}; root {root}; }} }}"
    )
}

#[test]
fn nginx_serves_with_two_workers() {
    nginx("8000", "root");
}

/// Each worker has a listener of its own, and runs as another user.
#[test]
fn nginx_gives_each_worker_a_listener() {
    nginx("8000 reuseport", "nobody nogroup");
}

/// Runs a server on the stack, has it answer `times` times, ends it and looks that nothing is left.
fn answers(world: &World, server: &[String], times: &str) {
    world.up(NET, Mode::given(), &[]);
    let server = Running::start(world.on_net(NET, server));
    eventually("it listens", || serving(world) == 1);
    let ask = world.script("ask_digest.py", &[STACK, "8000", times, "200000", "4"]);
    let said = world.run(&ask).success();
    assert_eq!(said.stdout.trim(), format!("answered {times}"), "{said}");
    server.signal(rustix::process::Signal::TERM);
    let _ = server.finish();
    eventually("nothing is left", || world.ss(NET).iter().all(|row| row.state.starts_with("TIME")));
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn connections_are_passed_to_another_process() {
    let Some(world) = World::new() else { return };
    let path = world.file("way");
    answers(&world, &world.script("pass_on.py", &["0.0.0.0", "8000", &path]), "10");
}

/// All ways to start a program that has a socket of its parent's under the parent's number.
#[test]
fn sockets_are_inherited_under_their_own_numbers() {
    let Some(world) = World::new() else { return };
    let Some(mode) = Mode::shared() else { return };
    let words = world.script("inherited.py", &[]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = Running::start(world.on_stack(mode, &words)).finish().success();
    assert!(said.stdout.ends_with("all\n"), "{said}");
    world.assert_nothing_left();
}

/// A program that forks is not blamed for the connections of its children, which are brief.
#[test]
fn many_brief_children_are_no_fault() {
    let Some(world) = World::new() else { return };
    let Some(mode) = Mode::shared() else { return };
    let code = "import os, socket\n\
         for _ in range(100):\n    \
             if os.fork() == 0:\n        \
                 socket.socket().close()\n        \
                 os._exit(0)\n    \
             os.wait()\n\
         print('all')\n";
    let words = world.python(&["-c", code]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = Running::start(world.on_stack(mode, &words)).finish().success();
    assert_eq!((&*said.stdout, &*said.stderr), ("all\n", ""), "{said}");
    world.assert_nothing_left();
}

/// A program that executes another one in its place, which finds the listener as descriptor 3.
#[test]
fn a_listener_survives_an_exec() {
    let Some(world) = World::new() else { return };
    let program = tasuki_tests::program("activated.py");
    let code = format!(
        "import os, socket, sys\n\
         listener = socket.create_server(('0.0.0.0', 8000))\n\
         os.dup2(os.dup(listener.fileno()), 3)\n\
         os.execve(sys.executable, [sys.executable, '{program}'], {{'LISTEN_FDS': '1'}})\n"
    );
    answers(&world, &world.python(&["-c", &code]), "10");
}

/// inetd: the child's standard input and output are the connection.
fn socat(exec: &str) {
    let Some(world) = World::new() else { return };
    if !installed("socat") {
        return skip("socat is not installed");
    }
    world.up(NET, Mode::given(), &[]);
    let listen = "TCP-LISTEN:8000,reuseaddr,fork";
    let server = Running::start(world.on_net(NET, &["socat", listen, exec]));
    eventually("it listens", || serving(&world) == 1);
    copies(&world);
    server.signal(rustix::process::Signal::TERM);
    let _ = server.finish();
    eventually("nothing is left", || world.ss(NET).iter().all(|row| row.state.starts_with("TIME")));
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn socat_forks_and_copies() {
    socat("EXEC:cat");
}

#[test]
fn socat_gives_the_connection_as_standard_input() {
    socat("EXEC:cat,nofork");
}

/// Parent and child use the same connection and the same datagram socket in turn.
#[test]
fn a_socket_goes_to_a_child_and_back() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::given(), &[]);
    let turns = world.script("take_turns.py", &["0.0.0.0", "8000"]);
    let turns = Running::start(world.on_net(NET, &turns));
    let _ = turns.line("ready");
    let code = format!(
        "import socket\n\
         to = ('{STACK}', 8000)\n\
         conn = socket.create_connection(to, timeout=60)\n\
         conn.sendall(b'123456789')\n\
         got = b''\n\
         while more := conn.recv(100): got += more\n\
         print(got.decode(), end='')\n\
         sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         sock.settimeout(60)\n\
         sock.sendto(b'one', to)\n\
         sock.sendto(b'two', to)\n\
         socket.create_connection(to, timeout=60).sendall(b'x')\n\
         print(sock.recv(20).decode(), sock.recv(20).decode())\n\
         socket.create_connection(to, timeout=60)\n"
    );
    let said = world.run(&world.python(&["-c", &code])).success();
    assert_eq!(said.stdout, "child 456\nparent 123789\nchild one parent two\n", "{said}");
    let _ = turns.finish().success();
    world.down(NET);
    world.assert_nothing_left();
}

/// One process writes while the other one reads. Each takes the connection from the other, again
/// and again.
#[test]
fn two_processes_use_a_connection_at_the_same_time() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::given(), &[]);
    let echo = world.spawn(&world.script("echo.py", &[HOST, "8000"]));
    let _ = echo.line("ready");
    for (mode, total, chunk) in [
        ("poll", "60000", "5"),
        ("select", "60000", "20"),
        ("poll", "4000000", "40000"),
        ("blocking", "4000", "20"),
        ("blocking", "4000000", "40000"),
    ] {
        let users = world.script("two_users.py", &[HOST, "8000", mode, total, chunk]);
        let _ = Running::start(world.on_net(NET, &users)).finish().success();
    }
    drop(echo);
    world.down(NET);
    world.assert_nothing_left();
}

/// Each call finds the socket at another process, mostly.
#[test]
fn several_processes_call_on_a_socket_at_the_same_time() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::given(), &[]);
    let echo = world.spawn(&world.script("echo.py", &[HOST, "8000"]));
    let _ = echo.line("ready");
    let calls = world.script("shared_calls.py", &[HOST, "8000", "300"]);
    let said = Running::start(world.on_net(NET, &calls)).finish().success();
    assert_eq!(said.stdout, "done\n", "{said}");
    drop(echo);
    world.down(NET);
    world.assert_nothing_left();
}

/// redis saves by a fork while clients go on. The child that saves touches no socket.
#[test]
fn redis_serves_while_a_child_saves() {
    let Some(world) = World::new() else { return };
    if !installed("redis-server") {
        return skip("redis-server is not installed");
    }
    world.up(NET, Mode::given(), &[]);
    let folder = world.file("");
    let words = ["redis-server", "--bind", "0.0.0.0", "--port", "8000", "--protected-mode", "no"];
    let words = [&words[..], &["--dir", &folder, "--save", "1 1"]].concat();
    let server = Running::start(world.on_net(NET, &words));
    eventually("it listens", || serving(&world) == 1);
    let load = world.script("redis_load.py", &[STACK, "8000", "8", "4"]);
    let said = world.run(&load).success();
    assert!(said.stdout.contains("all as written"), "{said}");
    server.signal(rustix::process::Signal::TERM);
    let said = server.finish();
    assert!(said.stdout.matches("DB saved on disk").count() >= 2, "{said}");
    world.down(NET);
    world.assert_nothing_left();
}

/// gunicorn: an arbiter, and workers that accept on its listener.
#[test]
fn gunicorn_serves_with_workers() {
    let Some(world) = World::new() else { return };
    if !installed("gunicorn") {
        return skip("gunicorn is not installed");
    }
    let program = "def app(environ, start):\n    body = environ['wsgi.input'].read()\n    \
                   start('200 OK', [('Content-Length', str(len(body)))])\n    return [body]\n";
    std::fs::write(world.path("echoing.py"), program).expect("a file");
    write_noise(&world.path("sent"), 300_000, 4);
    world.up(NET, Mode::given(), &[]);
    let words = ["gunicorn", "-w", "2", "-b", "0.0.0.0:8000", "--no-sendfile", "echoing:app"];
    let server = Running::start(world.on_net(NET, &words));
    eventually("it listens", || serving(&world) == 1);
    let url = format!("http://{STACK}:8000/");
    for _ in 0..6 {
        let post = ["curl", "-sS", "-m", "60", "--data-binary", "@sent", "-o", "back", &url];
        let _ = world.run(&post).success();
        assert_eq!(sha256(&world.path("back")), sha256(&world.path("sent")));
    }
    server.signal(rustix::process::Signal::TERM);
    let said = server.finish().success();
    assert!(!said.stderr.contains("Traceback"), "{said}");
    eventually("nothing is left", || world.ss(NET).iter().all(|row| row.state.starts_with("TIME")));
    world.down(NET);
    world.assert_nothing_left();
}

/// A program that Python starts by `vfork`, with the connection as standard input and output.
#[test]
fn a_child_of_vfork_gets_the_connection_by_dup2() {
    let Some(world) = World::new() else { return };
    if !installed("socat") {
        return skip("socat is not installed");
    }
    let code = "import socket, subprocess\n\
                listener = socket.create_server(('0.0.0.0', 8000))\n\
                while True:\n    \
                    conn, _ = listener.accept()\n    \
                    child = subprocess.Popen(['cat'], stdin=conn, stdout=conn)\n    \
                    conn.close()\n    \
                    child.wait()\n";
    world.up(NET, Mode::given(), &[]);
    let server = Running::start(world.on_net(NET, &world.python(&["-c", code])));
    eventually("it listens", || serving(&world) == 1);
    copies(&world);
    server.signal(rustix::process::Signal::TERM);
    let _ = server.finish();
    eventually("nothing is left", || world.ss(NET).iter().all(|row| row.state.starts_with("TIME")));
    world.down(NET);
    world.assert_nothing_left();
}

/// Three connections, which get back what they send.
fn copies(world: &World) {
    write_noise(&world.path("sent"), 1 << 20, 5);
    let (sent, far) = (world.file("sent"), format!("TCP:{STACK}:8000"));
    for _ in 0..3 {
        let fetch = format!("socat -t 60 - {far} < {sent} | cmp - {sent}");
        let _ = world.run(&["timeout", "100", "sh", "-c", &fetch]).success();
    }
}

/// `reload` while four clients fetch: new workers take over the listener, and no request fails.
#[test]
fn nginx_reloads_under_load() {
    let Some(world) = World::new() else { return };
    if !installed("nginx") {
        return skip("nginx is not installed");
    }
    std::fs::create_dir(world.path("www")).expect("a folder");
    write_noise(&world.path("www/file"), 100_000, 3);
    std::fs::write(world.path("nginx.conf"), nginx_conf(&world, "8000", "root")).expect("a file");
    world.up(NET, Mode::given(), &[]);
    let conf = world.file("nginx.conf");
    let server = ["nginx", "-c", &conf, "-e", &world.file("error.log")].map(str::to_owned);
    let server = Running::start(world.on_net(NET, &server));
    eventually("nginx listens", || serving(&world) == 1);
    let code = format!(
        "import os, urllib.request\n\
         while not os.path.exists('enough'):\n    \
             body = urllib.request.urlopen('http://{STACK}:8000/file', timeout=60).read()\n    \
             assert len(body) == 100000\n"
    );
    let loads: Vec<_> = (0..4).map(|_| world.spawn(&world.python(&["-c", &code]))).collect();
    let begun = || log(&world).matches("start worker process ").count();
    for round in 1..=4 {
        eventually("the workers have begun", || begun() >= 2 * round);
        server.signal(rustix::process::Signal::HUP);
    }
    eventually("the last workers have begun", || begun() >= 10);
    std::fs::write(world.path("enough"), "").expect("a file");
    for load in loads {
        let _ = load.finish().success();
    }
    server.signal(rustix::process::Signal::QUIT);
    let _ = server.finish().success();
    let log = log(&world);
    assert!(!log.contains("[alert]") && !log.contains("[crit]"), "{log}");
    world.down(NET);
    world.assert_nothing_left();
}

/// Runs a C program on the kernel's stack and ours, and compares what it says.
fn compare(source: &str) {
    let Some(world) = World::with_kernel() else { return };
    let executable = world.file("compared");
    let source = program(source);
    let words = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-o"];
    let words: Vec<_> = words.into_iter().chain([&*executable, &*source]).collect();
    let _ = world.run(&words).success();
    let kernel = Running::start(world.command(&[&executable])).finish().success();
    let Some(mode) = Mode::shared() else { return };
    let tasuki = Running::start(world.on_stack(mode, &[&executable])).finish().success();
    assert_eq!((tasuki.stdout, tasuki.stderr), (kernel.stdout, kernel.stderr));
    world.assert_nothing_left();
}

#[test]
fn sockets_survive_execl_and_its_like() {
    compare("executed.c");
}

#[test]
fn children_wait_in_a_set_of_their_parent() {
    compare("inherited_set.c");
}

#[test]
fn queues_are_counted_as_the_kernel_counts() {
    compare("queue_lengths.c");
}

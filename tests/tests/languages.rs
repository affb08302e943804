//! Programs in languages in which people write servers and clients: JavaScript, Go, Java, Python.
//!
//! Each runs as server on Tasuki, with clients on the far host and on Tasuki, and as client on
//! Tasuki of a server of the far host. Both families of addresses are used. The data are compared.
//! No packet uses the host's network: [`ProgramWorld`].

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Signal;
use tasuki_tests::{
    DEVICE, HOST, HOST6, ProgramWorld, Running, STACK, STACK6, installed, program, sha256, skip,
    write_noise,
};

/// Sizes of a test: bytes of the file, clients at once, requests of each.
#[derive(Clone, Copy)]
struct Load {
    bytes: usize,
    at_once: usize,
    times: usize,
}

/// For `make test`.
const SHORT: Load = Load { bytes: 700_001, at_once: 3, times: 2 };
/// For `make test-programs`.
const LONG: Load = Load { bytes: 5_000_001, at_once: 8, times: 12 };
/// Beside the relay, without the library.
const BY_RELAY: [&str; 2] = ["--intercept", "seccomp"];
/// With both.
const BY_BOTH: [&str; 2] = ["--intercept", "auto"];

/// A program of this family.
fn source(name: &str) -> String {
    program(&format!("languages/{name}"))
}

/// A world in which both hosts have IPv6 as well, with the file `file` of noise.
fn world(programs: &[&str], load: Load) -> Option<ProgramWorld> {
    let six = format!("{STACK6}/64");
    let world = ProgramWorld::new_with(&[&["curl"], programs].concat(), &["--ip", &six])?;
    write_noise(&world.path("file"), load.bytes, 14);
    Some(world)
}

/// A program: how it begins, and the words behind that for its server and its client.
struct Language {
    server: Vec<String>,
    client: Vec<String>,
}

impl Language {
    /// `words` begin both; `serve` and `fetch` choose.
    fn new(words: &[&str], serve: &str, fetch: &str) -> Self {
        let all = |what: &str| words.iter().chain([&what]).map(|word| (*word).to_owned()).collect();
        Self { server: all(serve), client: all(fetch) }
    }

    fn server(&self, port: u16, more: &[&str]) -> Vec<String> {
        let more = more.iter().map(|word| (*word).to_owned());
        self.server.iter().cloned().chain([port.to_string()]).chain(more).collect()
    }

    fn client(&self, base: &str, load: Load) -> Vec<String> {
        let numbers = [base.to_owned(), load.at_once.to_string(), load.times.to_string()];
        self.client.iter().cloned().chain(numbers).collect()
    }
}

/// Runs a program on the instance to its end.
fn run_inside(world: &ProgramWorld, how: &[&str], words: &[String]) -> tasuki_tests::Finished {
    world.start_with(how, words).finish().success()
}

/// The far host's server, for clients on Tasuki; then Tasuki's, for clients of both hosts.
fn both_roles(world: &ProgramWorld, how: &[&str], language: &Language, more: &[&str], load: Load) {
    let server = language.server(8001, more);
    let far = world.spawn(&server);
    let _ = far.line("ready");
    for address in [HOST.to_owned(), format!("[{HOST6}]")] {
        let base = format!("http://{address}:8001");
        let said = run_inside(world, how, &language.client(&base, load));
        assert!(said.stdout.contains("fetched"), "{said}");
    }
    stop(far);
    let server = world.start_with(how, &language.server(8000, more));
    let _ = server.line("ready");
    serves(world, language, how, load);
    stop(server);
}

/// Clients of a server at port 8000 of Tasuki, which is ready.
fn serves(world: &ProgramWorld, language: &Language, how: &[&str], load: Load) {
    for address in [STACK.to_owned(), format!("[{STACK6}]")] {
        let base = format!("http://{address}:8000");
        let client = language.client(&base, load);
        let said = world.run(&client).success();
        assert!(said.stdout.contains("fetched"), "{said}");
        let said = run_inside(world, how, &client);
        assert!(said.stdout.contains("fetched"), "{said}");
        curl(world, &base);
    }
    let local = run_inside(world, how, &language.client("http://127.0.0.1:8000", load));
    assert!(local.stdout.contains("fetched"), "{local}");
}

/// Another program than the server's own client, from both hosts.
fn curl(world: &ProgramWorld, base: &str) {
    let url = format!("{base}/file");
    let digest = sha256(&world.path("file"));
    let get = ["curl", "-sS", "-f", "-m", "60", "-o", "body", &url];
    world.run_on_both(&get, |said| {
        let _ = said.success();
        assert_eq!(sha256(&world.path("body")), digest, "{url}");
    });
    let url = format!("{base}/digest");
    let post = ["curl", "-sS", "-f", "-m", "60", "--data-binary", "@file", &url];
    world.run_on_both(&post, |said| assert_eq!(said.success().stdout, digest, "{url}"));
}

fn stop(server: Running) {
    server.signal(Signal::TERM);
    let _ = server.finish();
}

fn node() -> Language {
    Language::new(&["node", &source("web.js")], "serve", "fetch")
}

fn node_both_roles(how: &[&str], load: Load) {
    let Some(world) = world(&["node"], load) else { return };
    both_roles(&world, how, &node(), &[], load);
    world.end();
}

#[test]
fn node_serves_and_asks() {
    node_both_roles(&BY_BOTH, SHORT);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn node_serves_and_asks_much() {
    node_both_roles(&BY_BOTH, LONG);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn node_serves_and_asks_through_the_relay() {
    node_both_roles(&BY_RELAY, SHORT);
}

/// Workers of a cluster: the first process passes connections to them, or they accept.
fn cluster(how: &[&str], load: Load) {
    let Some(world) = world(&["node"], load) else { return };
    for scheduling in ["rr", "none"] {
        let server = world.start_with(how, &node().server(8000, &["3", scheduling]));
        let _ = server.line("ready");
        serves(&world, &node(), how, load);
        let mut workers = std::collections::BTreeSet::new();
        let who = ["curl", "-sS", "-f", "-m", "60", &format!("http://{STACK}:8000/who")];
        for _ in 0..10 {
            let said = world.run(&who).success().stdout;
            assert!(said.ends_with(&format!(" ::ffff:{HOST}")), "{said}");
            workers.extend(said.split(' ').next().map(str::to_owned));
        }
        assert!(scheduling == "none" || workers.len() == 3, "in turns: {workers:?}");
        server.signal(Signal::TERM);
        let _ = server.finish().success();
    }
    world.end();
}

#[test]
fn node_serves_as_a_cluster() {
    cluster(&BY_BOTH, SHORT);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn node_serves_much_as_a_cluster() {
    cluster(&BY_BOTH, LONG);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn node_serves_as_a_cluster_through_the_relay() {
    cluster(&BY_RELAY, SHORT);
}

/// The Go program, built once for this test program: with C's library, or static.
fn go(with_c: bool) -> Option<PathBuf> {
    static BUILT: [OnceLock<Option<PathBuf>>; 2] = [const { OnceLock::new() }; 2];
    let built = BUILT[usize::from(with_c)].get_or_init(|| {
        let compilers = ["go", "/usr/local/go/bin/go"];
        let go = compilers.into_iter().find(|go| installed(go))?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let binary = folder.join(format!("web-{}-{}", with_c, std::process::id()));
        let built = Command::new(go)
            .args(["build", "-o"])
            .arg(&binary)
            .arg(source("web.go"))
            .envs([("CGO_ENABLED", if with_c { "1" } else { "0" }), ("GO111MODULE", "off")])
            .env("GOFLAGS", "")
            .env("GOCACHE", folder.join("go-cache"))
            .env("HOME", folder)
            .status();
        assert!(built.expect("go runs").success(), "web.go is built");
        Some(binary)
    });
    if built.is_none() {
        skip("go is not installed: `scripts/deps.sh programs` installs it");
    }
    built.clone()
}

fn go_both_roles(with_c: bool, load: Load) {
    let Some(built) = go(with_c) else { return };
    let Some(world) = world(&["readelf"], load) else { return };
    let binary = world.file("web");
    let _ = std::fs::copy(&built, &binary).expect("a copy in the test's folder");
    let headers = world.run(&["readelf", "-l", &binary]).success().stdout;
    assert_eq!(headers.contains("INTERP"), with_c, "dynamically linked: {headers}");
    let language = Language::new(&[&binary], "serve", "fetch");
    both_roles(&world, &BY_BOTH, &language, &[], load);
    // Between two programs of Tasuki, and between a client of Tasuki and a server of the far host.
    let far = world.spawn(&language.server(8001, &[]));
    let _ = far.line("ready");
    let pass = world.start(&[&binary, "pass", "8000", &format!("{HOST}:8001")]);
    let _ = pass.line("ready");
    serves(&world, &language, &[], load);
    stop(pass);
    stop(far);
    world.end();
}

#[test]
fn go_with_c_serves_and_asks() {
    go_both_roles(true, SHORT);
}

#[test]
fn static_go_serves_and_asks() {
    go_both_roles(false, SHORT);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn go_with_c_serves_and_asks_much() {
    go_both_roles(true, LONG);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn static_go_serves_and_asks_much() {
    go_both_roles(false, LONG);
}

/// Java's words for one of this family's classes, compiled in the world.
fn java(world: &ProgramWorld, class: &str) -> Vec<String> {
    if !world.path(&format!("{class}.class")).exists() {
        let source = source(&format!("{class}.java"));
        let words = ["javac", "-J-XX:TieredStopAtLevel=1", "-d", ".", &source];
        let _ = world.run(&words).success();
    }
    ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", class].map(str::to_owned).to_vec()
}

fn java_http(how: &[&str], load: Load) {
    let Some(world) = world(&["java", "javac"], load) else { return };
    let words = java(&world, "Web");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    both_roles(&world, how, &Language::new(&words, "serve", "fetch"), &[], load);
    world.end();
}

#[test]
fn java_serves_and_asks() {
    java_http(&BY_BOTH, SHORT);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn java_serves_and_asks_much() {
    java_http(&BY_BOTH, LONG);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn java_serves_and_asks_through_the_relay() {
    java_http(&BY_RELAY, SHORT);
}

/// ServerSocket and Socket; a Selector with channels, whose client sends by sendfile(2).
fn java_sockets(how: &[&str], load: Load) {
    let Some(world) = world(&["java", "javac"], load) else { return };
    let begin = java(&world, "Digest");
    let words = |rest: &[&str]| {
        let rest = rest.iter().map(|word| (*word).to_owned());
        begin.iter().cloned().chain(rest).collect::<Vec<_>>()
    };
    let times = load.times.to_string();
    for kind in ["plain", "nio"] {
        let far = world.spawn(&words(&[kind, "8001"]));
        let _ = far.line("ready");
        for address in [HOST, HOST6] {
            let said = run_inside(&world, how, &words(&["ask", address, "8001", &times]));
            assert!(said.stdout.contains("answered"), "{said}");
        }
        stop(far);
        let server = world.start_with(how, &words(&[kind, "8000"]));
        let _ = server.line("ready");
        let (bytes, at_once) = (load.bytes.to_string(), load.at_once.to_string());
        for address in [STACK, STACK6] {
            let ask = words(&["ask", address, "8000", &times]);
            assert!(world.run(&ask).success().stdout.contains("answered"));
            assert!(run_inside(&world, how, &ask).stdout.contains("answered"));
            let script = program("ask_digest.py");
            let ask = world.python(&[&script, address, "8000", "8", &bytes, &at_once]);
            world.run_on_both(&ask, |said| assert_eq!(said.success().stdout, "answered 8\n"));
        }
        stop(server);
    }
    let said = run_inside(&world, how, &words(&["closes"]));
    let closed = ["Socket.read", "ServerSocket.accept", "SocketChannel.read"];
    for call in closed.iter().chain(&["ServerSocketChannel.accept"]) {
        assert!(said.stdout.contains(&format!("{call} closed\n")), "{said}");
    }
    world.end();
}

#[test]
fn java_has_plain_sockets_and_channels() {
    java_sockets(&BY_BOTH, SHORT);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn java_sends_much_by_plain_sockets_and_channels() {
    java_sockets(&BY_BOTH, LONG);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn java_has_plain_sockets_and_channels_through_the_relay() {
    java_sockets(&BY_RELAY, SHORT);
}

/// Python's `http.server`, asked by `requests`; then the servers and clients of `web.py`.
fn python(how: &[&str], pairs: &[(&str, &str)], load: Load) {
    let Some(world) = world(&[], load) else { return };
    if !world.run(&world.python(&["-c", "import requests"])).status.success() {
        return skip("python3-requests is not installed: `scripts/deps.sh programs` installs it");
    }
    let begin = world.python(&[&source("web.py")]);
    let begin: Vec<&str> = begin.iter().map(String::as_str).collect();
    for (serve, fetch) in pairs {
        both_roles(&world, how, &Language::new(&begin, serve, fetch), &[], load);
    }
    world.end();
}

const PYTHON: [(&str, &str); 3] =
    [("forking", "requests"), ("asyncio", "aio"), ("threading", "requests")];

#[test]
fn python_forks_for_each_connection() {
    python(&BY_BOTH, &PYTHON[..1], SHORT);
}

#[test]
fn python_has_asyncio() {
    python(&BY_BOTH, &PYTHON[1..2], SHORT);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn python_serves_and_asks_much() {
    python(&BY_BOTH, &PYTHON, LONG);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn python_serves_and_asks_through_the_relay() {
    python(&BY_RELAY, &PYTHON, SHORT);
}

/// The module, as people start it.
#[test]
fn python_serves_a_folder() {
    let Some(world) = world(&[], SHORT) else { return };
    let digest = sha256(&world.path("file"));
    let serve = |port: &str| world.python(&["-m", "http.server", "--bind", "::", port]);
    let (far, near) = (world.spawn(&serve("8001")), world.start(&serve("8000")));
    for server in [&far, &near] {
        let _ = server.line("Serving HTTP");
    }
    for base in [
        format!("{HOST}:8001"),
        format!("[{HOST6}]:8001"),
        format!("{STACK}:8000"),
        format!("[{STACK6}]:8000"),
    ] {
        let url = format!("http://{base}/file");
        let words = ["curl", "-sS", "-f", "-m", "60", "-o", "body", &url];
        world.run_on_both(&words, |said| {
            let _ = said.success();
            assert_eq!(sha256(&world.path("body")), digest, "{url}");
        });
    }
    for server in [far, near] {
        server.signal(Signal::INT);
        let _ = server.finish();
    }
    world.end();
}

/// Managers and connections between processes of both hosts, some of them forked.
fn multiprocessing(how: &[&str], times: usize) {
    let Some(world) = ProgramWorld::new(&[]) else { return };
    let words = |rest: &[&str]| world.python(&[&[&*source("processes.py")], rest].concat());
    let count = times.to_string();
    for (serve, ask, right) in [
        ("manage", "order", format!("answered {times}\n")),
        ("listen", "talk", format!("answered {}\n", 4 * times)),
    ] {
        let far = world.spawn(&words(&[serve, "8001", "2"]));
        let _ = far.line("ready");
        let said = run_inside(&world, how, &words(&[ask, HOST, "8001", &count]));
        assert_eq!(said.stdout, right, "{said}");
        stop(far);
        let near = world.start_with(how, &words(&[serve, "8000", "2"]));
        let _ = near.line("ready");
        let ask = words(&[ask, STACK, "8000", &count]);
        assert_eq!(world.run(&ask).success().stdout, right);
        assert_eq!(run_inside(&world, how, &ask).stdout, right);
        stop(near);
    }
    world.end();
}

#[test]
fn python_processes_talk_over_tcp() {
    multiprocessing(&BY_BOTH, 10);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn python_processes_talk_much_over_tcp() {
    multiprocessing(&BY_BOTH, 100);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn python_processes_talk_through_the_relay() {
    multiprocessing(&BY_RELAY, 10);
}

/// Java reads /proc/net/if_inet6 and asks by ioctl, node calls getifaddrs. Neither sees the host's.
#[test]
fn java_and_node_see_the_instances_interfaces() {
    let Some(world) = world(&["java", "javac", "node"], SHORT) else { return };
    let said = run_inside(&world, &BY_BOTH, &java(&world, "Interfaces")).stdout;
    let eth0 = said.lines().find_map(|line| line.strip_prefix("eth0 false true "));
    let (mac, _) = eth0.and_then(|rest| rest.split_once(' ')).expect("eth0 with its address");
    assert_eq!(mac.split(':').count(), 6, "{said}");
    let six = "fd00:219:7:0:0:0:0:2";
    for line in
        [&format!("eth0 {STACK}"), &format!("eth0 {six}"), "lo 127.0.0.1", "lo 0:0:0:0:0:0:0:1"]
    {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    assert!(!said.contains(DEVICE), "{said}");
    let code = "for (const [name, rows] of Object.entries(os.networkInterfaces()))
                for (const row of rows) console.log(name, row.address, row.mac)";
    let words = ["node", "-e", code].map(str::to_owned);
    for how in [BY_BOTH, BY_RELAY] {
        let said = run_inside(&world, &how, &words).stdout;
        for line in [format!("eth0 {STACK}"), format!("eth0 {STACK6}")] {
            assert!(said.contains(&format!("{line} {mac}\n")), "{line} {mac}: {said}");
        }
        assert!(!said.contains(DEVICE), "{said}");
    }
    world.end();
}

//! Web servers and their clients: nginx, haproxy, PHP, Ruby, curl, wget, wrk, ab.
//!
//! Clients run on the far host and on Tasuki. The bodies that they get are compared. No packet uses
//! the host's network: [`ProgramWorld`].

use std::collections::BTreeSet;

use rustix::process::Signal;
use tasuki_tests::{
    HOST, PATIENCE, ProgramWorld, Running, STACK, eventually, program, sha256, write_noise,
};

/// A world with a folder `www`: a file of noise, and another file that names the folder's server.
fn world(programs: &[&str]) -> Option<ProgramWorld> {
    let world = ProgramWorld::new(&[&["curl"], programs].concat())?;
    for folder in ["www", "far", "near"] {
        std::fs::create_dir(world.path(folder)).expect("a folder");
        std::fs::write(world.path(folder).join("who"), format!("{folder}\n")).expect("a file");
        write_noise(&world.path(folder).join("file"), 3 << 20, 3);
    }
    Some(world)
}

/// A certificate for [`STACK`], signed by itself.
fn certify(world: &ProgramWorld) {
    let name = format!("subjectAltName=IP:{STACK}");
    let words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"];
    let files = ["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=stack", "-addext", &name];
    let _ = world.run(&[&words[..], &files].concat()).success();
    let [key, cert] = ["key.pem", "cert.pem"].map(|file| std::fs::read_to_string(world.path(file)));
    let both = format!("{}{}", key.expect("a key"), cert.expect("a certificate"));
    std::fs::write(world.path("both.pem"), both).expect("a file");
}

/// What curl gets from both hosts: the body of the file, or of `who` with the version of HTTP.
fn fetch(world: &ProgramWorld, url: &str) -> Vec<String> {
    let words = ["curl", "-sS", "-f", "-m", "60", "--cacert", "cert.pem", "-o", "body"];
    let words = [&words[..], &["-w", "%{http_version}", url]].concat();
    let mut got = Vec::new();
    world.run_on_both(&words, |said| {
        let version = said.success().stdout;
        if url.ends_with("who") {
            let who = std::fs::read_to_string(world.path("body")).expect("a body");
            got.push(format!("{} {version}", who.trim()));
        } else {
            assert_eq!(sha256(&world.path("body")), sha256(&world.path("www/file")), "{url}");
        }
    });
    got
}

/// Two back ends: on the far host and on Tasuki.
fn back_ends(world: &ProgramWorld) -> [Running; 2] {
    let serve = |port: &str, folder: &str| {
        world.python(&["-m", "http.server", "-d", &world.file(folder), port])
    };
    let far = world.spawn(&serve("8001", "far"));
    let _ = far.line("Serving HTTP");
    let near = world.start(&serve("8002", "near"));
    let _ = near.line("Serving HTTP");
    [far, near]
}

/// nginx with two workers, as a daemon of its own: only so can its binary be changed.
struct Nginx<'a> {
    world: &'a ProgramWorld,
    pid: u32,
}

impl<'a> Nginx<'a> {
    /// `listen` are words behind the ports, `more` goes into the block `http`.
    fn start(world: &'a ProgramWorld, listen: &str, locations: &str, more: &str) -> Self {
        let here = world.file("");
        let conf = format!(
            "user root; worker_processes 2; error_log {here}/error.log info; pid {here}/pid;
             events {{ worker_connections 256; }}
             http {{ access_log off; sendfile on; {more}
                 server {{
                     listen 8000 {listen}; listen unix:{here}/socket; {locations}
                     root {here}/www;
                 }} }}\n"
        );
        std::fs::write(world.path("nginx.conf"), conf).expect("a file");
        let log = world.file("error.log");
        let words = ["/usr/sbin/nginx", "-c", &world.file("nginx.conf"), "-e", &log, "-p", &here];
        let _ = world.start(&words).finish().success();
        let mut this = Self { world, pid: 0 };
        eventually("nginx has begun", || this.read_pid("pid") != 0);
        this.pid = this.read_pid("pid");
        this
    }

    fn read_pid(&self, file: &str) -> u32 {
        let text = std::fs::read_to_string(self.world.path(file)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    fn signal(pid: u32, signal: Signal) {
        let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a process"), signal).expect("it runs");
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.world.path("error.log")).unwrap_or_default()
    }

    /// Waits until the log has `count` lines with `text`.
    fn logs(&self, text: &str, count: usize) {
        let begin = std::time::Instant::now();
        while self.log().matches(text).count() < count {
            assert!(begin.elapsed() < PATIENCE, "{count} x `{text}` missing in {}", self.log());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn end(&self) {
        Self::signal(self.pid, Signal::QUIT);
        eventually("nginx has ended", || self.read_pid("pid") == 0);
        let log = self.log();
        for bad in ["[alert]", "[crit]", "[emerg]"] {
            assert!(!log.contains(bad), "{log}");
        }
    }
}

/// Is the process gone, or a zombie, which is nobody's parent any more?
fn has_ended(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    status.map_or(true, |status| status.contains("\nState:\tZ"))
}

/// Clients on both hosts, which fetch until the end of `during`. No request of theirs fails.
fn under_load(world: &ProgramWorld, during: impl FnOnce()) {
    let url = format!("http://{STACK}:8000/file");
    let digest = sha256(&world.path("www/file"));
    let script = program("web_servers/fetch_until.py");
    let words = world.python(&[&script, &url, &digest, "enough"]);
    let loads = [world.spawn(&words), world.spawn(&words), world.start(&words)];
    for load in &loads {
        let _ = load.line("begun");
    }
    during();
    std::fs::write(world.path("enough"), "").expect("a file");
    for load in loads {
        let _ = load.finish().success();
    }
}

/// TLS, HTTP/2, a Unix socket beside TCP, and back ends on both hosts.
#[test]
fn nginx_is_a_proxy_with_tls() {
    let Some(world) = world(&["nginx", "openssl", "wget"]) else { return };
    certify(&world);
    let ends = back_ends(&world);
    let more = "proxy_http_version 1.1;";
    let locations = format!(
        "listen 8443 ssl http2; ssl_certificate cert.pem; ssl_certificate_key key.pem;
         location /far/ {{ proxy_pass http://{HOST}:8001/; }}
         location /near/ {{ proxy_pass http://{STACK}:8002/; }}"
    );
    // Its names of files are relative to the folder of its configuration.
    let nginx = Nginx::start(&world, "", &locations, more);
    for (base, version) in [("http://{}:8000", "1.1"), ("https://{}:8443", "2")] {
        let base = base.replace("{}", STACK);
        for (path, who) in [("", "www"), ("far/", "far"), ("near/", "near")] {
            let right = format!("{who} {version}");
            assert_eq!(fetch(&world, &format!("{base}/{path}who")), [&*right, &*right]);
            let _ = fetch(&world, &format!("{base}/{path}file"));
        }
    }
    let socket = world.file("socket");
    let said = world.run(&["curl", "-sS", "--unix-socket", &socket, "http://any/who"]).success();
    assert_eq!(said.stdout, "www\n", "{said}");
    let url = format!("https://{STACK}:8443/file");
    let wget = ["wget", "-q", "--ca-certificate=cert.pem", "-O", "body", &url];
    world.run_on_both(&wget, |said| {
        let _ = said.success();
        assert_eq!(sha256(&world.path("body")), sha256(&world.path("www/file")));
    });
    nginx.end();
    for server in ends {
        server.signal(Signal::KILL);
        let _ = server.finish();
    }
    world.end();
}

/// USR2 starts a new binary on the same listeners, WINCH ends the old workers, QUIT the old master.
fn changes_its_binary(listen: &str) {
    let Some(world) = world(&["nginx"]) else { return };
    let mut nginx = Nginx::start(&world, listen, "", "");
    under_load(&world, || {
        nginx.logs("start worker process ", 2);
        for round in 1..=2 {
            let old = nginx.pid;
            Nginx::signal(old, Signal::USR2);
            nginx.logs("using inherited sockets", round);
            nginx.logs("start worker process ", 2 + 2 * round);
            Nginx::signal(old, Signal::WINCH);
            nginx.logs("exited with code 0", 2 * round);
            Nginx::signal(old, Signal::QUIT);
            nginx.logs(&format!("{old}#{old}: exit"), 1);
            // A master whose parent is still the old one ignores USR2.
            eventually("the old master is gone", || has_ended(old));
            nginx.pid = nginx.read_pid("pid");
            assert_ne!(nginx.pid, old);
        }
    });
    let said =
        world.run(&["curl", "-sS", "--unix-socket", &world.file("socket"), "http://any/who"]);
    assert_eq!(said.success().stdout, "www\n");
    nginx.end();
    world.end();
}

#[test]
fn nginx_changes_its_binary_under_load() {
    changes_its_binary("");
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn nginx_changes_its_binary_with_a_listener_for_each_worker() {
    changes_its_binary("reuseport");
}

/// `reload`, from clients of both hosts.
fn reloads(listen: &str) {
    let Some(world) = world(&["nginx"]) else { return };
    let nginx = Nginx::start(&world, listen, "", "");
    under_load(&world, || {
        for round in 1..=6 {
            nginx.logs("start worker process ", 2 * round);
            Nginx::signal(nginx.pid, Signal::HUP);
        }
        nginx.logs("start worker process ", 14);
    });
    nginx.end();
    world.end();
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn nginx_reloads_under_load_of_both_hosts() {
    reloads("");
}

/// Connections that a closing listener has, and that nobody has accepted, go to another one.
#[test]
#[ignore = "long: `make test-programs` runs it"]
fn nginx_reloads_with_a_listener_for_each_worker() {
    reloads("reuseport");
}

/// The load generators count no failure.
fn load_generators(requests: &str, seconds: &str) {
    let Some(world) = world(&["nginx", "wrk", "ab"]) else { return };
    let nginx = Nginx::start(&world, "", "", "");
    let url = |path: &str| format!("http://{STACK}:8000/{path}");
    for (path, keep) in [("who", true), ("who", false), ("file", true)] {
        let requests = if path == "who" { requests } else { "50" };
        let url = url(path);
        let words = ["ab", "-q", "-n", requests, "-c", "10"];
        let words = [&words[..], if keep { &["-k"] } else { &[] }, &[&url]].concat();
        world.run_on_both(&words, |said| {
            let said = said.success();
            let zero = said
                .stdout
                .lines()
                .any(|line| line.starts_with("Failed requests:") && line.ends_with(" 0"));
            assert!(zero && !said.stdout.contains("Non-2xx"), "{said}");
        });
    }
    let url = url("who");
    world.run_on_both(&["wrk", "-c", "20", "-t", "2", "-d", seconds, &url], |said| {
        let said = said.success();
        assert!(said.stdout.contains("requests in"), "{said}");
        for bad in ["Socket errors", "Non-2xx"] {
            assert!(!said.stdout.contains(bad), "{said}");
        }
    });
    nginx.end();
    world.end();
}

#[test]
fn ab_and_wrk_count_no_failure() {
    load_generators("500", "1s");
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn ab_and_wrk_count_no_failure_for_long() {
    load_generators("20000", "10s");
}

/// haproxy: a master and a worker, TLS in front, back ends on both hosts, and a reload.
#[test]
fn haproxy_balances_between_both_hosts() {
    let Some(world) = world(&["haproxy", "openssl"]) else { return };
    certify(&world);
    let ends = back_ends(&world);
    let conf = format!(
        "global\n nbthread 2\n stats socket {0}/control\n\
         defaults\n mode http\n timeout connect 30s\n timeout client 60s\n timeout server 60s\n\
         frontend in\n bind :8000\n bind :8443 ssl crt {0}/both.pem alpn h2,http/1.1\n\
         \x20default_backend out\n\
         backend out\n balance roundrobin\n server far {HOST}:8001\n server near {STACK}:8002\n",
        world.file("")
    );
    std::fs::write(world.path("haproxy.cfg"), conf).expect("a file");
    let mut haproxy = world.start(&["haproxy", "-W", "-f", &world.file("haproxy.cfg")]);
    world.listens(&mut haproxy, 8443);
    let both = |version: &str| ["far", "near"].map(|who| format!("{who} {version}"));
    // The back ends speak HTTP/1.0.
    for (url, version) in [("http", "1"), ("https", "2")] {
        let port = if version == "2" { 8443 } else { 8000 };
        let mut got = fetch(&world, &format!("{url}://{STACK}:{port}/who"));
        got.sort();
        assert_eq!(got, both(version));
        let _ = fetch(&world, &format!("{url}://{STACK}:{port}/file"));
    }
    under_load(&world, || {
        haproxy.signal(Signal::USR2);
        let _ = haproxy.line("Former worker");
    });
    haproxy.signal(Signal::TERM);
    let _ = haproxy.finish();
    for server in ends {
        server.signal(Signal::KILL);
        let _ = server.finish();
    }
    world.end();
}

/// PHP's built-in server with processes of its own, which share the listening socket.
#[test]
fn php_serves_from_several_processes() {
    let Some(world) = world(&["php"]) else { return };
    let script = "<?php usleep(200000); echo getmypid(), ' ', $_SERVER['REMOTE_ADDR'];";
    std::fs::write(world.path("www/pid.php"), script).expect("a script");
    // A terminal's Ctrl-C ends all of them; timeout(1) passes a signal on to its group as well.
    let php = ["php", "-S", "0.0.0.0:8000", "-t", "www"];
    let words = [&["timeout", "600", "env", "PHP_CLI_SERVER_WORKERS=4"], &php[..]].concat();
    let mut server = world.start(&words);
    world.listens(&mut server, 8000);
    let _ = fetch(&world, &format!("http://{STACK}:8000/file"));
    // At once: one process cannot answer all of them in time for the others.
    let url = format!("http://{STACK}:8000/pid.php?[1-24]");
    let words = ["curl", "-sS", "-f", "-Z", "--parallel-immediate", "--parallel-max", "8", &url];
    let said = world.run(&[&words[..], &["-w", "\\n"]].concat()).success();
    let pids: BTreeSet<_> = said.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(said.stdout.matches(HOST).count(), 24, "{said}");
    assert!(pids.len() > 1, "several processes answer: {said}");
    server.signal(Signal::TERM);
    let _ = server.finish();
    world.end();
}

/// The built-in server of PHP, and one in Ruby with a thread for each connection.
#[test]
fn servers_in_scripting_languages_answer() {
    let Some(world) = world(&["php", "ruby"]) else { return };
    let script = program("web_servers/serve.rb");
    let servers: [&[&str]; 2] =
        [&["php", "-S", "0.0.0.0:8000", "-t", "www"], &["ruby", &script, "8000", "www/file"]];
    for words in servers {
        let mut server = world.start(words);
        world.listens(&mut server, 8000);
        for _ in 0..3 {
            let _ = fetch(&world, &format!("http://{STACK}:8000/file"));
        }
        if words[0] == "ruby" {
            let code = format!(
                "require 'net/http'; \
                 print Net::HTTP.get(URI('http://{STACK}:8000/')) == File.binread('www/file')"
            );
            world.run_on_both(&["ruby", "-e", &code], |said| {
                assert_eq!(said.success().stdout, "true");
            });
        }
        server.signal(Signal::INT);
        let _ = server.finish();
    }
    world.end();
}

//! `tasuki web`: JSON, Prometheus and events of a real instance, refusals and bounds of the server,
//! and the page in a browser.
//!
//! The browser is Debian's chromium without windows, driven by `browser.py` over its debugging
//! pipe. It runs the page's own test (`#selftest`), which works every control. Screenshots are kept
//! in `target/web`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tasuki_tests::{Finished, HOST, Mode, Running, World, eventually, installed, skip};

const NET: &str = "web";
const BROWSER: &str = "chromium-headless-shell";
/// A browser on a machine that is busy with other tests, for all widths and themes.
const BROWSER_PATIENCE: Duration = Duration::from_secs(240);

/// A world with an instance, and the web server beside it.
struct Site {
    world: World,
    web: Running,
    /// `http://127.0.0.1:PORT`.
    base: String,
    token: String,
}

impl Site {
    fn new() -> Option<Self> {
        let mode = Mode::shared()?;
        let world = World::with_kernel()?;
        world.up(NET, mode, &[]);
        let web = Running::start(world.tasuki(&["web", NET, "--listen", "127.0.0.1:0"]));
        let line = web.line("http://");
        let (base, token) = line.split_once("/?token=").expect("an address with a token");
        let (base, token) = (base.to_owned(), token.to_owned());
        assert!(base.starts_with("http://127.0.0.1:") && token.len() == 43, "{line}");
        Some(Self { world, web, base, token })
    }

    /// An echo server on the host, and a program of the instance that uses it.
    fn traffic(&self) -> [Running; 2] {
        let echo = self.world.spawn(&self.world.script("echo.py", &["0.0.0.0", "8000"]));
        let _ = echo.line("ready");
        let words = self.world.script("pulse.py", &[HOST, "8000", "30000", "0.02"]);
        let pulse = Running::start(self.world.on_net(NET, &words));
        let _ = pulse.line("connected");
        [echo, pulse]
    }

    /// curl with these words, and the path of an address.
    fn curl(&self, words: &[&str], path: &str) -> Finished {
        let address = format!("{}{path}", self.base);
        let words = [&["curl", "-sS", "--max-time", "60"], words, &[&address]].concat();
        Running::start(self.world.command(&words)).finish()
    }

    fn get(&self, path: &str) -> String {
        let header = format!("Authorization: Bearer {}", self.token);
        self.curl(&["-H", &header], path).success().stdout
    }

    fn json(&self, path: &str) -> Value {
        let text = self.get(path);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// The status of an answer.
    fn status(&self, words: &[&str], path: &str) -> u16 {
        let words = [&["-o", "/dev/null", "-w", "%{http_code}"], words].concat();
        self.curl(&words, path).stdout.parse().expect("a status")
    }

    fn kinds(&self) -> Vec<String> {
        let snapshot = self.json("/api/snapshot");
        let events = snapshot["events"].as_array().expect("events").iter();
        events.map(|event| event["kind"].as_str().expect("a kind").to_owned()).collect()
    }

    fn end(self) {
        self.web.signal(Signal::TERM);
        let said = self.web.finish().success();
        assert!(!said.stderr.contains(&self.token), "the token is in the log: {said}");
        self.world.down(NET);
        self.world.assert_nothing_left();
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn everything_shown_is_json_and_changes_under_traffic() {
    let Some(site) = Site::new() else { return };
    let traffic = site.traffic();
    let first = site.json("/api/snapshot");
    let connection = |snapshot: &Value| {
        let sockets = snapshot["sockets"].as_array().expect("sockets").iter();
        let mut open = sockets.filter(|socket| socket["state"] == "ESTAB").cloned();
        open.next().unwrap_or_else(|| panic!("no connection: {snapshot}"))
    };
    eventually("the numbers grow", || {
        let next = site.json("/api/snapshot");
        let grows = |of: &dyn Fn(&Value) -> Value| number(&of(&next)) > number(&of(&first));
        grows(&|it| it["number"].clone())
            && grows(&|it| it["status"]["counters"]["tcp.segments-out"].clone())
            && grows(&|it| connection(it)["tcp"]["bytes_acked"].clone())
    });
    let parties = first["status"]["parties"].as_array().expect("parties");
    let of = |role: &str| parties.iter().find(|one| one["role"] == role).expect(role);
    assert_eq!(of("client")["rings"][0]["name"], "requests");
    assert!(number(&of("client")["counters"]["copy.program-tx-bytes"]) > 0);
    assert!(number(&of("nic")["counters"]["nic.tx-packets"]) > 0);
    let names: Vec<_> = of("nic")["rings"].as_array().expect("rings").iter().collect();
    assert_eq!(names.len(), 4, "{names:?}");
    let sockets = site.json("/api/sockets?from=0");
    assert_eq!((&sockets["from"], &sockets["more"]), (&Value::from(0), &Value::from(false)));
    assert!(site.json("/api/sockets?from=9999")["sockets"].as_array().expect("some").is_empty());
    let layers = site.json("/api/counters");
    assert!(layers.as_array().expect("layers").iter().any(|layer| layer["title"] == "TCP"));

    let recording = site.json("/api/recording?seconds=0.3");
    let frames = recording["frames"].as_array().expect("frames");
    assert!(frames.iter().any(|it| it["sent"] == true && it["protocol"] == "tcp"), "{recording}");
    let marks = recording["marks"].as_array().expect("marks");
    for process in ["program", "inet", "driver"] {
        assert!(marks.iter().any(|mark| mark["process"] == process), "no mark of {process}");
    }
    // Both clocks tell the same time: marks and frames lie within the recording.
    let lasted = recording["lasted_ns"].as_i64().expect("a number");
    let is_within = |it: &Value| {
        (-1_000_000_000..lasted + 1_000_000_000).contains(&it["at_ns"].as_i64().expect("a time"))
    };
    assert!(frames.iter().all(is_within) && marks.iter().all(is_within), "{lasted}");
    assert!(number(&recording["sends"]) > 0, "{recording}");
    drop(traffic);
    site.end();
}

/// A sample of Prometheus' text format: name, labels in braces, value.
fn is_sample(line: &str) -> bool {
    let Some((name, rest)) = line.split_once('{') else { return false };
    let Some((labels, value)) = rest.rsplit_once("} ") else { return false };
    name.starts_with("tasuki_")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && labels.starts_with("stack=\"")
        && labels.ends_with('"')
        && value.parse::<f64>().is_ok()
}

#[test]
fn a_killed_server_and_a_new_instance_are_events() {
    let Some(site) = Site::new() else { return };
    let metrics = site.get("/metrics");
    let samples: Vec<&str> = metrics.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(samples.len() > 100 && samples.iter().all(|line| is_sample(line)), "{metrics}");
    assert!(samples.contains(&"tasuki_up{stack=\"web\"} 1"), "{metrics}");
    let [echo, pulse] = site.traffic();
    assert_eq!(site.kinds().first().map(String::as_str), Some("seen"));
    pulse.signal(Signal::KILL);
    drop((echo, pulse));
    eventually("the program's death is an event", || {
        site.kinds().iter().any(|kind| kind == "program-went")
    });
    let server = site.world.ps(NET).processes.into_iter();
    let server = server.filter(|one| one.role.starts_with("inet")).map(|one| one.pid).next();
    let server = server.and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("an inet server");
    kill_process(server, Signal::KILL).expect("killed");
    // Nobody looks, and it is noticed all the same.
    let _ = site.web.line("instance web has ended; waiting for it");
    let snapshot = site.json("/api/snapshot");
    assert!(snapshot["status"].is_null(), "{snapshot}");
    assert!(site.get("/metrics").contains("tasuki_up{stack=\"web\"} 0"));
    assert_eq!(
        site.status(&["-H", &format!("Authorization: Bearer {}", site.token)], "/api/sockets"),
        503
    );
    let mode = Mode::shared().expect("a mode");
    eventually("the instance can begin again", || {
        let up = site.world.tasuki(&["ps", NET]);
        Running::start(up).finish().status.code() == Some(122)
    });
    site.world.up(NET, mode, &[]);
    eventually("the new one is shown", || !site.json("/api/snapshot")["status"].is_null());
    let kinds = site.kinds();
    let ends = kinds.iter().position(|kind| kind == "ended").expect("an end");
    assert_eq!(kinds[ends..], ["ended", "began"], "{kinds:?}");
    site.end();
}

#[test]
fn who_has_no_token_or_comes_from_another_site_is_refused() {
    let Some(site) = Site::new() else { return };
    let bearer = format!("Authorization: Bearer {}", site.token);
    let with_token =
        |words: &[&str], path: &str| site.status(&[&["-H", &bearer], words].concat(), path);
    for path in ["/", "/api/snapshot", "/api/events", "/api/recording", "/metrics", "/none"] {
        assert_eq!(site.status(&[], path), 401, "{path}");
        assert_eq!(site.status(&["-H", "Authorization: Bearer x"], path), 401, "{path}");
    }
    assert_eq!(site.status(&[], &format!("/?token={}x", site.token)), 401);
    for (words, path, status) in [
        (&[][..], "/none", 404),
        (&["-X", "POST"], "/", 405),
        (&["-X", "DELETE"], "/api/snapshot", 405),
        (&["-X", "OPTIONS"], "/api/snapshot", 405),
        (&["-I"], "/api/events", 200),
        (&["-H", "Host: evil.example:8642"], "/", 421),
        (&["-H", "Host:"], "/", 400),
        (&["-H", "Host: localhost:1"], "/", 200),
        (&["-H", "Origin: http://evil.example"], "/api/snapshot", 403),
        (&["-H", "Origin: null"], "/api/snapshot", 403),
        (&["-H", &format!("Origin: {}", site.base)], "/api/snapshot", 200),
    ] {
        assert_eq!(with_token(words, path), status, "{words:?} {path}");
    }
    for path in [
        "/api/sockets?from=x",
        "/api/sockets?x=1",
        "/api/recording?seconds=0",
        "/api/recording?seconds=1e9",
        "/api/recording?interface=..%2f",
    ] {
        assert_eq!(with_token(&[], path), 400, "{path}");
    }
    assert_eq!(with_token(&[], "/api/recording?interface=eth9"), 502);
    // Through the cookie, as a browser does it.
    let jar = site.world.file("cookies");
    let path = format!("/?token={}", site.token);
    let said = site.curl(&["-i", "-L", "-c", &jar, "-b", &jar], &path).success();
    assert!(said.stdout.starts_with("HTTP/1.1 303") && said.stdout.contains("200 OK"), "{said}");
    let said = said.stdout.to_lowercase();
    for header in [
        "httponly; samesite=strict",
        "content-security-policy: default-src 'none'; style-src 'sha256-",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(said.contains(header), "no {header}");
    }
    assert!(!said.contains("access-control-allow"));
    assert_eq!(site.status(&["-b", &jar], "/api/snapshot"), 200);
    site.end();
}

#[test]
fn the_server_bears_what_clients_do_and_the_instance_does_not_notice() {
    let Some(site) = Site::new() else { return };
    let traffic = site.traffic();
    let words = site.world.script("web_abuse.py", &[&site.base, &site.token]);
    let hostile = Running::start(site.world.command(&words));
    let _ = hostile.line("all");
    // It answers again once they are gone.
    hostile.signal(Signal::KILL);
    let said = hostile.finish();
    let lines: Vec<&str> = said.stdout.lines().collect();
    let status = |line: &str| line.split(' ').nth(1).and_then(|word| word.parse::<u16>().ok());
    let statuses: Vec<Option<u16>> = lines.iter().map(|line| status(line)).collect();
    assert_eq!(statuses[..5], [Some(431), Some(431), Some(431), Some(400), Some(200)], "{said}");
    assert!(statuses[5..21].iter().all(|it| *it == Some(200)), "{said}");
    assert_eq!(statuses[21..24], [Some(503), Some(200), Some(200)], "{said}");
    let header = format!("Authorization: Bearer {}", site.token);
    eventually("places are free again", || site.status(&["-H", &header], "/api/snapshot") == 200);
    let before = site.world.counter(NET, "tcp.segments-out");
    eventually("the program goes on", || site.world.counter(NET, "tcp.segments-out") > before);
    drop(traffic);
    site.end();
}

#[test]
fn without_viewers_it_sleeps() {
    let Some(site) = Site::new() else { return };
    let switches = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", site.web.pid())).expect("threads");
        let of = |task: fs::DirEntry| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
            lines
                .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
                .sum::<u64>()
        };
        tasks.map(|task| of(task.expect("a thread"))).sum::<u64>()
    };
    // The threads go to sleep first.
    let mut last = 0;
    eventually("it sleeps for a second", || {
        let before = switches();
        std::thread::sleep(Duration::from_secs(1));
        last = switches();
        last == before
    });
    site.end();
}

#[test]
fn what_cannot_be_served_is_one_sentence() {
    let Some(site) = Site::new() else { return };
    let world = &site.world;
    let web = |words: &[&str]| {
        let said = Running::start(world.tasuki(&[&["web"], words].concat())).finish();
        assert!(said.stderr.lines().count() == 1 && said.stdout.is_empty(), "{said}");
        said
    };
    let taken = site.base.trim_start_matches("http://");
    let said = web(&[NET, "--listen", taken]).code(120);
    assert!(said.stderr.contains("choose another port"), "{said}");
    let said = web(&["nonesuch"]).code(122);
    assert!(said.stderr.contains("running: web"), "{said}");
    let said = web(&[NET, "--listen", "0.0.0.0:0"]).code(2);
    assert!(said.stderr.contains("--allow-remote"), "{said}");
    let said = web(&[NET, "--listen", "192.0.2.1:0"]).code(2);
    assert!(said.stderr.contains("--allow-remote"), "{said}");
    let said = web(&[NET, "--listen", "192.0.2.1:0", "--allow-remote"]).code(2);
    assert!(said.stderr.contains("no such address"), "{said}");
    let _ = web(&[NET, "--interval", "0"]).code(2);
    fs::write(world.path("token"), "short").expect("a file");
    let said = web(&[NET, "--token-file", &world.file("token")]).code(118);
    assert!(said.stderr.contains("chmod 600"), "{said}");
    let remote =
        Running::start(world.tasuki(&["web", NET, "--listen", "0.0.0.0:0", "--allow-remote"]));
    let _ = remote.line("warning: every machine");
    remote.signal(Signal::INT);
    let _ = remote.finish().success();
    site.end();
}

#[test]
fn the_page_works_in_a_browser() {
    if !installed(BROWSER) {
        return skip(&format!("no {BROWSER}: `scripts/deps.sh programs` installs it"));
    }
    let Some(site) = Site::new() else { return };
    let traffic = site.traffic();
    let listener =
        Running::start(site.world.on_net(NET, &site.world.python(&["-m", "http.server", "8080"])));
    let _ = listener.line("Serving HTTP");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/web");
    fs::create_dir_all(&kept).expect("a directory");
    let kept = kept.canonicalize().expect("a path");
    let url = format!("{}/?token={}", site.base, site.token);
    let words = site.world.script("browser.py", &[BROWSER, &url, kept.to_str().expect("a path")]);
    let said = Running::start(site.world.command(&words)).finish_within(BROWSER_PATIENCE).success();
    let looks: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(looks.len(), 4, "{said}");
    for look in &looks {
        let text = look["text"].as_str().unwrap_or_default();
        assert_eq!(look["result"], "good", "{} {}: {text}", look["width"], look["theme"]);
        assert!(look["checks"].as_str().and_then(|it| it.parse().ok()).unwrap_or(0) > 50, "{text}");
        // Errors, and what the page's policy forbids.
        assert_eq!(look["said"], Value::Array(Vec::new()), "{look}");
        let paper = if look["theme"] == "dark" { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" };
        assert_eq!(look["paper"], paper);
        let sizes = look["sizes"].as_object().expect("sizes");
        assert!(sizes.values().all(|size| number(size) > 10_000), "{look}");
    }
    drop((traffic, listener));
    site.end();
}

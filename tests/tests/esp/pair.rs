//! Two instances that protect what they send to each other.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use tasuki_tests::{Mode, Nic, Running, World, eventually, sha256, write_noise};

pub(crate) const A: &str = "10.56.0.1";
pub(crate) const B: &str = "10.56.0.2";
pub(crate) const A6: &str = "fd56::1";
pub(crate) const B6: &str = "fd56::2";
pub(crate) const SPI_AB: &str = "0x1001";
pub(crate) const SPI_BA: &str = "0x1002";

/// The algorithms of an association, as words; `{}` is the number of its direction, a hexadecimal
/// digit of the key.
pub(crate) const GCM: &str =
    "aead rfc4106(gcm(aes)) 0x{}0112233445566778899aabbccddeeff01020304 128";
pub(crate) const GCM_256: &str = "aead rfc4106(gcm(aes)) \
    0x{}0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff01020304 128";
pub(crate) const CHACHA: &str = "aead rfc7539esp(chacha20,poly1305) \
    0x{}0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff01020304 128";
pub(crate) const CBC: &str = "enc cbc(aes) 0x{}0112233445566778899aabbccddeeff \
    auth-trunc hmac(sha256) \
    0x{}0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff 128";
pub(crate) const TRIPLE_DES: &str = "enc cbc(des3_ede) \
    0x{}0112233445566778899aabbccddeeff1021324354657687 \
    auth hmac(sha1) 0x{}0112233445566778899aabbccddeeff01020304";
pub(crate) const NULL: &str = "enc cipher_null 0x \
    auth-trunc hmac(sha256) \
    0x{}0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff 128";

/// What two instances protect, and how.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    /// The addresses of programs.
    pub(crate) inner: [&'a str; 2],
    /// The addresses of packets of ESP.
    pub(crate) outer: [&'a str; 2],
    pub(crate) mode: &'a str,
    pub(crate) algorithms: &'a str,
    /// More words for each association.
    pub(crate) more: &'a str,
}

impl<'a> Plan<'a> {
    /// Between these addresses, with extended numbers and a window of 128.
    pub(crate) fn between(ends: [&'a str; 2], mode: &'a str, algorithms: &'a str) -> Self {
        Self { inner: ends, outer: ends, mode, algorithms, more: "replay-window 128 flag esn" }
    }
}

pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A world with a file of noise, its SHA-256, and two instances on a wire. Both have the options
/// `with`.
pub(crate) fn joined(len: usize, with: &[&str]) -> Option<(World, String)> {
    let _ = Mode::shared()?;
    let world = World::over(Nic::Tap)?;
    write_noise(&world.path("file"), len, 1);
    let digest = sha256(&world.path("file"));
    let nic = format!("wire:{}", world.file("wire"));
    for (net, addresses) in [("a", [A, A6]), ("b", [B, B6])] {
        let [four, six] = [format!("{}/24", addresses[0]), format!("{}/64", addresses[1])];
        let mode = Mode::given().name();
        let words = ["up", "--mode", mode, "--nic", &nic, "--ip", &four, "--ip", &six];
        let _ = Running::start(world.tasuki(&[&words, with, &[net]].concat())).finish().success();
    }
    for net in ["a", "b"] {
        eventually("the link is up", || world.counter(net, "wire.carrier") == 1);
    }
    Some((world, digest))
}

pub(crate) fn xfrm(world: &World, net: &str, line: &str) -> Command {
    let all = [&["xfrm", "--net", net], &words(line)[..]].concat();
    world.tasuki(&all)
}

pub(crate) fn xfrm_done(world: &World, net: &str, line: &str) -> String {
    Running::start(xfrm(world, net, line)).finish().success().stdout
}

/// Adds the associations of both directions to an instance.
pub(crate) fn add_states(world: &World, net: &str, plan: &Plan<'_>) {
    let insecure = [TRIPLE_DES, NULL].contains(&plan.algorithms);
    let option = if insecure { "--insecure" } else { "" };
    let Plan { outer, mode, more, .. } = plan;
    for (digit, spi, src, dst) in
        [("1", SPI_AB, outer[0], outer[1]), ("2", SPI_BA, outer[1], outer[0])]
    {
        let algorithms = plan.algorithms.replace("{}", digit);
        let line = format!(
            "{option} state add src {src} dst {dst} proto esp spi {spi} reqid 1 mode {mode} \
             {more} {algorithms}"
        );
        let _ = xfrm_done(world, net, &line);
    }
}

/// Has an instance protect what it sends, and want what it receives protected.
pub(crate) fn add_policies(world: &World, net: &str, plan: &Plan<'_>) {
    let dirs = if net == "a" { ["out", "in"] } else { ["in", "out"] };
    let Plan { inner, outer, mode, .. } = plan;
    for (dir, at) in dirs.into_iter().zip([[0, 1], [1, 0]]) {
        let [src, dst] = at.map(|at| inner[at]);
        let ends = match *mode {
            "tunnel" => format!("src {} dst {}", outer[at[0]], outer[at[1]]),
            _ => String::new(),
        };
        let line = format!(
            "policy add dir {dir} src {src} dst {dst} tmpl {ends} proto esp reqid 1 mode {mode}"
        );
        let _ = xfrm_done(world, net, &line);
    }
}

/// Has both instances protect everything between the inner addresses.
pub(crate) fn protect(world: &World, plan: &Plan<'_>) {
    for net in ["a", "b"] {
        add_states(world, net, plan);
        add_policies(world, net, plan);
    }
}

fn authority(address: &str, port: u16) -> String {
    match address.contains(':') {
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    }
}

pub(crate) fn url_of(address: &str) -> String {
    format!("http://{}/file", authority(address, 8000))
}

/// A server on `net` at `address`.
pub(crate) fn serve(world: &World, net: &str, address: &str) -> Running {
    let words = world.python(&["-m", "http.server", "8000", "--bind", address]);
    let server = Running::start(world.on_net(net, &words));
    let _ = server.line("Serving HTTP");
    server
}

/// The file goes from the server at `address` of `b` to a program on `a`.
pub(crate) fn fetch(world: &World, address: &str, digest: &str) {
    let curl = world.on_net("a", &["curl", "-sS", "-o", "back", &url_of(address)]);
    let _ = Running::start(curl).finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    fs::remove_file(world.path("back")).unwrap();
}

/// The file goes from a program on `a` to a server on `b` at `address`.
pub(crate) fn store(world: &World, address: &str, digest: &str) {
    let sink = Running::start(world.on_net("b", &world.script("sink.py", &[address, "8001"])));
    let _ = sink.line("ready");
    let url = format!("http://{}/file", authority(address, 8001));
    let curl = world.on_net("a", &["curl", "-sS", "-T", "file", &url]);
    let _ = Running::start(curl).finish().success();
    assert_eq!(sink.line("sha256"), format!("sha256 {digest}"));
    sink.signal(Signal::INT);
    let _ = sink.finish();
}

/// A program on `a` gets nothing from the server at `address` of `b` within a second.
pub(crate) fn cannot_fetch(world: &World, address: &str) {
    let curl = ["curl", "-sS", "--max-time", "1", "-o", "back", &url_of(address)];
    // Operation timed out.
    let _ = Running::start(world.on_net("a", &curl)).finish().code(28);
}

/// What an instance has logged.
pub(crate) fn log(world: &World, net: &str) -> String {
    fs::read_to_string(world.outside(&format!("/run/tasuki/{net}.log"))).unwrap_or_default()
}

pub(crate) fn end(world: &World, server: Running) {
    server.signal(Signal::INT);
    let _ = server.finish();
    world.down("a");
    world.down("b");
    world.assert_nothing_left();
}

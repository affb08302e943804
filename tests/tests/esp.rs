//! ESP between two instances: every algorithm and mode, both families, `tasuki xfrm` and the
//! configuration, captures that tshark decrypts, wrong keys, plaintext.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::Signal;
use tasuki_tests::{
    Mode, Nic, Running, World, eventually, sha256, skip, tasuki_binary, write_noise,
};

const A: &str = "10.56.0.1";
const B: &str = "10.56.0.2";
const A6: &str = "fd56::1";
const B6: &str = "fd56::2";
/// Inside a tunnel.
const INNER_A: &str = "10.57.0.1";
const INNER_B: &str = "10.58.0.1";
const SPI_AB: &str = "0x1001";
const SPI_BA: &str = "0x1002";

/// The algorithms of an association, as words; `{}` is the number of its direction, a hexadecimal
/// digit of the key.
const GCM: &str = "aead rfc4106(gcm(aes)) 0x{}0112233445566778899aabbccddeeff01020304 128";
const CHACHA: &str = "aead rfc7539esp(chacha20,poly1305) \
    0x{}0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff01020304 128";
const CBC: &str = "enc cbc(aes) 0x{}0112233445566778899aabbccddeeff \
    auth-trunc hmac(sha256) \
    0x{}0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff 128";
const TRIPLE_DES: &str = "enc cbc(des3_ede) 0x{}0112233445566778899aabbccddeeff1021324354657687 \
    auth hmac(sha1) 0x{}0112233445566778899aabbccddeeff01020304";
const NULL: &str = "enc cipher_null 0x \
    auth-trunc hmac(sha256) \
    0x{}0112233445566778899aabbccddeeff00112233445566778899aabbccddeeff 128";

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A world with a file of noise, its SHA-256, and two instances on a wire.
fn joined(len: usize, with: [&[&str]; 2]) -> Option<(World, String)> {
    let _ = Mode::shared()?;
    let world = World::over(Nic::Tap)?;
    write_noise(&world.path("file"), len, 1);
    let digest = sha256(&world.path("file"));
    let nic = format!("wire:{}", world.file("wire"));
    for (net, addresses, more) in [("a", [A, A6], with[0]), ("b", [B, B6], with[1])] {
        let [four, six] = [format!("{}/24", addresses[0]), format!("{}/64", addresses[1])];
        let mode = Mode::given().name();
        let words = ["up", "--mode", mode, "--nic", &nic, "--ip", &four, "--ip", &six];
        let _ = Running::start(world.tasuki(&[&words, more, &[net]].concat())).finish().success();
    }
    for net in ["a", "b"] {
        eventually("the link is up", || world.counter(net, "wire.carrier") == 1);
    }
    Some((world, digest))
}

fn xfrm(world: &World, net: &str, line: &str) -> Command {
    let all = [&["xfrm", "--net", net], &words(line)[..]].concat();
    world.tasuki(&all)
}

fn xfrm_done(world: &World, net: &str, line: &str) -> String {
    Running::start(xfrm(world, net, line)).finish().success().stdout
}

/// Has both instances protect everything between `inner` by packets between `outer`.
fn protect(world: &World, inner: [&str; 2], outer: [&str; 2], (mode, algorithms): (&str, &str)) {
    let insecure = algorithms == TRIPLE_DES || algorithms == NULL;
    let option = if insecure { "--insecure" } else { "" };
    for net in ["a", "b"] {
        for (digit, spi, src, dst) in
            [("1", SPI_AB, outer[0], outer[1]), ("2", SPI_BA, outer[1], outer[0])]
        {
            let algorithms = algorithms.replace("{}", digit);
            let line = format!(
                "{option} state add src {src} dst {dst} proto esp spi {spi} reqid 1 mode {mode} \
                 replay-window 128 flag esn {algorithms}"
            );
            let _ = xfrm_done(world, net, &line);
        }
        let dirs = if net == "a" { ["out", "in"] } else { ["in", "out"] };
        for (dir, at) in dirs.into_iter().zip([[0, 1], [1, 0]]) {
            let [src, dst] = at.map(|at| inner[at]);
            let ends = match mode {
                "tunnel" => format!("src {} dst {}", outer[at[0]], outer[at[1]]),
                _ => String::new(),
            };
            let line = format!(
                "policy add dir {dir} src {src} dst {dst} tmpl {ends} proto esp reqid 1 mode {mode}"
            );
            let _ = xfrm_done(world, net, &line);
        }
    }
}

fn url_of(address: &str) -> String {
    match address.contains(':') {
        true => format!("http://[{address}]:8000/file"),
        false => format!("http://{address}:8000/file"),
    }
}

/// A server on `net` at `address`.
fn serve(world: &World, net: &str, address: &str) -> Running {
    let words = world.python(&["-m", "http.server", "8000", "--bind", address]);
    let server = Running::start(world.on_net(net, &words));
    let _ = server.line("Serving HTTP");
    server
}

/// The file goes from the server at `address` of `b` to a program on `a`.
fn fetch(world: &World, address: &str, digest: &str) {
    let curl = world.on_net("a", &["curl", "-sS", "-o", "back", &url_of(address)]);
    let _ = Running::start(curl).finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    fs::remove_file(world.path("back")).unwrap();
}

/// A program on `a` gets nothing from the server at `address` of `b` within a second.
fn cannot_fetch(world: &World, address: &str) {
    let curl = ["curl", "-sS", "--max-time", "1", "-o", "back", &url_of(address)];
    // Operation timed out.
    let _ = Running::start(world.on_net("a", &curl)).finish().code(28);
}

fn end(world: &World, server: Running) {
    server.signal(Signal::INT);
    let _ = server.finish();
    world.down("a");
    world.down("b");
    world.assert_nothing_left();
}

/// A file of 8 MiB goes through ESP.
fn transfer(inner: [&str; 2], outer: [&str; 2], mode: &str, algorithms: &str) {
    let len = 8 << 20;
    let Some((world, digest)) = joined(len, [&[], &[]]) else { return };
    protect(&world, inner, outer, (mode, algorithms));
    let server = serve(&world, "b", inner[1]);
    fetch(&world, inner[1], &digest);
    let sent = world.counter("b", "xfrm.bytes-out");
    assert!(sent > len as u64, "{sent} bytes of ESP");
    let opened = world.counter("a", "xfrm.packets-in");
    assert!(opened > 5000, "{opened} packets of ESP");
    for (net, name) in [("a", "xfrm.in-tmpl-mismatch"), ("b", "xfrm.in-state-proto-error")] {
        assert_eq!(world.counter(net, name), 0, "{name}");
    }
    end(&world, server);
}

#[test]
fn a_file_goes_by_aes_gcm() {
    transfer([A, B], [A, B], "transport", GCM);
}

#[test]
fn a_file_goes_by_chacha20_over_ipv6() {
    transfer([A6, B6], [A6, B6], "transport", CHACHA);
}

#[test]
fn a_file_goes_by_aes_cbc_in_a_tunnel() {
    transfer([A, B], [A, B], "tunnel", CBC);
}

#[test]
fn a_file_goes_by_triple_des_over_ipv6_in_a_tunnel() {
    transfer([A6, B6], [A6, B6], "tunnel", TRIPLE_DES);
}

#[test]
fn ipv4_goes_in_a_tunnel_over_ipv6() {
    transfer([A, B], [A6, B6], "tunnel", GCM);
}

/// What tshark is to know of an association.
struct Keys {
    version: &'static str,
    ends: [&'static str; 2],
    names: [&'static str; 2],
    algorithms: &'static str,
}

/// Captures a transfer and has tshark decrypt it.
fn decrypted(keys: &Keys, mode: &str) {
    let inner = keys.ends;
    let Some((world, digest)) = joined(1 << 16, [&[], &[]]) else { return };
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip("tshark is not installed: apt-get install tshark");
    }
    protect(&world, inner, inner, (mode, keys.algorithms));
    let server = serve(&world, "b", inner[1]);
    let capture = Running::start(world.tasuki(&["capture", "-w", "f.pcapng", "--net", "a"]));
    let _ = capture.line("capturing on a");
    fetch(&world, inner[1], &digest);
    capture.signal(Signal::INT);
    let _ = capture.finish().success();
    let associations = [("1", SPI_AB, inner[0], inner[1]), ("2", SPI_BA, inner[1], inner[0])];
    let tables = associations.map(|(digit, spi, src, dst)| {
        let algorithms = keys.algorithms.replace("{}", digit);
        let mut given = words(&algorithms).into_iter().filter(|word| word.starts_with("0x"));
        let (key, auth) = (given.next().unwrap(), given.next().unwrap_or_default());
        let key = if key == "0x" { "" } else { key };
        let Keys { version, names: [enc, check], .. } = keys;
        format!(
            "uat:esp_sa:\"{version}\",\"{src}\",\"{dst}\",\"{spi}\",\"{enc}\",\"{key}\",\
             \"{check}\",\"{auth}\""
        )
    });
    let tshark = |filter: &str, field: &str| -> Vec<String> {
        let words = [
            "tshark",
            "-r",
            "f.pcapng",
            "-o",
            "esp.enable_encryption_decode:TRUE",
            "-o",
            "esp.enable_authentication_check:TRUE",
            "-o",
            &tables[0],
            "-o",
            &tables[1],
            "-Y",
            filter,
            "-T",
            "fields",
            "-e",
            field,
        ];
        world.run(&words).success().stdout.lines().map(str::to_owned).collect()
    };
    let all = tshark("esp", "frame.number").len();
    assert!(all > 40, "{all} packets of ESP");
    let opened = tshark("esp && tcp", "tcp.len");
    assert_eq!(opened.len(), all, "packets that tshark has decrypted");
    let requests = tshark("http.request", "http.request.uri");
    assert_eq!(requests, ["/file"]);
    let wrong = "_ws.malformed || tcp.checksum.status == 0 || esp.icv_bad == 1";
    assert_eq!(tshark(wrong, "frame.number"), Vec::<String>::new());
    // Nothing of the connection was in the clear.
    assert_eq!(tshark("tcp && !esp", "frame.number"), Vec::<String>::new());
    end(&world, server);
}

#[test]
fn tshark_decrypts_aes_gcm() {
    let names = ["AES-GCM with 16 octet ICV [RFC4106]", "NULL"];
    decrypted(&Keys { version: "IPv4", ends: [A, B], names, algorithms: GCM }, "transport");
}

#[test]
fn tshark_decrypts_aes_cbc_over_ipv6_in_a_tunnel() {
    let names = ["AES-CBC [RFC3602]", "HMAC-SHA-256-128 [RFC4868]"];
    decrypted(&Keys { version: "IPv6", ends: [A6, B6], names, algorithms: CBC }, "tunnel");
}

#[test]
fn tshark_decrypts_triple_des() {
    let names = ["TripleDES-CBC [RFC2451]", "HMAC-SHA-1-96 [RFC2404]"];
    decrypted(&Keys { version: "IPv4", ends: [A, B], names, algorithms: TRIPLE_DES }, "transport");
}

#[test]
fn wrong_keys_missing_associations_and_plaintext_pass_nothing() {
    let Some((world, digest)) = joined(1 << 16, [&[], &[]]) else { return };
    protect(&world, [A, B], [A, B], ("transport", GCM));
    let server = serve(&world, "b", B);
    fetch(&world, B, &digest);
    // Another key at the receiver.
    let delete = format!("state delete src {A} dst {B} proto esp spi {SPI_AB}");
    let _ = xfrm_done(&world, "b", &delete);
    let other = GCM.replace("{}", "7");
    let add = format!(
        "state add src {A} dst {B} proto esp spi {SPI_AB} reqid 1 replay-window 32 {other}"
    );
    let _ = xfrm_done(&world, "b", &add);
    cannot_fetch(&world, B);
    assert!(world.counter("b", "xfrm.in-state-proto-error") > 0);
    // None at the receiver.
    let _ = xfrm_done(&world, "b", &delete);
    cannot_fetch(&world, B);
    assert!(world.counter("b", "xfrm.in-no-states") > 0);
    // None at the sender: nothing leaves.
    let _ = xfrm_done(&world, "a", &delete);
    let sent = world.counter("a", "xfrm.packets-out");
    cannot_fetch(&world, B);
    assert!(world.counter("a", "xfrm.out-no-states") > 0);
    assert_eq!(world.counter("a", "xfrm.packets-out"), sent);
    // No policy at the sender: plaintext leaves, and is refused.
    let _ = xfrm_done(&world, "a", "policy flush");
    cannot_fetch(&world, B);
    assert!(world.counter("b", "xfrm.in-tmpl-mismatch") > 0);
    // Without policies at both ends it is as it was before.
    let _ = xfrm_done(&world, "b", "policy flush");
    fetch(&world, B, &digest);
    end(&world, server);
}

#[test]
fn what_was_added_is_listed_and_keys_only_on_demand() {
    let Some((world, digest)) = joined(1 << 16, [&[], &[]]) else { return };
    protect(&world, [A, B], [A, B], ("transport", GCM));
    let server = serve(&world, "b", B);
    fetch(&world, B, &digest);
    let digits = "10112233445566778899aabbccddeeff01020304";
    let hidden = xfrm_done(&world, "a", "state list");
    assert!(hidden.contains("spi 0x00001001 reqid 1 mode transport"), "{hidden}");
    assert!(hidden.contains("<hidden>") && !hidden.contains(digits), "{hidden}");
    let shown = xfrm_done(&world, "a", "--show-keys state list");
    assert!(shown.contains(digits), "{shown}");
    let counted = xfrm_done(&world, "a", "-s state list");
    assert!(counted.contains("stats: replay 0, failed 0"), "{counted}");
    let json = xfrm_done(&world, "a", "--json state list");
    assert!(!json.contains(digits), "{json}");
    let policies = xfrm_done(&world, "a", "policy list");
    assert!(policies.contains(&format!("src {A}/32 dst {B}/32")), "{policies}");
    assert!(policies.contains("tmpl proto esp reqid 1 mode transport"), "{policies}");
    // What is there already, and what is not there.
    let one = GCM.replace("{}", "9");
    let again = format!("state add src {A} dst {B} spi {SPI_AB} {one}");
    let same_key = format!("state add src {A} dst {B} spi 0x2000 {}", GCM.replace("{}", "1"));
    let weak = format!("state add src {A} dst {B} spi 0x2000 {}", TRIPLE_DES.replace("{}", "1"));
    let refusals = [
        (again.as_str(), "delete it first"),
        (&same_key, "each association needs a key of its own"),
        (&weak, "protects too little today"),
        ("state delete dst 10.56.0.9 spi 4096", "there is no association"),
        ("policy delete dir in src 10.56.0.9", "there is no such policy"),
        ("policy add dir in src 10.56.0.9 tmpl mode tunnel", "such a policy cannot be"),
    ];
    for (line, expected) in refusals {
        let said = Running::start(xfrm(&world, "a", line)).finish();
        assert!(said.stderr.contains(expected), "{line}: {said}");
        assert!(!said.stderr.contains("0112233445566778899"), "{said}");
    }
    let wrong = Running::start(xfrm(&world, "a", "policy add dir up")).finish().code(2);
    assert!(wrong.stderr.contains("known are in and out"), "{wrong}");
    end(&world, server);
}

/// The configuration of an instance whose packets to `there` are protected.
fn configuration(world: &World, name: &str, [here, there]: [&str; 2], keys: [&str; 2]) -> String {
    let state = |src: &str, dst: &str, spi: u32, key: &str| {
        format!(
            "[[xfrm.state]]\nsrc = \"{src}\"\ndst = \"{dst}\"\nspi = {spi}\nreqid = 1\n\
             replay_window = 64\nesn = true\nmode = \"tunnel\"\n\
             aead = {{ name = \"rfc4106(gcm(aes))\", {key} }}\n\
             limits = {{ time_hard = 3600 }}\n"
        )
    };
    let policy = |dir: &str, src: [&str; 2], dst: [&str; 2]| {
        let (inner, outer) = ([src[0], dst[0]], [src[1], dst[1]]);
        format!(
            "[[xfrm.policy]]\ndir = \"{dir}\"\nsel = {{ src = \"{}\", dst = \"{}\" }}\n\
             tmpl = {{ src = \"{}\", dst = \"{}\", reqid = 1, mode = \"tunnel\" }}\n",
            inner[0], inner[1], outer[0], outer[1]
        )
    };
    let mine = if here == A { [INNER_A, INNER_B] } else { [INNER_B, INNER_A] };
    let (spi_out, spi_in) = if here == A { (0x1001, 0x1002) } else { (0x1002, 0x1001) };
    let text = [
        state(here, there, spi_out, keys[0]),
        state(there, here, spi_in, keys[1]),
        policy("out", [mine[0], here], [mine[1], there]),
        policy("in", [mine[1], there], [mine[0], here]),
    ];
    let route = format!("[inet]\nroutes = [{{ to = \"{}/32\", via = \"{there}\" }}]\n", mine[1]);
    fs::write(world.path(name), [route, text.concat()].concat()).unwrap();
    fs::set_permissions(world.path(name), PermissionsExt::from_mode(0o600)).unwrap();
    world.file(name)
}

/// Tunnels between addresses that are not on the link, with keys in files and inline.
#[test]
fn a_configured_tunnel_leads_to_addresses_behind_it() {
    let Some(world) = Mode::shared().and_then(|_| World::over(Nic::Tap)) else { return };
    write_noise(&world.path("file"), 1 << 20, 1);
    let digest = sha256(&world.path("file"));
    let keys = ["1", "2"].map(|digit| format!("0x{digit}0112233445566778899aabbccddeeff01020304"));
    for (name, digit) in [("one.key", "1"), ("two.key", "2")] {
        let key = format!("0x{digit}0112233445566778899aabbccddeeff01020304\n");
        fs::write(world.path(name), key).unwrap();
        fs::set_permissions(world.path(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    let files = ["one.key", "two.key"].map(|name| format!("key_file = \"{}\"", world.file(name)));
    let inline = keys.map(|key| format!("key = \"{key}\""));
    let a = configuration(&world, "a.toml", [A, B], [&files[0], &files[1]]);
    let b = configuration(&world, "b.toml", [B, A], [&inline[1], &inline[0]]);
    let nic = format!("wire:{}", world.file("wire"));
    let up = |net: &str, config: &str, addresses: [&str; 2]| {
        let [outer, inner] = [format!("{}/24", addresses[0]), format!("{}/32", addresses[1])];
        let mode = Mode::given().name();
        let words = ["up", "--mode", mode, "--nic", &nic, "--ip", &outer, "--ip", &inner];
        world.tasuki(&[&words[..], &["--config", config, net]].concat())
    };
    let _ = Running::start(up("a", &a, [A, INNER_A])).finish().success();
    let _ = Running::start(up("b", &b, [B, INNER_B])).finish().success();
    for net in ["a", "b"] {
        eventually("the link is up", || world.counter(net, "wire.carrier") == 1);
    }
    let server = serve(&world, "b", INNER_B);
    let from = ["curl", "-sS", "--interface", INNER_A, "-o", "back", &url_of(INNER_B)];
    let _ = Running::start(world.on_net("a", &from)).finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    assert!(world.counter("a", "xfrm.packets-in") > 500);
    end(&world, server);
}

#[test]
fn wrong_configurations_are_refused_with_a_sentence() {
    let Some(world) = Mode::shared().and_then(|_| World::over(Nic::Tap)) else { return };
    let inline = ["key = \"0x00\"", "key = \"0x00\""];
    let missing = ["key_file = \"/nonexistent\"", "key_file = \"/nonexistent\""];
    let up = |config: &str, mode: &str| {
        let nic = format!("wire:{}", world.file("wire"));
        let words = ["up", "--mode", mode, "--nic", &nic, "--ip", "10.56.0.1/24"];
        let words = [&words[..], &["--config", config, "w"]].concat();
        Running::start(world.tasuki(&words)).finish().code(118).stderr
    };
    let short = configuration(&world, "short.toml", [A, B], inline);
    let said = up(&short, Mode::given().name());
    assert!(said.contains("takes a key of 20, 28 or 36 bytes, not of 1"), "{said}");
    fs::set_permissions(world.path("short.toml"), PermissionsExt::from_mode(0o644)).unwrap();
    let said = up(&short, Mode::given().name());
    assert!(said.contains("mode 0644") && said.contains("chmod 600"), "{said}");
    let none = configuration(&world, "none.toml", [A, B], missing);
    let said = up(&none, Mode::given().name());
    assert!(said.contains("the key file /nonexistent"), "{said}");
    let files = configuration(&world, "library.toml", [A, B], ["icv = 128", "icv = 128"]);
    let said = up(&files, "library");
    assert!(said.contains("in mode library there is no ESP"), "{said}");
    assert!(tasuki_binary().exists());
    world.assert_nothing_left();
}

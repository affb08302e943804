//! `tasuki xfrm` and the configuration.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tasuki_tests::{Mode, Nic, Running, World, eventually, sha256, write_noise};

use crate::pair::{
    A, B, GCM, Plan, SPI_AB, TRIPLE_DES, end, fetch, joined, protect, serve, url_of, xfrm,
    xfrm_done,
};

/// Inside a tunnel.
const INNER_A: &str = "10.57.0.1";
const INNER_B: &str = "10.58.0.1";

#[test]
fn what_was_added_is_listed_and_keys_only_on_demand() {
    let Some((world, digest)) = joined(1 << 16, &[]) else { return };
    protect(&world, &Plan::between([A, B], "transport", GCM));
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
        let [outer, inner] = [format!("{}/24", addresses[0]), format!("{}/30", addresses[1])];
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
        let words = ["up", "--mode", mode, "--ip", "10.56.0.1/24"];
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
    world.assert_nothing_left();
}

//! tshark decrypts what was captured, with the keys that it is given. It knows no extended sequence
//! numbers, so the associations have short ones.

use std::process::Command;

use rustix::process::Signal;
use tasuki_tests::{Running, skip};

use crate::pair::{
    A, A6, B, B6, CBC, GCM, GCM_256, NULL, Plan, SPI_AB, SPI_BA, TRIPLE_DES, end, fetch, joined,
    protect, serve, words,
};

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
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip("tshark is not installed: apt-get install tshark");
    }
    let Some((world, digest)) = joined(1 << 16, &[]) else { return };
    let plan = Plan::between(inner, mode, keys.algorithms);
    protect(&world, &Plan { more: "replay-window 128", ..plan });
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
fn tshark_decrypts_aes_gcm_with_long_keys_over_ipv6_in_a_tunnel() {
    let names = ["AES-GCM with 16 octet ICV [RFC4106]", "NULL"];
    decrypted(&Keys { version: "IPv6", ends: [A6, B6], names, algorithms: GCM_256 }, "tunnel");
}

#[test]
fn tshark_reads_null_encryption() {
    let names = ["NULL", "HMAC-SHA-256-128 [RFC4868]"];
    decrypted(&Keys { version: "IPv4", ends: [A, B], names, algorithms: NULL }, "transport");
}

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

/// What tshark tells of each packet. A checksum's status 0 is a bad one.
const FIELDS: [&str; 6] = [
    "esp.spi",
    "tcp.len",
    "http.request.uri",
    "_ws.malformed",
    "tcp.checksum.status",
    "esp.icv_bad",
];

/// A line of tshark.
fn packet(line: &str) -> [&str; 6] {
    let fields: Vec<&str> = line.split('\t').collect();
    fields.try_into().unwrap_or_else(|fields| panic!("{fields:?}"))
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
    // One run for all fields: most of its time goes into its start.
    let decode = ["esp.enable_encryption_decode:TRUE", "esp.enable_authentication_check:TRUE"];
    let options = decode.into_iter().chain(tables.iter().map(String::as_str));
    let options = options.flat_map(|option| ["-o", option]);
    let fields = FIELDS.into_iter().flat_map(|field| ["-e", field]);
    let read = ["tshark", "-r", "f.pcapng", "-T", "fields"];
    let words: Vec<&str> = read.into_iter().chain(options).chain(fields).collect();
    let said = world.run(&words).success();
    let packets: Vec<[&str; 6]> = said.stdout.lines().map(packet).collect();
    let protected = packets.iter().filter(|[spi, ..]| !spi.is_empty()).count();
    assert!(protected > 40, "{protected} packets of ESP");
    let mut requests = Vec::new();
    for [spi, len, request, malformed, checksum, icv_bad] in packets {
        // All were decrypted, and nothing of the connection was in the clear.
        assert_eq!(spi.is_empty(), len.is_empty(), "{said}");
        assert!(
            malformed.is_empty() && checksum != "0" && !["1", "True"].contains(&icv_bad),
            "{said}"
        );
        requests.extend((!request.is_empty()).then_some(request));
    }
    assert_eq!(requests, ["/file"]);
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

//! Sealed and TLS portals: keys, certificates, and what a middle man can do.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ED25519, SanType, SignatureAlgorithm, date_time_ymd,
};
use tasuki_tests::{Finished, HOST, Mode, Running, STACK, World, installed, sha256, write_noise};

/// Bytes of the unit.
const SIZE: usize = 16 << 20;
/// The middle man's port.
const MIDDLE: u16 = 9100;

fn world() -> Option<World> {
    let mode = Mode::shared()?;
    let world = World::with_kernel()?;
    world.up("net", mode, &[]);
    Some(world)
}

/// `tasuki WORDS` with the keys in this directory of the world.
fn tasuki(world: &World, keys: &str, words: &[&str]) -> Finished {
    let mut command = world.tasuki(words);
    command.env("TASUKI_KEYS", world.path(keys));
    Running::start(command).finish()
}

fn target_up(world: &World, options: &[&str]) -> (PathBuf, Finished) {
    let path = world.path("disk.img");
    std::fs::File::create(&path).unwrap().set_len(SIZE as u64).unwrap();
    let lun = format!("file:{}", path.display());
    let words = [&["target", "up", "disks", "--net", "net", "--lun", &lun], options].concat();
    (path, tasuki(world, "target-keys", &words))
}

fn end(world: &World) {
    let _ = tasuki(world, "target-keys", &["target", "down", "disks"]).success();
    world.down("net");
    world.assert_nothing_left();
}

fn unit(scheme: &str) -> String {
    format!("{scheme}://{STACK}/iqn.2026-11.tasuki:disks/0")
}

/// The fingerprint of the keys in this directory.
fn key(world: &World, keys: &str) -> String {
    tasuki(world, keys, &["key", "show"]).success().stdout.trim().to_owned()
}

fn sessions(world: &World) -> serde_json::Value {
    let said = tasuki(world, "target-keys", &["target", "ps", "--json"]).success();
    serde_json::from_str(&said.stdout).expect("JSON")
}

/// The user's way from a new target to data on it: each refusal says what to do next.
#[test]
fn both_ends_have_to_know_each_other() {
    let Some(world) = world() else { return };
    let (path, said) = target_up(&world, &[]);
    let _ = said.success();
    let ours = key(&world, "keys");
    let theirs = key(&world, "target-keys");
    let portal = format!("iscsi+sealed://{STACK}");
    let ls = |words: &[&str]| tasuki(&world, "keys", &[&["disk", "ls", &portal], words].concat());

    let said = ls(&[]).code(119);
    let trust = format!("tasuki key trust {STACK}:3260 {theirs}");
    assert!(said.stderr.contains(&trust), "{said}");
    let _ = tasuki(&world, "keys", &["key", "trust", STACK, &ours]).success();
    let said = ls(&["--accept-new"]).code(119);
    assert!(said.stderr.contains("HAS CHANGED") && said.stderr.contains(&theirs), "{said}");
    let _ = tasuki(&world, "keys", &["key", "forget", STACK]).success();
    let said = tasuki(&world, "keys", &["key", "forget", STACK]).code(118);
    assert!(said.stderr.contains("no key is known"), "{said}");
    let said = ls(&["--accept-new"]).code(119);
    let allow = format!("tasuki key allow NAME {ours}");
    assert!(said.stderr.contains(&allow), "the target has refused us: {said}");
    let _ = tasuki(&world, "target-keys", &["key", "allow", "alice", &ours]).success();
    let said = ls(&[]).success();
    assert!(said.stdout.contains(&unit("iscsi+sealed").replace(STACK, &format!("{STACK}:3260"))));

    write_noise(&world.path("noise"), SIZE, 5);
    let (noise, back) = (world.file("noise"), world.file("back"));
    for (from, to) in [(&*noise, &*unit("iscsi+sealed")), (&*unit("iscsi+sealed"), &*back)] {
        let words = ["disk", "copy", from, to, "--pad", "4096", "--rekey-after", "1"];
        let _ = tasuki(&world, "keys", &words).success();
    }
    assert_eq!(sha256(&path), sha256(&world.path("noise")));
    assert_eq!(sha256(&path), sha256(&world.path("back")));

    let _ = tasuki(&world, "target-keys", &["key", "forget", "alice"]).success();
    let said = ls(&[]).code(119);
    assert!(said.stderr.contains(&allow), "without a restart: {said}");
    end(&world);
}

/// A machine knows its own key, so both ends on one machine need no introduction.
#[test]
fn a_session_shows_who_it_is_with_and_changes_its_keys() {
    let Some(world) = world() else { return };
    let _ = target_up(&world, &["--lun", "null:1T"]).1.success();
    let unit = unit("iscsi+sealed").replace("/0", "/1");
    let mut copy = world.tasuki(&["disk", "copy", &unit, "/dev/full"]);
    copy.env("TASUKI_KEYS", world.path("target-keys"));
    let _ = Running::start(copy).finish().code(1);

    let mut long = world.tasuki(&["disk", "copy", &unit, "/dev/null"]);
    long.env("TASUKI_KEYS", world.path("target-keys"));
    let long = Running::start(long);
    let session = || sessions(&world)[0]["sessions"][0].clone();
    tasuki_tests::eventually("the session", || session()["sealed"]["sealed"].as_u64() > Some(0));
    assert_eq!(session()["identity"], key(&world, "target-keys"));
    for change in 1..=3 {
        let _ = tasuki(&world, "target-keys", &["target", "rekey", "disks"]).success();
        tasuki_tests::eventually("new keys of both directions", || {
            let sealed = session()["sealed"].clone();
            ["rekeys", "peer_rekeys"].iter().all(|key| sealed[key].as_u64() == Some(change))
        });
    }
    // Data goes on under the new keys of both directions.
    let before = session()["sealed"]["sealed"].as_u64();
    tasuki_tests::eventually("more data", || session()["sealed"]["sealed"].as_u64() > before);
    long.signal(rustix::process::Signal::KILL);
    let _ = long.finish();
    end(&world);
}

/// A portal speaks one transport. Others fail, say why, and leave the target as it was.
#[test]
fn transports_are_never_mixed() {
    let Some(world) = world() else { return };
    let up = |words: &[&str]| {
        let _ = target_up(&world, words).1.success();
    };
    let ls = |scheme: &str| {
        let said = tasuki(&world, "target-keys", &["disk", "ls", &unit(scheme)]);
        (said.status.code(), said.stderr)
    };
    for (own, words) in
        [("iscsi+sealed", &[][..]), ("iscsi+tls", &["--tls"]), ("iscsi", &["--plain"])]
    {
        up(words);
        for scheme in ["iscsi+sealed", "iscsi+tls", "iscsi"] {
            let (code, said) = ls(scheme);
            assert_eq!(code == Some(0), scheme == own, "{scheme} at {own}: {said}");
            assert!(code == Some(0) || said.starts_with("tasuki: "), "{said}");
        }
        if own != "iscsi" && installed("iscsi-ls") {
            let said = world.run(&["timeout", "20", "iscsi-ls", &format!("iscsi://{STACK}")]);
            assert!(!said.status.success(), "{said}");
        }
        assert_eq!(ls(own).0, Some(0), "the target goes on");
        let _ = tasuki(&world, "target-keys", &["target", "down", "disks"]).success();
    }
    let said = tasuki(&world, "target-keys", &["target", "rekey", "disks"]).code(122);
    assert!(said.stderr.contains("not running"), "{said}");
    world.down("net");
}

/// Files with keys, certificates and known keys that cannot be used.
#[test]
fn bad_keys_and_options_are_refused() {
    let Some(world) = world() else { return };
    let directory = world.path("target-keys");
    let _ = key(&world, "target-keys");
    let file = directory.join("key.pem");
    let mode = |mode| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o644);
    let said = target_up(&world, &[]).1.code(119);
    assert!(said.stderr.contains("chmod 600"), "{said}");
    mode(0o600);
    std::fs::write(&file, "no key").unwrap();
    let said = target_up(&world, &[]).1.code(118);
    assert!(said.stderr.contains("no private key in PEM"), "{said}");
    let _ = tasuki(&world, "target-keys", &["key", "new"]).code(118);
    let _ = tasuki(&world, "target-keys", &["key", "new", "--force"]).success();
    for (words, code, sentence) in [
        (&["--cert", "a.pem"][..], 2, "--key"),
        (&["--crl", "a.pem"], 2, "--ca"),
        (&["--ca", "/nonexistent"], 118, "cannot read /nonexistent"),
        (&["--pad", "1"], 2, "--pad"),
        (&["--cipher", "rc4"], 2, "aes-256-gcm"),
        (&["--plain", "--tls"], 2, "--tls"),
    ] {
        let said = target_up(&world, words).1.code(code);
        assert!(said.stderr.contains(sentence), "{sentence}: {said}");
    }
    std::fs::write(directory.join("known_initiators"), "alice\n").unwrap();
    let _ = target_up(&world, &[]).1.success();
    let ls = ["disk", "ls", &unit("iscsi+sealed"), "--accept-new"];
    let said = tasuki(&world, "keys", &ls).code(119);
    assert!(said.stderr.contains("the sender failed"), "a wrong line lets nobody in: {said}");
    end(&world);
}

/// An authority, and certificates of it, as files of the world.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(world: &World, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        std::fs::write(world.path(&format!("{name}.pem")), issuer.pem()).unwrap();
        Self(issuer)
    }

    /// The words that name a new certificate and its key.
    fn certify(&self, world: &World, name: &str, san: SanType, until: i32) -> [String; 4] {
        self.certify_by(&PKCS_ED25519, world, (name, san), until)
    }

    /// The same, with a key of this algorithm.
    fn certify_by(
        &self,
        algorithm: &'static SignatureAlgorithm,
        world: &World,
        (name, san): (&str, SanType),
        until: i32,
    ) -> [String; 4] {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![san];
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let (cert, private) = (format!("{name}.pem"), format!("{name}.key"));
        std::fs::write(world.path(&cert), certificate.pem()).unwrap();
        write_private(&world.path(&private), &key.serialize_pem());
        ["--cert".to_owned(), world.file(&cert), "--key".to_owned(), world.file(&private)]
    }
}

fn write_private(path: &Path, text: &str) {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file =
        std::fs::File::options().write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn ip(address: &str) -> SanType {
    SanType::IpAddress(address.parse().unwrap())
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.to_owned().try_into().unwrap())
}

/// Certificates decide who comes in, with sealed and with TLS.
#[test]
fn certificates_of_an_authority_are_taken() {
    let Some(world) = world() else { return };
    let (ours, foreign) = (Authority::new(&world, "ca"), Authority::new(&world, "foreign"));
    let server = ours.certify(&world, "server", ip(STACK), 2100);
    let elsewhere = ours.certify(&world, "elsewhere", ip("192.0.2.1"), 2100);
    let clients = [
        (ours.certify(&world, "alice", dns("alice.example"), 2100), "ca.pem", true),
        (ours.certify(&world, "expired", dns("alice.example"), 2020), "ca.pem", false),
        (foreign.certify(&world, "mallory", dns("alice.example"), 2100), "ca.pem", false),
        (ours.certify(&world, "bob", dns("bob.example"), 2100), "foreign.pem", false),
    ];
    let ca = world.file("ca.pem");
    for (scheme, more) in [("iscsi+sealed", &[][..]), ("iscsi+tls", &["--tls"])] {
        let words = |who: &[String; 4], ca: &str| -> Vec<String> {
            who.iter().cloned().chain(["--ca".to_owned(), ca.to_owned()]).collect()
        };
        let up = |who: &[String; 4]| {
            let words = words(who, &ca);
            let words: Vec<&str> = words.iter().map(String::as_str).chain(more.to_vec()).collect();
            let _ = target_up(&world, &words).1.success();
        };
        up(&server);
        for (who, ca, taken) in &clients {
            let words = words(who, &world.file(ca));
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let unit = unit(scheme);
            let ls = [&["disk", "ls", &unit], &words[..]].concat();
            let said = tasuki(&world, "keys", &ls);
            assert_eq!(said.status.success(), *taken, "{scheme}: {said}");
        }
        // A bare key is no certificate.
        let said = tasuki(&world, "keys", &["disk", "ls", &unit(scheme), "--accept-new"]);
        assert!(!said.status.success(), "{said}");
        let _ = tasuki(&world, "target-keys", &["target", "down", "disks"]).success();
        up(&elsewhere);
        let words = words(&clients[0].0, &ca);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = tasuki(&world, "keys", &[&["disk", "ls", &unit(scheme)], &words[..]].concat());
        assert!(!said.status.success(), "the certificate is another host's: {said}");
        let _ = tasuki(&world, "target-keys", &["target", "down", "disks"]).success();
    }
    world.down("net");
}

/// Starts the target by a file with two units, these words in its first section, and these rules.
fn target_by_file(world: &World, section: &str, rules: &str, options: &[&str]) -> Finished {
    let luns = "[[lun]]\nvolume = \"memory:8M\"\n".repeat(2);
    let text = format!("[target]\nnet = \"net\"\n{section}\n{luns}{rules}");
    std::fs::write(world.path("disks.toml"), text).unwrap();
    let file = world.file("disks.toml");
    tasuki(world, "target-keys", &[&["target", "up", "-f", &file], options].concat())
}

/// How many units `tasuki disk ls` shows with these options; `None`: the login is refused.
fn units(world: &World, keys: &str, scheme: &str, options: &[&str]) -> Option<usize> {
    let portal = format!("{scheme}://{STACK}");
    let words = [&["disk", "ls", &portal, "--json", "--accept-new"], options].concat();
    let said = tasuki(world, keys, &words);
    if !said.status.success() {
        let said = said.code(119);
        assert!(said.stderr.contains("may not use the target"), "{said}");
        return None;
    }
    let rows: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    rows.as_array().map(Vec::len)
}

/// Alice may use all units, Bob unit 1.
fn rules(alice: &str, bob: &str) -> String {
    let alice = format!("[[allow]]\nidentity = \"{alice}\"\n");
    format!("{alice}[[allow]]\nidentity = [\"{bob}\"]\nluns = [1]\n")
}

/// A known key lets in; rules say what it may do there.
#[test]
fn rules_name_proven_identities() {
    let Some(world) = world() else { return };
    for who in ["alice", "bob", "carol"] {
        let key = key(&world, who);
        let _ = tasuki(&world, "target-keys", &["key", "allow", who, &key]).success();
    }
    let by_key = rules(&key(&world, "alice"), &key(&world, "bob"));
    let said = target_by_file(&world, "", &by_key, &["--plain"]).code(118);
    assert!(said.stderr.contains("nobody can prove at a plain portal"), "{said}");
    let wrong = target_by_file(&world, "", &rules("SHA256:x", "b"), &[]).code(118);
    assert!(wrong.stderr.contains("`tasuki key show`"), "{wrong}");
    for (section, scheme) in [("", "iscsi+sealed"), ("transport = \"tls\"", "iscsi+tls")] {
        let _ = target_by_file(&world, section, &by_key, &[]).success();
        let seen = |keys| units(&world, keys, scheme, &[]);
        assert_eq!([seen("alice"), seen("bob")], [Some(2), Some(1)], "{scheme}");
        // A known key alone is not enough, and neither is that of the target's machine.
        assert_eq!([seen("carol"), seen("target-keys")], [None; 2], "{scheme}");
        let _ = tasuki(&world, "target-keys", &["target", "down", "disks"]).success();
    }
    world.down("net");
    world.assert_nothing_left();
}

/// The same with certificates. Their names decide too who may end a session by logging in again.
#[test]
fn a_session_is_taken_over_by_its_own_identity_alone() {
    let Some(world) = world() else { return };
    let authority = Authority::new(&world, "ca");
    let certificate = |who: &str, san| {
        // Python does not read each form of Ed25519 keys.
        let algorithm = &PKCS_ECDSA_P256_SHA256;
        let words = authority.certify_by(algorithm, &world, (who, san), 2100);
        words.into_iter().chain(["--ca".to_owned(), world.file("ca.pem")]).collect::<Vec<_>>()
    };
    let server = certificate("server", ip(STACK));
    let [alice, bob, carol] =
        ["alice", "bob", "carol"].map(|who| certificate(who, dns(&format!("{who}.example"))));
    let words = |words: &[String]| -> Vec<&'static str> {
        words.iter().map(|word| &*word.clone().leak()).collect()
    };
    let rules = rules("alice.example", "bob.example");
    let _ = target_by_file(&world, "transport = \"tls\"", &rules, &words(&server)).success();
    let seen = |who: &[String]| units(&world, "keys", "iscsi+tls", &words(who));
    assert_eq!([seen(&alice), seen(&bob), seen(&carol)], [Some(2), Some(1), None]);

    let login = |who: &str, action: &[&str]| {
        let tls = format!("TASUKI_TLS={who}.pem,{who}.key,ca.pem");
        let action = [&[STACK, "iqn.2026-11.tasuki:disks"], action].concat();
        [vec!["env".to_owned(), tls], world.script("chap.py", &action)].concat()
    };
    let mut held = world.spawn(&login("alice", &["stay"]));
    let line = held.line("isid");
    let isid = line.split_whitespace().last().expect("a number").to_owned();
    let join = |who| world.run(&login(who, &["join", &isid])).success().stdout.trim().to_owned();
    assert_eq!(join("bob"), "0202");
    assert!(!held.has_ended());
    assert_eq!(sessions(&world)[0]["sessions"][0]["identity"], "alice.example");
    // Its owner may: RFC 7143 6.3.5.
    assert_eq!(join("alice"), "0000");
    drop(held);
    end(&world);
}

/// Whatever a middle man does to either direction of a stream, the copy fails.
#[test]
fn a_middle_man_changes_nothing_unnoticed() {
    let Some(world) = world() else { return };
    write_noise(&world.path("noise"), SIZE, 6);
    let (noise, back) = (world.file("noise"), world.file("back"));
    let (sealed, tls) = (&["flip", "cut", "drop", "repeat"][..], &["flip", "cut"][..]);
    for (scheme, options, kinds) in
        [("iscsi+sealed", &[][..], sealed), ("iscsi+tls", &["--tls"], tls)]
    {
        let (path, up) = target_up(&world, options);
        let _ = up.success();
        let direct = unit(scheme);
        let through = direct.replace(STACK, &format!("{HOST}:{MIDDLE}"));
        // Two places of the handshake, the login or the first commands, and the data.
        let offsets = [3, 200, 3000, 9_000_000];
        for (way, from, to) in [("up", &noise, &through), ("down", &through, &back)] {
            for (kind, offset) in kinds.iter().flat_map(|kind| offsets.map(|at| (kind, at))) {
                let what = format!("{kind}-{way}");
                let said = copy_through(&world, &what, offset, from, to, &["--give-up", "0"]);
                assert!(!said.status.success(), "{scheme} {what} {offset}: {said}");
            }
            // A copy that waits for its target goes on over the next connections.
            let _ =
                copy_through(&world, &format!("flip-{way}"), 9_000_000, from, to, &[]).success();
        }
        assert_eq!(sha256(&world.path("noise")), sha256(&world.path("back")));
        // The middle man is no obstacle by himself, and the target has lost only those sessions.
        let _ = copy_through(&world, "pass", 0, &noise, &through, &[]).success();
        let _ = tasuki(&world, "target-keys", &["disk", "copy", &direct, &back]).success();
        assert_eq!(sha256(&path), sha256(&world.path("noise")));
        assert_eq!(sha256(&path), sha256(&world.path("back")));
        let _ = tasuki(&world, "target-keys", &["target", "down", "disks"]).success();
    }
    world.down("net");
    world.assert_nothing_left();
}

/// Copies a disk while a middle man does this.
fn copy_through(
    world: &World,
    what: &str,
    offset: u64,
    from: &str,
    to: &str,
    options: &[&str],
) -> Finished {
    let (port, offset) = (MIDDLE.to_string(), offset.to_string());
    let words = world.script("middle_man.py", &[&port, STACK, "3260", what, &offset]);
    let middle = world.spawn(&words);
    let _ = middle.line("ready");
    let copy = [&["disk", "copy", from, to], options].concat();
    let said = tasuki(world, "target-keys", &copy);
    middle.signal(rustix::process::Signal::TERM);
    let _ = middle.finish();
    said
}

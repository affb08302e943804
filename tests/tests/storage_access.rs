//! Who may use a target: rules, CHAP, and those who try without.

use std::os::unix::fs::PermissionsExt as _;

use tasuki_tests::{
    Finished, HOST, Mode, Running, STACK, World, installed, sha256, skip, write_noise,
};

const IQN: &str = "iqn.2026-11.tasuki:disks";
const ALICE: &str = "alice's secret is long";
const BOB: &str = "bob has another one";
const OWN: &str = "the target's own secret";
/// What an initiator hears whose proof is wrong.
const PROOF: &str = "the proof of who this is lacks or is wrong";

/// A world with an instance, whose tests need these programs.
fn world(programs: &[&str]) -> Option<World> {
    let mode = Mode::shared()?;
    if let Some(missing) = programs.iter().find(|program| !installed(program)) {
        skip(&format!("{missing} is not installed"));
        return None;
    }
    let world = World::with_kernel()?;
    world.up("net", mode, &[]);
    for (name, secret) in
        [("alice", ALICE), ("bob", BOB), ("own", OWN), ("wrong", "a wrong secret")]
    {
        secret_file(&world, name, secret, 0o600);
    }
    Some(world)
}

fn secret_file(world: &World, name: &str, secret: &str, mode: u32) {
    let path = world.path(&format!("{name}.secret"));
    std::fs::write(&path, format!("{secret}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn tasuki(world: &World, words: &[&str]) -> Finished {
    Running::start(world.tasuki(words)).finish()
}

/// Users of a configuration file.
const USERS: &str = "[[user]]\nname = \"alice\"\nsecret_file = \"alice.secret\"\n\
    [[user]]\nname = \"bob\"\nsecret_file = \"bob.secret\"\n";

/// Starts the target `disks` with three units and what else the file says. `target` is the rest of
/// its first section.
fn up(world: &World, target: &str, rest: &str) -> Finished {
    let luns = "[[lun]]\nvolume = \"memory:8M\"\n".repeat(3);
    let text = format!("[target]\nnet = \"net\"\ntransport = \"plain\"\n{target}\n{luns}{rest}");
    std::fs::write(world.path("disks.toml"), text).unwrap();
    tasuki(world, &["target", "up", "-f", &world.file("disks.toml")])
}

fn end(world: &World) {
    let _ = tasuki(world, &["target", "down", "disks"]).success();
    world.down("net");
    world.assert_nothing_left();
}

/// The output of an attack.
fn attack(world: &World, words: &[&str]) -> String {
    let words = [&[STACK, IQN], words].concat();
    world.run(&world.script("chap.py", &words)).success().stdout.trim().to_owned()
}

fn unit(user: &str, lun: u16) -> String {
    format!("iscsi://{user}{STACK}/{IQN}/{lun}")
}

/// `tasuki disk ls` with these options: how many units there are.
fn units(world: &World, options: &[&str]) -> usize {
    let url = format!("iscsi://{STACK}");
    let words = [&["disk", "ls", &url, "--json"], options].concat();
    let said = tasuki(world, &words).success();
    let rows: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    rows.as_array().map_or(0, Vec::len)
}

/// The log of the target, in the folder of the instance's sockets.
fn log(world: &World) -> String {
    std::fs::read_to_string(world.outside("/run/tasuki/disks.target.log")).expect("a log")
}

#[test]
fn users_prove_who_they_are_and_so_does_the_target() {
    let Some(world) = world(&[]) else { return };
    let said = up(&world, "chap_secret_file = \"own.secret\"", USERS).success();
    assert!(said.stderr.contains("plain") && !said.stderr.contains("open"), "{said}");
    let alice = ["--user", "alice", "--secret-file", "alice.secret"];
    assert_eq!(units(&world, &alice), 3);
    assert_eq!(units(&world, &[&alice[..], &["--target-secret-file", "own.secret"]].concat()), 3);
    let copy = ["disk", "copy", &unit("", 1), "back"];
    let _ = tasuki(&world, &[&copy[..], &alice].concat()).success();
    assert_eq!(std::fs::metadata(world.path("back")).unwrap().len(), 8 << 20);

    let url = format!("iscsi://{STACK}");
    let list = |options: &[&str]| tasuki(&world, &[&["disk", "ls", &url], options].concat());
    for (options, code, sentence) in [
        (&[][..], 119, PROOF),
        (&["--user", "alice", "--secret-file", "bob.secret"], 119, PROOF),
        (&["--user", "carol", "--secret-file", "alice.secret"], 119, PROOF),
        (
            &[&alice[..], &["--target-secret-file", "wrong.secret"]].concat(),
            119,
            "does not prove who it is",
        ),
        (&[&alice[..], &["--target-secret-file", "alice.secret"]].concat(), 118, "the same secret"),
        (&["--user", "alice"], 2, "--secret-file"),
        (&["--user", "alice", "--secret-file", "none"], 118, "cannot read the secret file"),
    ] {
        let said = list(options).code(code);
        assert!(said.stderr.contains(sentence), "{sentence}: {said}");
    }
    secret_file(&world, "alice", ALICE, 0o644);
    let said = list(&alice).code(118);
    assert!(said.stderr.contains("chmod 600"), "{said}");

    // No secret is where others can read it.
    let status = tasuki(&world, &["target", "ps", "--json"]).success().stdout;
    let log = log(&world);
    assert!(log.contains("refused a login") && log.contains("iqn.2026-11.tasuki:host"), "{log}");
    let status_of: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let pid = &status_of[0]["pid"];
    let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("a process");
    for text in [&status, &log, &words] {
        assert!(![ALICE, BOB, OWN].iter().any(|secret| text.contains(secret)), "{text}");
    }
    end(&world);
}

#[test]
fn old_initiators_prove_themselves_by_md5_if_that_is_allowed() {
    let Some(world) = world(&["iscsi-ls", "iscsi-inq"]) else { return };
    for (name, secret) in [("alice", "twelve-bytes"), ("own", "another-dozen")] {
        secret_file(&world, name, secret, 0o600);
    }
    let portal = |user: &str| format!("iscsi://{user}{STACK}");
    let list = |user: &str| world.run(&["iscsi-ls", "-s", &portal(user)]);
    let own = "chap_name = \"the-disks\"\nchap_secret_file = \"own.secret\"";
    let _ = up(&world, &format!("chap_md5 = true\n{own}"), USERS).success();
    let said = list("alice%twelve-bytes@").success();
    assert_eq!(said.stdout.matches("Lun:").count(), 3, "{said}");
    let inquiry =
        |user: &str, more: &str| world.run(&["iscsi-inq", &format!("{}{more}", unit(user, 0))]);
    let _ = inquiry("alice%twelve-bytes@", "").success();
    let mutual = |name: &str, secret: &str| {
        let more = format!("?target_user={name}&target_password={secret}");
        inquiry("alice%twelve-bytes@", &more)
    };
    let _ = mutual("the-disks", "another-dozen").success();
    for (name, secret) in [("the-disks", "a-wrong-secret"), ("other-disks", "another-dozen")] {
        assert!(!mutual(name, secret).status.success(), "an impostor was taken");
    }
    for user in ["", "alice%twelve-bytez@", "carol%twelve-bytes@"] {
        assert!(!list(user).status.success(), "{user}");
        assert!(!inquiry(user, "").status.success(), "{user}");
    }
    let _ = tasuki(&world, &["target", "down", "disks"]).success();
    let _ = up(&world, "", USERS).success();
    assert!(!list("alice%twelve-bytes@").status.success(), "MD5 without being asked for");
    end(&world);
}

/// What the rules give: other units are not there, and a reader does not write.
#[test]
fn rules_give_units_to_initiators() {
    let Some(world) = world(&["iscsi-ls", "iscsi-inq", "iscsi-readcapacity16"]) else { return };
    let rules = format!(
        "{USERS}[[allow]]\ninitiator = \"iqn.2026-01.example:a\"\naddress = \"{HOST}\"\n\
         luns = [0, 2]\nread_only = true\n\
         [[allow]]\ninitiator = [\"iqn.2026-01.example:a\", \"iqn.2026-01.example:b\"]\n\
         luns = [1]\n\
         [[allow]]\ninitiator = \"iqn.2026-01.example:u\"\nuser = \"alice\"\n\
         [[allow]]\ninitiator = \"iqn.2026-01.example:u\"\nuser = \"bob\"\nluns = [2]\n"
    );
    let _ = up(&world, "", &rules).success();
    let _ = tasuki(&world, &["target", "add", "disks", "9", "memory:1M"]).success();
    let list = |name: &str| {
        let portal = format!("iscsi://{STACK}");
        let said = world.run(&["iscsi-ls", "-s", "-i", name, &portal]);
        let luns = said.stdout.lines().filter_map(|line| line.trim().strip_prefix("Lun:"));
        luns.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
    };
    let seen: Vec<String> = list("iqn.2026-01.example:a");
    assert_eq!(seen, ["0", "1", "2"]);
    assert_eq!(list("iqn.2026-01.example:b"), ["1"]);
    assert!(list("iqn.2026-01.example:c").is_empty());
    // From another address, that of the instance itself.
    let own = |name| ["--initiator", name];
    assert_eq!(units(&world, &own("iqn.2026-01.example:a")), 1);
    let user = |name, secret| ["--user", name, "--secret-file", secret];
    let as_user =
        |who: [&'static str; 4]| units(&world, &[&own("iqn.2026-01.example:u")[..], &who].concat());
    assert_eq!(as_user(user("alice", "alice.secret")), 4);
    assert_eq!(as_user(user("bob", "bob.secret")), 1);

    // A unit that is hidden answers as one that is not there.
    let capacity =
        |name: &str, lun| world.run(&["iscsi-readcapacity16", "-i", name, &unit("", lun)]);
    let _ = capacity("iqn.2026-01.example:b", 1).success();
    for lun in [0, 2, 7, 9] {
        let said = capacity("iqn.2026-01.example:b", lun);
        assert!(!said.status.success() && !said.stdout.contains("8388608"), "{said}");
    }
    // A reader reads; its writes end with WRITE PROTECTED.
    std::fs::write(world.path("noise"), vec![7; 1 << 20]).unwrap();
    let copy = |from: &str, to: &str, who: &[&str]| {
        tasuki(&world, &[&["disk", "copy", from, to], who].concat())
    };
    let alice = [&own("iqn.2026-01.example:u")[..], &user("alice", "alice.secret")].concat();
    let bob = [&own("iqn.2026-01.example:u")[..], &user("bob", "bob.secret")].concat();
    let _ = copy("noise", &unit("", 2), &alice).success();
    let _ = copy(&unit("", 2), "back", &bob).success();
    assert_eq!(std::fs::read(world.path("back")).unwrap()[..1 << 20], vec![7; 1 << 20]);
    let said = copy("noise", &unit("", 0), &bob).code(125);
    assert!(said.stderr.contains("sense key 5h, code 2500h"), "{said}");
    end(&world);
}

#[test]
fn readers_do_not_write() {
    let Some(world) = world(&["iscsi-ls"]) else { return };
    let rules = format!(
        "[[allow]]\naddress = \"{HOST}\"\n[[allow]]\naddress = \"{STACK}\"\nread_only = true\n"
    );
    let _ = up(&world, "", &rules).success();
    assert_eq!(units(&world, &[]), 3);
    std::fs::write(world.path("noise"), vec![7; 1 << 20]).unwrap();
    let said = tasuki(&world, &["disk", "copy", "noise", &unit("", 0)]).code(125);
    assert!(said.stderr.contains("sense key 7h, code 2700h"), "{said}");
    let _ = tasuki(&world, &["disk", "copy", &unit("", 0), "back"]).success();
    assert!(std::fs::read(world.path("back")).unwrap().iter().all(|byte| *byte == 0));
    end(&world);
}

#[test]
fn attacks_on_chap_fail() {
    let Some(world) = world(&[]) else { return };
    let _ = up(&world, "chap_secret_file = \"own.secret\"", USERS).success();
    let attack = |words: &[&str]| attack(&world, words);
    assert_eq!(attack(&["login", "alice", ALICE]), "0000", "the program itself is right");
    // A wrong secret and an unknown name are answered alike.
    let refused = attack(&["keys", "alice", BOB]);
    assert!(refused.starts_with("0201"), "{refused}");
    assert_eq!(attack(&["keys", "carol", ALICE]), refused);
    assert_eq!(attack(&["keys", "carol", BOB]), refused);
    for (words, status) in [
        (&["login", "alice", ""][..], "0201"),
        (&["login", "alice", OWN], "0201"),
        (&["replay", "alice", ALICE], "0201"),
        (&["reflect", "alice", ALICE], "0201"),
        (&["across", "alice", ALICE], "0201"),
        (&["again"], "0201 closed"),
        (&["skip"], "0201"),
        (&["nothing"], "0201"),
        (&["algorithm", "5"], "0201"),
        (&["algorithm", "6,9,77"], "0201"),
        (&["challenges", "50"], "50 32"),
        (&["wrong", "100"], "0201"),
    ] {
        assert_eq!(attack(words), status, "{words:?}");
    }
    let skipped = attack(&["skip_proof"]);
    assert!(!skipped.starts_with("0000"), "{skipped}");
    // The log tells of each kind, not of each of the hundred.
    let log = log(&world);
    assert!(log.contains("refused a login: its name or secret is wrong"), "{log}");
    assert!(log.matches("refused a login").count() < 60, "{log}");
    assert_eq!(units(&world, &["--user", "alice", "--secret-file", "alice.secret"]), 3);
    end(&world);
}

/// What reaches the commands of other sessions is for those that may write (RFC 7143 11.6.1).
#[test]
fn readers_reset_nothing() {
    let Some(world) = world(&[]) else { return };
    let rule = |luns: &str, more: &str| {
        format!("[[allow]]\naddress = \"{HOST}\"\nluns = {luns}\n{more}\n")
    };
    let rules = rule("[0, 9]", "") + &rule("[1]", "read_only = true");
    let _ = up(&world, "", &rules).success();
    let (complete, missing, forbidden) = ("0", "2", "6");
    for (function, lun, response) in [
        // LOGICAL UNIT RESET of a unit to write, to read, hidden, and of one that is not there.
        ("5", "0", complete),
        ("5", "1", forbidden),
        ("5", "2", missing),
        ("5", "9", missing),
        // CLEAR TASK SET; ABORT TASK SET, which ends the session's own tasks.
        ("4", "1", forbidden),
        ("2", "1", complete),
        ("2", "2", missing),
        // TARGET WARM RESET and TARGET COLD RESET.
        ("6", "0", forbidden),
        ("7", "0", forbidden),
    ] {
        assert_eq!(attack(&world, &["manage", function, lun]), response, "{function} {lun}");
    }
    let _ = tasuki(&world, &["target", "down", "disks"]).success();
    let _ = up(&world, "", "").success();
    assert_eq!(attack(&world, &["manage", "6", "0"]), complete);
    end(&world);
}

/// A user who knows the name and the identifier of another one's session does not end it.
#[test]
fn a_guessed_session_is_not_taken() {
    let Some(world) = world(&[]) else { return };
    let _ = up(&world, "", USERS).success();
    let mut held = world.spawn(&world.script("chap.py", &[STACK, IQN, "session", "alice", ALICE]));
    let line = held.line("isid");
    let isid = line.split_whitespace().last().expect("a number").to_owned();
    let initiator = "iqn.2026-01.example:attacker";
    assert_eq!(attack(&world, &["guess", "bob", BOB, initiator, &isid]), "0202");
    assert!(!held.has_ended());
    let said = tasuki(&world, &["target", "ps", "--json"]).success().stdout;
    let status: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(status[0]["sessions"][0]["user"], "alice", "{status}");
    // The user itself may: RFC 7143 6.3.5.
    assert_eq!(attack(&world, &["guess", "alice", ALICE, initiator, &isid]), "0000");
    drop(held);
    end(&world);
}

/// Logins that never end make room for those that do.
#[test]
fn logins_that_stop_before_their_proof_keep_nobody_out() {
    let Some(world) = world(&[]) else { return };
    let _ = up(&world, "", USERS).success();
    let held = world.spawn(&world.script("chap.py", &[STACK, IQN, "hold", "300"]));
    let _ = held.line("held");
    assert_eq!(units(&world, &["--user", "bob", "--secret-file", "bob.secret"]), 3);
    drop(held);
    end(&world);
}

/// `tasuki stats` of the instance: the targets and units of its JSON.
fn stats(world: &World, words: &[&str]) -> serde_json::Value {
    let said = tasuki(world, &[&["stats", "net", "--json"], words].concat()).success();
    let stats: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    stats["targets"].clone()
}

/// The page of counters and a running target have the same, and they tell what a copy did.
#[test]
fn targets_and_units_are_counted() {
    let Some(world) = world(&["iscsi-ls"]) else { return };
    let _ = up(&world, "", USERS).success();
    std::fs::write(world.path("noise"), vec![7; 3 << 20]).unwrap();
    let alice = ["--user", "alice", "--secret-file", "alice.secret"];
    let copy = |from: &str, to: &str| {
        let _ = tasuki(&world, &[&["disk", "copy", from, to], &alice[..]].concat()).success();
    };
    copy("noise", &unit("", 1));
    copy(&unit("", 1), "back");
    let _ = tasuki(&world, &["disk", "ls", &format!("iscsi://{STACK}")]).code(119);

    let held = world.spawn(&world.script("chap.py", &[STACK, IQN, "session", "bob", BOB]));
    let _ = held.line("isid");
    let all = stats(&world, &[]);
    let count = |at: usize, name: &str| {
        all[at]["counters"][name].as_u64().unwrap_or_else(|| panic!("{name}: {all}"))
    };
    assert_eq!((&all[0]["target"], &all[2]["lun"]), (&"disks".into(), &1.into()));
    assert_eq!((count(0, "target.logins"), count(0, "target.sessions")), (3, 1));
    assert_eq!(count(0, "target.logins-refused"), 1);
    assert!(count(0, "target.r2ts") > 0);
    // A megabyte beyond the file is not written: the copy leaves holes.
    assert_eq!((count(2, "unit.write-bytes"), count(2, "unit.read-bytes")), (3 << 20, 8 << 20));
    assert!(count(2, "unit.flushes") > 0 && count(2, "unit.unit-attentions") > 0, "{all}");
    assert_eq!((count(2, "unit.in-flight"), count(3, "unit.reads")), (0, 0));
    let histogram = |name: &str| {
        let all = all[2]["histograms"].as_array().expect("histograms");
        let found = all.iter().find(|one| one["name"] == name).expect(name);
        found["buckets"].as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).sum()
    };
    let (reads, writes): (u64, u64) =
        (histogram("unit.read-latency-us"), histogram("unit.write-latency-us"));
    assert_eq!((reads, writes), (count(2, "unit.reads"), count(2, "unit.writes")));

    let said = tasuki(&world, &["target", "ps", "--json"]).success().stdout;
    let status: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let mut names: std::collections::BTreeSet<&str> = std::collections::BTreeSet::new();
    for place in [&status[0], &status[0]["luns"][0], &status[0]["sessions"][0]] {
        names.extend(place["counters"].as_object().expect("counters").keys().map(String::as_str));
        let histograms = place["histograms"].as_array().into_iter().flatten();
        names.extend(histograms.filter_map(|histogram| histogram["name"].as_str()));
    }
    let page = include_str!("../../docs/reference/counters-storage.md").lines();
    let page = page.filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0));
    assert_eq!(page.collect::<std::collections::BTreeSet<_>>(), names);

    let said = tasuki(&world, &["stats", "net", "--prometheus"]).success().stdout;
    let line = "tasuki_unit_write_bytes_total{stack=\"net\",target=\"disks\",lun=\"1\"} 3145728";
    assert!(said.lines().any(|one| one == line), "{said}");
    let said = tasuki(&world, &["stats", "net", "unit.reads"]).success().stdout;
    assert!(said.contains("Target disks, logical unit 1"), "{said}");
    drop(held);
    end(&world);
}

/// A unit grows and shrinks while a session uses it.
#[test]
fn units_change_their_size_in_use() {
    let Some(world) = world(&["iscsi-readcapacity16", "qemu-io"]) else { return };
    let path = world.path("a.img");
    let set_len = |bytes| {
        let file = std::fs::File::options().write(true).create(true).truncate(false).open(&path);
        file.unwrap().set_len(bytes).unwrap();
    };
    set_len(8 << 20);
    let _ = up(&world, "", "[[lun]]\nnumber = 7\nvolume = \"file:a.img\"\n").success();
    let resize = |words: &[&str]| tasuki(&world, &[&["target", "resize", "disks"], words].concat());
    let size = || {
        let said = world.run(&["iscsi-readcapacity16", "-s", &unit("", 7)]).success();
        said.stdout.trim().parse::<u64>().unwrap_or_else(|_| panic!("{said}"))
    };
    let write = |at: &str| {
        let command = format!("write -P 0x5a {at} 64k");
        world.run(&["qemu-io", "-f", "raw", "-c", &command, &unit("", 7)])
    };
    assert_eq!(size(), 8 << 20);
    assert!(!write("12M").stdout.contains("wrote 65536/65536"), "it is behind the end");
    let _ = resize(&["7", "16M"]).success();
    assert_eq!((size(), std::fs::metadata(&path).unwrap().len()), (16 << 20, 16 << 20));
    let said = write("12M");
    assert!(said.stdout.contains("wrote 65536/65536"), "{said}");
    let _ = resize(&["7", "4M"]).success();
    assert_eq!((size(), std::fs::metadata(&path).unwrap().len()), (4 << 20, 4 << 20));
    // By somebody else.
    set_len(32 << 20);
    assert_eq!(size(), 4 << 20, "nobody has said so");
    let _ = resize(&["7"]).success();
    assert_eq!(size(), 32 << 20);
    for (words, sentence) in [
        (&["7", "1000"][..], "no whole number of blocks"),
        (&["0"], "say the new one"),
        (&["5", "1M"], "there is no logical unit 5"),
    ] {
        let said = resize(words).code(118);
        assert!(said.stderr.contains(sentence), "{sentence}: {said}");
    }
    let _ = resize(&["7", "1X"]).code(2);
    end(&world);
}

/// A block device has the size that it has: the unit follows.
#[test]
fn a_unit_follows_its_device() {
    let Some(world) = world(&["losetup", "iscsi-readcapacity16"]) else { return };
    let file = std::fs::File::create(world.path("disk")).unwrap();
    file.set_len(8 << 20).unwrap();
    let found = world.run(&["losetup", "--find", "--show", "disk"]);
    if found.stdout.is_empty() {
        skip("there is no loop device");
        world.down("net");
        return;
    }
    let device = found.success().stdout.trim().to_owned();
    let resize = |words: &[&str]| tasuki(&world, &[&["target", "resize", "disks"], words].concat());
    let lun = format!("[[lun]]\nnumber = 7\nvolume = \"block:{device}\"\n");
    let up = up(&world, "", &lun);
    let said = resize(&["7", "16M"]);
    file.set_len(16 << 20).unwrap();
    let grown = world.run(&["losetup", "--set-capacity", &device]);
    let resized = resize(&["7"]);
    let size = world.run(&["iscsi-readcapacity16", "-s", &unit("", 7)]);
    let _ = tasuki(&world, &["target", "down", "disks"]);
    let _ = world.run(&["losetup", "--detach", &device]).success();
    let _ = (up.success(), grown.success(), resized.success());
    assert!(said.code(118).stderr.contains("change the device"), "a size is said");
    assert_eq!(size.success().stdout.trim(), "16777216");
    world.down("net");
    world.assert_nothing_left();
}

/// Verified writes go on while the unit grows and shrinks behind them.
#[test]
fn io_under_way_is_safe_when_a_unit_is_resized() {
    let Some(world) = world(&["qemu-io"]) else { return };
    std::fs::File::create(world.path("a.img")).unwrap().set_len(64 << 20).unwrap();
    let _ = up(&world, "", "[[lun]]\nnumber = 7\nvolume = \"file:a.img\"\n").success();
    let mut words = vec!["qemu-io".to_owned(), "-f".to_owned(), "raw".to_owned()];
    let unit = unit("", 7);
    for round in 0..40 {
        for command in [
            format!("aio_write -P {} 0 4M", round + 1),
            format!("aio_write -P {} 4M 4M", round + 1),
            "aio_flush".to_owned(),
            format!("read -P {} 0 8M", round + 1),
        ] {
            words.extend(["-c".to_owned(), command]);
        }
    }
    words.push(unit);
    let mut writer = world.spawn(&words);
    let mut changes = 0;
    while !writer.has_ended() || changes < 2 {
        for size in ["8M", "64M"] {
            let _ = tasuki(&world, &["target", "resize", "disks", "7", size]).success();
            changes += 1;
        }
    }
    let said = writer.finish().success();
    assert_eq!(said.stdout.matches("read 8388608/8388608").count(), 40, "{said}");
    assert!(!said.stdout.contains("rror") && !said.stdout.contains("failed"), "{said}");
    let bytes = std::fs::read(world.path("a.img")).unwrap();
    assert_eq!(bytes.len(), 64 << 20);
    assert!(bytes[..8 << 20].iter().all(|byte| *byte == 40));
    end(&world);
}

/// Each is one sentence and an exit code.
#[test]
fn wrong_files_are_refused() {
    let Some(world) = world(&[]) else { return };
    secret_file(&world, "open", "a secret that is read", 0o640);
    secret_file(&world, "short", "too short", 0o600);
    let user =
        |file: &str| format!("[[user]]\nname = \"carol\"\nsecret_file = \"{file}.secret\"\n");
    for (target, rest, sentence) in [
        ("", &*user("open"), "run `chmod 600"),
        ("", &user("short"), "openssl rand -base64 24"),
        ("", &user("none"), "cannot read the secret file"),
        ("prot = 3261", "", "did you mean `port`?"),
        ("", "[[allow]]\nuser = \"dave\"\n", "no [[user]] of the name dave"),
        ("chap_secret_file = \"alice.secret\"", USERS, "the same secret"),
    ] {
        let said = up(&world, target, rest).code(118);
        assert!(said.stderr.contains(sentence), "{sentence}: {said}");
        assert!(said.stderr.contains("disks.toml:") && said.stderr.lines().count() == 1, "{said}");
    }
    let said = tasuki(&world, &["target", "up", "-f", "none.toml"]).code(118);
    assert!(said.stderr.contains("cannot read the configuration file"), "{said}");
    std::fs::write(world.path("Bad Name.toml"), "[[lun]]\nvolume = \"null:1M\"\n").unwrap();
    let said = tasuki(&world, &["target", "up", "-f", "Bad Name.toml"]).code(2);
    assert!(said.stderr.contains("target up NAME -f FILE"), "{said}");
    // Options win over the file.
    let _ = up(&world, "port = 3333", USERS).success();
    let _ = tasuki(&world, &["target", "down", "disks"]).success();
    let words = ["target", "up", "disks", "-f", "disks.toml", "--port", "3260", "--lun", "null:1M"];
    let _ = tasuki(&world, &words).success();
    assert_eq!(units(&world, &["--user", "alice", "--secret-file", "alice.secret"]), 1);
    end(&world);
}

/// A target may ask for a logout at any time, or for a negotiation, which a logout answers as well
/// (RFC 7143 11.9.1). The copy goes on in the next session.
#[test]
fn an_initiator_that_is_asked_to_leave_logs_out_and_comes_back() {
    const PORT: u16 = 3270;
    let Some(world) = world(&[]) else { return };
    let _ = up(&world, "", "").success();
    for event in [1, 4] {
        let (port, code) = (PORT.to_string(), event.to_string());
        let words = world.script("asks_to_leave.py", &[&port, STACK, "3260", &code]);
        let between = world.spawn(&words);
        let _ = between.line("ready");
        write_noise(&world.path("noise"), 8 << 20, event);
        let through = format!("iscsi://{HOST}:{PORT}/{IQN}/1");
        // The program between knows PDUs without digests.
        let copy = ["disk", "copy", "--digest", "none", &world.file("noise"), &through];
        let _ = tasuki(&world, &copy).success();
        let _ = tasuki(&world, &["disk", "copy", &unit("", 1), &world.file("back")]).success();
        assert_eq!(sha256(&world.path("noise")), sha256(&world.path("back")), "event {event}");
        between.signal(rustix::process::Signal::TERM);
        let said = between.finish();
        let logouts = said.stdout.lines().filter(|line| *line == "logout 0").count();
        assert_eq!(logouts, 2, "one that was asked for, and one at the end: {said}");
    }
    end(&world);
}

//! `tasuki target reload`: rules, users, secrets and units of a running target.

use std::os::unix::fs::PermissionsExt as _;

use tasuki_tests::{Finished, Mode, Running, STACK, World, eventually};

const TARGET: &str = "[target]\nnet = \"net\"\ntransport = \"plain\"\n";
const ALICE: &str = "[[user]]\nname = \"alice\"\nsecret_file = \"alice.secret\"\n";
const BOB: &str = "[[user]]\nname = \"bob\"\nsecret_file = \"bob.secret\"\n";

fn world() -> Option<World> {
    let mode = Mode::shared()?;
    let world = World::with_kernel()?;
    world.up("net", mode, &[]);
    secret(&world, "alice", "alice's secret is long");
    secret(&world, "bob", "bob has another one");
    Some(world)
}

fn secret(world: &World, name: &str, secret: &str) {
    let path = world.path(&format!("{name}.secret"));
    std::fs::write(&path, secret).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn tasuki(world: &World, words: &[&str]) -> Finished {
    Running::start(world.tasuki(words)).finish()
}

/// Writes the target's file.
fn configure(world: &World, text: &str) {
    std::fs::write(world.path("disks.toml"), format!("{TARGET}{text}")).unwrap();
}

fn reload(world: &World) -> Finished {
    tasuki(world, &["target", "reload", "disks"])
}

fn status(world: &World) -> serde_json::Value {
    let said = tasuki(world, &["target", "ls", "--json", "disks"]).success();
    serde_json::from_str::<serde_json::Value>(&said.stdout).expect("JSON")[0].take()
}

/// Number, size and identity of each unit.
fn units(world: &World) -> Vec<(u64, u64, String)> {
    let status = status(world);
    let units = status["luns"].as_array().expect("units").iter().map(|unit| {
        let number = |key: &str| unit[key].as_u64().expect("a number");
        (number("lun"), number("bytes"), unit["identity"].as_str().expect("text").to_owned())
    });
    units.collect()
}

fn sessions(world: &World) -> usize {
    status(world)["sessions"].as_array().map_or(0, Vec::len)
}

fn list(world: &World, user: &str) -> Finished {
    let url = format!("iscsi://{STACK}");
    let secret = format!("{user}.secret");
    let proof = ["--user", user, "--secret-file", &*secret];
    let proof = if user.is_empty() { &[][..] } else { &proof[..] };
    tasuki(world, &[&["disk", "ls", &*url], proof].concat())
}

fn end(world: &World) {
    let _ = tasuki(world, &["target", "down", "disks"]).success();
    world.down("net");
    world.assert_nothing_left();
}

#[test]
fn units_become_those_of_the_file() {
    let Some(world) = world() else { return };
    let image = |name: &str, bytes| {
        std::fs::File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(world.path(name))
            .unwrap()
            .set_len(bytes)
            .unwrap();
        format!("[[lun]]\nvolume = \"file:{name}\"\n")
    };
    let (one, two) = (image("one.img", 1 << 20), image("two.img", 1 << 20));
    configure(&world, &format!("{one}{two}"));
    let _ = tasuki(&world, &["target", "up", "-f", &world.file("disks.toml")]).success();
    let before = units(&world);
    let _ = tasuki(&world, &["target", "add", "disks", "9", "memory:1M"]).success();

    // It grows; another one comes; the two change places.
    let (two, three) = (image("two.img", 3 << 20), image("three.img", 2 << 20));
    configure(&world, &format!("{one}{two}{three}"));
    let said = reload(&world).success();
    assert!(said.stderr.contains("units added 1, removed 1, resized 1"), "{said}");
    let now = units(&world);
    assert_eq!(
        now.iter().map(|unit| (unit.0, unit.1 >> 20)).collect::<Vec<_>>(),
        [(0, 1), (1, 3), (2, 2)]
    );
    assert_eq!((&now[0].2, &now[1].2), (&before[0].2, &before[1].2));
    configure(&world, &format!("{two}{one}"));
    let _ = reload(&world).success();
    let swapped = units(&world);
    assert_eq!((&swapped[0].2, &swapped[1].2), (&now[1].2, &now[0].2));
    let said = reload(&world).success();
    assert!(said.stderr.contains("units added 0, removed 0, resized 0"), "{said}");

    // What is wrong changes nothing.
    for (text, sentence) in [
        ("[[lun]]\nvolume = \"file:none.img\"\n", "cannot open"),
        ("[[lun]]\nvolum = \"memory:1M\"\n", "did you mean `volume`"),
        ("port = 3261\n[[lun]]\nvolume = \"memory:1M\"\n", "take a restart"),
        (&format!("{one}{ALICE}[[allow]]\nuser = \"bob\"\n"), "no [[user]] of the name bob"),
    ] {
        configure(&world, text);
        let said = reload(&world).code(118);
        assert!(said.stderr.contains(sentence), "{said}");
        assert_eq!(units(&world), swapped, "{text}");
        let _ = list(&world, "").success();
    }
    end(&world);
    let said = reload(&world).code(122);
    assert!(said.stderr.contains("is not running"), "{said}");
}

#[test]
fn rules_users_and_secrets_become_those_of_the_file() {
    let Some(world) = world() else { return };
    let luns = "[[lun]]\nvolume = \"memory:64M\"\n".repeat(2);
    configure(&world, &luns);
    let _ = tasuki(&world, &["target", "up", "-f", &world.file("disks.toml")]).success();
    assert_eq!(list(&world, "").success().stdout.lines().count(), 3);

    configure(&world, &format!("{luns}{ALICE}{BOB}"));
    let _ = reload(&world).success();
    let said = list(&world, "").code(119);
    assert!(said.stderr.contains("--user and --secret-file"), "{said}");
    for user in ["alice", "bob"] {
        assert_eq!(list(&world, user).success().stdout.lines().count(), 3);
    }

    // A session of alice's goes on while she has her right, and learns of more.
    let unit = format!("iscsi://{STACK}/iqn.2026-11.tasuki:disks/0");
    let words = ["disk", "bench", &unit, "--runtime", "600", "--user", "alice", "--secret-file"];
    let bench = || Running::start(world.tasuki(&[&words[..], &["alice.secret"]].concat()));
    let session = bench();
    eventually("it has begun", || sessions(&world) == 1);
    let only = |lun: u8| {
        let rule = format!("[[allow]]\nuser = [\"alice\", \"bob\"]\nluns = [{lun}]\n");
        format!("{luns}{ALICE}{BOB}{rule}")
    };
    let all = format!("{luns}{ALICE}[[allow]]\nuser = \"alice\"\n");
    configure(&world, &all);
    let said = reload(&world).success();
    assert!(said.stderr.contains("sessions ended 0"), "{said}");
    let _ = list(&world, "bob").code(119);
    assert_eq!(sessions(&world), 1);

    // It ends when its unit is taken away, and when the secret is another one.
    configure(&world, &only(1));
    let said = reload(&world).success();
    assert!(said.stderr.contains("sessions ended 1"), "{said}");
    assert!(!session.finish().status.success());
    configure(&world, &all);
    let _ = reload(&world).success();
    let session = bench();
    eventually("it has begun", || sessions(&world) == 1);
    secret(&world, "alice", "alice has got a new one");
    let said = reload(&world).success();
    assert!(said.stderr.contains("sessions ended 1"), "{said}");
    assert!(!session.finish().status.success());
    let _ = list(&world, "alice").success();
    end(&world);
}

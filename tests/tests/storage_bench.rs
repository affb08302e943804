//! `tasuki disk bench`: a unit is measured by requests that reach it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tasuki_tests::{Finished, Mode, Running, STACK, World};

/// Bytes of the first unit.
const SIZE: usize = 8 << 20;
/// Bytes of a LUKS header.
const HEADER: usize = 16 << 20;

/// A world with an instance and the target `disks` on it.
fn world(luns: &[&str]) -> Option<World> {
    let mode = Mode::shared()?;
    let world = World::with_kernel()?;
    world.up("net", mode, &[]);
    let mut words = vec!["target", "up", "disks", "--plain", "--net", "net"];
    words.extend(luns.iter().flat_map(|lun| ["--lun", lun]));
    let _ = Running::start(world.tasuki(&words)).finish().success();
    Some(world)
}

fn end(world: &World) {
    let _ = Running::start(world.tasuki(&["target", "down", "disks"])).finish().success();
    world.down("net");
    world.assert_nothing_left();
}

fn bench(world: &World, lun: u16, words: &[&str]) -> Finished {
    let url = format!("iscsi://{STACK}/iqn.2026-11.tasuki:disks/{lun}");
    let begin = ["disk", "bench", &url];
    let begin = if words.contains(&"--runtime") {
        &begin[..]
    } else {
        &[&begin[..], &["--runtime", "0.3"]].concat()
    };
    Running::start(world.tasuki(&[begin, words].concat())).finish()
}

/// The figures, which agree with each other.
fn figures(said: &Finished) -> serde_json::Value {
    let figures: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    let number = |key: &str| figures[key].as_f64().expect(key);
    assert!(number("requests") > 0.0, "{said}");
    assert_eq!(number("bytes"), number("requests") * number("request_bytes"), "{said}");
    let rate = number("requests") / number("seconds");
    assert!((number("requests_per_second") - rate).abs() <= rate * 1e-6, "{said}");
    let latency = |key: &str| figures["latency_us"][key].as_f64().expect(key);
    let rising = [latency("p50"), latency("p90"), latency("p99"), latency("p99_9"), latency("max")];
    assert!(rising.is_sorted() && rising[0] > 0.0, "{said}");
    figures
}

#[test]
fn units_of_all_kinds_are_read_and_written() {
    let Some(world) = world(&["memory:8M"]) else { return };
    let path = world.path("a.img");
    fs::File::create(&path).unwrap().set_len(SIZE as u64).unwrap();
    let file = format!("file:{}", path.display());
    let add = |lun: &str, volume: &str| {
        let words = ["target", "add", "disks", lun, volume];
        let _ = Running::start(world.tasuki(&words)).finish().success();
    };
    add("1", &file);
    add("2", "null:1G,block=4096");
    for lun in 0..3 {
        for (rw, bs, depth) in [
            ("read", "1M", "4"),
            ("write", "64K", "8"),
            ("randread", "4k", "32"),
            ("randwrite", "4K", "1"),
        ] {
            let words = ["--rw", rw, "--bs", bs, "--iodepth", depth, "--destroy-data", "--json"];
            let said = bench(&world, lun, &words).success();
            assert_eq!(figures(&said)["rw"], rw);
        }
    }
    // Sequential writes have gone over the whole file.
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), SIZE);
    assert!(bytes.chunks(4096).any(|part| part.iter().any(|byte| *byte != 0)));
    let said = bench(&world, 0, &[]).success();
    assert!(said.stdout.contains("requests/s") && said.stdout.contains("p99.9"), "{said}");
    end(&world);
}

#[test]
fn wrong_measurements_are_refused() {
    let Some(world) = world(&["memory:1M", "memory:1M,block=4096", "memory:1M,ro"]) else { return };
    for (lun, words, code, sentence) in [
        (0, &["--rw", "write"][..], 2, "--destroy-data"),
        (0, &["--rw", "randwrite"], 2, "--destroy-data"),
        (0, &["--bs", "700"], 2, "not whole blocks of 512 bytes"),
        (1, &["--bs", "512"], 2, "say --bs 4096"),
        (0, &["--bs", "2M"], 2, "say a smaller --bs"),
        (0, &["--bs", "16M"], 2, "at most 8 MiB"),
        (0, &["--iodepth", "65"], 2, "1..=64"),
        (0, &["--runtime", "0"], 2, "seconds above 0"),
        (2, &["--rw", "write", "--destroy-data"], 125, "sense key 7h"),
        (7, &[], 125, "sense key 5h"),
    ] {
        let said = bench(&world, lun, words).code(code);
        assert!(said.stderr.contains(sentence), "{sentence}: {said}");
    }
    end(&world);
}

/// A passphrase of its own.
fn key(world: &World, name: &str) -> String {
    let path = world.path(name);
    fs::write(&path, name).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

/// The first unit's bytes, with these options of `tasuki disk copy`.
fn copied(world: &World, options: &[&str]) -> Vec<u8> {
    let unit = format!("iscsi://{STACK}/iqn.2026-11.tasuki:disks/0");
    let file = world.path("copy.img").display().to_string();
    let words = [&["disk", "copy", &unit, &file], options].concat();
    let _ = Running::start(world.tasuki(&words)).finish().success();
    fs::read(&file).unwrap()
}

#[test]
fn encrypted_disks_are_read_and_written_behind_their_header() {
    let Some(world) = world(&["memory:20M", "memory:20M"]) else { return };
    let (key, wrong) = (key(&world, "key"), key(&world, "wrong"));
    let unit = format!("iscsi://{STACK}/iqn.2026-11.tasuki:disks/0");
    let words = ["disk", "format", "--luks", "--key-file", &key, "--pbkdf", "pbkdf2"];
    let words = [&words[..], &["--pbkdf-force-iterations", "1000", &unit]].concat();
    let _ = Running::start(world.tasuki(&words)).finish().success();
    let opened = ["--luks", "--key-file", &key];
    let before = copied(&world, &[]);

    for (rw, bs, depth) in [
        ("randread", "4k", "32"),
        ("randwrite", "4K", "8"),
        // All of the disk is written, again and again.
        ("write", "64K", "8"),
        ("read", "2M", "4"),
    ] {
        let words = ["--rw", rw, "--bs", bs, "--iodepth", depth, "--destroy-data", "--json"];
        let said = bench(&world, 0, &[&words[..], &opened].concat()).success();
        let figures = figures(&said);
        assert_eq!((&figures["rw"], &figures["luks"]), (&rw.into(), &true.into()));
    }
    let (unit, disk) = (copied(&world, &[]), copied(&world, &opened));
    assert!(unit[..HEADER] == before[..HEADER], "the header was written to");
    let parts = |bytes: &[u8]| bytes.chunks(64 << 10).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (sealed, clear) = (parts(&unit[HEADER..]), parts(&disk));
    assert_eq!(clear.len(), 64);
    assert!(clear.iter().all(|part| *part == clear[0]), "another block was read than written");
    assert!(sealed.iter().zip(&sealed[1..]).all(|(one, other)| one != other), "no ciphertext");

    for (lun, words, code, sentence) in [
        (0, &["--luks", "--key-file", &wrong][..], 116, "opens no key slot"),
        (1, &opened, 117, "no LUKS header"),
        (0, &[&opened[..], &["--bs", "512"]].concat(), 2, "say --bs 4096"),
        (0, &[&opened[..], &["--bs", "8M"]].concat(), 2, "the disk has 4194304 bytes"),
        (0, &["--key-file", &key], 2, "--luks"),
    ] {
        let said = bench(&world, lun, words).code(code);
        assert!(said.stderr.contains(sentence), "{sentence}: {said}");
    }
    end(&world);
}

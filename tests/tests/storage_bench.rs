//! `tasuki disk bench`: a unit is measured by requests that reach it.

use tasuki_tests::{Finished, Mode, Running, STACK, World};

/// Bytes of the first unit.
const SIZE: usize = 8 << 20;

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
    std::fs::File::create(&path).unwrap().set_len(SIZE as u64).unwrap();
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
    let bytes = std::fs::read(&path).unwrap();
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

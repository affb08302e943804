//! sg3-utils at our target: a Linux guest of QEMU's, whose SCSI disks are units of the target.

use std::fs;
use std::os::unix::fs::FileExt as _;

use tasuki_tests::{Mode, Running, World, write_noise};

use crate::cases::Case;
use crate::guest::{Guest, Said, Unit};

mod cases;
mod guest;
mod refused;

/// Bytes of the image of the unit `file`.
const SIZE: u64 = 64 << 20;
/// Bytes of noise that the guest has.
const NOISE: usize = 2 << 20;
const BLOCK: usize = 512;
/// The target with most units, which keeps state, and the one that does not.
const DISKS: &str = "iqn.2026-11.tasuki:disks";
const BARE: &str = "iqn.2026-11.tasuki:bare";
const PORT: u16 = 3260;
const BARE_PORT: u16 = 3261;

fn units() -> [Unit; 6] {
    let disk = |name, lun| Unit {
        name,
        target: DISKS,
        port: PORT,
        lun,
        initiator: None,
        read_only: false,
    };
    [
        disk("file", 0),
        disk("large", 1),
        disk("removable", 2),
        Unit { read_only: true, ..disk("protected", 3) },
        Unit { initiator: Some("iqn.2026-11.example:second"), ..disk("second", 0) },
        Unit { target: BARE, port: BARE_PORT, ..disk("bare", 0) },
    ]
}

/// Starts both targets.
fn targets_up(world: &World) {
    let image = world.path("a.img");
    fs::File::create(&image).unwrap().set_len(SIZE).unwrap();
    let (file, state) = (format!("file:{}", image.display()), world.file("kept"));
    fs::create_dir(&state).unwrap();
    let up = |words: &[&str]| {
        let words = [&["target", "up", "--plain", "--net", "net"], words].concat();
        let _ = Running::start(world.tasuki(&words)).finish().success();
    };
    let luns = [&file, "memory:16M,block=4096", "memory:8M,removable", "memory:8M,ro"];
    let luns: Vec<&str> = luns.into_iter().flat_map(|lun| ["--lun", lun]).collect();
    up(&[&["disks", "--state", &state], &luns[..]].concat());
    up(&["bare", "--port", &BARE_PORT.to_string(), "--lun", "memory:8M"]);
}

/// What went otherwise than it should.
fn failures(cases: &[&Case], results: &[Said]) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((command, code, says), Said { code: ended, text }) in cases.iter().copied().zip(results) {
        if code != ended || !says.iter().all(|part| text.contains(part)) {
            wrong.push(format!("{command}: {ended}, expected {code} and {says:?}\n{text}"));
        }
    }
    wrong
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn sg3_utils_agree_with_the_target() {
    let Some(mode) = Mode::shared() else { return };
    let Some(guest) = Guest::find() else { return };
    let Some(world) = World::with_kernel() else { return };
    world.up("net", mode, &[]);
    targets_up(&world);
    let [noise, block, compare] = ["noise", "block", "compare"].map(|name| world.path(name));
    write_noise(&noise, NOISE, 15);
    write_noise(&block, BLOCK, 16);
    // What is there, and what is to be there.
    let bytes = fs::read(&noise).unwrap();
    fs::write(&compare, [fs::read(&block).unwrap(), bytes[..BLOCK].to_vec()].concat()).unwrap();
    let tables = [
        cases::IDENTITY,
        cases::OPERATION_CODES,
        cases::MODE_PAGES,
        cases::TRANSFERS,
        cases::PROVISIONING,
        cases::COPIES,
        cases::RESERVATIONS,
        cases::MEDIA,
        refused::NOT_THERE,
        refused::WRONG,
    ];
    let cases: Vec<&Case> = tables.into_iter().flatten().collect();
    let commands: Vec<&str> = cases.iter().map(|case| case.0).collect();
    let results = guest.run(&world, &units(), &[&noise, &block, &compare], &commands);
    let wrong = failures(&cases, &results);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    image_has_what_was_written(&world);
    for name in ["lun-1.reservations", "lun-1.mode"] {
        assert!(world.path("kept").join(name).exists(), "{name} outlives the target");
    }
    for name in ["disks", "bare"] {
        let _ = Running::start(world.tasuki(&["target", "down", name])).finish().success();
    }
    world.down("net");
    world.assert_nothing_left();
}

/// The image of the unit `file` on the host, after all commands.
fn image_has_what_was_written(world: &World) {
    let image = fs::File::open(world.path("a.img")).unwrap();
    let [noise, block] = ["noise", "block"].map(|name| fs::read(world.path(name)).unwrap());
    let blocks = |at: u64, count: usize| {
        let mut bytes = vec![0; count * BLOCK];
        image.read_exact_at(&mut bytes, at * BLOCK as u64).unwrap();
        bytes
    };
    let zeroes = |count: usize| vec![0; count * BLOCK];
    let part = |at: usize, count: usize| noise[at * BLOCK..][..count * BLOCK].to_vec();
    for (what, at, expected) in [
        ("WRITE SAME with UNMAP, with NDOB", 0, zeroes(128)),
        ("UNMAP of two ranges, the first", 128, zeroes(64)),
        ("between them", 192, part(192, 64)),
        ("UNMAP of two ranges, the second", 256, zeroes(64)),
        ("UNMAP with ANCHOR", 512, zeroes(64)),
        ("WRITE (10), the rest", 576, part(576, 4096 - 576)),
        ("behind it", 4096, zeroes(4096)),
        ("WRITE (6)", 8192, noise.clone()),
        ("WRITE (10) with FUA and DPO", 12288, noise.clone()),
        ("WRITE (12)", 16384, noise.clone()),
        ("WRITE (16) with FUA", 20480, noise.clone()),
        ("COMPARE AND WRITE", 25000, part(0, 1)),
        ("WRITE AND VERIFY (16), WRITE (16), ORWRITE", 25001, block.repeat(3)),
        ("WRITE SAME (10), (16)", 30000, block.repeat(128)),
        ("EXTENDED COPY in one command", 40960, part(1024, 128)),
        ("EXTENDED COPY in two", 41984, part(1024, 128)),
        ("a write against a reservation", 50000, zeroes(1)),
        ("WRITE (10) with less data than a block, with none, as a read", 60000, zeroes(8)),
        ("WRITE SAME (16) after wrong commands", 60008, part(0, 1)),
        ("the end", 60009, zeroes(131_072 - 60009)),
    ] {
        assert!(blocks(at, expected.len() / BLOCK) == expected, "{what} at block {at}");
    }
}

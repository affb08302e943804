//! Plain sessions find what was damaged on its way: by digests of headers and data.

use std::path::PathBuf;

use tasuki_tests::{Finished, HOST, Mode, Running, STACK, World, sha256, write_noise};

/// Bytes of the unit.
const SIZE: u64 = 16 << 20;
/// Where a bit is changed: far behind the login.
const BYTE: usize = 2_000_001;

fn world() -> Option<World> {
    let mode = Mode::shared()?;
    let world = World::with_kernel()?;
    world.up("net", mode, &[]);
    Some(world)
}

fn tasuki(world: &World, words: &[&str]) -> Finished {
    Running::start(world.tasuki(words)).finish()
}

/// Starts the target `disks` with an image, and these options.
fn target_up(world: &World, options: &[&str]) -> PathBuf {
    let path = world.path("a.img");
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    let lun = format!("file:{}", path.display());
    let words = ["target", "up", "disks", "--plain", "--net", "net", "--lun", &*lun];
    let _ = tasuki(world, &[&words[..], options].concat()).success();
    path
}

fn end(world: &World) {
    let _ = tasuki(world, &["target", "down", "disks"]).success();
    world.down("net");
    world.assert_nothing_left();
}

/// A way that changes a bit of each connection.
fn bad_way(world: &World, way: &str, byte: usize) -> Running {
    let byte = byte.to_string();
    let proxy = world.spawn(&world.script("flip.py", &[HOST, "3260", STACK, "3260", way, &byte]));
    assert_eq!(proxy.line("ready"), "ready");
    proxy
}

fn url(address: &str) -> String {
    format!("iscsi://{address}/iqn.2026-11.tasuki:disks/0")
}

#[test]
fn a_bit_that_changes_on_the_way_is_found_and_the_copy_is_right() {
    for (way, byte) in [("up", BYTE), ("up", 2 * BYTE), ("down", BYTE)] {
        let Some(world) = world() else { return };
        let image = target_up(&world, &[]);
        write_noise(&world.path("noise"), SIZE as usize, 5);
        let proxy = bad_way(&world, way, byte);
        let (noise, back) = (world.file("noise"), world.file("back"));
        let unit = url(HOST);
        let to = tasuki(&world, &["disk", "copy", &noise, &unit]).success();
        let from = tasuki(&world, &["disk", "copy", &unit, &back]).success();
        assert_eq!(sha256(&image), sha256(&world.path("noise")), "{way} {byte}");
        assert_eq!(sha256(&image), sha256(&world.path("back")), "{way} {byte}");
        let said = format!("{}{}", to.stderr, from.stderr);
        assert!(said.contains("damaged"), "it is told in words: {said}");
        proxy.signal(rustix::process::Signal::KILL);
        drop(proxy);
        end(&world);
    }
}

/// The option's words, at both ends; the target counts nothing wrong.
#[test]
fn digests_are_as_the_options_say() {
    let Some(world) = world() else { return };
    let copy = |digest: &[&str]| {
        tasuki(&world, &[&["disk", "copy", &*url(STACK), "/dev/null"], digest].concat())
    };
    let _ = target_up(&world, &["--digest", "none"]);
    for digest in [&[][..], &["--digest", "none"], &["--digest", "none,crc32c"]] {
        let _ = copy(digest).success();
    }
    let said = copy(&["--digest", "crc32c"]);
    assert!(!said.status.success() && said.stderr.contains("finds the login wrong"), "{said}");
    let _ = tasuki(&world, &["target", "down", "disks"]).success();
    let _ = target_up(&world, &["--digest", "crc32c"]);
    for digest in [&[][..], &["--digest", "crc32c"], &["--digest", "none,crc32c"]] {
        let _ = copy(digest).success();
    }
    let said = copy(&["--digest", "none"]);
    assert!(!said.status.success(), "{said}");
    end(&world);
}

//! Which unit is which: another volume under the same target name and number gets no write.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::Signal;
use tasuki_tests::{Finished, Running, eventually};

use crate::disk_world::{DiskMount, DiskWorld, Image};

/// Writers that write at the same time.
const WRITERS: u64 = 8;
/// Bytes of one of their writes.
const WRITE: usize = 64 << 10;

fn target(world: &DiskWorld, words: &[&str]) -> Finished {
    Running::start(world.tasuki_with("keys", &[&["target"], words].concat())).finish()
}

/// How another image comes to a unit's number.
#[derive(Debug, Clone, Copy)]
enum Swap {
    /// `tasuki target remove` and `add`.
    WhileServed,
    /// The target is killed, and started with the other image.
    Restart,
    /// The target is killed, the other image takes the name of the first one.
    Rename,
}

fn swap(world: &DiskWorld, way: Swap, one: &Image, two: &Image) {
    match way {
        Swap::WhileServed => {
            let _ = target(world, &["remove", "disks", "0"]).success();
            let _ = target(world, &["add", "disks", "0", &two.lun]).success();
        }
        Swap::Restart => {
            world.signal_target(Signal::KILL);
            world.target_up(&[&two.lun]);
        }
        Swap::Rename => {
            world.signal_target(Signal::KILL);
            std::fs::rename(&two.path, &one.path).unwrap();
            world.target_up(&[&one.lun]);
        }
    }
}

fn is_zero(path: &Path) -> bool {
    std::fs::read(path).unwrap().iter().all(|byte| *byte == 0)
}

/// The mount has found another unit: nothing can be done with it.
fn end_refused(world: &DiskWorld, file: File, mount: &DiskMount<'_>) {
    let error = file.read_at(&mut [0], 0).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    drop(file);
    world.unmount_with(&["umount"], &mount.point());
    eventually("its process has ended", || world.mount_processes().is_empty());
    let log = world.take_log(mount);
    assert!(log.contains("the unit is another one"), "{log}");
    world.end();
}

#[test]
fn another_image_of_the_same_size_gets_no_write() {
    for way in [Swap::WhileServed, Swap::Restart, Swap::Rename] {
        let Some(world) = DiskWorld::new(&[]) else { return };
        let (one, two) = (world.image("one.img"), world.image("two.img"));
        world.target_up(&[&one.lun]);
        let mount = world.mount(0, &[]);
        let file = mount.open();
        file.write_all_at(b"first", 0).unwrap();
        file.sync_data().unwrap();
        swap(&world, way, &one, &two);
        let error = file.write_all_at(b"second", 4096).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::IO), "{way:?}");
        let other = if matches!(way, Swap::Rename) { &one.path } else { &two.path };
        assert!(is_zero(other), "{way:?}: the other image is written to");
        end_refused(&world, file, &mount);
    }
}

/// A copy with all of its attributes is another volume.
#[test]
fn a_copy_of_the_image_gets_no_write() {
    let Some(world) = DiskWorld::new(&["cp"]) else { return };
    let (one, two) = (world.image("one.img"), world.image("two.img"));
    world.target_up(&[&one.lun]);
    let mount = world.mount(0, &[]);
    let file = mount.open();
    file.write_all_at(b"first", 0).unwrap();
    world.signal_target(Signal::KILL);
    std::fs::remove_file(&two.path).unwrap();
    let _ = world.run(&["cp", "-a", &world.file("one.img"), &world.file("two.img")]).success();
    world.target_up(&[&two.lun]);
    assert!(file.write_all_at(b"second", 0).is_err());
    assert_eq!(std::fs::read(&two.path).unwrap()[..6], *b"first\0");
    end_refused(&world, file, &mount);
}

/// A LUKS volume with the same header and keys, in another image.
#[test]
fn a_copy_of_an_encrypted_image_gets_no_write() {
    for way in [Swap::WhileServed, Swap::Restart, Swap::Rename] {
        let Some(world) = DiskWorld::new(&[]) else { return };
        let key = world.path("key");
        std::fs::write(&key, "correct horse").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let (one, two) = (world.image("one.img"), world.image("two.img"));
        world.target_up(&[&one.lun]);
        let luks = ["--luks", "--key-file", "key"];
        let quick = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
        let unit = world.unit(0);
        let _ = world.disk(&[&["format", &*unit], &luks[..], &quick].concat()).success();
        std::fs::copy(&one.path, &two.path).unwrap();
        let before = std::fs::read(&two.path).unwrap();
        let mount = world.mount(0, &luks);
        let file = mount.open();
        file.write_all_at(b"first", 0).unwrap();
        file.sync_data().unwrap();
        swap(&world, way, &one, &two);
        assert!(file.write_all_at(b"second", 4096).is_err(), "{way:?}");
        let other = if matches!(way, Swap::Rename) { &one.path } else { &two.path };
        assert!(std::fs::read(other).unwrap() == before, "{way:?}: the copy is written to");
        end_refused(&world, file, &mount);
    }
}

/// What was sent to the first image, and is still on its way, does not reach the second one.
#[test]
fn writes_on_their_way_do_not_reach_another_image() {
    for way in [Swap::WhileServed, Swap::Restart] {
        let Some(world) = DiskWorld::new(&[]) else { return };
        let (one, two) = (world.image("one.img"), world.image("two.img"));
        world.target_up(&[&one.lun]);
        let mount = world.mount(0, &[]);
        let file = mount.open();
        let writes = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (file, writes) = (&file, &writes);
                scope.spawn(move || {
                    let mut place = writer;
                    while file.write_all_at(&[7; WRITE], place % 512 * WRITE as u64).is_ok() {
                        writes.fetch_add(1, Ordering::Relaxed);
                        place += WRITERS;
                    }
                });
            }
            eventually("writes go on", || writes.load(Ordering::Relaxed) > 4 * WRITERS);
            swap(&world, way, &one, &two);
        });
        assert!(is_zero(&two.path), "{way:?}: the other image is written to");
        end_refused(&world, file, &mount);
    }
}

/// Memory that is made again is another unit, also in the same process.
#[test]
fn memory_that_is_added_again_is_another_unit() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    world.target_up(&["memory:1M"]);
    let mount = world.mount(0, &[]);
    let file = mount.open();
    file.write_all_at(b"first", 0).unwrap();
    let _ = target(&world, &["remove", "disks", "0"]).success();
    let _ = target(&world, &["add", "disks", "0", "memory:1M"]).success();
    assert!(file.write_all_at(b"second", 0).is_err());
    end_refused(&world, file, &mount);
}

/// An image keeps its identity under other names and numbers, and may go and come.
#[test]
fn the_same_image_is_the_same_unit() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    let (one, two) = (world.image("one.img"), world.image("two.img"));
    world.target_up(&[&one.lun, &two.lun]);
    let identity = |lun: usize| {
        world.status()[0]["luns"][lun]["identity"].as_str().expect("an identity").to_owned()
    };
    let (first, second) = (identity(0), identity(1));
    assert!(first.len() == 32 && first != second, "{first} {second}");
    let mount = world.mount(0, &[]);
    let file = mount.open();
    file.write_all_at(b"first", 0).unwrap();
    let _ = target(&world, &["remove", "disks", "0"]).success();
    let _ = target(&world, &["add", "disks", "0", &one.lun]).success();
    file.write_all_at(b"second", 0).unwrap();
    // A unit beside it may change: the disk goes on.
    let _ = target(&world, &["remove", "disks", "1"]).success();
    let _ = target(&world, &["add", "disks", "1", "memory:1M"]).success();
    file.write_all_at(b"third", 0).unwrap();
    world.target_down();
    let moved = world.path("moved.img");
    std::fs::rename(&one.path, &moved).unwrap();
    world.target_up(&[&format!("file:{}", moved.display())]);
    assert_eq!(identity(0), first);
    file.write_all_at(b"fourth", 0).unwrap();
    drop(file);
    world.unmount_with(&["umount"], &mount.point());
    eventually("its process has ended", || world.mount_processes().is_empty());
    world.drop_log(&mount);
    assert_eq!(std::fs::read(&moved).unwrap()[..6], *b"fourth");
    world.end();
}

#[test]
fn a_target_has_a_volume_once() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    let one = world.image("one.img");
    let lun = format!("{},ro", one.lun);
    world.target_up(&[&lun]);
    let said = target(&world, &["add", "disks", "1", &lun]).code(118);
    assert!(said.stderr.contains("the same volume as logical unit 0"), "{said}");
    world.end();
}

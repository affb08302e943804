//! What a mounted disk survives, and what it does not.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, kill_process};
use tasuki_tests::{eventually, sha256, write_noise};

use crate::disk_world::{DiskMount, DiskWorld, SIZE};
use crate::seeded::Seeded;

/// Writers, each with a part of the disk of its own.
const WRITERS: usize = 4;
/// Bytes of a writer's part.
const PART: usize = SIZE / WRITERS;
/// Bytes of the longest write.
const LONGEST: u64 = 200_000;

/// Writes and reads at random until `stop`, and gives what the part has then.
fn write_verified(
    file: &File,
    part: usize,
    seed: u64,
    stop: &AtomicBool,
    writes: &AtomicU64,
) -> Vec<u8> {
    let mut seeded = Seeded(seed * 0x9e37_79b9 + 1);
    let begin = (part * PART) as u64;
    let mut model = vec![0; PART];
    while !stop.load(Ordering::Relaxed) {
        let len = 1 + usize::try_from(seeded.below(LONGEST)).unwrap();
        let place = usize::try_from(seeded.below((PART - len) as u64)).unwrap();
        // Whole blocks half of the time.
        let (place, len) = match seeded.below(2) {
            0 => (place, len),
            _ => (place / 512 * 512, len.next_multiple_of(512).min(PART - place / 512 * 512)),
        };
        let range = place..place + len;
        let offset = begin + place as u64;
        if seeded.below(4) == 0 {
            let mut back = vec![0; len];
            file.read_exact_at(&mut back, offset).unwrap();
            assert!(back == model[range], "seed {seed}: {len} bytes at {offset}");
            continue;
        }
        let fill = seeded.0.to_le_bytes();
        let bytes: Vec<u8> = fill.into_iter().cycle().take(len).collect();
        file.write_all_at(&bytes, offset).unwrap();
        model[range].copy_from_slice(&bytes);
        writes.fetch_add(1, Ordering::Relaxed);
        if seeded.below(50) == 0 {
            file.sync_data().unwrap();
        }
    }
    model
}

/// Runs the writers, and `disturb` beside them, which is given the number of writes so far. Then
/// the disk and the image have what was acknowledged.
fn under_verified_writes(world: &DiskWorld, seed: u64, disturb: impl FnOnce(&AtomicU64)) {
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    let mount = world.mount(0, &[]);
    let file = mount.open();
    let (stop, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    let model: Vec<u8> = std::thread::scope(|scope| {
        let writer = |part| {
            let (file, stop, writes) = (&file, &stop, &writes);
            let seed = seed * WRITERS as u64 + part as u64;
            scope.spawn(move || write_verified(file, part, seed, stop, writes))
        };
        let writers: Vec<_> = (0..WRITERS).map(writer).collect();
        let end = EndOnDrop(&stop, &mount);
        disturb(&writes);
        drop(end);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert!(std::fs::read(mount.disk()).unwrap() == model, "seed {seed}: the disk");
    file.sync_all().unwrap();
    assert!(std::fs::read(&image.path).unwrap() == model, "seed {seed}: the image");
    drop(file);
    mount.unmount();
}

/// The writers end also when the test fails beside them, and what they wait for does not come.
struct EndOnDrop<'a>(&'a AtomicBool, &'a DiskMount<'a>);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if std::thread::panicking() {
            self.1.abort();
        }
    }
}

/// Each writer's next write has been acknowledged.
fn writes_go_on(writes: &AtomicU64) {
    let before = writes.load(Ordering::Relaxed);
    eventually("writes go on", || writes.load(Ordering::Relaxed) > before + 2 * WRITERS as u64);
}

/// What is killed under verified writes, and started again.
#[derive(Clone, Copy)]
enum Victim {
    Target,
    /// The inet server below the target.
    Stack,
}

fn kill_and_restart(world: &DiskWorld, victim: Victim, times: u32, seed: u64) {
    under_verified_writes(world, seed, |writes| {
        let mut seeded = Seeded(seed + 1);
        let lun = format!("file:{}", world.file("a.img"));
        for _ in 0..times {
            writes_go_on(writes);
            seeded.pause(60);
            match victim {
                Victim::Target => world.signal_target(Signal::KILL),
                Victim::Stack => world.restart_stack(),
            }
            seeded.pause(60);
            world.target_up(&[&lun]);
        }
        writes_go_on(writes);
    });
    world.end();
}

#[test]
fn a_target_that_is_killed_and_started_again_is_waited_for() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    kill_and_restart(&world, Victim::Target, 4, 1);
}

#[test]
fn a_stack_that_is_killed_below_the_target_is_waited_for() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    kill_and_restart(&world, Victim::Stack, 3, 30);
}

/// 200 random moments, 50 in each world.
fn kill_again_and_again(victim: Victim, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let Some(world) = DiskWorld::new(&[]) else { return };
        kill_and_restart(&world, victim, 50, seed);
    }
}

#[test]
#[ignore = "takes minutes"]
fn a_target_that_is_killed_again_and_again() {
    kill_again_and_again(Victim::Target, 2..6);
}

#[test]
#[ignore = "takes minutes"]
fn a_stack_that_is_killed_again_and_again() {
    kill_again_and_again(Victim::Stack, 31..35);
}

/// A line that loses, doubles, exchanges and damages frames, in both directions.
fn a_bad_line_damages_nothing(scheme: &'static str, seed: u64) {
    let faults = format!("loss=0.005,duplicate=0.005,reorder=0.005,corrupt=0.002,seed={seed}");
    let Some(world) = DiskWorld::over_bad_line(scheme, &faults) else { return };
    under_verified_writes(&world, seed, |writes| {
        for _ in 0..10 {
            writes_go_on(writes);
        }
    });
    for fault in ["lost", "duplicated", "reordered", "corrupted"] {
        let made = world.counter_of_target(&format!("fault.{fault}"));
        assert!(made > 20, "only {made} {fault}: the test shows nothing");
    }
    world.end();
}

#[test]
fn a_bad_line_damages_no_plain_disk() {
    a_bad_line_damages_nothing("iscsi", 40);
}

#[test]
fn a_bad_line_damages_no_sealed_disk() {
    a_bad_line_damages_nothing("iscsi+sealed", 41);
}

#[test]
fn a_bad_line_damages_no_disk_over_tls() {
    a_bad_line_damages_nothing("iscsi+tls", 42);
}

/// Longer than the initiator's pings are apart. Then as long as it takes to lose the session: the
/// old connection's commands are at the target still when the next session begins.
#[test]
#[ignore = "takes a minute"]
fn a_target_that_stands_still_is_waited_for() {
    for (seed, seconds) in [(20, 18), (21, 32)] {
        let Some(world) = DiskWorld::new(&[]) else { return };
        under_verified_writes(&world, seed, |writes| {
            writes_go_on(writes);
            world.signal_target(Signal::STOP);
            std::thread::sleep(Duration::from_secs(seconds));
            world.signal_target(Signal::CONT);
            writes_go_on(writes);
        });
        world.end();
    }
}

/// The same name, but another serial number; then a smaller image. Neither gets a write.
#[test]
fn another_unit_gets_no_write() {
    for smaller in [false, true] {
        let Some(world) = DiskWorld::new(&[]) else { return };
        let image = world.image("a.img");
        world.target_up(&[&image.lun]);
        let mount = world.mount(0, &[]);
        let file = mount.open();
        file.write_all_at(b"first", 0).unwrap();
        world.signal_target(Signal::KILL);
        let before = sha256(&image.path);
        let lun = if smaller {
            std::fs::copy(&image.path, world.path("b.img")).unwrap();
            let other = File::options().write(true).open(world.path("b.img")).unwrap();
            other.set_len(1 << 20).unwrap();
            format!("file:{}", world.file("b.img"))
        } else {
            format!("{},serial=other", image.lun)
        };
        world.target_up(&[&lun]);
        let error = file.write_all_at(b"second", 0).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
        let error = file.read_at(&mut [0], 0).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
        assert_eq!(sha256(&image.path), before);
        drop(file);
        world.unmount_with(&["umount"], &mount.point());
        eventually("its process has ended", || world.mount_processes().is_empty());
        let log = world.take_log(&mount);
        assert!(log.contains("the unit is another one"), "{log}");
        world.end();
    }
}

/// The bytes of a `memory:` volume end with its process.
#[test]
fn memory_of_a_new_process_is_another_unit() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    world.target_up(&["memory:1M"]);
    let mount = world.mount(0, &[]);
    let file = mount.open();
    file.write_all_at(b"first", 0).unwrap();
    world.signal_target(Signal::KILL);
    world.target_up(&["memory:1M"]);
    assert!(file.read_at(&mut [0], 0).is_err(), "its bytes are lost");
    drop(file);
    world.unmount_with(&["umount"], &mount.point());
    eventually("its process has ended", || world.mount_processes().is_empty());
    let _ = world.take_log(&mount);
    world.end();
}

#[test]
fn a_larger_image_is_the_same_unit() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    let mount = world.mount(0, &[]);
    world.signal_target(Signal::KILL);
    File::options().write(true).open(&image.path).unwrap().set_len(2 * SIZE as u64).unwrap();
    world.target_up(&[&image.lun]);
    let file = mount.open();
    file.write_all_at(b"first", 0).unwrap();
    eventually("the file is larger", || file.metadata().unwrap().len() == 2 * SIZE as u64);
    file.write_all_at(b"last", 2 * SIZE as u64 - 4).unwrap();
    drop(file);
    mount.unmount();
    world.end();
}

#[test]
fn a_target_that_stays_away_is_given_up() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    let mount = world.mount(0, &["--give-up", "1"]);
    let file = mount.open();
    file.write_all_at(b"first", 0).unwrap();
    world.target_down();
    let begun = Instant::now();
    let error = file.write_all_at(b"second", 0).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    assert!(begun.elapsed() >= Duration::from_millis(900), "it is waited for");
    world.target_up(&[&image.lun]);
    eventually("it is used again", || file.write_all_at(b"third", 0).is_ok());
    drop(file);
    mount.unmount();
    assert_eq!(&std::fs::read(&image.path).unwrap()[..5], b"third");
    world.end();
}

/// A mount whose process is killed gives ENOTCONN, and can be removed. A request that the kernel
/// queues before the dying process has closed the FUSE device gets ECONNABORTED.
#[test]
fn a_mount_that_is_killed_can_be_unmounted() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    let mount = world.mount(0, &[]);
    let file = mount.open();
    file.write_all_at(b"first", 0).unwrap();
    for pid in world.mount_processes() {
        kill_process(pid, Signal::KILL).unwrap();
    }
    eventually("its process has ended", || world.mount_processes().is_empty());
    let write = || Errno::from_io_error(&file.write_all_at(b"second", 0).unwrap_err());
    let (error, later) = (write(), write());
    assert!(matches!(error, Some(Errno::NOTCONN | Errno::CONNABORTED)), "{error:?}");
    assert_eq!(later, Some(Errno::NOTCONN));
    let said = world.disk(&["mount", &world.unit(0), "point"]).code(118);
    assert!(said.stderr.contains("fusermount3 -u"), "{said}");
    drop(file);
    world.unmount_with(&["umount"], &mount.point());
    assert_eq!(&std::fs::read(&image.path).unwrap()[..5], b"first");
    let mount = world.mount(0, &[]);
    mount.open().write_all_at(b"third", 0).unwrap();
    mount.unmount();
    world.end();
}

/// A thin image on a file system without room for it.
#[test]
fn a_full_file_system_is_told() {
    let Some(world) = DiskWorld::new(&["mount"]) else { return };
    std::fs::create_dir(world.path("small")).unwrap();
    let small = world.file("small");
    let _ = world.run(&["mount", "-t", "tmpfs", "-o", "size=4m", "none", &small]).success();
    let full = format!("{small}/full.img");
    let _ = world.run(&["truncate", "-s", "64M", &full]).success();
    world.target_up(&[&format!("file:{full}")]);
    let mount = world.mount(0, &[]);
    let file = mount.open();
    file.write_all_at(b"first", 0).unwrap();
    let error = file.write_all_at(&vec![1; 16 << 20], 1 << 20).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::NOSPC));
    let mut back = [0; 5];
    file.read_exact_at(&mut back, 0).unwrap();
    assert_eq!(&back, b"first", "the disk goes on");
    drop(file);
    mount.unmount();
    world.end();
}

#[test]
fn a_copy_outlives_its_target() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    let image = world.image("a.img");
    write_noise(&world.path("noise"), SIZE, 11);
    world.target_up(&[&image.lun]);
    let unit = world.unit(0);
    let back = world.path("back");
    let ways =
        [(&*world.file("noise"), &*unit, &image.path), (&*unit, &*world.file("back"), &back)];
    for (from, to, written) in ways {
        // The volume's identity is an extended attribute of an image, and may take a block there.
        let blocks = || fs::metadata(written).map_or(0, |it| it.blocks());
        let before = blocks();
        let mut copy = world.start_disk(&["copy", from, to]);
        // A target that is not there yet when a copy opens it is an error, and no fault to outlive.
        eventually("the copy has begun", || blocks() > before || copy.has_ended());
        for _ in 0..2 {
            world.signal_target(Signal::KILL);
            world.target_up(&[&image.lun]);
        }
        let _ = copy.finish().success();
    }
    assert_eq!(sha256(&world.path("noise")), sha256(&world.path("back")));
    assert_eq!(sha256(&world.path("noise")), sha256(&image.path));
    world.end();
}

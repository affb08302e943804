//! `tasuki disk mount`: a unit of a target as a file. The target is on one instance, the mount on
//! another one, with a wire between them.

mod disk_world;
mod encrypted;
mod faults;
mod file_systems;
mod identity;
mod initiator_faults;
mod seeded;

use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use disk_world::{DiskWorld, SIZE};
use rustix::io::Errno;
use tasuki_tests::{sha256, write_noise};

/// Bytes at any place, read back through the file and out of the image.
#[test]
fn a_disk_is_a_file_in_a_directory() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    let mount = world.mount(0, &[]);
    let listed = std::fs::read_dir(mount.outside("")).unwrap();
    let names: Vec<_> = listed.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["disk"]);
    let metadata = std::fs::metadata(mount.disk()).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o7777), (SIZE as u64, 0o600));

    let file = mount.open();
    let mut model = vec![0; SIZE];
    // Within a block, over an edge, over many, at the end; and one after the other at one place.
    for (number, (offset, len)) in
        [(3, 5), (510, 4), (511, 2_000_003), (SIZE - 700, 700), (100, 1), (101, 1), (512, 512)]
            .into_iter()
            .enumerate()
    {
        let bytes = vec![u8::try_from(number).unwrap() + 1; len];
        file.write_all_at(&bytes, offset as u64).unwrap();
        model[offset..offset + len].copy_from_slice(&bytes);
        let mut back = vec![0; len];
        file.read_exact_at(&mut back, offset as u64).unwrap();
        assert!(back == bytes, "what was written at {offset} comes back");
    }
    file.sync_all().unwrap();
    assert!(std::fs::read(&image.path).unwrap() == model, "the image has what was written");
    assert!(std::fs::read(mount.disk()).unwrap() == model, "so has the file");
    drop(file);
    mount.unmount();
    world.end();
}

#[test]
fn a_disk_covers_a_regular_file() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    world.target_up(&["memory:8M,block=4096"]);
    std::fs::write(world.path("point"), "covered").unwrap();
    let mount = world.mount_at("point", 0, &[]);
    assert_eq!(std::fs::metadata(mount.outside("")).unwrap().len(), 8 << 20);
    // A part of a block of 4,096 bytes.
    let file = mount.open_at("");
    file.write_all_at(b"abc", 4095).unwrap();
    let mut back = [9; 5];
    file.read_exact_at(&mut back, 4094).unwrap();
    assert_eq!(&back, b"\0abc\0");
    drop(file);
    mount.unmount();
    assert_eq!(std::fs::read(world.path("point")).unwrap(), b"covered");
    world.end();
}

/// As a block device answers it.
#[test]
fn the_end_of_the_disk_is_no_surprise() {
    let Some(world) = DiskWorld::new(&["fallocate"]) else { return };
    world.target_up(&["memory:1M"]);
    let mount = world.mount(0, &[]);
    let file = mount.open();
    let (end, mut byte) = (1 << 20, [7; 3]);
    assert_eq!(file.read_at(&mut byte, end).unwrap(), 0);
    assert_eq!(file.read_at(&mut byte, end - 2).unwrap(), 2);
    assert_eq!(file.write_at(&byte, end - 2).unwrap(), 2, "as much as there is room for");
    assert_eq!(file.write_at(&byte, end).unwrap_err().raw_os_error(), Some(28), "ENOSPC");
    assert_eq!(file.set_len(3).unwrap_err().raw_os_error(), Some(1), "EPERM");
    file.set_len(end).unwrap();
    // A shell's > and cp truncate what they open. A disk stays as long as it is.
    drop(std::fs::File::create(mount.disk()).unwrap());
    assert_eq!(std::fs::metadata(mount.disk()).unwrap().len(), end);
    let said = world.run(&["fallocate", "--punch-hole", "-l", "4096", &mount.inside()]);
    assert!(said.stderr.contains("unsupported"), "without --unmap: {said}");
    drop(file);
    mount.unmount();
    world.end();
}

#[test]
fn holes_are_made_where_it_is_asked_for() {
    let Some(world) = DiskWorld::new(&["fallocate"]) else { return };
    let image = world.image("a.img");
    write_noise(&image.path, SIZE, 3);
    let mut model = std::fs::read(&image.path).unwrap();
    world.target_up(&[&image.lun]);
    let mount = world.mount(0, &["--unmap"]);
    let blocks = || std::fs::metadata(&image.path).unwrap().blocks();
    let before = blocks();
    for (kind, offset, len) in [
        ("--punch-hole", 8 << 20, 40 << 20),
        ("--punch-hole", 1000, 3000),
        ("--punch-hole", 100, 10),
        ("--zero-range", (50 << 20) + 1, 100_000),
    ] {
        let (at, many) = (offset.to_string(), len.to_string());
        let words = ["fallocate", kind, "-o", &at, "-l", &many, &mount.inside()];
        let _ = world.run(&[&words[..4], &words[4..]].concat()).success();
        model[offset..offset + len].fill(0);
    }
    assert!(blocks() + (36 << 20) / 512 < before, "storage was given back");
    assert!(std::fs::read(mount.disk()).unwrap() == model);
    mount.unmount();
    assert!(std::fs::read(&image.path).unwrap() == model);
    world.end();
}

#[test]
fn a_unit_without_writes_is_read_only() {
    let Some(world) = DiskWorld::new(&[]) else { return };
    let image = world.image("a.img");
    write_noise(&image.path, SIZE, 5);
    world.target_up(&[&format!("{},ro", image.lun), "memory:1M"]);
    for (lun, options) in [(0, &[][..]), (1, &["--read-only"])] {
        let mount = world.mount(lun, options);
        let opened = std::fs::File::options().write(true).open(mount.disk());
        assert_eq!(Errno::from_io_error(&opened.unwrap_err()), Some(Errno::ROFS));
        assert_eq!(std::fs::metadata(mount.disk()).unwrap().mode() & 0o7777, 0o400);
        if lun == 0 {
            assert_eq!(sha256(&mount.disk()), sha256(&image.path));
        }
        mount.unmount();
    }
    world.end();
}

/// The same over sealed and TLS: a key that is not known mounts nothing, and a session that comes
/// back is protected as the first one was.
#[test]
fn a_disk_is_mounted_over_protected_transports() {
    for (scheme, transport) in [("iscsi+sealed", "sealed"), ("iscsi+tls", "tls")] {
        let Some(world) = DiskWorld::over(scheme, &[]) else { return };
        let image = world.image("a.img");
        world.target_up(&[&image.lun]);
        assert_eq!(world.status()[0]["transport"], transport);
        std::fs::create_dir(world.path("point")).unwrap();
        let words = ["mount", &world.unit(0), "point"];
        let said = world.start_disk_with("other-keys", &words).finish().code(119);
        assert!(said.stderr.contains("tasuki key trust"), "{said}");
        let words = [&words[..], &["--accept-new"]].concat();
        let said = world.start_disk_with("other-keys", &words).finish();
        assert!(!said.status.success(), "the target does not know the key: {said}");
        assert_eq!((world.mounts(), world.sessions()), (0, 0));

        let mount = world.mount(0, &[]);
        let file = mount.open();
        write_noise(&world.path("noise"), SIZE, 7);
        let noise = std::fs::read(world.path("noise")).unwrap();
        let (first, second) = noise.split_at(SIZE / 2 + 100);
        file.write_all_at(first, 0).unwrap();
        let identity = world.status()[0]["sessions"][0]["identity"].clone();
        assert!(identity.as_str().is_some_and(|key| key.starts_with("SHA256:")), "{identity}");
        world.signal_target(rustix::process::Signal::KILL);
        world.target_up(&[&image.lun]);
        file.write_all_at(second, first.len() as u64).unwrap();
        assert_eq!(world.status()[0]["sessions"][0]["identity"], identity);
        file.sync_all().unwrap();
        assert!(std::fs::read(mount.disk()).unwrap() == noise);
        assert!(std::fs::read(&image.path).unwrap() == noise);
        drop(file);
        mount.unmount();
        world.end();
    }
}

/// Each is one sentence and an exit code, and nothing stays mounted.
#[test]
fn wrong_mounts_are_refused() {
    let Some(world) = DiskWorld::new(&["mkfifo"]) else { return };
    world.target_up(&["memory:1M"]);
    std::fs::create_dir(world.path("point")).unwrap();
    let _ = world.run(&["mkfifo", "fifo"]).success();
    let unit = world.unit(0);
    let other = unit.replace("disks", "others");
    let nowhere = unit.replace("/iqn", ":9/iqn");
    let portal = unit.split("/iqn").next().unwrap().to_owned();
    for (url, point, code, sentence) in [
        (&*unit, "missing", 118, "make a directory or an empty file first"),
        (&*unit, "fifo", 118, "neither a directory nor a regular file"),
        (&*unit, "point/a/b", 118, "does not exist"),
        (&*portal, "point", 2, "names no unit"),
        ("file:///point", "point", 2, "is no address of a disk"),
        (&*world.unit(7), "point", 125, "sense key 5h"),
        (&*other, "point", 119, "refuses the login"),
        (&*nowhere, "point", 118, "cannot connect"),
    ] {
        let said = world.disk(&["mount", url, point]).code(code);
        assert!(said.stderr.contains(sentence), "{sentence}: {said}");
    }
    assert_eq!(world.mounts(), 0);
    world.end();
}

/// The ways in which a mount ends leave nothing behind.
#[test]
fn a_mount_ends_by_umount_and_by_a_signal() {
    let Some(world) = DiskWorld::new(&["fusermount3"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    let mount = world.mount(0, &[]);
    mount.open().write_all_at(b"one", 0).unwrap();
    world.unmount_with(&["fusermount3", "-u"], &mount.point());
    mount.has_ended();

    // In the foreground, and while a program has it open.
    for used in [false, true] {
        let running = world.start_disk(&["mount", &world.unit(0), "point", "--foreground"]);
        let mount = world.wait_for_mount();
        let file = mount.open();
        file.write_all_at(b"two", 0).unwrap();
        let held = used.then_some(file);
        running.signal(rustix::process::Signal::TERM);
        let _ = running.finish().success();
        assert_eq!(world.mounts(), 0);
        if let Some(file) = held {
            let error = file.write_at(b"three", 0).unwrap_err();
            assert_eq!(Errno::from_io_error(&error), Some(Errno::NOTCONN));
        }
    }
    assert_eq!(&std::fs::read(&image.path).unwrap()[..4], b"two\0");
    assert_eq!(world.sessions(), 0, "they have logged out");
    world.end();
}

//! iSCSI targets, and initiators that people use: libiscsi, QEMU.

use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tasuki_tests::{
    Finished, Mode, Running, STACK, World, installed, qemu_has_iscsi, sha256, skip, write_noise,
};

/// Bytes of the image of the first unit.
const SIZE: usize = 64 << 20;
/// How long libiscsi's tests may take: their waits alone are a minute.
const SUITE: Duration = Duration::from_secs(600);

/// A world with an instance, whose tests need these programs.
fn world(programs: &[&str]) -> Option<World> {
    let mode = Mode::shared()?;
    for program in programs {
        let driver = !program.starts_with("qemu") || qemu_has_iscsi();
        if !installed(program) || !driver {
            skip(&format!("{program} is not installed, or its driver for iSCSI"));
            return None;
        }
    }
    let world = World::with_kernel()?;
    world.up("net", mode, &[]);
    Some(world)
}

fn tasuki(world: &World, words: &[&str]) -> Finished {
    Running::start(world.tasuki(words)).finish()
}

/// Starts the target `disks` with these units.
fn target_up(world: &World, luns: &[&str]) {
    let mut words = vec!["target", "up", "disks", "--plain", "--net", "net"];
    words.extend(luns.iter().flat_map(|lun| ["--lun", lun]));
    let said = tasuki(world, &words).success();
    assert!(said.stderr.contains("plain"), "it says that nothing is encrypted: {said}");
}

fn end(world: &World) {
    let _ = tasuki(world, &["target", "down", "disks"]).success();
    world.down("net");
    world.assert_nothing_left();
}

/// An image file for a unit: its path in the world, and the option.
fn image(world: &World, name: &str) -> (PathBuf, String) {
    let path = world.path(name);
    std::fs::File::create(&path).unwrap().set_len(SIZE as u64).unwrap();
    let lun = format!("file:{}", path.display());
    (path, lun)
}

fn unit(lun: u16) -> String {
    format!("iscsi://{STACK}/iqn.2026-11.tasuki:disks/{lun}")
}

fn status(world: &World) -> serde_json::Value {
    let said = tasuki(world, &["target", "ls", "--json"]).success();
    serde_json::from_str(&said.stdout).expect("JSON")
}

#[test]
fn initiators_see_targets_and_units() {
    let Some(world) = world(&["iscsi-ls"]) else { return };
    let (_, lun) = image(&world, "a.img");
    target_up(&world, &[&lun, "memory:32M,block=4096,ro"]);
    let portal = format!("iscsi://{STACK}");
    let said = world.run(&["iscsi-ls", "-s", &portal]).success();
    let target = format!("Target:iqn.2026-11.tasuki:disks Portal:{STACK}:3260,1");
    for line in [&*target, "Lun:0    Type:DIRECT_ACCESS", "Lun:1    Type:DIRECT_ACCESS"] {
        assert!(said.stdout.contains(line), "{line}: {said}");
    }
    let said = world.run(&["iscsi-readcapacity16", &unit(1)]).success();
    assert!(said.stdout.contains("Total size:33554432"), "{said}");
    let said = world.run(&["iscsi-inq", "-e", "1", "-c", "128", &unit(0)]).success();
    assert!(said.stdout.contains("Unit Serial Number:["), "{said}");

    let one = &status(&world)[0];
    assert_eq!(one["luns"][0]["bytes"], SIZE);
    assert_eq!(one["luns"][1]["volume"], "memory:33554432");
    let said = tasuki(&world, &["target", "ls"]).success();
    assert!(said.stdout.contains("iqn.2026-11.tasuki:disks"), "{said}");
    end(&world);
}

/// All tests of libiscsi.
fn suite(lun: &str) {
    let Some(world) = world(&["iscsi-test-cu"]) else { return };
    let (_, file) = image(&world, "a.img");
    target_up(&world, &[&lun.replace("FILE", &file)]);
    let suite = world.spawn(&["iscsi-test-cu", "--dataloss", &unit(0)]);
    let said = suite.finish_within(SUITE).success();
    // Kind, total, ran, passed, failed, inactive. What must fail is told as failed above it.
    let tests = said.stdout.lines().find_map(|line| line.trim().strip_prefix("tests "));
    let counts: Vec<&str> = tests.unwrap_or_default().split_whitespace().collect();
    assert!(
        matches!(counts[..], [total, ran, passed, "0", "0"]
        if total == ran && ran == passed && passed.parse::<u32>().is_ok_and(|n| n >= 230)),
        "{said}"
    );
    end(&world);
}

#[test]
fn libiscsis_tests_pass_on_a_file() {
    suite("FILE");
}

#[test]
#[ignore = "takes more than a minute; `make test` has the file"]
fn libiscsis_tests_pass_on_removable_memory() {
    suite("memory:64M,removable");
}

#[test]
fn an_image_is_copied_and_compared() {
    let Some(world) = world(&["qemu-img"]) else { return };
    let (path, lun) = image(&world, "a.img");
    write_noise(&world.path("noise"), SIZE, 7);
    target_up(&world, &[&lun, "memory:64M,block=4096", "null:1G"]);
    let noise = world.file("noise");
    for (number, more) in [(0, &[][..]), (1, &["-m", "16", "-W"])] {
        let convert = ["qemu-img", "convert", "-n", "-f", "raw", "-O", "raw"];
        let words: Vec<&str> = convert.into_iter().chain(more.iter().copied()).collect();
        let unit = unit(number);
        let _ = world.run(&[&words[..], &[&*noise, &*unit]].concat()).success();
        let compare = ["qemu-img", "compare", "-f", "raw", "-F", "raw", &noise, &unit];
        let said = world.run(&compare).success();
        assert!(said.stdout.contains("identical"), "{said}");
    }
    assert_eq!(sha256(&path), sha256(&world.path("noise")));
    let null = unit(2);
    for more in [&[][..], &["-w", "--flush-interval=64"]] {
        let bench = ["qemu-img", "bench", "-f", "raw", "-c", "4000", "-d", "32", "-s", "4096"];
        let _ = world.run(&[&bench[..], more, &[&null]].concat()).success();
    }
    end(&world);
}

/// What QEMU has flushed is there after a kill -9 of the target.
#[test]
fn what_is_flushed_outlives_the_target() {
    let Some(world) = world(&["qemu-io"]) else { return };
    let (path, lun) = image(&world, "a.img");
    target_up(&world, &[&lun]);
    let unit = unit(0);
    let written = ["qemu-io", "-f", "raw", "-c", "write -P 0x5a 1M 3M", "-c", "flush", &unit];
    let _ = world.run(&written).success();
    let pid = status(&world)[0]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    kill_process(pid.and_then(Pid::from_raw).expect("a process"), Signal::KILL).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes[1 << 20..4 << 20].iter().all(|byte| *byte == 0x5a));
    target_up(&world, &[&lun]);
    let read = ["qemu-io", "-f", "raw", "-c", "read -P 0x5a 1M 3M", &unit];
    let said = world.run(&read).success();
    assert!(!said.stdout.contains("failed"), "{said}");
    end(&world);
}

#[test]
fn units_come_and_go() {
    let Some(world) = world(&["iscsi-ls"]) else { return };
    target_up(&world, &["memory:8M"]);
    let _ = tasuki(&world, &["target", "add", "disks", "5", "memory:16M"]).success();
    let portal = format!("iscsi://{STACK}");
    let units = || world.run(&["iscsi-ls", "-s", &portal]).success().stdout.matches("Lun:").count();
    assert_eq!(units(), 2);
    let said = tasuki(&world, &["target", "add", "disks", "5", "memory:1M"]).code(118);
    assert!(said.stderr.contains("choose another number"), "{said}");
    let _ = tasuki(&world, &["target", "remove", "disks", "5"]).success();
    assert_eq!(units(), 1);
    let _ = tasuki(&world, &["target", "remove", "disks", "5"]).code(118);
    end(&world);
}

/// A medium that fails is a medium error, and the target goes on.
#[test]
fn images_that_shrink_or_fill_up_are_errors_of_the_medium() {
    let Some(world) = world(&["qemu-io", "mount"]) else { return };
    let (path, lun) = image(&world, "a.img");
    let small = world.path("small");
    std::fs::create_dir(&small).unwrap();
    // The mount is the world's alone.
    let small = small.display().to_string();
    let _ = world.run(&["mount", "-t", "tmpfs", "-o", "size=4m", "none", &small]).success();
    let full = format!("{small}/full.img");
    let _ = world.run(&["truncate", "-s", "64M", &full]).success();
    let words = ["target", "up", "disks", "--plain", "--net", "net", "--lun", &lun, "--lun"];
    let inside = format!("file:{full}");
    let _ = Running::start(world.tasuki(&[&words[..], &[&*inside]].concat())).finish().success();

    std::fs::File::options().write(true).open(&path).unwrap().set_len(4 << 20).unwrap();
    let io = |lun, command: &str| world.run(&["qemu-io", "-f", "raw", "-c", command, &unit(lun)]);
    let said = io(0, "read 32M 4k");
    assert!(said.stdout.contains("Input/output error"), "{said}");
    assert!(io(0, "read 1M 4k").stdout.contains("read 4096/4096"), "the rest can be read");
    let said = io(1, "write -P 1 0 16M");
    assert!(said.stdout.contains("No space left"), "{said}");
    assert!(io(1, "read 0 4k").stdout.contains("read 4096/4096"), "the target goes on");
    end(&world);
}

/// 1,000 connections that never log in, half of them with noise.
#[test]
fn what_is_no_initiator_is_dropped_alone() {
    let Some(world) = world(&["iscsi-ls"]) else { return };
    target_up(&world, &["memory:8M"]);
    let script = "import os, socket, sys\n\
        held = []\n\
        for number in range(1000):\n\
        \x20   c = socket.create_connection((sys.argv[1], 3260), 10); held.append(c)\n\
        \x20   if number % 2: c.sendall(os.urandom(48 + 7 * number))\n\
        print('done', flush=True); __import__('time').sleep(600)\n";
    let mut held = world.spawn(&world.python(&["-c", script, STACK]));
    let _ = held.line("done");
    // They are there still, as far as the target lets them.
    let _ = world.run(&["iscsi-ls", "-s", &format!("iscsi://{STACK}")]).success();
    assert!(!held.has_ended());
    drop(held);
    end(&world);
}

/// Each is one sentence and an exit code.
#[test]
fn wrong_targets_are_refused() {
    let Some(world) = world(&[]) else { return };
    let (path, lun) = image(&world, "a.img");
    let up = |name: &str, words: &[&str]| {
        let begin = ["target", "up", name, "--net", "net"];
        tasuki(&world, &[&begin[..], words].concat())
    };
    for (words, code, sentence) in [
        (&["--lun", "disk:a"][..], 2, "is no volume"),
        (&["--lun", "memory:1Q"], 2, "is no size"),
        (&["--lun", "memory:1M,rw"], 2, "is no option"),
        (&["--lun", "memory:1M", "--iqn", "disks"], 2, "is no name of an iSCSI target"),
        (&["--lun", "file:/nonexistent"], 118, "cannot open /nonexistent"),
        (&["--lun", "file:/dev/null"], 118, "neither a regular file nor a block device"),
        (&["--lun", "memory:1M", "--address", "192.0.2.1"], 118, "cannot listen"),
        (&["--lun", "memory:1M", "--state", "/dev/null/a"], 118, "--state"),
    ] {
        let said = up("disks", &[&["--plain"], words].concat()).code(code);
        assert!(said.stderr.contains(sentence), "{sentence}: {said}");
    }
    target_up(&world, &[&lun]);
    let _ = up("disks", &["--plain", "--lun", "memory:1M"]).code(123);
    let said = up("more", &["--plain", "--lun", &lun, "--port", "3261"]).code(120);
    assert!(said.stderr.contains("in use"), "{said}");
    let _ = up("more", &["--plain", "--lun", "memory:1M"]).code(120);
    let _ = tasuki(&world, &["target", "down", "more"]).code(122);
    std::fs::File::options().write(true).open(&path).unwrap().write_at(b"own", 0).unwrap();
    end(&world);
}

#[test]
fn a_target_ends_with_its_instance() {
    let Some(world) = world(&[]) else { return };
    target_up(&world, &["memory:8M"]);
    world.down("net");
    world.assert_nothing_left();
}

/// `tasuki disk`, over Tasuki at both ends: discovery, and copies in all directions.
#[test]
fn disks_are_listed_and_copied() {
    let Some(world) = world(&[]) else { return };
    let (path, lun) = image(&world, "a.img");
    target_up(&world, &[&lun, "memory:64M,block=4096", "memory:1M"]);
    let url = format!("iscsi://{STACK}");
    let said = tasuki(&world, &["disk", "ls", &url, "--json"]).success();
    let rows: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(
        (rows[0]["bytes"].as_u64(), rows[1]["block_size"].as_u64()),
        (Some(64 << 20), Some(4096))
    );
    assert_eq!(rows[0]["product"], "TASUKI disk");
    let said = tasuki(&world, &["disk", "ls", &unit(1)]).success();
    assert_eq!(said.stdout.lines().count(), 2, "the one unit: {said}");

    // No whole number of parts, and of blocks.
    write_noise(&world.path("noise"), SIZE - 1_000_001, 9);
    let (noise, back) = (world.file("noise"), world.file("back"));
    for (from, to) in [(&*noise, &*unit(0)), (&*unit(0), &*unit(1)), (&*unit(1), &*back)] {
        let _ = tasuki(&world, &["disk", "copy", from, to]).success();
    }
    let _ = tasuki(&world, &["disk", "copy", &unit(2), "/dev/null"]).success();
    let (noise, back) = (std::fs::read(noise).unwrap(), std::fs::read(back).unwrap());
    assert_eq!(back.len(), SIZE, "the whole unit");
    assert!(back[..noise.len()] == noise[..], "what came back is what was sent");
    assert!(back[noise.len()..].iter().all(|byte| *byte == 0));
    assert_eq!(sha256(&path), sha256(&world.path("back")));
    end(&world);
}

/// Root writes no copy where another user wants it.
#[test]
fn a_copy_goes_through_no_link_of_another_user() {
    let Some(world) = world(&[]) else { return };
    target_up(&world, &["memory:1M"]);
    std::fs::write(world.path("victim"), "precious").unwrap();
    let link = world.path("link");
    std::os::unix::fs::symlink(world.path("victim"), &link).unwrap();
    let copy = ["disk", "copy", &unit(0), "link"];
    std::os::unix::fs::lchown(&link, Some(65_533), Some(65_533)).unwrap();
    let said = tasuki(&world, &copy).code(119);
    assert!(said.stderr.contains("link is a link of user 65533"), "{said}");
    assert_eq!(std::fs::read_to_string(world.path("victim")).unwrap(), "precious");
    std::os::unix::fs::lchown(&link, Some(0), Some(0)).unwrap();
    let _ = tasuki(&world, &copy).success();
    assert_eq!(std::fs::metadata(world.path("victim")).unwrap().len(), 1 << 20);
    end(&world);
}

/// A block device keeps what is not written, so a copy writes its zeroes as well.
#[test]
fn a_copy_to_a_device_writes_zeroes() {
    let Some(world) = world(&["losetup"]) else { return };
    target_up(&world, &["memory:8M"]);
    std::fs::write(world.path("old"), vec![0xff; 8 << 20]).unwrap();
    let found = world.run(&["losetup", "--find", "--show", "old"]);
    if found.stdout.is_empty() {
        skip("there is no loop device");
        return end(&world);
    }
    let device = found.success().stdout.trim().to_owned();
    let copied = tasuki(&world, &["disk", "copy", &unit(0), &device]);
    let _ = world.run(&["losetup", "--detach", &device]).success();
    let _ = copied.success();
    assert!(std::fs::read(world.path("old")).unwrap().iter().all(|byte| *byte == 0));
    end(&world);
}

#[test]
fn wrong_copies_are_refused() {
    let Some(world) = world(&[]) else { return };
    target_up(&world, &["memory:1M,ro", "memory:1M"]);
    write_noise(&world.path("noise"), 2 << 20, 9);
    let noise = world.file("noise");
    let copy = |from: &str, to: &str| tasuki(&world, &["disk", "copy", from, to]);
    for (from, to, code, sentence) in [
        (&*noise, &*unit(1), 118, "take a larger unit"),
        ("/nonexistent", &*unit(1), 1, "No such file"),
        (&*noise, &*noise, 118, "nothing is copied"),
        (&*unit(7), "out", 125, "sense key 5h"),
        (&*unit(1), &*unit(0), 125, "sense key 7h"),
        (&*format!("iscsi://{STACK}"), "out", 2, "names no unit"),
        ("iscsi+ssl://10.9.0.2/iqn.2026-11.tasuki:disks/0", "out", 2, "no address of a disk"),
        ("iscsi://10.219.7.2:9/iqn.2026-11.tasuki:disks/0", "out", 118, "cannot connect"),
        ("iscsi://10.219.7.2/iqn.2026-11.tasuki:other/0", "out", 119, "refuses the login"),
    ] {
        let said = copy(from, to).code(code);
        assert!(said.stderr.contains(sentence), "{sentence}: {said}");
    }
    assert_eq!(std::fs::metadata(&noise).unwrap().len(), 2 << 20, "it is whole");
    end(&world);
}

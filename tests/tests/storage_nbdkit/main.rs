//! The nbdkit plug-in: units of a target for clients of NBD. The target is on one instance, nbdkit
//! is a client of another one, with a wire between them.

mod nbd_world;

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;

use nbd_world::{NbdWorld, SIZE};
use rustix::process::{Resource, Rlimit, Signal, prlimit};
use tasuki_tests::{Running, eventually, sha256, skip, write_noise};

#[test]
fn clients_are_told_what_the_unit_is() {
    let Some(world) = NbdWorld::new("iscsi", &[]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun, "memory:1M,block=4096,ro"]);
    let served = world.serve(0, &[]);
    let info = served.info();
    assert_eq!(info["export-size"], SIZE);
    for (key, value) in [
        ("is_read_only", false),
        ("can_flush", true),
        ("can_fua", true),
        ("can_trim", true),
        ("can_zero", true),
        ("can_fast_zero", true),
        ("can_multi_conn", true),
    ] {
        assert_eq!(info[key], value, "{key}: {info}");
    }
    assert_eq!(info["block_size_minimum"], 1, "{info}");
    assert_eq!(info["block_size_preferred"], 4096, "{info}");
    assert_eq!(info["block_size_maximum"], 32 << 20, "{info}");
    // A unit that grows is larger for the next client.
    let _ = world.tasuki(&["target", "resize", "disks", "0", "96M"]).success();
    assert_eq!(served.info()["export-size"], 96 << 20);
    let _ = served.end();
    let served = world.serve(1, &[]);
    let info = served.info();
    assert_eq!((&info["export-size"], &info["is_read_only"]), (&(1 << 20).into(), &true.into()));
    let said = served.script(&["h.set_strict_mode(0)", "h.pwrite(b'1' * 512, 0)"]);
    assert!(!said.status.success() && said.stderr.contains("Operation not permitted"), "{said}");
    let _ = served.end();
    world.end();
}

/// There and back again, by several connections at once.
fn copies_arrive(scheme: &'static str) {
    let Some(world) = NbdWorld::new(scheme, &["nbdcopy"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    write_noise(&world.path("noise"), SIZE, 7);
    let served = world.serve(0, &[]);
    let _ = served.copy("noise", &served.uri()).finish().success();
    assert_eq!(sha256(&image.path), sha256(&world.path("noise")));
    let _ = served.copy(&served.uri(), "back").finish().success();
    assert_eq!(sha256(&world.path("back")), sha256(&world.path("noise")));
    let _ = served.end();
    eventually("its session has ended", || world.sessions() == 0);
    world.end();
}

#[test]
fn copies_arrive_by_plain() {
    copies_arrive("iscsi");
}

#[test]
fn copies_arrive_by_tls() {
    copies_arrive("iscsi+tls");
}

#[test]
fn copies_arrive_by_sealed() {
    copies_arrive("iscsi+sealed");
}

/// Parts of blocks, zeroes, trims and FUA, against a model; and what is not there.
#[test]
fn requests_of_all_kinds_do_what_they_say() {
    let Some(world) = NbdWorld::new("iscsi", &[]) else { return };
    let image = world.image("a.img");
    write_noise(&image.path, SIZE, 3);
    world.target_up(&[&image.lun]);
    let blocks = || std::fs::metadata(&image.path).unwrap().blocks();
    let before = blocks();
    let served = world.serve(0, &[]);
    let script = "\
import errno
model = bytearray(h.pread(1 << 20, 0))
def write(offset, data, flags=0):
    h.pwrite(data, offset, flags)
    model[offset:offset + len(data)] = data
def zero(offset, length, flags=0):
    h.zero(length, offset, flags)
    model[offset:offset + length] = bytes(length)
write(3, b'within a block')
write(510, b'over an edge')
write(1000, b'x' * 200001, nbd.CMD_FLAG_FUA)
zero(700, 100)
zero(500000, 300000, nbd.CMD_FLAG_FUA)
zero(4096, 8192, nbd.CMD_FLAG_FAST_ZERO)
zero(16384, 65536, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(1 << 20, 0) == bytes(model)
h.trim(32 << 20, 8 << 20, nbd.CMD_FLAG_FUA)
assert h.pread(32 << 20, 8 << 20) == bytes(32 << 20)
h.flush()
try:
    h.zero(100, 3, nbd.CMD_FLAG_FAST_ZERO)
    assert False, 'zeroes of less than a block are not fast'
except nbd.Error as error:
    assert error.errnum == errno.ENOTSUP, error
h.set_strict_mode(0)
size = h.get_size()
for work in (lambda: h.pread(512, size), lambda: h.pwrite(b'1' * 512, size - 511)):
    try:
        work()
        assert False, 'there is nothing behind the end'
    except nbd.Error as error:
        assert error.errnum in (errno.EINVAL, errno.ENOSPC), error
open('model', 'wb').write(model)";
    let _ = served.script(&[script]).success();
    assert!(blocks() + (30 << 20) / 512 < before, "storage was given back");
    let (bytes, model) = (std::fs::read(&image.path).unwrap(), world.path("model"));
    assert!(bytes[..1 << 20] == std::fs::read(model).unwrap(), "the image has it all");
    assert!(bytes[8 << 20..40 << 20].iter().all(|byte| *byte == 0));
    let _ = served.end();
    world.end();
}

/// Holes of the image are holes to clients, which need not read them.
#[test]
fn holes_are_seen() {
    let Some(world) = NbdWorld::new("iscsi", &["nbdcopy"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    write_noise(&world.path("noise"), 4 << 20, 7);
    let served = world.serve(0, &[]);
    let _ = served.copy("noise", &served.uri()).finish().success();
    let said = world.run(&["nbdinfo", "--map", &served.uri()]).success();
    let lines: Vec<Vec<&str>> =
        said.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["0", "4194304", "0", "data"], "{said}");
    assert_eq!(lines[1][3], "hole,zero", "{said}");
    let _ = served.copy(&served.uri(), "back").finish().success();
    let back = std::fs::metadata(world.path("back")).unwrap();
    assert_eq!(back.len(), SIZE as u64);
    assert!(back.blocks() <= (8 << 20) / 512, "holes are not copied");
    assert_eq!(sha256(&world.path("back")), sha256(&image.path));
    let _ = served.end();
    world.end();
}

/// The initiator decrypts: nbdkit serves the disk in a LUKS volume.
#[test]
fn an_encrypted_disk_is_served_in_plain() {
    let Some(world) = NbdWorld::new("iscsi", &["nbdcopy", "cryptsetup"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    let unit = world.unit(0);
    let key = world.path("key");
    std::fs::write(&key, b"correct horse").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let quick = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
    let format = ["disk", "format", "--luks", "--key-file", "key", &unit, "--net", "far"];
    let _ = world.tasuki(&[&format[..], &quick].concat()).success();
    let served = world.serve(0, &["luks=true", "key-file=key"]);
    let info = served.info();
    assert_eq!((&info["can_trim"], &info["can_fast_zero"]), (&false.into(), &false.into()));
    let size = info["export-size"].as_u64().unwrap();
    assert!(size < SIZE as u64 && size.is_multiple_of(4096));
    write_noise(&world.path("noise"), 20 << 20, 7);
    let _ = served.copy("noise", &served.uri()).finish().success();
    let _ = served.script(&["h.zero(1 << 20, 5 << 20)"]).success();
    let _ = served.end();
    let copy = ["disk", "copy", "--luks", "--key-file", "key", &unit, "back", "--net", "far"];
    let _ = world.tasuki(&copy).success();
    let (back, mut noise) =
        (std::fs::read(world.path("back")).unwrap(), std::fs::read(world.path("noise")).unwrap());
    noise[5 << 20..6 << 20].fill(0);
    assert!(back[..noise.len()] == noise, "the command reads what clients have written");
    let stored = std::fs::read(&image.path).unwrap();
    assert!(!stored.windows(32).any(|bytes| bytes == &noise[..32]), "the target has ciphertext");

    std::fs::write(&key, b"wrong horse").unwrap();
    let parameters = [&*unit, "net=far", "luks=true", "key-file=key"];
    let options = ["-f", "-U", &world.file("unused.sock")];
    let said = Running::start(world.nbdkit("keys", &options, &parameters)).finish();
    let said = said.code(1);
    assert!(said.stderr.contains("the passphrase opens no key slot"), "{said}");
    world.end();
}

/// One sentence and an exit code, before nbdkit goes to the background.
#[test]
fn what_is_wrong_is_said_at_the_start() {
    let Some(world) = NbdWorld::new("iscsi+sealed", &[]) else { return };
    world.target_up(&["memory:1M"]);
    let unit = world.unit(0);
    let other = unit.replace("disks/0", "other/0");
    let (no_lun, no_portal) = (unit.replace("/0", "/9"), unit.replace(".2/", ".2:9/"));
    let plain = unit.replace("+sealed", "");
    // With `-U -` nbdkit makes a folder in /tmp, and leaves it behind after an error.
    let options = ["-U", &world.file("unused.sock")];
    let unreadable = world.path("key");
    std::fs::write(&unreadable, "x").unwrap();
    for (keys, parameters, sentence) in [
        ("keys", &["net=far"][..], "uri=URL"),
        ("keys", &["http://10.9.0.2/", "net=far"], "is no address of a disk"),
        ("keys", &["iscsi://10.9.0.2/", "net=far"], "names no unit"),
        ("keys", &[&unit, "net=far", "colour=red"], "`colour` is no parameter"),
        ("keys", &[&unit, "net=nowhere"], "no instance nowhere is running"),
        ("keys", &[&unit], "several instances are running"),
        ("keys", &[&other, "net=far"], "the target refuses the login"),
        ("keys", &[&no_lun, "net=far"], "sense key 5h"),
        ("keys", &[&no_portal, "net=far"], "cannot connect to"),
        ("keys", &[&plain, "net=far"], "the connection to the target is lost"),
        ("others", &[&unit, "net=far"], "accept-new=true"),
        ("keys", &[&unit, "net=far", "key=key"], "chmod 600 key"),
        ("keys", &[&unit, "net=far", "luks=true", "key-file=none"], "cannot read the key file"),
    ] {
        let said = Running::start(world.nbdkit(keys, &options, parameters)).finish().code(1);
        let errors: Vec<&str> =
            said.stderr.lines().filter(|line| line.contains("error:")).collect();
        assert!(errors.len() == 1 && errors[0].contains(sentence), "{sentence}: {said}");
    }
    eventually("no session is left", || world.sessions() == 0);
    world.end();
}

/// nbdkit as people start it: it goes to the background, and has the session there.
#[test]
fn it_serves_from_the_background() {
    let Some(world) = NbdWorld::new("iscsi+sealed", &["nbdcopy"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    write_noise(&image.path, SIZE, 9);
    let (unit, socket) = (world.unit(0), world.file("nbd.sock"));
    let options = ["-U", &socket, "-P", "nbd.pid"];
    let command = world.nbdkit("keys", &options, &[&unit, "net=far"]);
    let _ = Running::start(command).finish().success();
    eventually("it serves", || world.path("nbd.sock").exists() && world.sessions() == 1);
    let uri = format!("nbd+unix:///?socket={socket}");
    let _ = world.run(&["nbdcopy", &uri, "back"]).success();
    assert_eq!(sha256(&world.path("back")), sha256(&image.path));
    let pid = std::fs::read_to_string(world.path("nbd.pid")).unwrap();
    let _ = world.run(&["kill", pid.trim()]).success();
    eventually("its session has ended", || world.sessions() == 0);
    world.end();
}

/// A process with keys writes no core dump. One without keys does, where the kernel writes dumps to
/// the process's own directory: so the test would see one.
#[test]
fn keys_are_in_no_core_dump() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let is_seen = !pattern.trim().is_empty() && !pattern.starts_with(['|', '/']);
    for (scheme, dumps) in [("iscsi", true), ("iscsi+sealed", false), ("iscsi+tls", false)] {
        if dumps && !is_seen {
            skip("the kernel keeps core dumps elsewhere: that nothing is seen proves less");
            continue;
        }
        let Some(world) = NbdWorld::new(scheme, &[]) else { return };
        world.target_up(&["memory:1M"]);
        let served = world.serve(0, &[]);
        let unlimited = Rlimit { current: None, maximum: None };
        prlimit(Some(served.pid()), Resource::Core, unlimited).expect("the process is ours");
        served.nbdkit.signal(Signal::ABORT);
        let said = served.nbdkit.finish();
        assert_eq!(said.status.signal(), Some(Signal::ABORT.as_raw()), "{said}");
        assert_eq!(said.status.core_dumped(), dumps, "{scheme}: {said}");
        world.end();
    }
}

/// A target that is killed under a copy, and started again: the copy goes on.
#[test]
fn a_copy_survives_its_target() {
    let Some(world) = NbdWorld::new("iscsi+sealed", &["nbdcopy"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    write_noise(&world.path("noise"), SIZE, 11);
    let served = world.serve(0, &[]);
    // It reads a pipe, so it cannot end before it was given everything.
    let _ = world.run(&["mkfifo", "pipe"]).success();
    let uri = served.uri();
    let mut copying = world.start(&["sh", "-c", &format!("exec nbdcopy --flush - '{uri}' <pipe")]);
    let pipe = std::fs::File::options().write(true).open(world.path("pipe"));
    let mut pipe = pipe.expect("the copy reads it");
    let noise = std::fs::read(world.path("noise")).unwrap();
    for part in noise.chunks(noise.len() / 4 + 1) {
        pipe.write_all(part).expect("the copy takes it");
        assert!(!copying.has_ended());
        world.signal_target(Signal::KILL);
        std::thread::sleep(std::time::Duration::from_millis(300));
        world.target_up(&[&image.lun]);
    }
    drop(pipe);
    let _ = copying.finish().success();
    assert_eq!(sha256(&image.path), sha256(&world.path("noise")));
    let _ = served.copy(&served.uri(), "back").finish().success();
    assert_eq!(sha256(&world.path("back")), sha256(&world.path("noise")));
    let said = served.end();
    assert!(said.stderr.contains("the session is back"), "{said}");
    world.end();
}

/// nbdkit ends when it is told so, although requests wait for a target that is away.
#[test]
fn nbdkit_ends_while_its_target_is_away() {
    let Some(world) = NbdWorld::new("iscsi", &[]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    let served = world.serve(0, &[]);
    world.signal_target(Signal::KILL);
    let waiting = served.start_script(&["h.pread(512, 0)"]);
    let _ = served.nbdkit.line("the session is lost");
    let said = served.end();
    assert!(!waiting.finish().status.success(), "{said}");
    world.target_up(&[&image.lun]);

    // With a limit, requests fail by themselves and nbdkit goes on.
    let served = world.serve(0, &["give-up=1"]);
    let read = ["h.pread(512, 0)"];
    let _ = served.script(&read).success();
    world.signal_target(Signal::KILL);
    let said = served.script(&read);
    assert!(!said.status.success(), "{said}");
    world.target_up(&[&image.lun]);
    eventually("the session is back", || served.script(&read).status.success());
    let said = served.end();
    assert!(said.stderr.contains("the target has been away for 1 s"), "{said}");
    world.end();
}

/// A unit that has become smaller is another one, and so is another image of the same size: nothing
/// is written to it.
#[test]
fn another_unit_is_not_written_to() {
    let Some(world) = NbdWorld::new("iscsi", &[]) else { return };
    let (one, two) = (world.image("one.img"), world.image("two.img"));
    for (before, after, sentence) in [
        ("memory:8M", "memory:4M", "the unit is not the one it was"),
        ("memory:8M", "memory:8M", "the unit is another one"),
        (&*one.lun, &*two.lun, "the unit is another one"),
    ] {
        world.target_up(&[before]);
        let served = world.serve(0, &[]);
        let _ = served.script(&["h.pwrite(b'1' * 512, 0)"]).success();
        world.signal_target(Signal::KILL);
        world.target_up(&[after]);
        let said = served.script(&["h.pwrite(b'2' * 512, 0)"]);
        assert!(!said.status.success(), "{said}");
        let said = served.end();
        assert!(said.stderr.contains(sentence), "{before} {after}: {said}");
        world.signal_target(Signal::KILL);
    }
    world.target_up(&["memory:1M"]);
    assert!(std::fs::read(&two.path).unwrap().iter().all(|byte| *byte == 0));
    world.end();
}

#[test]
fn its_help_has_its_parameters() {
    let Some(world) = NbdWorld::new("iscsi", &[]) else { return };
    let said = Running::start(world.nbdkit("keys", &["--help"], &[])).finish().success();
    for part in ["uri=URL", "key-file=FILE", "accept-new=true", "Examples:"] {
        assert!(said.stdout.contains(part), "{part}: {said}");
    }
    let said = Running::start(world.nbdkit("keys", &["--dump-plugin"], &[])).finish().success();
    for part in ["name=tasuki", "tasuki_transports=plain,tls,sealed", "has_block_size=1"] {
        assert!(said.stdout.contains(part), "{part}: {said}");
    }
    world.down("net");
    world.assert_nothing_left();
}

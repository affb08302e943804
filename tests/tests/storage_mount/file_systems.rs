//! A mounted unit as people use one: a file system on a loop device over it, fio, QEMU.

use std::time::Duration;

use tasuki_tests::{Running, sha256, skip, write_noise};

use crate::disk_world::{DiskMount, DiskWorld};

/// The programs of a file system on a loop device.
const PROGRAMS: [&str; 6] = ["losetup", "mkfs.ext4", "e2fsck", "mount", "make", "gcc"];
/// C files that are compiled on the file system.
const SOURCES: usize = 24;

/// A loop device over a mounted unit. It is detached at the latest when the test fails.
struct Loop<'a> {
    world: &'a DiskWorld,
    device: String,
}

impl<'a> Loop<'a> {
    /// `None`, with SKIP, where the kernel has no loop devices.
    fn new(world: &'a DiskWorld, mount: &DiskMount<'_>) -> Option<Self> {
        let said = world.run(&["losetup", "--find", "--show", &mount.inside()]);
        if !said.status.success() {
            skip(&format!("no loop device: {}", said.stderr.trim()));
            return None;
        }
        Some(Self { world, device: said.stdout.trim().to_owned() })
    }
}

impl Drop for Loop<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.world.command(&["umount", "-l", &self.device]).output();
        }
        let _ = self.world.command(&["losetup", "--detach", &self.device]).output();
    }
}

/// A program of many files, and how it is built.
fn write_sources(world: &DiskWorld) {
    std::fs::create_dir(world.path("source")).unwrap();
    let path = |name: &str| world.path("source").join(name);
    let functions = (0..SOURCES).map(|number| format!("part{number}"));
    let (mut declared, mut sum) = (String::new(), String::new());
    for (number, function) in functions.enumerate() {
        declared += &format!("int {function}(void);\n");
        sum += &format!(" + {function}()");
        let text = format!("int {function}(void) {{ return {number}; }}\n");
        std::fs::write(path(&format!("{function}.c")), text).unwrap();
    }
    let main = format!(
        "#include <stdio.h>\n{declared}int main(void) {{ printf(\"%d\\n\", 0{sum}); return 0; }}\n"
    );
    std::fs::write(path("main.c"), main).unwrap();
    let rules =
        "objects = $(patsubst %.c,%.o,$(wildcard *.c))\nsum: $(objects)\n\t$(CC) -o $@ $^\n";
    std::fs::write(path("Makefile"), rules).unwrap();
}

/// A program is built on it; afterwards e2fsck finds nothing, on the unit and in the image.
#[test]
fn a_file_system_is_made_and_used() {
    let Some(world) = DiskWorld::new(&PROGRAMS) else { return };
    let image = world.image("a.img");
    write_sources(&world);
    write_noise(&world.path("noise"), 20 << 20, 9);
    let noise = sha256(&world.path("noise"));
    std::fs::create_dir(world.path("files")).unwrap();
    let files = world.file("files");
    world.target_up(&[&image.lun]);

    let mount = world.mount(0, &["--unmap"]);
    let Some(device) = Loop::new(&world, &mount) else { return };
    let _ = world.run(&["mkfs.ext4", "-q", &device.device]).success();
    let _ = world.run(&["mount", &device.device, &files]).success();
    let _ = world.run(&["cp", "-r", "source", "noise", &files]).success();
    let source = format!("{files}/source");
    let _ = world.run(&["make", "-s", "-j4", "-C", &source]).success();
    let said = world.run(&[&format!("{source}/sum")]).success();
    assert_eq!(said.stdout, format!("{}\n", SOURCES * (SOURCES - 1) / 2));
    let _ = world.run(&["fstrim", &files]).success();
    world.unmount_with(&["umount"], &files);
    let _ = world.run(&["e2fsck", "-f", "-n", &device.device]).success();
    drop(device);
    mount.unmount();

    // The next session finds it as well, and so does the machine that has the image.
    let mount = world.mount(0, &["--read-only"]);
    for file in [mount.inside(), world.file("a.img")] {
        let _ = world.run(&["e2fsck", "-f", "-n", &file]).success();
        let _ = world.run(&["mount", "-o", "loop,ro,noload", &file, &files]).success();
        assert_eq!(sha256(&world.outside(&format!("{files}/noise"))), noise, "{file}");
        world.unmount_with(&["umount"], &files);
    }
    mount.unmount();
    world.end();
}

/// fio with four jobs, each with a part of its own: what it reads is what it wrote.
fn fio(limit: &[&str]) {
    let Some(world) = DiskWorld::new(&["fio"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    let mount = world.mount(0, &[]);
    let file = format!("--filename={}", mount.inside());
    let words = [
        "fio",
        "--name=verified",
        &file,
        "--rw=randrw",
        "--bsrange=512-256k",
        "--ioengine=libaio",
        "--iodepth=16",
        "--numjobs=4",
        "--size=16M",
        "--offset_increment=16M",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--end_fsync=1",
        "--fdatasync=64",
        "--group_reporting",
    ];
    let program = Running::start(world.command(&[&words[..], limit].concat()));
    let said = program.finish_within(Duration::from_secs(600)).success();
    assert!(said.stdout.contains("err= 0"), "{said}");
    mount.unmount();
    world.end();
}

#[test]
fn fio_verifies_a_pass() {
    fio(&[]);
}

#[test]
#[ignore = "takes five minutes"]
fn fio_verifies_for_five_minutes() {
    fio(&["--time_based", "--runtime=300"]);
}

/// The file and the unit are the same to QEMU, which has an initiator of its own.
#[test]
fn qemu_compares_the_file_with_its_source() {
    let Some(world) = DiskWorld::new(&["qemu-img"]) else { return };
    let image = world.image("a.img");
    write_noise(&world.path("noise"), 64 << 20, 4);
    world.target_up(&[&image.lun]);
    let mount = world.mount(0, &[]);
    let (noise, disk) = (world.file("noise"), mount.inside());
    let raw = ["-f", "raw", "-O", "raw", "-m", "16", "-W"];
    let convert = [&["qemu-img", "convert", "-n"], &raw[..], &[&noise, &disk]].concat();
    let _ = world.run(&convert).success();
    let compare = ["qemu-img", "compare", "-f", "raw", "-F", "raw", &noise, &disk];
    let said = world.run(&compare).success();
    assert!(said.stdout.contains("identical"), "{said}");
    let bench = ["qemu-img", "bench", "-f", "raw", "-w", "-c", "2000", "-d", "32", "-s", "4096"];
    let said = world.run(&[&bench[..], &["--flush-interval", "100", &disk]].concat()).success();
    assert!(said.stdout.contains("Run completed"), "{said}");
    mount.unmount();
    world.end();
}

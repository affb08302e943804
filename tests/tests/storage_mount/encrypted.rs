//! Encrypted disks (LUKS): written here and read by cryptsetup and QEMU, and the other way round.
//!
//! cryptsetup re-encrypts images without a device mapper: that reads and writes whole volumes.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;

use crate::disk_world::{DiskWorld, Image, SIZE};
use rustix::process::Signal;
use tasuki_tests::{eventually, sha256, write_noise};

/// What every sector of the plain data has.
const MARK: &[u8] = b"NOBODY ELSE READS THIS";
/// Bytes of plain data: no whole number of sectors.
const PLAIN: usize = (20 << 20) + 700;
/// A key derivation that takes no time.
const QUICK: [&str; 4] = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
/// Exit codes.
const PASSPHRASE: i32 = 116;
const HEADER: i32 = 117;
const RIGHTS: i32 = 119;
const IN_USE: i32 = 120;

/// A world with plain data in `plain.img` and a passphrase in `key`.
fn world(programs: &[&str]) -> Option<DiskWorld> {
    world_over("iscsi", programs)
}

/// The same with a portal of this transport.
fn world_over(scheme: &'static str, programs: &[&str]) -> Option<DiskWorld> {
    let world = DiskWorld::over(scheme, programs)?;
    write_key(&world.path("key"), b"correct horse\n");
    let mut plain: Vec<u8> = Vec::with_capacity(PLAIN);
    for number in 0_u32.. {
        plain.extend_from_slice(MARK);
        plain.extend_from_slice(&number.to_le_bytes());
        if plain.len() >= PLAIN {
            break;
        }
    }
    plain.truncate(PLAIN);
    fs::write(world.path("plain.img"), plain).unwrap();
    Some(world)
}

fn write_key(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn format(world: &DiskWorld, options: &[&str]) {
    let unit = world.unit(0);
    let words = [&["format", "--luks", "--key-file", "key", &*unit], options].concat();
    let _ = world.disk(&words).success();
}

fn copy(world: &DiskWorld, from: &str, to: &str) {
    let _ = world.disk(&["copy", from, to, "--luks", "--key-file", "key"]).success();
}

/// The target has nothing that can be read.
fn assert_sealed(image: &Image) {
    let bytes = fs::read(&image.path).unwrap();
    let found = bytes.windows(MARK.len()).any(|window| window == MARK);
    assert!(!found, "plain data are in the image");
    let passphrase = b"correct horse";
    assert!(!bytes.windows(passphrase.len()).any(|window| window == passphrase));
}

fn assert_begins_like_plain(world: &DiskWorld, path: &Path) {
    let (plain, read) = (fs::read(world.path("plain.img")).unwrap(), fs::read(path).unwrap());
    assert!(read.len() >= PLAIN && read[..PLAIN] == plain, "{} has other data", path.display());
}

/// A unit that we have written is opened and decrypted by cryptsetup.
fn cryptsetup_reads_what_we_write(options: &[&str], block: &str, dump: &[&str]) {
    let Some(world) = world(&["cryptsetup"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&format!("{},block={block}", image.lun)]);
    format(&world, options);
    copy(&world, "plain.img", &world.unit(0));
    assert_sealed(&image);
    copy(&world, &world.unit(0), "back.img");
    assert_begins_like_plain(&world, &world.path("back.img"));

    // The target has a lock on the image, for which cryptsetup would wait.
    world.target_down();
    let dumped = world.run(&["cryptsetup", "luksDump", "a.img"]).success().stdout;
    for line in dump {
        assert!(dumped.contains(line), "{line} is not in {dumped}");
    }
    let test = ["cryptsetup", "open", "--test-passphrase", "--key-file", "key", "a.img"];
    let _ = world.run(&test).success();
    if dumped.contains("Version:       \t2") {
        let decrypt = ["cryptsetup", "reencrypt", "-q", "--decrypt", "--force-offline-reencrypt"];
        let rest = ["--header", "header", "--key-file", "key", "a.img"];
        let _ = world.run(&[&decrypt[..], &rest].concat()).success();
        assert_begins_like_plain(&world, &image.path);
    }
    world.end_instances();
}

#[test]
fn cryptsetup_reads_large_sectors_of_ours() {
    let dump = ["aes-xts-plain64", "sector: 4096", "512 bits", "PBKDF:      pbkdf2"];
    cryptsetup_reads_what_we_write(&QUICK, "512", &dump);
}

#[test]
fn cryptsetup_reads_small_sectors_of_ours() {
    let options = [&QUICK[..], &["--sector-size", "512"]].concat();
    cryptsetup_reads_what_we_write(&options, "4096", &["aes-xts-plain64", "sector: 512"]);
}

#[test]
fn cryptsetup_reads_luks1_of_ours() {
    let options = [&QUICK[..], &["--type", "luks1"]].concat();
    cryptsetup_reads_what_we_write(&options, "512", &["Version:       \t1", "xts-plain64"]);
}

/// A transport that is sealed itself makes no difference to the unit: what is copied to it and
/// written to its mount, cryptsetup reads.
fn cryptsetup_reads_what_we_write_over(scheme: &'static str) {
    let Some(world) = world_over(scheme, &["cryptsetup"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    format(&world, &QUICK);
    copy(&world, "plain.img", &world.unit(0));
    copy(&world, &world.unit(0), "back.img");
    assert_begins_like_plain(&world, &world.path("back.img"));

    let mut plain = fs::read(world.path("plain.img")).unwrap();
    let mount = world.mount(0, &["--luks", "--key-file", "key"]);
    assert_eq!(
        world.status()[0]["sessions"][0]["identity"].as_str().map(|key| &key[..7]),
        Some("SHA256:")
    );
    let file = mount.open();
    let mut read = vec![0; PLAIN];
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read == plain, "the mount has other data");
    let change = [7; 5000];
    file.write_all_at(&change, 12_345).unwrap();
    file.sync_all().unwrap();
    drop(file);
    mount.unmount();
    assert_sealed(&image);
    plain[12_345..][..change.len()].copy_from_slice(&change);
    fs::write(world.path("plain.img"), plain).unwrap();

    world.target_down();
    let decrypt = ["cryptsetup", "reencrypt", "-q", "--decrypt", "--force-offline-reencrypt"];
    let rest = ["--header", "header", "--key-file", "key", "a.img"];
    let _ = world.run(&[&decrypt[..], &rest].concat()).success();
    assert_begins_like_plain(&world, &image.path);
    world.end_instances();
}

#[test]
fn cryptsetup_reads_what_we_write_over_sealed() {
    cryptsetup_reads_what_we_write_over("iscsi+sealed");
}

#[test]
fn cryptsetup_reads_what_we_write_over_tls() {
    cryptsetup_reads_what_we_write_over("iscsi+tls");
}

/// The default, as cryptsetup's.
#[test]
fn keys_are_derived_by_argon2() {
    let Some(world) = world(&["cryptsetup"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    format(&world, &["--iter-time", "10"]);
    let noise = world.path("noise.img");
    write_noise(&noise, 3 << 20, 1);
    copy(&world, "noise.img", &world.unit(0));
    copy(&world, &world.unit(0), "back.img");
    assert_eq!(fs::read(world.path("back.img")).unwrap()[..3 << 20], fs::read(&noise).unwrap());
    world.target_down();
    let dumped = world.run(&["cryptsetup", "luksDump", "a.img"]).success().stdout;
    assert!(dumped.contains("argon2id"), "{dumped}");
    world.end_instances();
}

/// A volume that cryptsetup has encrypted is read, and written to, and decrypted by cryptsetup.
#[test]
fn we_read_what_cryptsetup_writes() {
    for sector in ["512", "4096"] {
        let Some(world) = world(&["cryptsetup"]) else { return };
        let image = world.image("a.img");
        let file = fs::File::options().write(true).open(&image.path).unwrap();
        file.write_all_at(&fs::read(world.path("plain.img")).unwrap(), 0).unwrap();
        let encrypt = ["cryptsetup", "reencrypt", "-q", "--encrypt", "--type", "luks2"];
        let how = ["--reduce-device-size", "32M", "--sector-size", sector];
        let files = ["--key-file", "key", "a.img"];
        let _ = world.run(&[&encrypt[..], &how, &QUICK, &files].concat()).success();
        assert_sealed(&image);
        world.target_up(&[&image.lun]);
        copy(&world, &world.unit(0), "back.img");
        assert_begins_like_plain(&world, &world.path("back.img"));
        world.end();
    }
}

/// QEMU knows LUKS1 only.
#[test]
fn qemu_reads_what_we_write() {
    let Some(world) = world(&["qemu-img"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    format(&world, &[&QUICK[..], &["--type", "luks1"]].concat());
    copy(&world, "plain.img", &world.unit(0));
    assert_sealed(&image);
    world.target_down();
    let secret = format!("secret,id=key,file={}", world.file("key"));
    let convert = ["qemu-img", "convert", "--object", &secret, "--image-opts"];
    let rest = ["driver=luks,key-secret=key,file.filename=a.img", "-O", "raw", "back.img"];
    let _ = world.run(&[&convert[..], &rest].concat()).success();
    assert_begins_like_plain(&world, &world.path("back.img"));
    world.end_instances();
}

#[test]
fn we_read_what_qemu_writes() {
    let Some(world) = world(&["qemu-img"]) else { return };
    let secret = format!("secret,id=key,file={}", world.file("key"));
    let convert = ["qemu-img", "convert", "--object", &secret, "-f", "raw", "-O", "luks"];
    let rest = ["-o", "key-secret=key,iter-time=10", "plain.img", "a.img"];
    // QEMU measures how fast the processor is, and gives up where others take too much of it.
    eventually("QEMU has made a disk", || {
        world.run(&[&convert[..], &rest].concat()).status.success()
    });
    let lun = format!("file:{}", world.file("a.img"));
    assert_sealed(&Image { path: world.path("a.img"), lun: lun.clone() });
    world.target_up(&[&lun]);
    copy(&world, &world.unit(0), "back.img");
    assert_begins_like_plain(&world, &world.path("back.img"));
    // What we change, QEMU reads.
    let noise = world.path("noise.img");
    write_noise(&noise, PLAIN - 1000, 2);
    copy(&world, "noise.img", &world.unit(0));
    world.target_down();
    let convert = ["qemu-img", "convert", "--object", &secret, "--image-opts"];
    let rest = ["driver=luks,key-secret=key,file.filename=a.img", "-O", "raw", "back.img"];
    let _ = world.run(&[&convert[..], &rest].concat()).success();
    let back = fs::read(world.path("back.img")).unwrap();
    assert!(back[..PLAIN - 1000] == fs::read(noise).unwrap(), "QEMU reads other data");
    world.end_instances();
}

/// Parts of sectors at any place of a mounted disk, against a model of it.
#[test]
fn an_encrypted_disk_is_a_file() {
    for (options, block) in [
        (&["--type", "luks2"], "512"),
        (&["--sector-size", "512"], "4096"),
        (&["--type", "luks1"], "512"),
    ] {
        let Some(world) = world(&[]) else { return };
        let image = world.image("a.img");
        world.target_up(&[&format!("{},block={block}", image.lun)]);
        format(&world, &[&QUICK[..], options].concat());
        let mount = world.mount(0, &["--luks", "--key-file", "key"]);
        let file = mount.open();
        let size = fs::metadata(mount.disk()).unwrap().len();
        assert!(size < SIZE as u64 && size.is_multiple_of(4096), "{size} bytes");
        let end = usize::try_from(size).unwrap();
        let mut model = vec![0; end];
        file.write_all_at(&model, 0).unwrap();
        for (number, (offset, len)) in
            [(3, 5), (510, 4), (4095, 2), (511, 2_000_003), (end - 700, 700), (512, 512), (100, 1)]
                .into_iter()
                .enumerate()
        {
            let bytes = vec![u8::try_from(number).unwrap() + 1; len];
            file.write_all_at(&bytes, offset as u64).unwrap();
            model[offset..offset + len].copy_from_slice(&bytes);
        }
        file.write_all_at(MARK, 30_000).unwrap();
        model[30_000..30_000 + MARK.len()].copy_from_slice(MARK);
        file.sync_all().unwrap();
        assert!(fs::read(mount.disk()).unwrap() == model, "the file has what was written");
        drop(file);
        mount.unmount();
        assert_sealed(&image);
        copy(&world, &world.unit(0), "back.img");
        assert!(fs::read(world.path("back.img")).unwrap() == model, "so has the unit");
        world.end();
    }
}

/// A range of zeroes is ciphertext, unless sectors may be given back.
#[test]
fn ranges_become_zero_as_ciphertext_or_as_holes() {
    use std::os::unix::fs::MetadataExt as _;
    let Some(world) = world(&["fallocate"]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    format(&world, &QUICK);
    copy(&world, "plain.img", &world.unit(0));
    let blocks = || fs::metadata(&image.path).unwrap().blocks();
    let hole = |options: &[&str]| {
        let mount = world.mount(0, &[&["--luks", "--key-file", "key"], options].concat());
        let range = ["fallocate", "--punch-hole", "--offset", "1000", "--length", "10000000"];
        let file = mount.inside();
        let _ = world.run(&[&range[..], &[&*file]].concat()).success();
        let mut read = vec![1; PLAIN];
        mount.open().read_exact_at(&mut read, 0).unwrap();
        let mut plain = fs::read(world.path("plain.img")).unwrap();
        plain[1000..10_001_000].fill(0);
        assert!(read == plain, "the range is zero, and nothing else");
        mount.unmount();
    };
    let before = blocks();
    hole(&["--unmap"]);
    assert!(blocks() >= before, "nothing is given back");
    hole(&["--discard"]);
    assert!(blocks() + (9 << 20) / 512 < before, "sectors were given back");
    assert_sealed(&image);
    world.end();
}

#[test]
fn what_is_wrong_is_told() {
    let Some(world) = world(&[]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun, "memory:8M"]);
    let small = ["format", "--luks", "--key-file", "key", &world.unit(1)];
    let said = world.disk(&[&small, &QUICK[..]].concat()).code(118);
    assert!(said.stderr.contains("take a larger unit"), "{said}");
    let unit = world.unit(0);
    let read = |key: &str, code: i32, told: &str| {
        let words = ["copy", &unit, "back.img", "--luks", "--key-file", key];
        let said = world.disk(&words).code(code);
        assert!(said.stderr.contains(told) && said.stderr.lines().count() == 1, "{said}");
    };
    write_key(&world.path("wrong"), b"correct horse");
    fs::write(world.path("open"), "correct horse\n").unwrap();
    fs::set_permissions(world.path("open"), fs::Permissions::from_mode(0o644)).unwrap();

    read("key", HEADER, "has no LUKS header");
    format(&world, &QUICK);
    read("wrong", PASSPHRASE, "opens no key slot");
    read("open", RIGHTS, "chmod 600");
    let words = ["copy", &unit, "back.img", "--luks"];
    let said = world.disk(&words).code(PASSPHRASE);
    assert!(said.stderr.contains("--key-file"), "{said}");
    assert_eq!(world.mounts(), 0);
    fs::create_dir(world.path("point")).unwrap();
    let words = ["mount", &unit, "point", "--luks", "--key-file", "wrong"];
    let _ = world.disk(&words).code(PASSPHRASE);

    // A header is kept, and so are data.
    let format_again = |options: &[&str]| {
        let words = [&["format", "--luks", "--key-file", "key", &*unit], &QUICK[..], options];
        world.disk(&words.concat())
    };
    let header = |len: usize| fs::read(&image.path).unwrap()[..len].to_vec();
    let before = header(16 << 20);
    assert!(format_again(&[]).code(IN_USE).stderr.contains("LUKS header"));
    assert!(header(16 << 20) == before, "nothing is written");
    let _ = format_again(&["--force"]).success();
    assert!(header(16 << 20) != before, "the header is another one");
    copy(&world, &unit, "back.img");

    world.target_down();
    let file = fs::File::options().write(true).open(&image.path).unwrap();
    file.write_all_at(&[0, 3], 6).unwrap();
    world.target_up(&[&image.lun]);
    read("key", HEADER, "version 3");
    world.target_down();
    file.write_all_at(&[0, 2], 6).unwrap();
    file.set_len(16 << 20).unwrap();
    world.target_up(&[&image.lun]);
    read("key", HEADER, "truncated");
    world.target_down();
    file.set_len(0).unwrap();
    file.set_len(SIZE as u64).unwrap();
    file.write_all_at(b"ext4?", SIZE as u64 - 5).unwrap();
    world.target_up(&[&image.lun]);
    assert!(format_again(&[]).code(IN_USE).stderr.contains("has data"));
    world.end();
}

/// The passphrase can come by standard input, also to a mount in the background.
#[test]
fn a_passphrase_comes_by_standard_input() {
    let Some(world) = world(&[]) else { return };
    let image = world.image("a.img");
    world.target_up(&[&image.lun]);
    format(&world, &QUICK);
    fs::create_dir(world.path("point")).unwrap();
    let unit = world.unit(0);
    let mut mount = world.tasuki(&["disk", "mount", &unit, "point", "--luks", "--key-file", "-"]);
    mount.args(["--net", "far"]).stdin(fs::File::open(world.path("key")).unwrap());
    let output = mount.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mount = world.wait_for_mount();
    mount.open().write_all_at(MARK, 5).unwrap();
    mount.unmount();
    assert_sealed(&image);
    world.end();
}

/// Writes that are made again are the same ciphertext.
#[test]
fn a_copy_of_an_encrypted_disk_outlives_its_target() {
    let Some(world) = world(&[]) else { return };
    let image = world.image("a.img");
    write_noise(&world.path("noise.img"), 40 << 20, 3);
    world.target_up(&[&image.lun]);
    format(&world, &QUICK);
    let unit = world.unit(0);
    for (from, to) in [("noise.img", &*unit), (&*unit, "back.img")] {
        let mut copy = world.start_disk(&["copy", from, to, "--luks", "--key-file", "key"]);
        eventually("the copy has begun", || world.sessions() == 1 || copy.has_ended());
        for _ in 0..2 {
            world.signal_target(Signal::KILL);
            world.target_up(&[&image.lun]);
        }
        let _ = copy.finish().success();
    }
    let back = fs::read(world.path("back.img")).unwrap();
    assert!(back[..40 << 20] == fs::read(world.path("noise.img")).unwrap(), "other data came back");
    world.end();
}

/// A copy of one encrypted disk to another one: the keys are different, the data are not.
#[test]
fn a_copy_from_disk_to_disk() {
    let Some(world) = world(&[]) else { return };
    let images = [world.image("a.img"), world.image("b.img")];
    world.target_up(&[&images[0].lun, &images[1].lun]);
    for lun in [0, 1] {
        let unit = world.unit(lun);
        let words = ["format", "--luks", "--key-file", "key", &unit];
        let _ = world.disk(&[&words, &QUICK[..]].concat()).success();
    }
    copy(&world, "plain.img", &world.unit(0));
    copy(&world, &world.unit(0), &world.unit(1));
    let same = sha256(&images[0].path) == sha256(&images[1].path);
    assert!(!same, "each has a key of its own");
    copy(&world, &world.unit(1), "back.img");
    assert_begins_like_plain(&world, &world.path("back.img"));
    images.iter().for_each(assert_sealed);
    world.end();
}

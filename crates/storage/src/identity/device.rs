//! What tells one block device from another one, whatever its name: by the kernel's files about it.
//!
//! A device that has several such names is known by the first of this order: the identifier of
//! device mapper (logical volumes), of an array, of a Ceph image; the file behind a loop device; a
//! partition's own; the world wide name of a disk; its serial number.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::mark::FileMark;

/// The kernel's directory of a device is `/sys/dev/block/MAJOR:MINOR`.
const DEVICES: &str = "/sys/dev/block";
/// What udev knows of a device, by the same number.
const UDEV: &str = "/run/udev/data";
/// The partition's identifier there.
const PARTITION: &str = "E:ID_PART_ENTRY_UUID=";

/// Names by files of the kernel, all of which are there.
const NAMES: [(&str, &[&str]); 4] = [
    ("dm", &["dm/uuid"]),
    ("md", &["md/uuid"]),
    ("rbd", &["device/cluster_fsid", "device/pool_id", "device/image_id", "device/current_snap"]),
    ("wwid", &["wwid"]),
];
/// Names of disks; the first that is there.
const DISKS: [(&str, &str); 5] = [
    ("wwid", "device/wwid"),
    ("cid", "device/cid"),
    ("serial", "serial"),
    ("serial", "device/serial"),
    ("serial", "device/vpd_pg80"),
];

/// A name of the device with this number, without white space; `None`: nothing tells it from
/// others.
pub(super) fn key(number: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let folder = fs::canonicalize(format!("{DEVICES}/{major}:{minor}")).ok()?;
    key_of(&folder, &PathBuf::from(format!("{UDEV}/b{major}:{minor}")))
}

fn key_of(folder: &Path, udev: &Path) -> Option<String> {
    let many = NAMES.iter().find_map(|(kind, files)| {
        let words: Option<Vec<String>> =
            files.iter().map(|file| word(&folder.join(file))).collect();
        Some(format!("{kind}:{}", words?.join("/")))
    });
    many.or_else(|| loop_file(folder)).or_else(|| partition(folder, udev)).or_else(|| {
        let found = DISKS.iter().find_map(|(kind, file)| Some((kind, word(&folder.join(file))?)));
        found.map(|(kind, word)| format!("{kind}:{word}"))
    })
}

/// The file behind a loop device, and where in it the device is.
fn loop_file(folder: &Path) -> Option<String> {
    let path = fs::read_to_string(folder.join("loop/backing_file")).ok()?;
    let file = File::open(path.trim_end_matches('\n')).ok()?;
    let key = FileMark::of(&file.into()).ok()?.key().ok()?;
    Some(format!("loop:{key}:{}", word(&folder.join("loop/offset"))?))
}

/// A partition: its identifier, or its place in a device that has a name.
fn partition(folder: &Path, udev: &Path) -> Option<String> {
    let number = word(&folder.join("partition"))?;
    let known = fs::read_to_string(udev).unwrap_or_default();
    if let Some(uuid) = known.lines().find_map(|line| line.strip_prefix(PARTITION)) {
        return Some(format!("partition:{}", without_white_space(uuid)?));
    }
    let whole = key_of(folder.parent()?, Path::new(""))?;
    Some(format!("{whole}:partition:{number}:{}", word(&folder.join("start"))?))
}

/// What a file of the kernel says, without white space; `None`: nothing.
fn word(path: &Path) -> Option<String> {
    without_white_space(&String::from_utf8_lossy(&fs::read(path).ok()?))
}

fn without_white_space(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let text = words.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join("_");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device's directory with these files.
    fn device(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn devices_are_known_by_what_the_kernel_tells() {
        for (files, key) in [
            (&[("dm/uuid", "LVM-abc\n"), ("serial", "1")][..], Some("dm:LVM-abc")),
            (
                &[("dm/uuid", "\n"), ("device/wwid", "t10.ATA  Disk 1\n")],
                Some("wwid:t10.ATA_Disk_1"),
            ),
            (&[("wwid", "eui.01\n"), ("device/serial", "S1\n")], Some("wwid:eui.01")),
            (&[("serial", "  V1 \n")], Some("serial:V1")),
            (&[("device/cluster_fsid", "a"), ("device/pool_id", "1")], None),
            (&[("serial", "\n")], None),
            (&[("partition", "1"), ("start", "2048")], None),
            (&[], None),
        ] {
            let folder = device(files);
            assert_eq!(key_of(folder.path(), Path::new("")).as_deref(), key, "{files:?}");
        }
    }

    #[test]
    fn a_partition_is_known_by_its_identifier_or_by_its_disk() {
        let files = [("dm/uuid", "LVM-a"), ("p/partition", "2\n"), ("p/start", "4096\n")];
        let folder = device(&files);
        let part = folder.path().join("p");
        assert_eq!(key_of(&part, Path::new("")).as_deref(), Some("dm:LVM-a:partition:2:4096"));
        let udev = folder.path().join("udev");
        fs::write(&udev, "S:disk/by-id/x\nE:ID_PART_ENTRY_UUID=0001-02\n").unwrap();
        assert_eq!(key_of(&part, &udev).as_deref(), Some("partition:0001-02"));
    }

    #[test]
    fn a_loop_device_is_known_by_its_file() {
        let folder = device(&[("a.img", "a"), ("b.img", "b"), ("loop/offset", "0\n")]);
        let behind = |name: &str| {
            let path = folder.path().join(name);
            fs::write(folder.path().join("loop/backing_file"), format!("{}\n", path.display()))
                .unwrap();
            key_of(folder.path(), Path::new("")).unwrap()
        };
        assert_ne!(behind("a.img"), behind("b.img"));
        assert_eq!(behind("a.img"), behind("a.img"));
    }
}

//! Identities of files, of their copies, and of what cannot keep one.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{XattrFlags, fsetxattr};

use super::*;

struct Place(tempfile::TempDir);

impl Place {
    /// A directory; `None` where files have no attributes.
    fn new() -> Option<Self> {
        let place = Self(tempfile::tempdir().unwrap());
        let probe: OwnedFd = File::create(place.path("probe")).unwrap().into();
        if fsetxattr(&probe, attribute::NAME, b"x", XattrFlags::empty()).is_err() {
            crate::testing::skip("the file system has no extended attributes");
            return None;
        }
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn image(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        path
    }

    fn register(&self) -> IdentityRegister {
        IdentityRegister::new(Some(self.path("state")))
    }

    fn identified(&self, path: &Path) -> Identified {
        let file = File::options().read(true).open(path).unwrap();
        identify(&file.into(), path, &self.register()).unwrap()
    }

    fn identity(&self, path: &Path) -> VolumeIdentity {
        self.identified(path).identity
    }
}

#[test]
fn an_identity_is_text() {
    let identity = VolumeIdentity::random().unwrap();
    assert_eq!(identity.to_string().parse(), Ok(identity));
    assert_ne!(identity, VolumeIdentity::random().unwrap());
    assert_eq!(VolumeIdentity(u128::MAX).identifier(), u64::MAX >> 4);
    for text in ["", "1", "+123456789012345678901234567890ab", &"g".repeat(32), &"0".repeat(33)] {
        assert_eq!(text.parse::<VolumeIdentity>(), Err(NoIdentity), "{text}");
    }
}

#[test]
fn a_file_keeps_its_identity() {
    let Some(place) = Place::new() else { return };
    let one = place.image("one.img");
    let first = place.identity(&one);
    assert_eq!(place.identity(&one), first);
    assert_ne!(place.identity(&place.image("two.img")), first);
    let moved = place.path("moved.img");
    std::fs::rename(&one, &moved).unwrap();
    File::options().write(true).open(&moved).unwrap().set_len(2 << 20).unwrap();
    assert_eq!(place.identity(&moved), first, "neither its name nor its size counts");
    assert!(!place.path("state").exists(), "nothing is kept outside of it");
}

#[test]
fn a_copy_gets_another_identity() {
    let Some(place) = Place::new() else { return };
    let one = place.image("one.img");
    let first = place.identity(&one);
    for copy in [&["-a"][..], &["--preserve=xattr", "--reflink=auto"], &[]] {
        let two = place.path("two.img");
        let said = Command::new("cp").args(copy).arg(&one).arg(&two).status().unwrap();
        assert!(said.success());
        let Identified { identity, notice } = place.identified(&two);
        assert_ne!(identity, first, "{copy:?}");
        assert_eq!(notice.is_some(), !copy.is_empty(), "{copy:?}: {notice:?}");
        assert_eq!(place.identity(&two), identity, "and keeps it");
        std::fs::remove_file(&two).unwrap();
    }
    assert_eq!(place.identity(&one), first);
}

#[test]
fn a_new_file_in_the_place_of_an_old_one_is_another_volume() {
    let Some(place) = Place::new() else { return };
    let first = place.identity(&place.image("one.img"));
    std::fs::remove_file(place.path("one.img")).unwrap();
    assert_ne!(place.identity(&place.image("one.img")), first);
}

#[test]
fn an_identity_can_be_set_by_hand() {
    let Some(place) = Place::new() else { return };
    let path = place.image("one.img");
    let own = VolumeIdentity::random().unwrap();
    let file: OwnedFd = File::open(&path).unwrap().into();
    fsetxattr(&file, attribute::NAME, own.to_string().as_bytes(), XattrFlags::empty()).unwrap();
    assert_eq!(place.identity(&path), own);
    // It is this file's from now on.
    let copy = place.path("copy.img");
    assert!(Command::new("cp").arg("-a").arg(&path).arg(&copy).status().unwrap().success());
    assert_ne!(place.identity(&copy), own);
    fsetxattr(&file, attribute::NAME, b"no identity", XattrFlags::empty()).unwrap();
    assert_ne!(place.identity(&path), own);
}

#[test]
fn what_cannot_keep_an_identity_has_a_line_in_the_register() {
    let place = tempfile::tempdir().unwrap();
    let register = IdentityRegister::new(Some(place.path().join("a/state")));
    let (one, two) = (register.identity("dm:1").unwrap(), register.identity("dm:2").unwrap());
    assert_ne!(one, two);
    assert_eq!(register.identity("dm:1").unwrap(), one);
    let path = place.path().join("a/state/volumes");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("dm:1 {one}\ndm:2 {two}\n"));
    std::fs::write(&path, "dm:1 12\n").unwrap();
    let error = register.identity("dm:1").unwrap_err().to_string();
    assert!(error.contains("volumes: an identity of a volume has"), "{error}");
    assert!(IdentityRegister::default().identity("dm:1").is_err());
}

#[test]
fn without_a_place_an_identity_is_for_once() {
    let path = Path::new("/dev/vg/a");
    let one = kept_in(&IdentityRegister::default(), path, Ok("dm:1".to_owned())).unwrap();
    let two = kept_in(&IdentityRegister::default(), path, Ok("dm:1".to_owned())).unwrap();
    assert_ne!(one.identity, two.identity);
    let notice = one.notice.unwrap();
    assert!(notice.contains("no identity of /dev/vg/a can be kept"), "{notice}");
}

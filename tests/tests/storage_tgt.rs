//! Our initiator at a target of others: Debian's tgt.

use std::fs::File;

use tasuki_tests::{
    Finished, HOST, Mode, Running, World, eventually, installed, sha256, skip, write_noise,
};

/// Bytes of the image.
const SIZE: usize = 48 << 20;
/// The target's name.
const NAME: &str = "iqn.2026-11.example:tgt";

/// A target of tgt on the kernel's stack, with one unit of an image. It ends when it is dropped.
struct Tgt {
    world: World,
    _daemon: Running,
}

impl Tgt {
    /// `None`, with SKIP, without tgt, or without what a world needs.
    fn new() -> Option<Self> {
        let mode = Mode::shared()?;
        if !["tgtd", "tgtadm"].into_iter().all(installed) {
            skip("tgt is not installed");
            return None;
        }
        let world = World::with_kernel()?;
        // Its sockets lie here, on the world's own /run.
        let _ = world.run(&["mkdir", "/run/tgtd"]).success();
        let daemon = world.spawn(&["tgtd", "-f", "--iscsi", &format!("portal={HOST}:3260")]);
        File::create(world.path("tgt.img")).unwrap().set_len(SIZE as u64).unwrap();
        let it = Self { world, _daemon: daemon };
        let target = ["--mode", "target", "--tid", "1", "--op"];
        eventually("tgtd answers", || {
            let new = [&target[..], &["new", "--targetname", NAME]].concat();
            it.admin(&new).status.success()
        });
        let image = it.world.file("tgt.img");
        let unit = ["--mode", "logicalunit", "--tid", "1", "--op", "new", "--lun", "1", "-b"];
        let _ = it.admin(&[&unit[..], &[&image]].concat()).success();
        let _ = it.admin(&[&target[..], &["bind", "-I", "ALL"]].concat()).success();
        it.world.up("net", mode, &[]);
        Some(it)
    }

    fn admin(&self, words: &[&str]) -> Finished {
        self.world.run(&[&["tgtadm", "--lld", "iscsi"], words].concat())
    }

    fn disk(&self, words: &[&str]) -> Finished {
        Running::start(self.world.tasuki(&[&["disk"], words, &["--net", "net"]].concat())).finish()
    }

    fn unit(&self) -> String {
        format!("iscsi://{HOST}/{NAME}/1")
    }

    fn end(self) {
        self.world.down("net");
        drop(self._daemon);
        self.world.assert_nothing_left();
    }
}

#[test]
fn its_units_are_listed_and_copied() {
    let Some(tgt) = Tgt::new() else { return };
    let said = tgt.disk(&["ls", &format!("iscsi://{HOST}")]).success();
    assert!(said.stdout.contains(NAME) && said.stdout.contains("48"), "{said}");
    let (noise, back) = (tgt.world.path("noise"), tgt.world.path("back"));
    write_noise(&noise, SIZE, 6);
    let _ = tgt.disk(&["copy", &tgt.world.file("noise"), &tgt.unit()]).success();
    assert_eq!(sha256(&tgt.world.path("tgt.img")), sha256(&noise));
    let _ = tgt.disk(&["copy", &tgt.unit(), &tgt.world.file("back")]).success();
    assert_eq!(sha256(&back), sha256(&noise));
    tgt.end();
}

#[test]
fn what_it_refuses_is_told() {
    let Some(tgt) = Tgt::new() else { return };
    let other = tgt.unit().replace(":tgt/", ":other/");
    let said = tgt.disk(&["copy", &other, "/dev/null"]);
    assert!(!said.status.success() && said.stderr.contains("refuses the login"), "{said}");
    let said = tgt.disk(&["copy", &format!("{}9", tgt.unit()), "/dev/null"]);
    assert!(!said.status.success() && said.stderr.contains("sense"), "{said}");
    tgt.end();
}

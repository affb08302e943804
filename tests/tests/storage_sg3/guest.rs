//! A Linux guest of QEMU's emulator. Its SCSI units are units of iSCSI targets.
//!
//! The guest is Debian's kernel, and an initramfs that is made here: busybox, sg3-utils with its
//! libraries, and `guest_init.sh`. It has no network. QEMU's `scsi-generic` hands each command of
//! the guest to libiscsi, which sends it to the target: QEMU itself only answers REPORT LUNS, and
//! resets its own devices.
//!
//! The results of the commands come over the serial console.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tasuki_tests::{STACK, World, installed, program, qemu_has_iscsi, skip};

/// The longest that a guest may run. Emulation is slow.
const LIMIT: Duration = Duration::from_secs(600);
/// The guest's memory in MiB.
const MEMORY: &str = "256";
/// Programs of busybox without which neither the guest is made nor its first process runs.
const APPLETS: [&str; 6] = ["cpio", "depmod", "modprobe", "timeout", "stty", "blkdiscard"];
/// What programs of sg3-utils are called.
const SG_PREFIXES: [&str; 4] = ["sg_", "sgp_", "sgm_", "sginfo"];

/// A unit in the guest: `/unit/NAME` and `/disk/NAME`.
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    pub(crate) target: &'static str,
    pub(crate) port: u16,
    pub(crate) lun: u16,
    /// The initiator's name, where it is not QEMU's own: another nexus.
    pub(crate) initiator: Option<&'static str>,
    /// QEMU opens a write-protected unit for reading only.
    pub(crate) read_only: bool,
}

/// What a command of the guest said, on both outputs, and its exit code.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) text: String,
}

/// A guest's kernel and programs.
pub(crate) struct Guest {
    kernel: PathBuf,
    /// The kernel's version, as its modules' folder has it.
    version: String,
    modules: PathBuf,
    programs: Vec<PathBuf>,
    busybox: PathBuf,
}

impl Guest {
    /// `None`, with SKIP, without a program or the kernel.
    pub(crate) fn find() -> Option<Self> {
        if std::env::consts::ARCH != "x86_64" {
            skip("the guest is for x86-64");
            return None;
        }
        let needed = ["qemu-system-x86_64", "busybox", "sg_inq", "ldd"];
        if let Some(missing) = needed.into_iter().find(|name| !installed(name)) {
            skip(&format!("{missing} is not installed: `scripts/deps.sh programs` installs it"));
            return None;
        }
        if !qemu_has_iscsi() {
            skip("QEMU has no driver for iSCSI: `scripts/deps.sh programs` installs it");
            return None;
        }
        let list = Command::new("busybox").arg("--list").output().expect("busybox runs").stdout;
        let list = String::from_utf8_lossy(&list);
        let has = |applet: &&str| list.lines().any(|line| line == *applet);
        if let Some(missing) = APPLETS.iter().find(|applet| !has(applet)) {
            skip(&format!("busybox has no {missing}: Debian's busybox-static has"));
            return None;
        }
        let found = Self::with_kernel();
        if found.is_none() {
            skip("there is no kernel for a guest: `scripts/deps.sh programs` fetches it");
        }
        found
    }

    /// The kernel that deps.sh has unpacked beside this build.
    fn with_kernel() -> Option<Self> {
        let test = std::env::current_exe().ok()?;
        let folder = test.ancestors().nth(3)?.join("guest");
        let names = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
        let mut versions = names(folder.join("boot")).filter_map(|entry| {
            Some(entry.file_name().to_str()?.strip_prefix("vmlinuz-")?.to_owned())
        });
        let version = versions.next()?;
        let busybox = Command::new("which").arg("busybox").output().ok()?.stdout;
        let programs = names(PathBuf::from("/usr/bin")).map(|entry| entry.path());
        let is_sg = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            SG_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        Some(Self {
            kernel: folder.join("boot").join(format!("vmlinuz-{version}")),
            modules: folder.join("lib/modules").join(&version),
            programs: programs.filter(is_sg).collect(),
            busybox: PathBuf::from(String::from_utf8_lossy(&busybox).trim()),
            version,
        })
    }

    /// Boots with these units, and with these files below its root folder. Runs the commands, each
    /// a shell's line or several.
    ///
    /// # Panics
    /// If the guest does not run all of them.
    pub(crate) fn run(
        &self,
        world: &World,
        units: &[Unit],
        files: &[&Path],
        commands: &[&str],
    ) -> Vec<Said> {
        let root = world.path("guest");
        self.fill(&root, files);
        fs::write(root.join("units"), lines_of(units)).unwrap();
        for (number, command) in commands.iter().enumerate() {
            fs::write(root.join(format!("commands/{number:04}")), command).unwrap();
        }
        let archive = "find . | busybox cpio -o -H newc >../initramfs";
        shell(&root, archive);
        let words = self.words(world, units);
        let said = world.spawn(&words).finish_within(LIMIT).success();
        let text = said.stdout.replace('\r', "");
        let results: Vec<_> = (0..commands.len()).map_while(|at| result(&text, at)).collect();
        assert_eq!(results.len(), commands.len(), "the guest runs all commands: {said}");
        results
    }

    /// The content of the initramfs.
    fn fill(&self, root: &Path, files: &[&Path]) {
        for folder in ["bin", "usr/bin", "dev", "proc", "sys", "commands", "lib/modules"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        copy(&self.busybox, &root.join("bin/busybox"));
        copy(Path::new(&program("guest_init.sh")), &root.join("init"));
        for file in files {
            copy(file, &root.join(file.file_name().expect("a file")));
        }
        for path in &self.programs {
            copy(path, &root.join(path.strip_prefix("/").expect("an absolute path")));
        }
        let programs = self.programs.iter().chain([&self.busybox]);
        for library in libraries(programs) {
            let inside = root.join(library.strip_prefix("/").expect("an absolute path"));
            fs::create_dir_all(inside.parent().expect("a folder")).unwrap();
            copy(&library, &inside);
        }
        let modules = root.join("lib/modules").join(&self.version);
        let (from, to) = (self.modules.display(), modules.display());
        shell(root, &format!("cp -r '{from}' '{to}' && busybox depmod -b . '{}'", self.version));
    }

    /// QEMU's command line.
    fn words(&self, world: &World, units: &[Unit]) -> Vec<String> {
        let mut words = vec!["qemu-system-x86_64".to_owned()];
        let mut add = |some: &[&str]| words.extend(some.iter().map(|word| (*word).to_owned()));
        add(&["-no-user-config", "-nodefaults", "-accel", "tcg", "-m", MEMORY, "-no-reboot"]);
        add(&["-display", "none", "-monitor", "none", "-serial", "stdio"]);
        add(&["-kernel", self.kernel.to_str().expect("a plain path")]);
        add(&["-initrd", &world.file("initramfs")]);
        // Nothing but the results on the console, and the end of QEMU after a panic.
        add(&["-append", "console=ttyS0 panic=-1 loglevel=1"]);
        add(&["-device", "virtio-scsi-pci,id=bus"]);
        for (number, unit) in units.iter().enumerate() {
            let Unit { target, port, lun, .. } = unit;
            let mut node = format!(
                "driver=iscsi,node-name=unit{number},transport=tcp,portal={STACK}:{port},\
                 target={target},lun={lun}"
            );
            if let Some(initiator) = unit.initiator {
                write!(node, ",initiator-name={initiator}").expect("a string");
            }
            if unit.read_only {
                node.push_str(",read-only=on");
            }
            let device =
                format!("scsi-generic,bus=bus.0,drive=unit{number},scsi-id={number},lun=0");
            add(&["-blockdev", &node, "-device", &device]);
        }
        words
    }
}

/// Where the guest has the units, for its first process.
fn lines_of(units: &[Unit]) -> String {
    let line = |(number, unit): (usize, &Unit)| format!("0:0:{number}:0 {}\n", unit.name);
    units.iter().enumerate().map(line).collect()
}

/// The result of a command on the console.
fn result(console: &str, number: usize) -> Option<Said> {
    let (_, rest) = console.split_once(&format!("BEGIN {number:04}\n"))?;
    let (text, rest) = rest.split_once(&format!("\nEND {number:04} "))?;
    let code = rest.split_once('\n')?.0.parse().ok()?;
    Some(Said { code, text: text.to_owned() })
}

/// The libraries of programs, and what loads them.
fn libraries<'a>(programs: impl Iterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    let said = Command::new("ldd").args(programs).output().expect("ldd runs").stdout;
    // "NAME => PATH (ADDRESS)" or "PATH (ADDRESS)"; a program's own line ends with a colon.
    let said = String::from_utf8_lossy(&said);
    let lines = said.lines().filter(|line| line.ends_with(')'));
    let paths = lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let mut all: Vec<PathBuf> = paths.map(PathBuf::from).collect();
    all.sort();
    all.dedup();
    all
}

/// Copies a file and its mode. Links are followed.
fn copy(from: &Path, to: &Path) {
    let copied = fs::copy(from, to);
    assert!(copied.is_ok(), "{} to {}: {copied:?}", from.display(), to.display());
}

/// Runs a line of a shell in a folder.
fn shell(folder: &Path, line: &str) {
    let said = Command::new("sh").args(["-c", line]).current_dir(folder).output().unwrap();
    assert!(said.status.success(), "{line}: {}", String::from_utf8_lossy(&said.stderr));
}

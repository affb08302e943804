//! Two instances and what lies between them, with a target at one and initiators at the other.
//!
//! Over a wire nothing of the kernel's network is between them. The TAP devices of the two are
//! ports of one bridge, in a namespace. There initiators of the kernel's stack have an address, and
//! a peer of the kernel's stack ([`Tgt`]) is behind a veth pair that is one more port.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::plan::{BackEnd, EspAlgorithms, StorageLink, StoragePath, Transport};
use crate::cleanup::CleanUp;
use crate::processor_time;

/// Addresses: the target's instance, the initiator's, the kernel's on the bridge, and tgt's.
pub(super) const TARGET: &str = "10.218.6.2";
const INITIATOR: &str = "10.218.6.3";
const BRIDGE: &str = "10.218.6.1";
const TGT: &str = "10.218.6.9";
/// TAP devices of the target's instance and the initiator's.
const TAPS: [&str; 2] = ["sbt", "sbi"];
/// Bytes of a unit with bytes, and of a null one.
pub(super) const UNIT: u64 = 256 << 20;
const NULL_UNIT: &str = "16G";
/// How long something may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// User and system seconds.
pub(super) type Seconds = (f64, f64);

/// A side of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StorageSide {
    Target,
    Initiator,
}

/// See the module.
pub(super) struct StorageWorld {
    pub(super) path: StoragePath,
    link: StorageLink,
    tasuki: PathBuf,
    tag: String,
    /// Of instances and initiators; behind it tgt's.
    namespaces: [String; 2],
    folder: PathBuf,
    target_up: bool,
    transport: &'static Transport,
    _clean_up: CleanUp,
}

impl StorageWorld {
    /// Makes the namespace, both instances, and the target.
    pub(super) fn new(
        tasuki: &Path,
        number: usize,
        link: impl Into<StorageLink>,
        transport: &'static Transport,
        back_ends: &[BackEnd],
    ) -> Result<Self> {
        let link = link.into();
        let path = link.path;
        let tag = format!("sb{}-{number}", std::process::id());
        let namespaces = ["", "g"].map(|end| format!("{tag}{end}"));
        let folder = std::env::temp_dir().join(&tag);
        let _clean_up = CleanUp::new(&namespaces, std::slice::from_ref(&folder))?;
        std::fs::create_dir(&folder)?;
        let tasuki = std::path::absolute(tasuki)?;
        let mut world = Self {
            path,
            link,
            tasuki,
            tag,
            namespaces,
            folder,
            target_up: false,
            transport,
            _clean_up,
        };
        run(Command::new("ip").args(["netns", "add", &world.namespaces[0]]))?;
        world.ip("link set lo up")?;
        if path.is_tap() {
            world.ip("link add br0 type bridge")?;
            world.ip("link set br0 up")?;
        }
        world.up(StorageSide::Target)?;
        world.up(StorageSide::Initiator)?;
        if path.is_tap() {
            world.ip(&format!("addr add {BRIDGE}/24 dev br0"))?;
            if path == StoragePath::TapOff {
                world.inside("ethtool", &["-K", "br0", "tso", "off", "gso", "off"]).output()?;
            }
        }
        if let Some(algorithms) = world.transport.esp {
            world.protect(algorithms)?;
        }
        world.target(back_ends)?;
        Ok(world)
    }

    /// The `tasuki` command.
    pub(super) fn tasuki(&self) -> &Path {
        &self.tasuki
    }

    /// A file of a side, which goes with the world.
    pub(super) fn file(&self, kind: &str, side: StorageSide) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.instance(side)))
    }

    /// The name of a side's instance.
    pub(super) fn instance(&self, side: StorageSide) -> String {
        let letter = if side == StorageSide::Target { "t" } else { "i" };
        format!("{}{letter}", self.tag)
    }

    fn up(&self, side: StorageSide) -> Result<()> {
        let (address, tap) = match side {
            StorageSide::Target => (TARGET, TAPS[0]),
            StorageSide::Initiator => (INITIATOR, TAPS[1]),
        };
        let (cidr, name) = (format!("{address}/24"), self.instance(side));
        let mut words = vec!["up".to_owned(), "--address".to_owned(), cidr];
        let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        add(&["--ipv6", "off", "--nic"]);
        if self.path.is_tap() {
            let offload = if self.path == StoragePath::TapOff { "off" } else { "on" };
            add(&[&format!("tap:{tap}"), "--gateway", BRIDGE, "--offload", offload]);
        } else {
            add(&[&format!("wire:{}", self.folder.join("wire").display())]);
            // Otherwise frames would be super-segments. Both ends have to agree.
            add(if self.link.in_packets { &["--offload", "off"] } else { &[] });
            // One end delays both directions.
            if let (Some(faults), StorageSide::Target) = (self.link.faults(), side) {
                add(&["--fault", &faults]);
            }
        }
        add(&[&name]);
        run(&mut self.inside(&self.tasuki, &words))?;
        if self.path.is_tap() {
            self.ip(&format!("addr flush dev {tap}"))?;
            self.ip(&format!("link set {tap} master br0"))?;
        }
        Ok(())
    }

    /// Has both instances protect all packets between them by ESP.
    fn protect(&self, algorithms: &EspAlgorithms) -> Result<()> {
        for (spi, src, dst) in [("0x1001", TARGET, INITIATOR), ("0x1002", INITIATOR, TARGET)] {
            let mut state = format!("state add src {src} dst {dst} proto esp spi {spi} reqid 1 ");
            state += "replay-window 128 flag esn";
            for (name, bytes, more) in algorithms.words {
                state += &format!(" {name} {} {more}", key(*bytes)?);
            }
            for side in [StorageSide::Target, StorageSide::Initiator] {
                let address = if side == StorageSide::Target { TARGET } else { INITIATOR };
                let dir = if src == address { "out" } else { "in" };
                let policy =
                    format!("policy add src {src} dst {dst} dir {dir} tmpl proto esp reqid 1");
                self.xfrm(side, algorithms.insecure, &state)?;
                self.xfrm(side, false, &policy)?;
            }
        }
        Ok(())
    }

    fn xfrm(&self, side: StorageSide, insecure: bool, words: &str) -> Result<()> {
        let mut command = self.inside(&self.tasuki, &["xfrm", "--net", &self.instance(side)]);
        command.args(insecure.then_some("--insecure"));
        run(command.args(words.split_whitespace()))
    }

    fn target(&mut self, back_ends: &[BackEnd]) -> Result<()> {
        let mut words = vec!["target".to_owned(), "up".to_owned(), self.tag.clone()];
        words.extend(self.transport.target.iter().map(|word| (*word).to_owned()));
        words.extend(["--net".to_owned(), self.instance(StorageSide::Target)]);
        let image = self.folder.join("image").display().to_string();
        if back_ends.contains(&BackEnd::File) {
            write_image(Path::new(&image), UNIT)?;
        }
        // All have a unit, so that numbers do not depend on the choice.
        for back_end in BackEnd::ALL {
            let unit = match back_end {
                BackEnd::File if back_ends.contains(&back_end) => format!("file:{image}"),
                BackEnd::Memory => format!("memory:{UNIT}"),
                BackEnd::Null | BackEnd::File => format!("null:{NULL_UNIT}"),
            };
            words.extend(["--lun".to_owned(), unit]);
        }
        run(&mut self.inside(&self.tasuki, &words))?;
        self.target_up = true;
        Ok(())
    }

    /// Gives the memory unit all of its pages before anything is measured. An unknown transport is
    /// found out by it.
    pub(super) fn fill(&self) -> Result<()> {
        self.fill_unit(&self.url(BackEnd::Memory), UNIT)
    }

    fn fill_unit(&self, url: &str, bytes: u64) -> Result<()> {
        // The target has the image itself, if it is a unit.
        let source = self.folder.join("source").display().to_string();
        write_image(Path::new(&source), bytes)?;
        let mut copy = self.disk("copy", &[&source, url]);
        run(copy.args(self.transport.initiator))?;
        Ok(std::fs::remove_file(source)?)
    }

    /// One more unit in the target's memory, of so many bytes, with all of its pages. Its URL.
    pub(super) fn add_memory(&self, bytes: u64) -> Result<String> {
        let (lun, unit) = (BackEnd::ALL.len(), format!("memory:{bytes}"));
        let words = ["target", "add", &self.tag, &lun.to_string(), &unit];
        run(&mut self.inside(&self.tasuki, &words))?;
        let url = self.url_of(lun);
        self.fill_unit(&url, bytes)?;
        Ok(url)
    }

    /// A command in the namespace.
    pub(super) fn inside(
        &self,
        program: impl AsRef<OsStr>,
        words: &[impl AsRef<OsStr>],
    ) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespaces[0]]).arg(program).args(words);
        // Both ends have one key, and so know each other.
        command.env("TASUKI_KEYS", self.folder.join("keys"));
        command.env("TASUKI_STATE", self.folder.join("state"));
        command
    }

    /// A program on one of the instances.
    pub(super) fn on_instance(&self, side: StorageSide, words: &[impl AsRef<OsStr>]) -> Command {
        let net = self.instance(side);
        let mut command = self.inside(&self.tasuki, &["run", "--net", &net, "--"]);
        command.args(words);
        command
    }

    /// `tasuki disk bench`, on the initiator's instance.
    pub(super) fn disk_bench(&self, url: &str, words: &[String]) -> Command {
        let mut command = self.disk("bench", &[url, "--json"]);
        command.args(self.transport.initiator).args(words);
        command
    }

    /// A command of `tasuki disk`, on the initiator's instance.
    pub(super) fn disk(&self, command: &str, words: &[&str]) -> Command {
        let net = self.instance(StorageSide::Initiator);
        let begin = ["disk", command, "--net", &net];
        self.inside(&self.tasuki, &[&begin[..], words].concat())
    }

    /// The URL of a unit of the target.
    pub(super) fn url(&self, back_end: BackEnd) -> String {
        self.url_of(back_end.lun().into())
    }

    fn url_of(&self, lun: usize) -> String {
        format!("{}://{TARGET}/iqn.2026-11.tasuki:{}/{lun}", self.transport.scheme, self.tag)
    }

    /// What the command tells as JSON.
    pub(super) fn told(&self, words: &[&str]) -> Result<Value> {
        let output = self.inside(&self.tasuki, words).output()?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("what `tasuki {}` prints", words.join(" ")))
    }

    /// The target's name.
    pub(super) fn target_name(&self) -> &str {
        &self.tag
    }

    /// Pids of a side: those of the instance, and the target's.
    pub(super) fn processes(&self, side: StorageSide) -> Result<Vec<u32>> {
        let pid = |of: &Value| of["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        let instance = self.told(&["ps", "--json", &self.instance(side)])?;
        let listed = instance[0]["processes"].as_array().context("processes")?;
        let mut pids: Vec<u32> = listed.iter().filter_map(pid).collect();
        if side == StorageSide::Target {
            pids.extend(pid(&self.told(&["target", "ls", "--json", &self.tag])?[0]));
        }
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    /// What the kernel receives for the writer of a side's TAP device counts as that side's.
    pub(super) fn device_seconds(&self, side: StorageSide) -> f64 {
        let tap = TAPS[usize::from(side == StorageSide::Initiator)];
        if self.path.is_tap() { processor_time::of_device(tap) } else { 0.0 }
    }

    fn ip(&self, words: &str) -> Result<()> {
        let mut command = Command::new("ip");
        run(command.args(["-n", &self.namespaces[0]]).args(words.split(' ')))
    }
}

impl Drop for StorageWorld {
    fn drop(&mut self) {
        // What is left the clean-up ends.
        if self.target_up {
            let _ = self.inside(&self.tasuki, &["target", "down", &self.tag]).output();
        }
        for side in [StorageSide::Initiator, StorageSide::Target] {
            let _ = self.inside(&self.tasuki, &["down", &self.instance(side)]).output();
        }
    }
}

/// Debian's tgt, on the kernel's stack behind a veth pair on the world's bridge.
pub(super) struct Tgt {
    child: Child,
    namespace: String,
    control: String,
}

impl Tgt {
    pub(super) const NAME: &str = "iqn.2026-11.tgt:disks";

    /// Starts it, with a unit in memory ([`Tgt::url`] 1) and a null one (2).
    pub(super) fn new(world: &StorageWorld) -> Result<Self> {
        let namespace = world.namespaces[1].clone();
        run(Command::new("ip").args(["netns", "add", &namespace]))?;
        world.ip(&format!("link add sbg type veth peer name sbg netns {namespace}"))?;
        world.ip("link set sbg master br0 up")?;
        for words in
            [&format!("addr add {TGT}/24 dev sbg")[..], "link set sbg up", "link set lo up"]
        {
            run(Command::new("ip").args(["-n", &namespace]).args(words.split(' ')))?;
        }
        if world.path == StoragePath::TapOff {
            let off = ["tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off"];
            for one in [&world.namespaces[0], &namespace] {
                let mut ethtool = Command::new("ip");
                ethtool.args(["netns", "exec", one, "ethtool", "-K", "sbg"]).args(off);
                run(ethtool.stdout(Stdio::null()))?;
            }
        }
        // One of many on this machine: its control socket has a number.
        let control = (std::process::id() % 30_000 + 1000).to_string();
        std::fs::create_dir_all("/var/run/tgtd")?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace, "tgtd", "-f", "-C", &control]);
        command.args(["--iscsi", &format!("portal={TGT}:3260")]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context("starting tgtd")?;
        let tgt = Self { child, namespace, control };
        let image = std::path::absolute(world.folder.join("tgt"))?;
        write_image(&image, UNIT)?;
        let began = Instant::now();
        let target = ["--op", "new", "--mode", "target", "--tid", "1", "-T", Self::NAME];
        while let Err(error) = tgt.admin(&target) {
            ensure!(began.elapsed() < PATIENCE, "{error:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
        let unit = ["--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun"];
        let null = ["2", "--bstype", "null", "-b", NULL_UNIT];
        tgt.admin(&[&unit[..], &["1", "-b", &image.to_string_lossy()]].concat())?;
        tgt.admin(&[&unit[..], &null].concat())?;
        tgt.admin(&["--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"])?;
        Ok(tgt)
    }

    fn admin(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, "tgtadm", "-C", &self.control]);
        run(command.args(["--lld", "iscsi"]).args(words))
    }

    /// The unit's URL: 1 is in the page cache, 2 null.
    pub(super) fn url(lun: u16) -> String {
        format!("iscsi://{TGT}/{}/{lun}", Self::NAME)
    }

    /// The process, which `ip netns exec` has become.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let base = format!("/var/run/tgtd/socket.{}", self.control);
        let _ = std::fs::remove_file(&base);
        let _ = std::fs::remove_file(format!("{base}.lock"));
    }
}

/// A new key of so many bytes, as `tasuki xfrm` takes it.
fn key(bytes: usize) -> Result<String> {
    use std::io::Read as _;
    let mut key = vec![0; bytes];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(key.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}")))
}

/// A file of so many bytes, whole MiB, that has all of its blocks.
fn write_image(path: &Path, bytes: u64) -> Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
    let part = vec![0x5a; 1 << 20];
    for _ in 0..bytes >> 20 {
        file.write_all(&part)?;
    }
    Ok(file.sync_all()?)
}

/// Runs a command. The error is what it said.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}", said.trim().lines().next_back().unwrap_or("no message"));
    }
    Ok(())
}

//! A world with a target on one instance and mounts on another one.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tasuki_tests::{Finished, Mode, Nic, Running, STACK, World, eventually, installed, skip};

/// Bytes of an image.
pub(crate) const SIZE: usize = 64 << 20;
/// The instance of the target, and that of the mounts (the other end of the wire).
const TARGET: &str = "net";
const MOUNTS: &str = "far";

/// The exit code of a command whose instance does not run.
const NO_INSTANCE: i32 = 122;

/// How long a mount of a test waits for its target. Programs that wait for a disk cannot be killed;
/// a test that was ended ends with its mounts.
const GIVE_UP: &str = "180";

/// A target's world.
pub(crate) struct DiskWorld {
    world: World,
    scheme: &'static str,
    mode: Mode,
}

impl std::ops::Deref for DiskWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// A file of a unit.
pub(crate) struct Image {
    pub(crate) path: PathBuf,
    pub(crate) lun: String,
}

impl DiskWorld {
    /// With both instances, for a plain portal. Without what it needs it prints SKIP and returns
    /// `None`.
    pub(crate) fn new(programs: &[&str]) -> Option<Self> {
        Self::over("iscsi", programs)
    }

    /// For a portal of this transport.
    pub(crate) fn over(scheme: &'static str, programs: &[&str]) -> Option<Self> {
        Self::over_line(scheme, programs, &[])
    }

    /// For a portal of this transport behind a bad line.
    pub(crate) fn over_bad_line(scheme: &'static str, faults: &str) -> Option<Self> {
        Self::over_line(scheme, &[], &["--fault", faults])
    }

    fn over_line(scheme: &'static str, programs: &[&str], line: &[&str]) -> Option<Self> {
        let mode = Mode::shared()?;
        if File::options().read(true).write(true).open("/dev/fuse").is_err() {
            skip("needs root and /dev/fuse");
            return None;
        }
        if let Some(missing) = programs.iter().find(|program| !installed(program)) {
            skip(&format!("{missing} is not installed"));
            return None;
        }
        let world = World::over(Nic::Wire)?;
        if !line.is_empty() {
            // Both ends of a wire have offloads, or none has.
            world.down(MOUNTS);
            world.up_far(line);
        }
        world.up(TARGET, mode, line);
        Some(Self { world, scheme, mode })
    }

    /// Runs a program of the host: the disk is a file to it.
    pub(crate) fn run(&self, words: &[&str]) -> Finished {
        Running::start(self.command(words)).finish()
    }

    pub(crate) fn image(&self, name: &str) -> Image {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(SIZE as u64).unwrap();
        let lun = format!("file:{}", path.display());
        Image { path, lun }
    }

    /// Starts the target `disks`. Its last process may still have a file for a moment.
    pub(crate) fn target_up(&self, luns: &[&str]) {
        let mut words = vec!["target", "up", "disks", "--net", TARGET];
        words.extend(match self.scheme {
            "iscsi" => Some("--plain"),
            "iscsi+tls" => Some("--tls"),
            _ => None,
        });
        words.extend(luns.iter().flat_map(|lun| ["--lun", lun]));
        eventually("the target starts", || {
            let said = Running::start(self.tasuki(&words)).finish();
            let in_use = said.stderr.contains("is in use");
            assert!(said.status.success() || in_use, "{said}");
            said.status.success()
        });
    }

    pub(crate) fn target_down(&self) {
        let down = ["target", "down", "disks"];
        let _ = Running::start(self.tasuki(&down)).finish().success();
    }

    /// `tasuki WORDS…` with the keys of this world's machine.
    fn tasuki(&self, words: &[&str]) -> Command {
        self.tasuki_with("keys", words)
    }

    /// The same with the keys in another directory of the world.
    pub(crate) fn tasuki_with(&self, keys: &str, words: &[&str]) -> Command {
        let mut command = self.world.tasuki(words);
        command.env("TASUKI_KEYS", self.path(keys));
        command
    }

    /// What the target says of itself.
    pub(crate) fn status(&self) -> serde_json::Value {
        let said = Running::start(self.tasuki(&["target", "ls", "--json"])).finish().success();
        serde_json::from_str(&said.stdout).expect("JSON")
    }

    pub(crate) fn sessions(&self) -> usize {
        self.status()[0]["sessions"].as_array().map_or(0, Vec::len)
    }

    /// Sends a signal to the target, and none to its broker.
    pub(crate) fn signal_target(&self, signal: Signal) {
        let targets = self.processes_of(["target", "up"]).into_iter().filter(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "tasuki-target"
        });
        targets.for_each(|pid| kill_process(pid, signal).unwrap());
    }

    pub(crate) fn unit(&self, lun: u16) -> String {
        format!("{}://{STACK}/iqn.2026-11.tasuki:disks/{lun}", self.scheme)
    }

    /// Kills the stack below the target, which ends with it, and starts the instance again.
    pub(crate) fn restart_stack(&self) {
        self.kill_stack(TARGET);
        eventually("the target ends with its stack", || {
            self.processes_of(["target", "up"]).is_empty()
        });
        self.up(TARGET, self.mode, &[]);
    }

    /// Kills the stack below the mounts, and starts the instance again.
    pub(crate) fn restart_stack_of_mounts(&self) {
        self.kill_stack(MOUNTS);
        self.up_far(&[]);
    }

    /// Kills the inet server of the instance `net`, which ends with it.
    fn kill_stack(&self, net: &str) {
        let processes = self.ps(net).processes;
        let server = processes.iter().find(|process| process.role.starts_with("inet"));
        let pid = server.and_then(|server| i32::try_from(server.pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.expect("a server"), Signal::KILL).unwrap();
        let ps = || Running::start(self.tasuki(&["ps", "--json", net])).finish();
        // One that is just ending answers nothing, but still is in the way of the next one.
        let is_gone = || ps().status.code() == Some(NO_INSTANCE);
        eventually("the instance ends with its stack", is_gone);
    }

    /// `tasuki disk WORDS…` on the other instance.
    pub(crate) fn start_disk(&self, words: &[&str]) -> Running {
        self.start_disk_with("keys", words)
    }

    /// The same with the keys in another directory of the world.
    pub(crate) fn start_disk_with(&self, keys: &str, words: &[&str]) -> Running {
        let words = [&["disk"], words, &["--net", MOUNTS]].concat();
        Running::start(self.tasuki_with(keys, &words))
    }

    pub(crate) fn disk(&self, words: &[&str]) -> Finished {
        self.start_disk(words).finish()
    }

    /// Mounts a unit at a directory.
    pub(crate) fn mount(&self, lun: u16, options: &[&str]) -> DiskMount<'_> {
        std::fs::create_dir_all(self.path("point")).unwrap();
        self.mount_at("point", lun, options)
    }

    pub(crate) fn mount_at(&self, point: &str, lun: u16, options: &[&str]) -> DiskMount<'_> {
        let unit = self.unit(lun);
        let patience = match options.contains(&"--give-up") {
            true => &[][..],
            false => &["--give-up", GIVE_UP],
        };
        let _ = self.disk(&[&["mount", &*unit, point], options, patience].concat()).success();
        DiskMount { world: self, point: self.file(point) }
    }

    /// The mount at `point` of a process in the foreground.
    pub(crate) fn wait_for_mount(&self) -> DiskMount<'_> {
        eventually("it is mounted", || self.mounts() == 1);
        DiskMount { world: self, point: self.file("point") }
    }

    /// Disks that are mounted in this world.
    pub(crate) fn mounts(&self) -> usize {
        let said = self.run(&["cat", "/proc/self/mounts"]).success();
        said.stdout.lines().filter(|line| line.starts_with("iscsi")).count()
    }

    /// Unmounts `point` with the program (`umount`, `fusermount3 -u`), when no file of it is open.
    /// Tests share this process: a child that another test has forked holds this test's descriptors
    /// until it executes its program, and the mount is busy for so long.
    pub(crate) fn unmount_with(&self, program: &[&str], point: &str) {
        let words = [program, &[point]].concat();
        eventually(&format!("{point} is not busy"), || {
            let said = self.run(&words);
            let busy = said.stderr.contains("busy");
            assert!(busy || said.status.success(), "{said}");
            !busy
        });
    }

    /// A counter of the target's instance.
    pub(crate) fn counter_of_target(&self, name: &str) -> u64 {
        self.counter(TARGET, name)
    }

    /// The processes of mounts.
    pub(crate) fn mount_processes(&self) -> Vec<Pid> {
        self.processes_of(["disk", "mount"])
    }

    /// The processes of `tasuki WORDS…`.
    fn processes_of(&self, words: [&str; 2]) -> Vec<Pid> {
        let all = self.processes().into_iter().filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut said = line.split(|byte| *byte == 0).skip(1);
            words.iter().all(|word| said.next() == Some(word.as_bytes()))
        });
        all.filter_map(|pid| i32::try_from(pid).ok().and_then(Pid::from_raw)).collect()
    }

    /// Removes a mount's log, and tells it. A mount that has ended in order has none.
    pub(crate) fn take_log(&self, mount: &DiskMount<'_>) -> String {
        let path = self.log_of(mount);
        let log = std::fs::read_to_string(&path).expect("a log");
        std::fs::remove_file(path).unwrap();
        log
    }

    /// Removes a mount's log, if it wrote one.
    pub(crate) fn drop_log(&self, mount: &DiskMount<'_>) {
        let _ = std::fs::remove_file(self.log_of(mount));
    }

    fn log_of(&self, mount: &DiskMount<'_>) -> PathBuf {
        let name = format!("{}.mount.log", mount.point.trim_matches('/').replace('/', "-"));
        self.outside("/run/tasuki").join(name)
    }

    pub(crate) fn end(&self) {
        self.target_down();
        self.end_instances();
    }

    /// After the target has ended.
    pub(crate) fn end_instances(&self) {
        self.down(TARGET);
        self.assert_nothing_left();
    }
}

/// A mounted unit. It is unmounted at the latest when the test fails.
pub(crate) struct DiskMount<'a> {
    world: &'a DiskWorld,
    point: String,
}

impl DiskMount<'_> {
    /// The mount point, as programs of the world see it.
    pub(crate) fn point(&self) -> String {
        self.point.clone()
    }

    /// The disk's file, as programs of the world see it.
    pub(crate) fn inside(&self) -> String {
        format!("{}/disk", self.point)
    }

    /// A path below the mount point, for this process.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        let path = self.world.outside(&self.point);
        if name.is_empty() { path } else { path.join(name) }
    }

    pub(crate) fn disk(&self) -> PathBuf {
        self.outside("disk")
    }

    pub(crate) fn open(&self) -> File {
        self.open_at("disk")
    }

    pub(crate) fn open_at(&self, name: &str) -> File {
        self.open_with(name, 0)
    }

    pub(crate) fn open_with(&self, name: &str, flags: i32) -> File {
        let path = self.outside(name);
        let file = File::options().read(true).write(true).custom_flags(flags).open(&path);
        file.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn unmount(self) {
        self.world.unmount_with(&["umount"], &self.point);
        self.has_ended();
    }

    /// Ends what waits for it, which nothing else can.
    pub(crate) fn abort(&self) {
        let _ = self.world.command(&["umount", "-f", &self.point]).output();
    }

    /// Its process ends after an unmount.
    pub(crate) fn has_ended(&self) {
        eventually("it is unmounted", || self.world.mounts() == 0);
        eventually("its session has ended", || self.world.sessions() == 0);
    }
}

impl Drop for DiskMount<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abort();
            let _ = self.world.command(&["umount", "-l", &self.point]).output();
        }
    }
}

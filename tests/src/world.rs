//! A network of two hosts in namespaces of its own: the kernel's stack, a TAP device, and Tasuki's
//! stack. Over a wire the other host is a second instance of Tasuki instead of the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use abi::control::{InstanceStatus, PoolStatus, SocketStatus};
use abi::nic::NicLayout;
use rustix::process::{Pid, Signal};

use crate::process::{Finished, KernelProcess, Running};
use crate::tools::{
    DEVICE, FAR_END, HOST, HOST6, PATIENCE, STACK, eventually, program, python, skip, tasuki_binary,
};

/// The instance at the other end of a wire.
const FAR: &str = "far";
/// How an instance is divided into processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Inet server and NIC driver apart.
    Split,
    /// Both in one.
    Fused,
    /// Both inside the program: one at a time.
    Library,
}

impl Mode {
    /// The mode that `TASUKI_TEST_MODE` names, or `split`. Tests use it that are not about a
    /// particular mode.
    ///
    /// # Panics
    /// When it names none.
    #[must_use]
    pub fn given() -> Self {
        let name = std::env::var("TASUKI_TEST_MODE").unwrap_or_else(|_| "split".to_owned());
        let all = [Self::Split, Self::Fused, Self::Library];
        let given = all.into_iter().find(|mode| mode.name() == name);
        given.unwrap_or_else(|| panic!("TASUKI_TEST_MODE={name}: split, fused or library"))
    }

    /// [`Mode::given`] for an instance that carries several programs at once, or none yet. In mode
    /// `library` it prints SKIP and returns `None`.
    #[must_use]
    pub fn shared() -> Option<Self> {
        let given = Self::given();
        if given == Self::Library {
            skip("mode `library` has one program at a time, and no stack before it");
            return None;
        }
        Some(given)
    }

    /// As the command line has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Fused => "fused",
            Self::Library => "library",
        }
    }
}

/// The link between the kernel's stack and Tasuki's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nic {
    /// A TAP device, which Tasuki makes.
    Tap,
    /// A virtual cable, whose far end ([`FAR_END`]) Tasuki has by a packet socket.
    Packet,
    /// The same, taken over by AF_XDP.
    Xdp,
    /// Shared memory, and at the other end of it a second instance of Tasuki.
    Wire,
}

impl Nic {
    const ALL: [Self; 4] = [Self::Tap, Self::Packet, Self::Xdp, Self::Wire];

    /// The kind, as the command line has it.
    fn kind(self) -> &'static str {
        match self {
            Self::Tap => "tap",
            Self::Packet => "packet",
            Self::Xdp => "xdp",
            Self::Wire => "wire",
        }
    }

    /// The link that TASUKI_TEST_NIC names, or `tap`.
    ///
    /// # Panics
    /// When that is none.
    #[must_use]
    pub fn given() -> Self {
        let kind = std::env::var("TASUKI_TEST_NIC").unwrap_or_else(|_| "tap".to_owned());
        let given = Self::ALL.into_iter().find(|nic| nic.kind() == kind);
        given.unwrap_or_else(|| panic!("TASUKI_TEST_NIC={kind}: not one of {:?}", Self::ALL))
    }
}

/// See the crate's documentation. When dropped, every process in it is killed.
pub struct World {
    holder: Child,
    directory: tempfile::TempDir,
    user: bool,
    python: String,
    nic: Nic,
    /// Its processes so far.
    seen: Mutex<BTreeSet<KernelProcess>>,
}

/// The shell program that runs in the new namespaces. It makes a private /run and names for both
/// hosts. Then it waits until its input ends. A query for any other name goes to the kernel's
/// address, where no DNS server listens. So no test waits for DNS.
const HOLD: &str = r#"
set -e
echo inside
mount -t tmpfs tmpfs /run
[ ! -e /etc/hosts ] || mount --bind "$1/hosts" /etc/hosts
[ -L /etc/resolv.conf ] || [ ! -e /etc/resolv.conf ] ||
    mount --bind "$1/resolv.conf" /etc/resolv.conf
ip link set lo up
echo ready
exec cat >/dev/null
"#;

impl World {
    /// A new world. Its device is [`Nic::Tap`], unless TASUKI_TEST_NIC names another. Without the
    /// rights for a world it prints SKIP and returns `None`.
    ///
    /// # Panics
    /// When the rights are there and it cannot be made.
    #[must_use]
    pub fn new() -> Option<Self> {
        Self::over(Nic::given())
    }

    /// A new world whose other host is the kernel's stack. Where TASUKI_TEST_NIC is `wire`, it
    /// prints SKIP and returns `None`.
    ///
    /// # Panics
    /// When the rights are there and it cannot be made.
    #[must_use]
    pub fn with_kernel() -> Option<Self> {
        if Nic::given() == Nic::Wire {
            skip("needs the kernel's stack at the other end, and over a wire that is Tasuki");
            return None;
        }
        Self::new()
    }

    /// A new world with this device.
    ///
    /// # Panics
    /// When the rights are there and it cannot be made.
    #[must_use]
    pub fn over(nic: Nic) -> Option<Self> {
        Self::over_with(nic, &[])
    }

    /// As [`World::new`]. Over a wire the instance at the other end has the options `far`.
    ///
    /// # Panics
    /// When the rights are there and it cannot be made.
    #[must_use]
    pub fn new_with(far: &[&str]) -> Option<Self> {
        Self::over_with(Nic::given(), far)
    }

    fn over_with(nic: Nic, far: &[&str]) -> Option<Self> {
        let tun = Path::new("/dev/net/tun");
        if fs::OpenOptions::new().read(true).write(true).open(tun).is_err() {
            skip("needs root (or access to /dev/net/tun and user namespaces)");
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let hosts = format!("127.0.0.1 localhost\n{HOST} host\n{STACK} stack {name}\n");
        fs::write(directory.path().join("hosts"), hosts).expect("a file in it");
        let resolver = format!("nameserver {HOST}\noptions timeout:1 attempts:1\n");
        fs::write(directory.path().join("resolv.conf"), resolver).expect("a file in it");
        let user = !rustix::process::geteuid().is_root();
        let mut unshare = Command::new("unshare");
        if user {
            unshare.args(["--user", "--map-root-user"]);
        }
        let mut holder = unshare
            .args(["--net", "--mount", "--propagation", "private", "sh", "-c", HOLD, "hold"])
            .arg(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare (util-linux) runs");
        let mut said = BufReader::new(holder.stdout.take().expect("it is piped")).lines();
        let mut next = || said.next().and_then(Result::ok).unwrap_or_default();
        let (inside, ready) = (next() == "inside", next() == "ready");
        if !inside {
            let _ = holder.kill();
            let _ = holder.wait();
            skip("needs root (no right to make namespaces)");
            return None;
        }
        let seen = Mutex::default();
        let world = Self { holder, directory, user, python: python(), nic, seen };
        assert!(ready, "the namespaces are made, but not their content: see the messages above");
        match nic {
            Nic::Tap => {}
            Nic::Packet | Nic::Xdp => world.lay_cable(),
            Nic::Wire => world.up_far(far),
        }
        Some(world)
    }

    /// Makes the virtual cable from [`DEVICE`], which has the kernel's addresses, to [`FAR_END`],
    /// which is Tasuki's end.
    ///
    /// # Panics
    /// When it cannot be laid.
    pub fn lay_cable(&self) {
        for line in [
            &format!("link add {DEVICE} type veth peer name {FAR_END}"),
            // The kernel's stack has no business there.
            &format!("link set {FAR_END} addrgenmode none"),
            &format!("link set {FAR_END} up"),
            &format!("link set {DEVICE} up"),
            &format!("addr add {HOST}/24 dev {DEVICE}"),
            // Tests expect the IPv6 address that Tasuki gives to the kernel's end of a TAP device
            // here too.
            &format!("addr add {HOST6}/64 dev {DEVICE} nodad"),
        ] {
            let words: Vec<_> = ["ip"].into_iter().chain(line.split(' ')).collect();
            let _ = Running::start(self.command(&words)).finish().success();
        }
        // With IPv6 the kernel would hear routers there, and send packets out of that end.
        let deaf = format!("net.ipv6.conf.{FAR_END}.disable_ipv6=1");
        let _ = Running::start(self.command(&["sysctl", "-qw", &deaf])).finish().success();
    }

    /// Sets whether the kernel's end of the cable leaves checksums and segmentation to the device.
    ///
    /// # Panics
    /// When ethtool does not.
    pub fn offloads(&self, on: bool) {
        let on = if on { "on" } else { "off" };
        let words = ["ethtool", "-K", DEVICE, "tx", on, "tso", on, "gso", on];
        let _ = self.run(&words).success();
    }

    /// The test's directory, the same for every program in this world.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// As [`World::path`], for command lines.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.path(name).to_str().expect("temporary directories have plain names").to_owned()
    }

    /// A program in this world, on the kernel's network.
    #[must_use]
    pub fn command<S: AsRef<str>>(&self, words: &[S]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder.id())).args(["--net", "--mount"]);
        if self.user {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg(format!("--wd={}", self.directory.path().display())).arg("--");
        // A shell starts background jobs with these signals ignored. Tests end programs by them.
        command.args(["env", "--default-signal=INT,QUIT"]);
        command.args(words.iter().map(AsRef::as_ref));
        command.stdin(Stdio::null()).env_remove("XDG_RUNTIME_DIR").env_remove("LD_PRELOAD");
        command.env("TASUKI_STATE", self.directory.path().join("state"));
        command
    }

    /// `tasuki WORDS…` in this world.
    #[must_use]
    pub fn tasuki<S: AsRef<str>>(&self, words: &[S]) -> Command {
        let binary = tasuki_binary();
        let mut command = self.command(&[binary.to_str().expect("a plain path")]);
        command.args(words.iter().map(AsRef::as_ref));
        command
    }

    /// A program on a private instance in this mode.
    #[must_use]
    pub fn on_stack<S: AsRef<str>>(&self, mode: Mode, words: &[S]) -> Command {
        self.on_stack_with(mode, &[], words)
    }

    /// As [`World::on_stack`], with more options for the instance.
    #[must_use]
    pub fn on_stack_with<S: AsRef<str>>(&self, mode: Mode, with: &[&str], words: &[S]) -> Command {
        let mut command = self.tasuki(&["run", "--mode", mode.name()]);
        command.args(self.instance()).args(with).arg("--").args(words.iter().map(AsRef::as_ref));
        command
    }

    /// A program on the running instance `net`.
    #[must_use]
    pub fn on_net<S: AsRef<str>>(&self, net: &str, words: &[S]) -> Command {
        let mut command = self.tasuki(&["run", "--net", net, "--"]);
        command.args(words.iter().map(AsRef::as_ref));
        command
    }

    /// Words for a Python program: the interpreter, unbuffered, then `words`.
    #[must_use]
    pub fn python(&self, words: &[&str]) -> Vec<String> {
        let mut all = vec![self.python.clone(), "-u".to_owned()];
        all.extend(words.iter().map(|word| (*word).to_owned()));
        all
    }

    /// Words for one of this crate's Python programs.
    #[must_use]
    pub fn script(&self, name: &str, words: &[&str]) -> Vec<String> {
        let mut all = self.python(&[&program(name)]);
        all.extend(words.iter().map(|word| (*word).to_owned()));
        all
    }

    /// Starts a program of the other host: the kernel's, or over a wire the other instance's.
    #[must_use]
    pub fn spawn<S: AsRef<str>>(&self, words: &[S]) -> Running {
        if self.nic != Nic::Wire {
            return Running::start(self.command(words));
        }
        // Without the filter: the program may be `tasuki up`, whose sockets configure the host.
        let mut command = self.tasuki(&["run", "--net", FAR, "--intercept", "preload", "--"]);
        command.args(words.iter().map(AsRef::as_ref));
        Running::start(command)
    }

    /// Runs a program of the other host to its end.
    #[must_use]
    pub fn run<S: AsRef<str>>(&self, words: &[S]) -> Finished {
        self.spawn(words).finish()
    }

    /// A Python HTTP server of the other host for the test's directory, ready, on port 8000.
    #[must_use]
    pub fn http_server(&self) -> Running {
        let server = self.spawn(&self.python(&["-m", "http.server", "8000"]));
        let _ = server.line("Serving HTTP");
        server
    }

    /// Starts the instance `net` in the background.
    ///
    /// # Panics
    /// When it does not start.
    pub fn up(&self, net: &str, mode: Mode, with: &[&str]) {
        self.up_by(&[], net, mode, with);
    }

    /// Starts the instance at the other end of the wire, which a world begins with.
    ///
    /// # Panics
    /// When it does not start.
    pub fn up_far(&self, with: &[&str]) {
        let address = format!("{HOST}/24");
        let words = ["up", "--nic", &self.device(), "--address", &address];
        let up = self.tasuki(&[&words[..], with, &[FAR]].concat());
        let _ = Running::start(up).finish().success();
    }

    /// As [`World::up`], by a command that runs the words behind it, such as prlimit(1).
    ///
    /// # Panics
    /// When it does not start.
    pub fn up_by(&self, by: &[&str], net: &str, mode: Mode, with: &[&str]) {
        let binary = tasuki_binary();
        let tasuki = binary.to_str().expect("a plain path");
        let mut command = self.command(&[by, &[tasuki, "up", "--mode", mode.name()]].concat());
        command.args(self.instance()).args(with).arg(net);
        let _ = Running::start(command).finish().success();
    }

    /// Ends the instance `net`.
    ///
    /// # Panics
    /// When it does not end in order.
    pub fn down(&self, net: &str) {
        let _ = Running::start(self.tasuki(&["down", net])).finish().success();
    }

    /// The output of `tasuki ps --json` for the instance `net`.
    ///
    /// # Panics
    /// When it says nothing of it.
    #[must_use]
    pub fn ps(&self, net: &str) -> InstanceStatus {
        let said = Running::start(self.tasuki(&["ps", "--json", net])).finish().success();
        let mut all: Vec<InstanceStatus> =
            serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert_eq!(all.len(), 1, "{said}");
        all.remove(0)
    }

    /// The value of a counter of the instance `net`.
    ///
    /// # Panics
    /// When there is no such counter.
    #[must_use]
    pub fn counter(&self, net: &str, name: &str) -> u64 {
        let counters = self.ps(net).counters;
        let found = counters.iter().find(|(counter, _)| counter == name);
        found.unwrap_or_else(|| panic!("no counter {name} in {counters:?}")).1
    }

    /// The output of `tasuki ss --json` for the instance `net`.
    ///
    /// # Panics
    /// When that is no such list.
    #[must_use]
    pub fn ss(&self, net: &str) -> Vec<SocketStatus> {
        let said = Running::start(self.tasuki(&["ss", "--json", "--net", net])).finish().success();
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    /// Waits until the instance `net` has the same memory pools as in `before`, with no fewer free
    /// pages.
    ///
    /// Or with as many as a driver of an instance at rest leaves free: `before` may be of an
    /// instance that has just begun, and has not yet given its driver all areas.
    ///
    /// # Panics
    /// When they do not become so.
    pub fn assert_pools_return(&self, net: &str, before: &[PoolStatus]) {
        let mut now = Vec::new();
        let returned = |now: &[PoolStatus]| {
            let same = |(was, is): (&PoolStatus, &PoolStatus)| {
                let rest = free_at_rest(is.pages).unwrap_or(is.pages);
                was.name == is.name && is.free >= was.free.min(rest)
            };
            before.len() == now.len() && before.iter().zip(now).all(same)
        };
        let begin = std::time::Instant::now();
        while !returned(&now) {
            assert!(begin.elapsed() < PATIENCE, "pages are lost: {before:?} became {now:?}");
            now = self.ps(net).pools;
        }
    }

    /// A path of this world's file tree, seen from outside.
    #[must_use]
    pub fn outside(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.holder.id()))
    }

    /// Asserts that Tasuki left no process, device or file. Before this call, programs that the
    /// test itself started on the other host must have ended.
    ///
    /// # Panics
    /// When something is left.
    pub fn assert_nothing_left(&self) {
        if self.nic == Nic::Wire {
            self.down(FAR);
        }
        eventually("every process has ended", || self.processes().is_empty());
        let links = Running::start(self.command(&["ip", "-o", "link"])).finish().success();
        // The loopback interface, and both ends of a cable.
        let before = if matches!(self.nic, Nic::Packet | Nic::Xdp) { 3 } else { 1 };
        assert_eq!(links.stdout.lines().count(), before, "a device is left: {links}");
        assert!(!links.stdout.contains("xdp"), "a program is left: {links}");
        let left: Vec<_> = fs::read_dir(self.outside("/run/tasuki"))
            .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
            .unwrap_or_default();
        // A log that is left says why.
        let said: Vec<_> = left.iter().map(|path| (path, fs::read_to_string(path).ok())).collect();
        assert!(said.is_empty(), "left in /run/tasuki: {said:?}");
    }

    /// The options that put an instance into this world.
    fn instance(&self) -> [String; 4] {
        let address = format!("{STACK}/24");
        ["--nic".into(), self.device(), "--address".into(), address]
    }

    /// The device of the instances, as the command line has it.
    fn device(&self) -> String {
        let target = match self.nic {
            Nic::Tap => DEVICE.to_owned(),
            Nic::Packet | Nic::Xdp => FAR_END.to_owned(),
            Nic::Wire => self.file("wire"),
        };
        format!("{}:{target}", self.nic.kind())
    }

    /// Every process of this world but its holder: those in its network, their children, and
    /// processes that were seen so before. (Servers have a network namespace of their own.)
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let Some(ours) = namespace(self.holder.id()) else { return Vec::new() };
        // They get killed at the end: never those of the namespace that the test itself is in.
        assert_ne!(
            Some(&ours),
            namespace(std::process::id()).as_ref(),
            "the world has a network namespace of its own"
        );
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = KernelProcess::all();
        all.retain(|process| process.pid != self.holder.id());
        let inside: Vec<u32> = all
            .iter()
            .map(|process| process.pid)
            .filter(|&pid| namespace(pid).as_ref() == Some(&ours))
            .collect();
        all.retain(|process| {
            [process.pid, process.parent].iter().any(|pid| inside.contains(pid))
                || seen.contains(process)
        });
        seen.extend(all.iter().copied());
        all.iter().map(|process| process.pid).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for pid in self.processes() {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // It may have ended already.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Free pages of a driver's pool of so many pages, when nothing goes on: the driver has half of its
/// stock, and one area for the next frame once it has looked for a frame. Where the kernel receives
/// into the pool, it may have the whole stock. `None`: no driver's pool is of this size.
fn free_at_rest(pages: u32) -> Option<u32> {
    let layouts = [NicLayout::new(false), NicLayout::new(true), NicLayout::for_umem()];
    let layout = layouts.into_iter().find(|layout| layout.pool.pages == pages)?;
    let areas = if layout.umem().is_some() { layout.stock } else { layout.stock / 2 + 1 };
    Some(pages - areas * u32::from(layout.area_pages))
}

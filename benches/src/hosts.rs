//! The hosts of a set-up: two namespaces with a veth pair for the kernel, one namespace with a TAP
//! for Tasuki and for each peer. With Tasuki at both ends it is one namespace with a wire, or with
//! two TAP devices on a bridge ([`BridgedPair`]). A user without rights has no namespace: the
//! server is on this host's loopback address, and passt and pasta lead there.
//!
//! Every name carries the process id. A drop removes everything, also after a failure or Ctrl-C
//! ([`CleanUp`]).

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use user::exit::{Code, Failure};

use crate::args::Congestion;
use crate::bridged::{BridgedPair, PairPlace};
use crate::cleanup::CleanUp;
use crate::default_congestion::set_default;
use crate::described;
use crate::running_server::RunningServer;
use crate::setup::{Build, Device, Role, Setup, Tasuki};
use crate::shell::sh;

/// Both ends of a set-up: their namespaces, devices and files. A drop removes everything, as does
/// the end of this process.
pub(crate) struct Ends {
    setup: Setup,
    role: Role,
    /// Namespace of the measured end, then of the other if that is another.
    namespaces: Vec<String>,
    programs: Programs,
    pinned: bool,
    /// Where two instances meet.
    wire: PathBuf,
    /// A configuration file with `[memory] share_frames`.
    sharing: PathBuf,
    /// The instances on a bridge.
    pair: Option<BridgedPair>,
    _clean_up: CleanUp,
}

/// A running server of measurements and how to start a client that reaches it.
pub(crate) struct Host {
    /// It ends before its namespace does.
    _server: RunningServer,
    ends: Ends,
    congestion: Congestion,
}

/// The programs that are measured beside this very program.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// The `tasuki` command.
    pub(crate) tasuki: PathBuf,
    /// The program of clients and servers that use the native API. It is linked to the same sources
    /// as `tasuki`. All other clients and servers are this very program.
    pub(crate) native: PathBuf,
    /// The folder of the peers' clients.
    pub(crate) peers: PathBuf,
    /// Distinguishes the namespaces of two builds of one set-up.
    pub(crate) build: Build,
}

impl Programs {
    /// The present build of Tasuki: this command, and this very program.
    pub(crate) fn new(tasuki: &Path, peers: &Path) -> Result<Self> {
        Ok(Self {
            tasuki: tasuki.to_owned(),
            native: std::env::current_exe()?,
            peers: peers.to_owned(),
            build: Build::New,
        })
    }

    /// The earlier build `tasuki`. The `tasuki-bench` beside it has the native API's ends.
    ///
    /// # Errors
    /// If it is not there, no build of tasuki, or has no shim to start programs with.
    pub(crate) fn earlier(tasuki: &Path, peers: &Path) -> Result<Self> {
        if !tasuki.is_file() {
            let sentence = format!(
                "the earlier build {} is not there: --before names its `tasuki`, built with \
                 `make build`",
                tasuki.display()
            );
            return Err(Failure::new(Code::NotFound, sentence).into());
        }
        let version = described::tasuki(tasuki)?;
        if !version.starts_with("tasuki ") {
            let sentence = format!(
                "{} is no build of tasuki: its --version says `{}`",
                tasuki.display(),
                version.lines().next().unwrap_or_default()
            );
            return Err(Failure::new(Code::Configuration, sentence).into());
        }
        // It is started in other directories as well.
        let tasuki = std::path::absolute(tasuki)?;
        let folder = tasuki.parent().unwrap_or(Path::new("/"));
        if !["", "../lib/tasuki"].iter().any(|at| folder.join(at).join(SHIM).is_file()) {
            let sentence = format!(
                "the earlier build {} has no {SHIM} beside it: copy that of the same build there",
                tasuki.display()
            );
            return Err(Failure::new(Code::NotFound, sentence).into());
        }
        let (native, peers) = (tasuki.with_file_name("tasuki-bench"), peers.to_owned());
        Ok(Self { tasuki, native, peers, build: Build::Before })
    }

    /// The program at the ends of a set-up.
    fn ends(&self, setup: Setup) -> Result<PathBuf> {
        let native = setup.tasuki().is_some_and(|tasuki| tasuki.native);
        let program = if native { self.native.clone() } else { std::env::current_exe()? };
        ensure!(program.exists(), "native set-ups need {}, which is not there", program.display());
        Ok(program)
    }
}

/// Starts `taskset` for one side: the measured end is on processor 0, the other on processor 1.
pub(crate) fn on_cpu(cpu: &str, pinned: bool) -> Command {
    if !pinned {
        return Command::new("env");
    }
    let mut command = Command::new("taskset");
    command.args(["-c", cpu]);
    command
}

/// What `tasuki run` puts before a program's libraries. It belongs to the build.
const SHIM: &str = "libtasuki_preload.so";
/// The server's port, in a namespace of its own.
const PORT: u16 = 5202;
/// How a program on a stack behind passt or pasta sees this host, and its own address.
const PASST_HOST: &str = "10.218.4.1";
const PASST_CLIENT: &str = "10.218.4.2";
/// Both ends of a veth pair, each in a namespace of its own.
const VETH: &str = "veth0";
/// The network of a bridge, and the server's address there.
const BRIDGE_NETWORK: &str = "10.218.3";
const BRIDGE_SERVER: &str = "10.218.3.2";
/// The server's address on a wire.
const WIRE_SERVER: &str = "10.218.2.1";
/// The device of a peer's stack, in a namespace of its own.
const PEER_TAP: &str = "tap0";

impl Ends {
    /// Makes the namespaces.
    pub(crate) fn new(setup: Setup, role: Role, from: &Programs, pinned: bool) -> Result<Self> {
        let letter = from.build.letter();
        let part = if role == Role::Client { "" } else { "s" };
        let tag = format!("tb{}{letter}{part}{}", std::process::id(), setup as u8);
        let count = if setup.on_veth() { 2 } else { usize::from(!setup.is_rootless()) };
        let namespaces: Vec<String> =
            ["a", "b"][..count].iter().map(|end| format!("{tag}{end}")).collect();
        let [wire, sharing] =
            ["wire", "toml"].map(|end| std::env::temp_dir().join(format!("{tag}.{end}")));
        let files = [wire.clone(), sharing.clone()];
        let _clean_up = CleanUp::new(&namespaces, &files)?;
        for name in &namespaces {
            sh(&format!("ip netns add {name} && ip -n {name} link set lo up"))?;
            // Each program on Tasuki has a new instance, with the same address: its connections
            // would find those of the one before in TIME-WAIT, and wait for a second SYN.
            sh(&format!("ip netns exec {name} sysctl -qw net.ipv4.tcp_max_tw_buckets=0"))?;
        }
        if let [a, b] = namespaces.as_slice() {
            make_veth(setup, [a, b])?;
        }
        if setup.is_peer() {
            make_tap(&namespaces[0])?;
        }
        std::fs::write(&sharing, "[memory]\nshare_frames = true\n")?;
        let programs = from.clone();
        let pair = None;
        let mut ends =
            Self { setup, role, namespaces, programs, pinned, wire, sharing, pair, _clean_up };
        if let Some(Tasuki { mode, device: Device::Bridge, .. }) = setup.tasuki() {
            let place =
                PairPlace { namespace: &ends.namespaces[0], tag: &tag, network: BRIDGE_NETWORK };
            let hosts =
                [ends.kernel_command(Role::Server, &[])?, ends.kernel_command(Role::Client, &[])?];
            ends.pair = Some(BridgedPair::new(&place, &ends.programs.tasuki, mode, hosts)?);
        }
        Ok(ends)
    }

    /// Whether the set-up's end is the client or the server.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// The set-up of these ends.
    pub(crate) fn setup(&self) -> Setup {
        self.setup
    }

    /// The set-up, its role if it is the server's, and the build if it is the earlier one.
    pub(crate) fn title(&self) -> String {
        let before = if self.programs.build == Build::Before { " (before)" } else { "" };
        let role = if self.role == Role::Server { " as server" } else { "" };
        format!("{:?}{role}{before}", self.setup)
    }

    /// How Tasuki runs at the server's or the client's end. `None`: the kernel is there.
    fn tasuki_at(&self, end: Role) -> Option<Tasuki> {
        let tasuki = self.setup.tasuki();
        tasuki.filter(|_| self.role == end || self.setup.is_tasuki_at_both_ends())
    }

    /// Is the server on Tasuki?
    pub(crate) fn serves_on_tasuki(&self) -> bool {
        self.setup.serves_on_tasuki(self.role)
    }

    /// Words that put a program at one end, on the stack there. `limits` come first, such as those
    /// of `prlimit`.
    pub(crate) fn command(&self, end: Role, limits: &[&str]) -> Result<Command> {
        let mut command = self.kernel_command(end, limits)?;
        if let Some(pair) = &self.pair {
            command.args(pair.words(end));
        } else if let Some(tasuki) = self.tasuki_at(end) {
            let address = match end {
                Role::Client => client_address(tasuki.device),
                Role::Server => self.server_address(),
            };
            let files = [&self.wire, &self.sharing];
            command.args(words(&self.programs.tasuki, tasuki, files, address));
        }
        Ok(command)
    }

    /// The same, but on the kernel's stack.
    fn kernel_command(&self, end: Role, limits: &[&str]) -> Result<Command> {
        let (cpu, place) = match self.role == end {
            true => ("0", self.namespaces.first()),
            false => ("1", self.namespaces.last()),
        };
        let mut command = on_cpu(cpu, self.pinned);
        command.args(limits);
        if let Some(place) = place {
            command.args(["ip", "netns", "exec", place]);
        } else if self.setup == Setup::Pasta && end == Role::Client {
            command.args(pasta());
        }
        Ok(command)
    }

    /// Words for a kernel program that reaches the server, and the server's address there.
    pub(crate) fn prober(&self) -> Result<(Command, &'static str)> {
        Ok(if self.serves_on_tasuki() {
            (self.kernel_command(Role::Client, &[])?, self.server_address())
        } else {
            (self.kernel_command(Role::Server, &[])?, "127.0.0.1")
        })
    }

    /// The server's port: on this host that of another run would be taken.
    fn port(&self) -> u16 {
        const EACH: u32 = 16;
        if !self.setup.is_rootless() {
            return PORT;
        }
        let of_build = std::process::id() % 400 * 2 + self.programs.build as u32;
        let place = of_build * EACH + self.setup as u32 % EACH;
        20_000 + u16::try_from(place).unwrap_or(0)
    }

    /// The server's address for clients.
    pub(crate) fn server_address(&self) -> &'static str {
        server_address(self.setup, self.role)
    }

    /// Gives the kernel's ends this congestion control, for sockets made from now on.
    pub(crate) fn set_congestion(&self, name: &str) -> Result<()> {
        for namespace in &self.namespaces {
            set_default(namespace, name)?;
        }
        Ok(())
    }
}

impl Host {
    /// Makes the namespaces and starts the server. All sockets of the kernel's ends have this
    /// congestion control: a machine's default may be BBR, which paces.
    pub(crate) fn new(
        setup: Setup,
        role: Role,
        programs: &Programs,
        congestion: &Congestion,
        pinned: bool,
    ) -> Result<Self> {
        let ends = Ends::new(setup, role, programs, pinned)?;
        ends.set_congestion(&congestion.congestion)?;
        let mut command = ends.command(Role::Server, &[])?;
        let host = if setup.is_rootless() { "127.0.0.1" } else { "0.0.0.0" };
        let bind = format!("{host}:{}", ends.port());
        command.arg(programs.ends(setup)?).args(["serve", "--bind", &bind]);
        match ends.tasuki_at(Role::Server) {
            None => command.args(["--congestion", &congestion.congestion]),
            Some(tasuki) => command.args(tasuki.native.then_some("--native")),
        };
        let _server = RunningServer::start(command, ends.serves_on_tasuki())?;
        Ok(Self { _server, ends, congestion: congestion.clone() })
    }

    /// The processors of client and server, if they are pinned ([`on_cpu`]).
    pub(crate) fn processors(&self) -> [usize; 2] {
        if self.ends.role == Role::Client { [0, 1] } else { [1, 0] }
    }

    /// The set-up of this host.
    pub(crate) fn setup(&self) -> Setup {
        self.ends.setup
    }

    /// Whether the set-up's end is the client or the server.
    pub(crate) fn role(&self) -> Role {
        self.ends.role
    }

    /// Which build of Tasuki runs here.
    pub(crate) fn build(&self) -> Build {
        self.ends.programs.build
    }

    /// The set-up, its role if it is the server's, and the build if it is the earlier one.
    pub(crate) fn title(&self) -> String {
        self.ends.title()
    }

    /// A command that runs this program with other words at the client's end. The server's address
    /// follows them.
    pub(crate) fn program(&self, words: &[&str]) -> Result<Command> {
        let mut command = self.ends.command(Role::Client, &[])?;
        let server = format!("{}:{}", self.ends.server_address(), self.ends.port());
        command.arg(std::env::current_exe()?).args(words).args(["--connect", &server]);
        Ok(command)
    }

    /// A command that runs this program's `client`, on the set-up's stack if that is its role.
    pub(crate) fn client(&self, arguments: &[String]) -> Result<Command> {
        let (setup, programs) = (self.ends.setup, &self.ends.programs);
        let mut command = self.ends.command(Role::Client, &[])?;
        if setup.is_peer() {
            command.args(peer_client(setup, &programs.peers)?);
        } else {
            command.arg(programs.ends(setup)?).arg("client");
            let tasuki = self.ends.tasuki_at(Role::Client);
            if tasuki.is_none() {
                command.args(["--congestion", &self.congestion.congestion]);
            }
            command.args(tasuki.filter(|tasuki| tasuki.native).map(|_| "--native"));
        }
        let (server, port) = (self.ends.server_address(), self.ends.port());
        command.args(["--connect", &format!("{server}:{port}")]).args(arguments);
        Ok(command)
    }
}

/// A peer's own program; `None`: it is a part of this one.
pub(crate) fn peer_program(setup: Setup) -> Option<&'static str> {
    match setup {
        Setup::Lwip => Some("tasuki-peer-lwip"),
        Setup::Gvisor => Some("tasuki-peer-gvisor"),
        _ => None,
    }
}

/// The words of a peer's client, which takes up the device that [`make_tap`] makes.
pub(crate) fn peer_client(setup: Setup, folder: &Path) -> Result<[OsString; 3]> {
    Ok(match peer_program(setup) {
        Some(program) => [folder.join(program).into(), "--tap".into(), PEER_TAP.into()],
        None => [
            std::env::current_exe()?.into(),
            "client".into(),
            format!("--smoltcp={PEER_TAP}").into(),
        ],
    })
}

/// The words before a program in a user's own namespace, which pasta connects to this host.
fn pasta() -> [&'static str; 10] {
    let (own, host) = (PASST_CLIENT, PASST_HOST);
    ["pasta", "--quiet", "--config-net", "-4", "-a", own, "-n24", "-g", host, "--"]
}

/// Does pasta work here?
///
/// # Errors
/// What it says, or that it is not there, or that it does not end.
pub(crate) fn try_pasta() -> Result<()> {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "5"]).args(pasta()).arg("true").process_group(0);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting `timeout` (coreutils)")?;
    let status = child.wait()?;
    // A child of a pasta that failed waits for it for ever.
    let group = Pid::from_child(&child);
    let _ = kill_process_group(group, Signal::KILL);
    let mut said = String::new();
    child.stderr.take().context("what pasta says")?.read_to_string(&mut said)?;
    // What it could not log comes first.
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    ensure!(status.success(), "{}", last.unwrap_or("it does not end"));
    Ok(())
}

/// The address of a client on Tasuki.
fn client_address(device: Device) -> &'static str {
    match device {
        Device::Wire => "10.218.2.2",
        Device::Veth(_) => "10.218.0.2",
        // Of the instance that a program joins.
        Device::Bridge => "10.218.3.3",
        Device::Tap { .. } => "10.218.1.2",
        Device::Passt => PASST_CLIENT,
    }
}

/// The address of the server, in the role of the set-up's end.
fn server_address(setup: Setup, role: Role) -> &'static str {
    match (setup.tasuki().map(|tasuki| tasuki.device), role) {
        (Some(Device::Wire), _) => WIRE_SERVER,
        (Some(Device::Bridge), _) => BRIDGE_SERVER,
        (Some(Device::Passt), _) => PASST_HOST,
        (None, _) if setup.is_rootless() => PASST_HOST,
        (Some(device), Role::Server) => client_address(device),
        (Some(Device::Veth(_)), Role::Client) => "10.218.0.1",
        (None, _) if setup == Setup::Loopback => "127.0.0.1",
        (None, Role::Client) if setup.is_kernel_on_veth() => "10.218.0.1",
        (None, Role::Server) => "10.218.0.2",
        (Some(Device::Tap { .. }) | None, Role::Client) => "10.218.1.1",
    }
}

/// The words before a program that put it on an instance of its own with this address.
fn words(
    command: &Path,
    tasuki: Tasuki,
    [wire, sharing]: [&PathBuf; 2],
    address: &str,
) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        vec![command.into(), "run".into(), "--mode".into(), tasuki.mode.into()];
    let mut add = |more: &[&str]| words.extend(more.iter().map(OsString::from));
    match tasuki.device {
        Device::Tap { offload } => {
            add(&["--offload", if offload { "on" } else { "off" }, "--gateway", "10.218.1.1"]);
        }
        Device::Veth(kind) => add(&["--offload", "off", "--nic", &format!("{kind}:{VETH}")]),
        Device::Wire => add(&["--nic", &format!("wire:{}", wire.display())]),
        Device::Passt => add(&["--nic", "passt:host", "--gateway", PASST_HOST]),
        // Programs join instances, whose words are elsewhere.
        Device::Bridge => {}
    }
    if tasuki.relayed {
        add(&["--intercept", "seccomp"]);
    }
    if tasuki.shared {
        add(&["--config", &sharing.to_string_lossy()]);
    }
    // All paths are of IPv4. An instance that looks for routers of IPv6 wakes up for that.
    add(&["--address", &format!("{address}/24"), "--ipv6", "off", "--"]);
    words
}

/// A veth pair between the client's namespace and the server's.
fn make_veth(setup: Setup, [a, b]: [&String; 2]) -> Result<()> {
    sh(&format!(
        "ip link add {VETH} netns {a} type veth peer name {VETH} netns {b} && \
         ip -n {a} link set {VETH} up && \
         ip -n {b} addr add 10.218.0.1/24 dev {VETH} && ip -n {b} link set {VETH} up"
    ))?;
    if setup.is_kernel_on_veth() {
        sh(&format!("ip -n {a} addr add 10.218.0.2/24 dev {VETH}"))?;
    }
    if setup != Setup::LinuxOn {
        for namespace in [a, b] {
            sh(&format!(
                "ip netns exec {namespace} ethtool -K {VETH} \
                 tso off gso off gro off tx off rx off >/dev/null"
            ))?;
        }
    }
    if setup == Setup::LinuxRps {
        // Masks of the processors that they are tied to.
        for (namespace, mask) in [(a, 1), (b, 2)] {
            let queue = format!("/sys/class/net/{VETH}/queues/rx-0/rps_cpus");
            sh(&format!("ip netns exec {namespace} sh -c 'echo {mask} > {queue}'"))?;
        }
    }
    Ok(())
}

/// The TAP device that a peer takes up, as Tasuki makes its own: host's address, queue length.
pub(crate) fn make_tap(namespace: &str) -> Result<()> {
    let ip = format!("ip -n {namespace}");
    sh(&format!(
        "{ip} tuntap add dev {PEER_TAP} mode tap && {ip} addr add 10.218.1.1/24 dev {PEER_TAP} && \
         {ip} link set {PEER_TAP} txqueuelen 16384 up"
    ))
}

//! The hosts of a set-up: two namespaces with a veth pair for the kernel, one namespace with a TAP
//! for Tasuki and for each peer.
//!
//! Every name carries the process id. A drop removes everything, also after a failure.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::args::Congestion;
use crate::setup::{Build, Device, Role, Setup, Tasuki};

/// A running server and how to start a client that reaches it.
pub(crate) struct Host {
    setup: Setup,
    role: Role,
    /// Namespace of the measured end, then of the other if that is another.
    namespaces: Vec<String>,
    server: Child,
    programs: Programs,
    congestion: Congestion,
    pinned: bool,
    /// Where two instances meet.
    wire: PathBuf,
    /// A configuration file with `[memory] share_frames`.
    sharing: PathBuf,
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

const PORT: u16 = 5202;
/// Both ends of a veth pair, each in a namespace of its own.
const VETH: &str = "veth0";
/// The server's address on a wire.
const WIRE_SERVER: &str = "10.218.2.1";
/// The device of a peer's stack, in a namespace of its own.
const PEER_TAP: &str = "tap0";

impl Host {
    /// Make the namespaces and start the server.
    pub(crate) fn new(
        setup: Setup,
        role: Role,
        programs: &Programs,
        congestion: &Congestion,
        pinned: bool,
    ) -> Result<Self> {
        let letter = if programs.build == Build::Before { "o" } else { "n" };
        let part = if role == Role::Client { "" } else { "s" };
        let tag = format!("tb{}{letter}{part}{}", std::process::id(), setup as u8);
        let mut names = vec![format!("{tag}a")];
        if setup.on_veth() {
            names.push(format!("{tag}b"));
        }
        for name in &names {
            sh(&format!("ip netns add {name} && ip -n {name} link set lo up"))?;
        }
        if let [a, b] = names.as_slice() {
            make_veth(setup, [a, b])?;
        }
        if setup.is_peer() {
            make_tap(&names[0])?;
        }
        let [wire, sharing] =
            ["wire", "toml"].map(|end| std::env::temp_dir().join(format!("{tag}.{end}")));
        std::fs::write(&sharing, "[memory]\nshare_frames = true\n")?;
        let (cpu, place) = match role {
            Role::Client => ("1", names.last()),
            Role::Server => ("0", names.first()),
        };
        let mut command = on_cpu(cpu, pinned);
        command.args(["ip", "netns", "exec", place.context("a namespace")?]);
        let tasuki = setup.tasuki();
        let tasuki = tasuki.filter(|it| role == Role::Server || it.device == Device::Wire);
        if let Some(tasuki) = tasuki {
            let address = server_address(setup, role);
            command.args(words(&programs.tasuki, tasuki, [&wire, &sharing], address));
        }
        command.arg(programs.ends(setup)?).args(["serve", "--bind", &format!("0.0.0.0:{PORT}")]);
        match tasuki {
            None => command.args(["--congestion", &congestion.congestion]),
            Some(tasuki) => command.args(tasuki.native.then_some("--native")),
        };
        let server = start_server(command)?;
        let (programs, congestion) = (programs.clone(), congestion.clone());
        let namespaces = names;
        Ok(Self { setup, role, namespaces, server, programs, congestion, pinned, wire, sharing })
    }

    /// The set-up of this host.
    pub(crate) fn setup(&self) -> Setup {
        self.setup
    }

    /// Whether the set-up's end is the client or the server.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Which build of Tasuki runs here.
    pub(crate) fn build(&self) -> Build {
        self.programs.build
    }

    /// The set-up, its role if it is the server's, and the build if it is the earlier one.
    pub(crate) fn title(&self) -> String {
        let before = if self.build() == Build::Before { " (before)" } else { "" };
        let role = if self.role == Role::Server { " as server" } else { "" };
        format!("{:?}{role}{before}", self.setup)
    }

    /// A command that runs this program's `client`, on the set-up's stack if that is its role.
    pub(crate) fn client(&self, arguments: &[String]) -> Result<Command> {
        let me = self.programs.ends(self.setup)?;
        let (cpu, place) = match self.role {
            Role::Client => ("0", self.namespaces.first()),
            Role::Server => ("1", self.namespaces.last()),
        };
        let mut command = on_cpu(cpu, self.pinned);
        command.args(["ip", "netns", "exec", place.context("a namespace")?]);
        let tasuki = self.setup.tasuki().filter(|_| self.role == Role::Client);
        if let Some(tasuki) = tasuki {
            let files = [&self.wire, &self.sharing];
            let ours = client_address(tasuki.device);
            command.args(words(&self.programs.tasuki, tasuki, files, ours));
        }
        match self.setup {
            Setup::Smoltcp => {
                command.arg(me).args(["client", "--smoltcp", PEER_TAP]);
            }
            Setup::Lwip | Setup::Gvisor => {
                let name = if self.setup == Setup::Lwip { "lwip" } else { "gvisor" };
                let peer = self.programs.peers.join(format!("tasuki-peer-{name}"));
                command.arg(peer).args(["--tap", PEER_TAP]);
            }
            _ => {
                command.arg(me).arg("client");
                if tasuki.is_none() {
                    command.args(["--congestion", &self.congestion.congestion]);
                }
                command.args(tasuki.filter(|tasuki| tasuki.native).map(|_| "--native"));
            }
        }
        let server = server_address(self.setup, self.role);
        command.args(["--connect", &format!("{server}:{PORT}")]).args(arguments);
        Ok(command)
    }

    /// The server's process is `tasuki run`?
    fn serves_on_tasuki(&self) -> bool {
        let tasuki = self.setup.tasuki();
        tasuki.is_some_and(|it| self.role == Role::Server || it.device == Device::Wire)
    }
}

/// The address of a client on Tasuki.
fn client_address(device: Device) -> &'static str {
    match device {
        Device::Wire => "10.218.2.2",
        Device::Veth(_) => "10.218.0.2",
        Device::Tap { .. } => "10.218.1.2",
    }
}

/// The address of the server, in the role of the set-up's end.
fn server_address(setup: Setup, role: Role) -> &'static str {
    match (setup.tasuki().map(|tasuki| tasuki.device), role) {
        (Some(Device::Wire), _) => WIRE_SERVER,
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
    }
    if tasuki.relayed {
        add(&["--intercept", "seccomp"]);
    }
    if tasuki.shared {
        add(&["--config", &sharing.to_string_lossy()]);
    }
    add(&["--address", &format!("{address}/24"), "--"]);
    words
}

impl Drop for Host {
    fn drop(&mut self) {
        // The server may be gone already; a namespace that is gone is the goal. `tasuki run` ends
        // its program and its servers on request.
        if self.serves_on_tasuki() {
            let _ = sh(&format!("kill {}", self.server.id()));
        } else {
            let _ = self.server.kill();
        }
        let _ = self.server.wait();
        let _ = std::fs::remove_file(&self.sharing);
        for name in &self.namespaces {
            let _ = sh(&format!("ip netns del {name}"));
        }
    }
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
fn make_tap(namespace: &str) -> Result<()> {
    let ip = format!("ip -n {namespace}");
    sh(&format!(
        "{ip} tuntap add dev {PEER_TAP} mode tap && {ip} addr add 10.218.1.1/24 dev {PEER_TAP} && \
         {ip} link set {PEER_TAP} txqueuelen 16384 up"
    ))
}

/// Starts the server, and waits until it listens.
fn start_server(mut command: Command) -> Result<Child> {
    let server = command.stdout(Stdio::piped()).spawn();
    let mut server = server.context("starting `ip netns exec`: is iproute2 installed?")?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().context("the server's output")?).read_line(&mut line)?;
    if line.is_empty() {
        bail!("the benchmark's server did not start: {command:?}");
    }
    Ok(server)
}

fn sh(script: &str) -> Result<()> {
    let output = Command::new("sh").args(["-c", script]).output()?;
    if !output.status.success() {
        bail!("`{script}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

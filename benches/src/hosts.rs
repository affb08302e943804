//! The set-ups: two namespaces with a veth pair for the kernel, one namespace with a TAP for
//! Tasuki and for each peer.
//!
//! Every name carries the process id, and everything is removed on drop, also after a failure.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Whose TCP the measured client uses.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Setup {
    /// The kernel's over veth, MTU 1500, all offloads off.
    LinuxOff,
    /// The kernel's over veth with its default offloads.
    LinuxOn,
    /// Tasuki over a TAP without offloads, one process each.
    SplitOff,
    /// The same, inet server and driver in one process.
    FusedOff,
    /// The same, inside the client.
    LibraryOff,
    /// Tasuki over a TAP with offloads, one process each.
    Split,
    /// The same, inet server and driver in one process.
    Fused,
    /// The same, inside the client.
    Library,
    /// Tasuki split, over a packet socket on the kernel's veth pair, all offloads off.
    Packet,
    /// Tasuki split, over AF_XDP on the kernel's veth pair, all offloads off.
    Xdp,
    /// The kernel's loopback interface.
    Loopback,
    /// Client and server both on Tasuki, with a wire between their instances; processes as split.
    WireSplit,
    /// The same, processes as fused.
    WireFused,
    /// The same, as library.
    WireLibrary,
    /// smoltcp, in the client's process.
    Smoltcp,
    /// lwIP as Debian packages it, in the client's process.
    Lwip,
    /// gVisor's netstack, in the client's process.
    Gvisor,
}

impl Setup {
    /// The kernel's and ours, in table order; the first is what ratios refer to.
    pub(crate) const ALL: [Setup; 8] = [
        Self::LinuxOff,
        Self::SplitOff,
        Self::FusedOff,
        Self::LibraryOff,
        Self::LinuxOn,
        Self::Split,
        Self::Fused,
        Self::Library,
    ];

    /// Over a veth pair, the other end of which is the server's?
    fn on_veth(self) -> bool {
        matches!(self, Self::LinuxOff | Self::LinuxOn | Self::Packet | Self::Xdp)
    }

    /// The mode of the instances on a wire.
    fn wire_mode(self) -> Option<&'static str> {
        match self {
            Self::WireSplit => Some("split"),
            Self::WireFused => Some("fused"),
            Self::WireLibrary => Some("library"),
            _ => None,
        }
    }

    /// Its column's head.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::LinuxOff => "Linux, offloads off",
            Self::LinuxOn => "Linux, offloads on",
            Self::SplitOff => "split, off",
            Self::FusedOff => "fused, off",
            Self::LibraryOff => "library, off",
            Self::Split => "split, on",
            Self::Fused => "fused, on",
            Self::Library => "library, on",
            Self::Packet => "split, packet",
            Self::Xdp => "split, xdp",
            Self::Loopback => "Linux loopback",
            Self::WireSplit => "Tasuki split, wire",
            Self::WireFused => "Tasuki fused, wire",
            Self::WireLibrary => "Tasuki library, wire",
            Self::Smoltcp => "smoltcp",
            Self::Lwip => "lwIP",
            Self::Gvisor => "gVisor netstack",
        }
    }
}

/// A running server and how to start a client that reaches it.
pub(crate) struct Host {
    setup: Setup,
    /// Namespace of the client, then of the server if that is another.
    namespaces: Vec<String>,
    server: Child,
    programs: Programs,
    pinned: bool,
    /// Where two instances meet.
    wire: PathBuf,
}

/// What is measured beside this very program.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// The `tasuki` command.
    pub(crate) tasuki: PathBuf,
    /// The folder of the peers' clients.
    pub(crate) peers: PathBuf,
}

/// Starts `taskset` for one side: the client's on processor 0, the server's on processor 1.
fn on_cpu(cpu: &str, pinned: bool) -> Command {
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
    pub(crate) fn new(setup: Setup, programs: &Programs, pinned: bool) -> Result<Self> {
        let tag = format!("tb{}{}", std::process::id(), setup as u8);
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
        if matches!(setup, Setup::Smoltcp | Setup::Lwip | Setup::Gvisor) {
            make_tap(&names[0])?;
        }
        let server_at = names.last().context("a namespace")?.clone();
        let wire = std::env::temp_dir().join(format!("{tag}.wire"));
        let on_stack = setup.wire_mode().map(|mode| {
            let nic = format!("wire:{}", wire.display());
            on_wire(&programs.tasuki, mode, &nic, WIRE_SERVER)
        });
        let server = start_server(&server_at, pinned, &on_stack.unwrap_or_default())?;
        Ok(Self { setup, namespaces: names, server, programs: programs.clone(), pinned, wire })
    }

    /// A command that runs this program's `client` on the set-up's stack.
    pub(crate) fn client(&self, arguments: &[String]) -> Result<Command> {
        let me = std::env::current_exe()?;
        let mut command = on_cpu("0", self.pinned);
        command.args(["ip", "netns", "exec", &self.namespaces[0]]);
        let mut server = "10.218.1.1";
        match self.setup {
            Setup::LinuxOff | Setup::LinuxOn => {
                server = "10.218.0.1";
                command.arg(me).arg("client");
            }
            Setup::Packet | Setup::Xdp => {
                server = "10.218.0.1";
                let kind = if self.setup == Setup::Packet { "packet" } else { "xdp" };
                command.arg(&self.programs.tasuki).args(["run", "--offload", "off"]);
                command.args(["--nic", &format!("{kind}:{VETH}"), "--address", "10.218.0.2/24"]);
                command.arg("--").arg(me).arg("client");
            }
            Setup::SplitOff | Setup::Split => self.on_tap(&mut command, "split", &me),
            Setup::FusedOff | Setup::Fused => self.on_tap(&mut command, "fused", &me),
            Setup::LibraryOff | Setup::Library => self.on_tap(&mut command, "library", &me),
            Setup::Loopback => {
                server = "127.0.0.1";
                command.arg(me).arg("client");
            }
            Setup::WireSplit | Setup::WireFused | Setup::WireLibrary => {
                server = WIRE_SERVER;
                let nic = format!("wire:{}", self.wire.display());
                let mode = self.setup.wire_mode().unwrap_or_default();
                command.args(on_wire(&self.programs.tasuki, mode, &nic, "10.218.2.2"));
                command.arg(me).arg("client");
            }
            Setup::Smoltcp => {
                command.arg(me).args(["client", "--smoltcp", PEER_TAP]);
            }
            Setup::Lwip | Setup::Gvisor => {
                let name = if self.setup == Setup::Lwip { "lwip" } else { "gvisor" };
                let peer = self.programs.peers.join(format!("tasuki-peer-{name}"));
                command.arg(peer).args(["--tap", PEER_TAP]);
            }
        }
        command.args(["--connect", &format!("{server}:{PORT}")]).args(arguments);
        Ok(command)
    }
}

impl Host {
    /// The words that run the client `me` on Tasuki over a TAP device.
    fn on_tap(&self, command: &mut Command, mode: &str, me: &Path) {
        let off = [Setup::SplitOff, Setup::FusedOff, Setup::LibraryOff].contains(&self.setup);
        let offload = if off { "off" } else { "on" };
        command.arg(&self.programs.tasuki).args(["run", "--mode", mode, "--offload", offload]);
        command.args(["--address", "10.218.1.2/24", "--gateway", "10.218.1.1", "--"]);
        command.arg(me).arg("client");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The server may be gone already; a namespace that is gone is what we want. `tasuki run`
        // ends its program and its servers when it is asked to.
        if self.setup.wire_mode().is_some() {
            let _ = sh(&format!("kill {}", self.server.id()));
        } else {
            let _ = self.server.kill();
        }
        let _ = self.server.wait();
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
    if matches!(setup, Setup::LinuxOff | Setup::LinuxOn) {
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

/// The words before a program that put it on an instance at one end of a wire.
fn on_wire(tasuki: &Path, mode: &str, nic: &str, address: &str) -> Vec<OsString> {
    let cidr = format!("{address}/24");
    let words = ["run", "--mode", mode, "--nic", nic, "--address", &cidr, "--"];
    [tasuki.into()].into_iter().chain(words.map(OsString::from)).collect()
}

fn start_server(namespace: &str, pinned: bool, on_stack: &[OsString]) -> Result<Child> {
    let mut server = on_cpu("1", pinned)
        .args(["ip", "netns", "exec", namespace])
        .args(on_stack)
        .arg(std::env::current_exe()?)
        .args(["serve", "--bind", &format!("0.0.0.0:{PORT}")])
        .stdout(Stdio::piped())
        .spawn()
        .context("starting `ip netns exec`: is iproute2 installed?")?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().context("the server's output")?).read_line(&mut line)?;
    if line.is_empty() {
        bail!("the benchmark's server did not start in namespace {namespace}");
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

//! The set-ups: two namespaces with a veth pair for the kernel, one namespace with a TAP for
//! Tasuki.
//!
//! Every name carries the process id, and everything is removed on drop, also after a failure.

use std::io::{BufRead, BufReader};
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
    /// Tasuki, one process each.
    Split,
    /// Tasuki, inet server and driver in one process.
    Fused,
}

impl Setup {
    /// All, in table order; the first is what ratios refer to.
    pub(crate) const ALL: [Setup; 4] = [Self::LinuxOff, Self::LinuxOn, Self::Split, Self::Fused];

    /// Its column's head.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::LinuxOff => "Linux, offloads off",
            Self::LinuxOn => "Linux, offloads on",
            Self::Split => "Tasuki split",
            Self::Fused => "Tasuki fused",
        }
    }
}

/// A running server and how to start a client that reaches it.
pub(crate) struct Host {
    setup: Setup,
    /// Namespace of the client, then of the server if that is another.
    namespaces: Vec<String>,
    server: Child,
    tasuki: String,
    pinned: bool,
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

impl Host {
    /// Make the namespaces and start the server.
    pub(crate) fn new(setup: Setup, tasuki: &str, pinned: bool) -> Result<Self> {
        let tag = format!("tb{}{}", std::process::id(), setup as u8);
        let mut names = vec![format!("{tag}a")];
        if matches!(setup, Setup::LinuxOff | Setup::LinuxOn) {
            names.push(format!("{tag}b"));
        }
        for name in &names {
            sh(&format!("ip netns add {name} && ip -n {name} link set lo up"))?;
        }
        if let [a, b] = names.as_slice() {
            let (near, far) = (format!("{tag}x"), format!("{tag}y"));
            sh(&format!(
                "ip link add {near} netns {a} type veth peer name {far} netns {b} && \
                 ip -n {a} addr add 10.218.0.2/24 dev {near} && ip -n {a} link set {near} up && \
                 ip -n {b} addr add 10.218.0.1/24 dev {far} && ip -n {b} link set {far} up"
            ))?;
            if setup == Setup::LinuxOff {
                for (namespace, device) in [(a, &near), (b, &far)] {
                    sh(&format!(
                        "ip netns exec {namespace} ethtool -K {device} \
                         tso off gso off gro off tx off rx off >/dev/null"
                    ))?;
                }
            }
        }
        let server_at = names.last().context("a namespace")?.clone();
        let server = start_server(&server_at, pinned)?;
        Ok(Self { setup, namespaces: names, server, tasuki: tasuki.to_owned(), pinned })
    }

    /// A command that runs this program's `client` on the set-up's stack.
    pub(crate) fn client(&self, arguments: &[String]) -> Result<Command> {
        let me = std::env::current_exe()?;
        let mut command = on_cpu("0", self.pinned);
        command.args(["ip", "netns", "exec", &self.namespaces[0]]);
        let server = match self.setup {
            Setup::LinuxOff | Setup::LinuxOn => "10.218.0.1",
            Setup::Split | Setup::Fused => {
                let mode = if self.setup == Setup::Split { "split" } else { "fused" };
                command.args([&self.tasuki, "run", "--mode", mode]);
                command.args(["--address", "10.218.1.2/24", "--gateway", "10.218.1.1", "--"]);
                "10.218.1.1"
            }
        };
        command.arg(me).args(["client", "--connect", &format!("{server}:{PORT}")]).args(arguments);
        Ok(command)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The server may be gone already; a namespace that is gone is what we want.
        let _ = self.server.kill();
        let _ = self.server.wait();
        for name in &self.namespaces {
            let _ = sh(&format!("ip netns del {name}"));
        }
    }
}

fn start_server(namespace: &str, pinned: bool) -> Result<Child> {
    let mut server = on_cpu("1", pinned)
        .args(["ip", "netns", "exec", namespace])
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

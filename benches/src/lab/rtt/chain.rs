//! The path: a sender's host, so many gateways, a receiver's host, each a network namespace.
//!
//! ```text
//! kernel's sender   10.218.10.0/24   gateway 1   10.218.11.0/24   …   receiver
//!     N0 ────────── veth ─────────── N1 ──────── veth ─────────── … ── N(n+1)
//!                                    │
//!     Tasuki's sender ── TAP ────────┘    10.218.9.0/24
//! ```
//!
//! Tasuki's receivers are behind TAP devices of the last host before the kernel's receiver, each
//! with a network of its own: 10.218.30.0/24, 10.218.31.0/24 and so on.
//!
//! Tasuki's sender is behind a TAP device of the first host behind the kernel's sender. So both
//! pass the same gateways, and a link of their own before them. In the same way a receiver of
//! Tasuki's has a link of its own behind them. All gateways forward by the
//! kernel: an instance of Tasuki forwards nothing, and a wire joins two instances and no more.
//!
//! Each end has a processor of its own, if there are two. The devices keep their default offloads.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lab::plan::LabSetup;

use super::power::PowerGroups;
use crate::cleanup::CleanUp;
use crate::hosts::sh;
use crate::machine::processors;

const PORT: u16 = 5202;
/// Interfaces of a namespace towards the receiver and towards the sender.
const RIGHT: &str = "right";
const LEFT: &str = "left";
/// The network of Tasuki's TAP device: the stack's address, and the kernel's.
const STACK: &str = "10.218.9.2/24";
const BESIDE: &str = "10.218.9.1";
/// The limited link, bits a second, and how long its queue may be.
const LINK: u64 = 100_000_000;
const QUEUE: &str = "burst 16kb latency 20ms";
/// The networks of Tasuki's receivers, by their third number.
const RECEIVERS: usize = 30;
/// How long others send before a sample, so that their queue is there.
const BEFORE: Duration = Duration::from_millis(50);

/// Where the sockets of an end are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hosting {
    Kernel,
    /// On an instance of this mode.
    Tasuki(&'static str),
}

impl Hosting {
    /// As the figures name it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Kernel => "Linux",
            Self::Tasuki(mode) => mode,
        }
    }
}

impl From<LabSetup> for Hosting {
    fn from(setup: LabSetup) -> Self {
        match setup {
            LabSetup::Linux => Self::Kernel,
            LabSetup::Split => Self::Tasuki("split"),
            LabSetup::Fused => Self::Tasuki("fused"),
            LabSetup::Library => Self::Tasuki("library"),
        }
    }
}

/// See the module.
pub(super) struct Chain {
    namespaces: Vec<String>,
    tasuki: PathBuf,
    processors: [usize; 2],
    /// By where they are: the program, its address, and the device towards it.
    receivers: BTreeMap<Hosting, RunningReceiver>,
    _clean_up: CleanUp,
}

/// A program that receives.
struct RunningReceiver {
    program: Child,
    address: String,
    /// Of the host before it.
    device: String,
}

impl Chain {
    /// Makes the path.
    pub(super) fn new(gateways: u32, tasuki: &Path) -> Result<Self> {
        let tag = format!("tl{}g{gateways}", std::process::id());
        let namespaces: Vec<String> = (0..gateways + 2).map(|at| format!("{tag}n{at}")).collect();
        let _clean_up = CleanUp::new(&namespaces, &[])?;
        sh(&script(&namespaces))?;
        let all = processors()?;
        let here = *all.first().context("a processor")?;
        let processors = [here, all.get(1).copied().unwrap_or(here)];
        let (tasuki, receivers) = (tasuki.to_owned(), BTreeMap::new());
        Ok(Self { namespaces, tasuki, processors, receivers, _clean_up })
    }

    /// Starts the receiver at such an end, unless it is there.
    pub(super) fn receive_on(&mut self, to: Hosting, power: Option<&PowerGroups>) -> Result<()> {
        if self.receivers.contains_key(&to) {
            return Ok(());
        }
        let [.., before, last] = &self.namespaces[..] else { bail!("a path has two ends") };
        let mut command = bounded(power.map(|power| power.procs(1)), self.processors[1]);
        command.args(["ip", "netns", "exec"]);
        let (address, device) = match to {
            Hosting::Kernel => {
                command.arg(last);
                (format!("10.218.{}.2", 8 + self.namespaces.len()), RIGHT.to_owned())
            }
            Hosting::Tasuki(mode) => {
                let network = format!("10.218.{}", RECEIVERS + self.receivers.len());
                let device = format!("to-{mode}");
                command.arg(before).arg(&self.tasuki).args(["run", "--mode", mode]);
                command.args(["--ipv6", "off", "--address", &format!("{network}.2/24")]);
                command.args(["--nic", &format!("tap:{device}")]);
                command.args(["--gateway", &format!("{network}.1"), "--"]);
                (format!("{network}.2"), device)
            }
        };
        command.arg(std::env::current_exe()?);
        command.args(["serve", "--bind", &format!("0.0.0.0:{PORT}")]);
        let program = command.stdout(Stdio::piped()).spawn().context("starting the receiver")?;
        let running = self.receivers.entry(to).or_insert(RunningReceiver {
            program,
            address: format!("{address}:{PORT}"),
            device,
        });
        let mut line = String::new();
        let output = running.program.stdout.as_mut().context("the receiver's output")?;
        BufReader::new(output).read_line(&mut line)?;
        ensure!(!line.is_empty(), "the receiver did not start");
        Ok(())
    }

    /// Those of sender and receiver.
    pub(super) fn processors(&self) -> [usize; 2] {
        self.processors
    }

    fn receiver(&self, to: Hosting) -> Result<&RunningReceiver> {
        self.receivers.get(&to).context("a receiver")
    }

    /// The sender, with these words behind `client`.
    pub(super) fn client(
        &self,
        (from, to): (Hosting, Hosting),
        power: Option<&PowerGroups>,
        words: &[String],
    ) -> Result<Command> {
        let mut command = bounded(power.map(|power| power.procs(0)), self.processors[0]);
        command.args(["ip", "netns", "exec"]);
        match from {
            Hosting::Kernel => {
                command.arg(&self.namespaces[0]);
            }
            Hosting::Tasuki(mode) => {
                command.arg(&self.namespaces[1]).arg(&self.tasuki);
                command.args(["run", "--mode", mode, "--ipv6", "off", "--address", STACK]);
                command.args(["--gateway", BESIDE, "--"]);
            }
        }
        command.arg(std::env::current_exe()?).args([
            "client",
            "--connect",
            &self.receiver(to)?.address,
        ]);
        command.args(words);
        Ok(command)
    }

    /// Limits the link to the receiver, and has the last gateway send datagrams over it.
    pub(super) fn limited(&self, to: Hosting, percent: u32) -> Result<LimitedLink> {
        let [.., gateway, _] = &self.namespaces[..] else { bail!("a path has two ends") };
        let RunningReceiver { address, device, .. } = self.receiver(to)?;
        let limit = format!("tbf rate {LINK}bit {QUEUE}");
        sh(&format!("ip netns exec {gateway} tc qdisc replace dev {device} root {limit}"))?;
        let mut link =
            LimitedLink { gateway: gateway.clone(), device: device.clone(), others: None };
        if percent > 0 {
            let rate = LINK / 8 * u64::from(percent) / 100;
            let mut command = Command::new("ip");
            command.args(["netns", "exec", gateway]).arg(std::env::current_exe()?);
            command.args(["background", "--connect", address]);
            command.args(["--rate", &rate.to_string()]);
            link.others = Some(command.spawn().context("starting other datagrams")?);
            sleep(BEFORE);
        }
        Ok(link)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for (hosting, RunningReceiver { program, .. }) in &mut self.receivers {
            // It may have ended already. `tasuki run` ends its program and its servers on request.
            let _ = match hosting {
                Hosting::Kernel => program.kill().map_err(Into::into),
                Hosting::Tasuki(_) => sh(&format!("kill {}", program.id())),
            };
            let _ = program.wait();
        }
    }
}

/// A link that is limited as long as this lives.
pub(super) struct LimitedLink {
    gateway: String,
    device: String,
    others: Option<Child>,
}

impl Drop for LimitedLink {
    fn drop(&mut self) {
        if let Some(others) = &mut self.others {
            // It may have ended already.
            let _ = others.kill();
            let _ = others.wait();
        }
        // The namespace may be gone.
        let _ =
            sh(&format!("ip netns exec {} tc qdisc del dev {} root", self.gateway, self.device));
    }
}

/// A command of one host: on its processor, and in its control group if there is one.
pub(crate) fn bounded(procs: Option<PathBuf>, processor: usize) -> Command {
    let mut command = match procs {
        Some(procs) => {
            let mut command = Command::new("sh");
            command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(procs).arg("taskset");
            command
        }
        None => Command::new("taskset"),
    };
    command.args(["-c", &processor.to_string()]);
    command
}

/// Makes namespaces, links, addresses and routes.
fn script(namespaces: &[String]) -> String {
    let last = namespaces.len() - 1;
    let mut lines = Vec::new();
    for name in namespaces {
        lines.push(format!("ip netns add {name} && ip -n {name} link set lo up"));
    }
    for (at, pair) in namespaces.windows(2).enumerate() {
        let [a, b] = pair else { continue };
        let network = 10 + at;
        lines.push(format!(
            "ip link add {RIGHT} netns {a} type veth peer name {LEFT} netns {b} && \
             ip -n {a} addr add 10.218.{network}.1/24 dev {RIGHT} && \
             ip -n {b} addr add 10.218.{network}.2/24 dev {LEFT} && \
             ip -n {a} link set {RIGHT} up && ip -n {b} link set {LEFT} up"
        ));
    }
    for (at, name) in namespaces.iter().enumerate() {
        let back = 9 + at;
        if at < last {
            lines.push(format!("ip -n {name} route add default via 10.218.{}.2", 10 + at));
        } else if at > 1 {
            lines.push(format!("ip -n {name} route add default via 10.218.{back}.1"));
        }
        if at > 0 && at < last {
            lines.push(format!("ip netns exec {name} sysctl -qw net.ipv4.ip_forward=1"));
            let before: Vec<usize> = if at > 1 { (9..back).collect() } else { Vec::new() };
            lines.extend(before.iter().map(|network| {
                format!("ip -n {name} route add 10.218.{network}.0/24 via 10.218.{back}.1")
            }));
        }
    }
    lines.join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_know_both_directions() {
        let names: Vec<String> = (0..4).map(|at| format!("n{at}")).collect();
        let script = script(&names);
        for part in [
            "ip -n n0 route add default via 10.218.10.2",
            "ip -n n1 route add default via 10.218.11.2",
            "ip -n n2 route add 10.218.9.0/24 via 10.218.11.1",
            "ip -n n2 route add 10.218.10.0/24 via 10.218.11.1",
            "ip -n n3 route add default via 10.218.12.1",
        ] {
            assert!(script.contains(part), "{part}\n{script}");
        }
        assert_eq!(script.matches("ip_forward=1").count(), 2);
        assert!(!script.contains("n1 route add 10.218"), "{script}");
    }
}

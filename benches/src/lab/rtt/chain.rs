//! The path: a sender's host, so many gateways, a receiver's host, each a network namespace.
//!
//! ```text
//! kernel's sender   10.218.10.0/24   gateway 1   10.218.11.0/24   …   receiver
//!     N0 ────────── veth ─────────── N1 ──────── veth ─────────── … ── N(n+1)
//!                                    │
//!     Tasuki's sender ── TAP ────────┤    10.218.9.0/24
//!     a peer's sender ── TAP ────────┘    10.218.1.0/24
//! ```
//!
//! Tasuki's receivers are behind TAP devices of the last host before the kernel's receiver, each
//! with a network of its own: 10.218.30.0/24, 10.218.31.0/24 and so on.
//!
//! Tasuki's sender is behind a TAP device of the first host behind the kernel's sender. So both
//! pass the same gateways, and a link of their own before them. In the same way a receiver of
//! Tasuki's has a link of its own behind them. Other stacks are where Tasuki's sender is, on a TAP
//! device without offloads: the only one that all of them can use. All gateways forward by the
//! kernel: an instance of Tasuki forwards nothing.
//!
//! With Tasuki at both ends a host that routes between their TAP devices would be a gateway. So
//! without any gateway the two devices are ports of a bridge in N0 ([`BridgedPair`]). Each mode has
//! a network of its own: 10.218.40.0/24, 10.218.41.0/24 and so on. In further set-ups a wire joins
//! two instances: memory that both map, and nothing of the kernel's network between them.
//!
//! Each end has a processor of its own, if there are two. The devices keep their default offloads.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::ends::{Hosting, TripEnds};
use super::power::PowerGroups;
use crate::bridged::{BridgedPair, PairPlace};
use crate::cleanup::CleanUp;
use crate::hosts::{Programs, make_tap, peer_client};
use crate::machine::processors;
use crate::running_server::RunningServer;
use crate::setup::Role;
use crate::shell::sh;

const PORT: u16 = 5202;
/// Interfaces of a namespace towards the receiver and towards the sender.
const RIGHT: &str = "right";
const LEFT: &str = "left";
/// The network of Tasuki's TAP device: the stack's address, and the kernel's.
const STACK: &str = "10.218.9.2";
const BESIDE: &str = "10.218.9.1";
/// The limited link, bits a second, and how long its queue may be.
const LINK: u64 = 100_000_000;
const QUEUE: &str = "burst 16kb latency 20ms";
/// The networks of Tasuki's receivers and of bridges, by their third number.
const RECEIVERS: usize = 30;
const BRIDGES: usize = 40;
/// The ends of a wire.
const WIRED_RECEIVER: &str = "10.218.2.1";
const WIRED_SENDER: &str = "10.218.2.2";
/// The modes of which there may be wires.
const MODES: [&str; 3] = ["split", "fused", "library"];
/// How long others send before a sample, so that their queue is there.
const BEFORE: Duration = Duration::from_millis(50);

/// How a receiver is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReceiverLink {
    /// By the gateways, if there are any.
    Routed,
    /// By a bridge, from the sender of the same mode.
    Bridged,
    /// By a wire, from the sender of the same mode.
    Wired,
}

/// See the module.
pub(super) struct Chain {
    /// What their names begin with.
    tag: String,
    namespaces: Vec<String>,
    programs: Programs,
    processors: [usize; 2],
    receivers: BTreeMap<(Hosting, ReceiverLink), RunningReceiver>,
    /// Is there a device for other stacks?
    has_peer_tap: bool,
    _clean_up: CleanUp,
}

/// A program that receives.
struct RunningReceiver {
    /// It ends before the instances on a bridge do.
    _server: RunningServer,
    address: String,
    /// Towards it, of the host before it.
    device: String,
    /// Its instance and the sender's, on a bridge.
    pair: Option<BridgedPair>,
}

impl Chain {
    /// Makes the path.
    pub(super) fn new(gateways: u32, programs: &Programs) -> Result<Self> {
        let tag = format!("tl{}{}g{gateways}", std::process::id(), programs.build.letter());
        let namespaces: Vec<String> = (0..gateways + 2).map(|at| format!("{tag}n{at}")).collect();
        let _clean_up = CleanUp::new(&namespaces, &MODES.map(|mode| wire(&tag, mode)))?;
        sh(&script(&namespaces))?;
        let all = processors()?;
        let here = *all.first().context("a processor")?;
        let processors = [here, all.get(1).copied().unwrap_or(here)];
        let (programs, receivers) = (programs.clone(), BTreeMap::new());
        let has_peer_tap = false;
        Ok(Self { tag, namespaces, programs, processors, receivers, has_peer_tap, _clean_up })
    }

    /// Ends the receivers on Tasuki. Others start when they are needed.
    pub(super) fn renew(&mut self) {
        self.receivers.retain(|(hosting, _), _| !matches!(hosting, Hosting::Tasuki(_)));
    }

    /// How these ends meet.
    fn link(&self, ends: TripEnds) -> ReceiverLink {
        match (ends.from, ends.to) {
            _ if ends.by_wire => ReceiverLink::Wired,
            (Hosting::Tasuki(_), Hosting::Tasuki(_)) if self.namespaces.len() == 2 => {
                ReceiverLink::Bridged
            }
            _ => ReceiverLink::Routed,
        }
    }

    /// A command of an end in a namespace.
    fn host(&self, end: Role, power: Option<&PowerGroups>, namespace: &str) -> Command {
        let at = usize::from(end == Role::Server);
        let mut command = bounded(power.map(|power| power.procs(at)), self.processors[at]);
        command.args(["ip", "netns", "exec", namespace]);
        command
    }

    /// Makes what such ends need, unless it is there: the receiver, and a peer's device.
    pub(super) fn prepare(&mut self, ends: TripEnds, power: Option<&PowerGroups>) -> Result<()> {
        if matches!(ends.from, Hosting::Peer(_)) && !self.has_peer_tap {
            make_tap(&self.namespaces[1])?;
            self.has_peer_tap = true;
        }
        self.receive_on(ends, power)
    }

    fn receive_on(&mut self, ends: TripEnds, power: Option<&PowerGroups>) -> Result<()> {
        let key = (ends.to, self.link(ends));
        if self.receivers.contains_key(&key) {
            return Ok(());
        }
        let [.., before, last] = &self.namespaces[..] else { bail!("a path has two ends") };
        let (mut device, mut pair) = (RIGHT.to_owned(), None);
        let (mut command, address) = match key {
            (Hosting::Tasuki(mode), ReceiverLink::Bridged) => {
                let made = self.bridged(mode, before, power)?;
                let mut command = self.host(Role::Server, power, before);
                command.args(made.words(Role::Server));
                let address = made.server().to_owned();
                pair = Some(made);
                (command, address)
            }
            (Hosting::Tasuki(mode), ReceiverLink::Routed) => {
                let network = format!("10.218.{}", RECEIVERS + self.receivers.len());
                device = format!("to-{mode}");
                let mut command = self.host(Role::Server, power, before);
                let (nic, gateway) = (format!("tap:{device}"), format!("{network}.1"));
                let words = ["--nic", &nic[..], "--gateway", &gateway];
                command.args(self.instance(mode, &format!("{network}.2"), &words));
                (command, format!("{network}.2"))
            }
            (Hosting::Tasuki(mode), ReceiverLink::Wired) => {
                let mut command = self.host(Role::Server, power, last);
                command.args(self.wired(mode, WIRED_RECEIVER));
                (command, WIRED_RECEIVER.to_owned())
            }
            (Hosting::Kernel | Hosting::Peer(_), _) => {
                let address = format!("10.218.{}.2", 8 + self.namespaces.len());
                (self.host(Role::Server, power, last), address)
            }
        };
        command.arg(std::env::current_exe()?);
        command.args(["serve", "--bind", &format!("0.0.0.0:{PORT}")]);
        let _server = RunningServer::start(command, matches!(ends.to, Hosting::Tasuki(_)))?;
        let address = format!("{address}:{PORT}");
        self.receivers.insert(key, RunningReceiver { _server, address, device, pair });
        Ok(())
    }

    /// Words that put a program onto an instance of its own.
    fn instance(&self, mode: &str, address: &str, more: &[&str]) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![(&self.programs.tasuki).into()];
        let address = format!("{address}/24");
        let own = ["run", "--mode", mode, "--ipv6", "off", "--address", &address];
        words.extend(own.iter().chain(more).chain(&["--"]).map(OsString::from));
        words
    }

    /// The same, at an end of a wire.
    fn wired(&self, mode: &str, address: &str) -> Vec<OsString> {
        let nic = format!("wire:{}", wire(&self.tag, mode).display());
        self.instance(mode, address, &["--nic", &nic])
    }

    /// Instances of both ends on a bridge.
    fn bridged(
        &self,
        mode: &str,
        namespace: &str,
        power: Option<&PowerGroups>,
    ) -> Result<BridgedPair> {
        let network = format!("10.218.{}", BRIDGES + self.receivers.len());
        let place = PairPlace { namespace, tag: &self.tag, network: &network };
        let ends = [Role::Server, Role::Client].map(|end| self.host(end, power, namespace));
        BridgedPair::new(&place, &self.programs.tasuki, mode, ends)
    }

    /// Those of sender and receiver.
    pub(super) fn processors(&self) -> [usize; 2] {
        self.processors
    }

    fn receiver(&self, ends: TripEnds) -> Result<&RunningReceiver> {
        self.receivers.get(&(ends.to, self.link(ends))).context("a receiver")
    }

    /// The sender, with these words behind `client`.
    pub(super) fn client(
        &self,
        ends: TripEnds,
        power: Option<&PowerGroups>,
        words: &[String],
    ) -> Result<Command> {
        let [first, second, ..] = &self.namespaces[..] else { bail!("a path has two ends") };
        let RunningReceiver { address, pair, .. } = self.receiver(ends)?;
        let host = |namespace: &str| self.host(Role::Client, power, namespace);
        let mut command = match (ends.from, pair) {
            (Hosting::Peer(peer), _) => {
                let mut command = host(second);
                command.args(peer_client(peer, &self.programs.peers)?);
                command.args(["--connect", address]).args(words);
                return Ok(command);
            }
            (_, Some(pair)) => {
                let mut command = host(first);
                command.args(pair.words(Role::Client));
                command
            }
            (Hosting::Kernel, None) => host(first),
            (Hosting::Tasuki(mode), None) if ends.by_wire => {
                let mut command = host(first);
                command.args(self.wired(mode, WIRED_SENDER));
                command
            }
            (Hosting::Tasuki(mode), None) => {
                let mut command = host(second);
                command.args(self.instance(mode, STACK, &["--gateway", BESIDE]));
                command
            }
        };
        command.arg(std::env::current_exe()?).args(["client", "--connect", address]).args(words);
        Ok(command)
    }

    /// Limits the link to the receiver, and has the last gateway send datagrams over it.
    pub(super) fn limited(&self, ends: TripEnds, percent: u32) -> Result<LimitedLink> {
        let [.., gateway, _] = &self.namespaces[..] else { bail!("a path has two ends") };
        let RunningReceiver { address, device, .. } = self.receiver(ends)?;
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

/// The path of the wire between two instances of a mode.
fn wire(tag: &str, mode: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{tag}-{mode}.wire"))
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
            // A peer's network, and those of all links before.
            let before = [1].into_iter().chain(9..back).filter(|_| at > 1);
            lines.extend(before.map(|network| {
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
            "ip -n n2 route add 10.218.1.0/24 via 10.218.11.1",
            "ip -n n2 route add 10.218.10.0/24 via 10.218.11.1",
            "ip -n n3 route add default via 10.218.12.1",
        ] {
            assert!(script.contains(part), "{part}\n{script}");
        }
        assert_eq!(script.matches("ip_forward=1").count(), 2);
        assert!(!script.contains("n1 route add 10.218"), "{script}");
    }
}

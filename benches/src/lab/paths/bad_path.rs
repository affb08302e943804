//! The path: hosts of the kernel and of Tasuki on both sides of one bad wire.
//!
//! ```text
//! kernel's sender                                                             kernel's receiver
//!   N0 ──veth── N1 ──[queue, 100 Mbit/s]── wire with loss and delay ── N2 ──veth── N3
//!               │                                                      │
//!   Tasuki's sender (TAP)                                   Tasuki's receivers (TAP)
//! ```
//!
//! N1 and N2 forward. So the frames of all senders pass the same queue, the same slowest link and
//! the same wire ([`super::relay`]). The queue is the kernel's (tbf). It drops from its end, and is
//! in the direction of the data only; loss and delay are in both. The wire is made for each
//! measurement, with the seed of that measurement.
//!
//! Nothing but TCP crosses the wire, so that all set-ups lose the same frames by number: there is
//! no IPv6, and neighbours are known. The kernel's ends forget what they learnt of earlier
//! connections (tcp_no_metrics_save).

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use crate::cleanup::CleanUp;
use crate::hosts::Programs;
use crate::lab::rtt::bounded;
use crate::machine::processors;
use crate::running_server::{RunningServer, first_line};
use crate::shell::sh;

const PORT: u16 = 5202;
/// Bits a second of the slowest link, and how many bytes it sends at once.
pub(super) const LINK: u64 = 100_000_000;
const BURST: &str = "16kb";
/// The ends of the wire in N1 and N2.
const WIRE: [&str; 2] = ["wirea", "wireb"];
const HARDWARE: [&str; 2] = ["02:00:0a:da:0b:01", "02:00:0a:da:0b:02"];
const WIRE_ADDRESSES: [&str; 2] = ["10.218.11.1", "10.218.11.2"];
/// The kernel's receiver.
const RECEIVER: &str = "10.218.12.2";
/// Tasuki's sender and its gateway.
const SENDER: [&str; 2] = ["10.218.9.2/24", "10.218.9.1"];
/// The networks of Tasuki's receivers, by their third number.
const RECEIVERS: u32 = 20;

/// What the wire is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WireSetting {
    /// Hundredths of a percent that are lost.
    pub(super) loss: u32,
    /// Milliseconds each way.
    pub(super) delay: u32,
    /// KiB.
    pub(super) queue: u32,
}

/// Where an end of a connection is: `None` on the kernel's sockets, or on Tasuki's in this mode.
pub(super) type EndMode = Option<&'static str>;

/// See the module.
pub(super) struct BadPath {
    namespaces: [String; 4],
    programs: Programs,
    processors: [usize; 2],
    /// A program at the receiving end, and its address.
    receivers: BTreeMap<EndMode, (RunningServer, String)>,
    _clean_up: CleanUp,
}

/// The wire of one measurement. A drop cuts it.
pub(super) struct BadWire(Child);

impl BadPath {
    /// Makes all but the wire.
    pub(super) fn new(programs: &Programs) -> Result<Self> {
        let own = format!("tl{}{}gw", std::process::id(), programs.build.letter());
        let namespaces = [0, 1, 2, 3].map(|at| format!("{own}{at}"));
        let _clean_up = CleanUp::new(&namespaces, &[])?;
        sh(&script(&namespaces))?;
        let all = processors()?;
        let here = *all.first().context("a processor")?;
        Ok(Self {
            namespaces,
            programs: programs.clone(),
            processors: [here, all.get(1).copied().unwrap_or(here)],
            receivers: BTreeMap::new(),
            _clean_up,
        })
    }

    /// A wire between N1 and N2.
    pub(super) fn wire(&self, setting: WireSetting, seed: u64) -> Result<BadWire> {
        let [_, left, right, _] = &self.namespaces;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", left]).arg(std::env::current_exe()?);
        command.arg("bad-wire").arg("--taps").args(WIRE);
        command.args(["--loss", &(f64::from(setting.loss) / 1e4).to_string()]);
        command.args(["--delay-us", &(setting.delay * 1000).to_string()]);
        command.args(["--seed", &seed.to_string()]);
        let mut wire = BadWire(command.stdout(Stdio::piped()).spawn().context("starting a wire")?);
        first_line(&mut wire.0).context("the wire")?;
        sh(&wire_script(left, right, setting.queue))?;
        Ok(wire)
    }

    /// Starts the program that receives at such an end, unless it is there.
    pub(super) fn receive_on(&mut self, mode: EndMode) -> Result<()> {
        if self.receivers.contains_key(&mode) {
            return Ok(());
        }
        let [_, _, forwarding, last] = &self.namespaces;
        let mut command = bounded(None, self.processors[1]);
        command.args(["ip", "netns", "exec"]);
        let address = match mode {
            None => {
                command.arg(last);
                RECEIVER.to_owned()
            }
            Some(mode) => {
                let network = format!("10.218.{}", RECEIVERS + self.receivers.len() as u32);
                command.arg(forwarding).arg(&self.programs.tasuki);
                command.args(["run", "--mode", mode, "--ipv6", "off"]);
                command.args(["--address", &format!("{network}.2/24")]);
                command.args(["--gateway", &format!("{network}.1"), "--"]);
                format!("{network}.2")
            }
        };
        command.arg(std::env::current_exe()?);
        command.args(["serve", "--bind", &format!("0.0.0.0:{PORT}")]);
        let server = RunningServer::start(command, mode.is_some())?;
        self.receivers.insert(mode, (server, address));
        Ok(())
    }

    /// Ends the receivers on Tasuki. Others start when they are needed.
    pub(super) fn renew(&mut self) {
        self.receivers.retain(|mode, _| mode.is_none());
    }

    /// A program that sends from such an end to such another, with these words behind `client`.
    pub(super) fn sender(&self, from: EndMode, to: EndMode, words: &[String]) -> Result<Command> {
        let (_, address) = self.receivers.get(&to).context("a receiver")?;
        let [first, forwarding, ..] = &self.namespaces;
        let mut command = bounded(None, self.processors[0]);
        command.args(["ip", "netns", "exec"]);
        match from {
            None => {
                command.arg(first);
            }
            Some(mode) => {
                let [own, gateway] = SENDER;
                command.arg(forwarding).arg(&self.programs.tasuki);
                command.args(["run", "--mode", mode, "--ipv6", "off", "--address", own]);
                command.args(["--gateway", gateway, "--"]);
            }
        }
        command.arg(std::env::current_exe()?);
        command.args(["client", "--connect", &format!("{address}:{PORT}")]).args(words);
        Ok(command)
    }
}

impl Drop for BadWire {
    fn drop(&mut self) {
        // It may have failed already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Namespaces and the links at both sides of the wire.
fn script(namespaces: &[String; 4]) -> String {
    let mut lines = Vec::new();
    for name in namespaces {
        let set = format!("ip netns exec {name} sysctl -qw");
        lines.push(format!(
            "ip netns add {name} && ip -n {name} link set lo up && \
             {set} net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 \
             net.ipv4.tcp_no_metrics_save=1 net.ipv4.ip_forward=1"
        ));
    }
    let [first, left, right, last] = namespaces;
    for ([a, b], network) in [([first, left], 10), ([right, last], 12)] {
        lines.push(format!(
            "ip link add right netns {a} type veth peer name left netns {b} && \
             ip -n {a} addr add 10.218.{network}.1/24 dev right && \
             ip -n {b} addr add 10.218.{network}.2/24 dev left && \
             ip -n {a} link set right up && ip -n {b} link set left up"
        ));
    }
    lines.push(format!("ip -n {first} route add default via 10.218.10.2"));
    lines.push(format!("ip -n {last} route add default via 10.218.12.1"));
    lines.join(" && ")
}

/// The wire's ends, once they are there.
fn wire_script(left: &str, right: &str, queue: u32) -> String {
    let mut lines = vec![format!("ip -n {left} link set {} netns {right}", WIRE[1])];
    for (at, name) in [left, right].into_iter().enumerate() {
        let (end, own, other) = (WIRE[at], WIRE_ADDRESSES[at], WIRE_ADDRESSES[1 - at]);
        let (mac, peer) = (HARDWARE[at], HARDWARE[1 - at]);
        lines.push(format!(
            "ip -n {name} link set {end} address {mac} up && \
             ip -n {name} addr add {own}/24 dev {end} && \
             ip -n {name} neigh replace {other} lladdr {peer} dev {end} nud permanent && \
             ip -n {name} route replace default via {other}"
        ));
    }
    let bytes = u64::from(queue) << 10;
    lines.push(format!(
        "ip netns exec {left} tc qdisc replace dev {} root \
         tbf rate {LINK}bit burst {BURST} limit {bytes}",
        WIRE[0]
    ));
    lines.join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_data_pass_one_queue_and_one_wire() {
        let names = ["n0", "n1", "n2", "n3"].map(str::to_owned);
        let script = script(&names);
        for part in [
            "ip -n n0 route add default via 10.218.10.2",
            "ip -n n3 route add default via 10.218.12.1",
            "netns exec n2 sysctl -qw net.ipv6.conf.all.disable_ipv6=1",
        ] {
            assert!(script.contains(part), "{part}\n{script}");
        }
        let wire = wire_script("n1", "n2", 256);
        for part in [
            "ip -n n1 link set wireb netns n2",
            "ip -n n2 route replace default via 10.218.11.1",
            "ip netns exec n1 tc qdisc replace dev wirea root tbf rate 100000000bit",
            "limit 262144",
        ] {
            assert!(wire.contains(part), "{part}\n{wire}");
        }
        assert_eq!(wire.matches("tbf").count(), 1);
    }
}

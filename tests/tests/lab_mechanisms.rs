//! What gives the parameters of `tasuki lab` their effect, looked at while a run goes on: the quota
//! stands in the control group, gateways forward, the link is limited, connections stand. Whether
//! the effect shows in what is measured is for a reader (`lab_runs`, `make test-lab`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tasuki_tests::{LONG_RUN, Lab, Running, eventually, left_of_run, mode, skip};

/// A run that goes on until it is ended.
struct Run {
    running: Running,
    pid: u32,
}

impl Run {
    fn start(lab: &Lab, words: &str) -> Self {
        let running = lab.start(&format!("{words} --rounds 100"));
        let pid = running.pid();
        Self { running, pid }
    }

    /// The namespaces whose names end so.
    fn namespaces(&self, end: &str) -> Vec<String> {
        let is_namespace = |name: &String| Path::new("/run/netns").join(name).exists();
        let all = left_of_run(self.pid).into_iter().filter(is_namespace);
        all.filter(|name| name.ends_with(end)).collect()
    }

    /// Waits until this holds in one of those namespaces, of a command's output there.
    fn eventually_in(&self, what: &str, end: &str, command: &[&str], holds: impl Fn(&str) -> bool) {
        eventually(what, || {
            self.namespaces(end).iter().any(|name| {
                let mut there = Command::new("ip");
                there.args(["netns", "exec", name]).args(command);
                // It may just be removed.
                let said = there.output().map(|output| output.stdout).unwrap_or_default();
                holds(&String::from_utf8_lossy(&said))
            })
        });
    }

    fn end(self) {
        self.running.signal(Signal::INT);
        // It was interrupted, or has just ended by itself.
        let said = self.running.finish_within(LONG_RUN);
        assert!(matches!(said.status.code(), Some(0 | 115)), "{said}");
        eventually("nothing is left of the run", || left_of_run(self.pid).is_empty());
    }
}

/// The control groups of a run's ends, sender and receiver.
fn groups(pid: u32) -> Vec<PathBuf> {
    let parents = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
    let names = left_of_run(pid).into_iter().filter(|name| name.starts_with("tasuki-lab-"));
    let all = names.flat_map(|name| parents.map(|parent| Path::new(parent).join(&name)));
    all.filter(|path| path.exists()).collect()
}

#[test]
fn a_quota_stands_in_the_control_group_of_processes_that_measure() {
    let Some(lab) = Lab::with_rights() else { return };
    let has_quotas = ["cpu/cpu.cfs_quota_us", "cpu,cpuacct/cpu.cfs_quota_us", "cgroup.controllers"]
        .iter()
        .any(|file| Path::new("/sys/fs/cgroup").join(file).exists());
    if !has_quotas {
        skip("the machine has no control groups for processor time");
        return;
    }
    let run = Run::start(&lab, &format!("rtt --power 10 --count 50 --only {}", mode()));
    let holds = |group: &PathBuf| {
        let read = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
        let (unified, own) = (read("cpu.max"), read("cpu.cfs_quota_us"));
        let quota = unified.trim() == "1000 10000" || own.trim() == "1000";
        quota && !read("cgroup.procs").is_empty()
    };
    for end in ["-sender", "-receiver"] {
        eventually(&format!("processes of {end} have a tenth of a processor"), || {
            groups(run.pid).iter().filter(|path| path.to_string_lossy().ends_with(end)).any(holds)
        });
    }
    run.end();
}

/// Packets that the kernel has forwarded, out of /proc/net/snmp.
fn forwarded(snmp: &str) -> u64 {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Ip:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split(' ').zip(values.split(' '));
    let found = pairs.find(|(name, _)| *name == "ForwDatagrams");
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

#[test]
fn each_gateway_forwards_the_round_trips() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = format!("rtt --gateways 2 --length 64 --count 100 --only linux,{}", mode());
    let run = Run::start(&lab, &words);
    for gateway in ["g2n1", "g2n2"] {
        let snmp = ["cat", "/proc/net/snmp"];
        // Both ends' packets of one sample.
        run.eventually_in("it forwards", gateway, &snmp, |snmp| forwarded(snmp) >= 200);
    }
    run.end();
}

#[test]
fn the_link_is_limited_and_others_send_over_it() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = format!("rtt --network-load 50 --length 64 --count 100 --only linux,{}", mode());
    let run = Run::start(&lab, &words);
    let limits = ["tc", "qdisc", "show"];
    run.eventually_in("a limited link", "", &limits, |said| {
        said.contains("tbf") && said.contains("rate 100Mbit")
    });
    // Of another kind than what is measured, which is TCP.
    let datagrams = |snmp: &str| {
        let mut lines = snmp.lines().filter(|line| line.starts_with("Udp:"));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0_u64 };
        let mut pairs = names.split(' ').zip(values.split(' '));
        let found = pairs.find(|(name, _)| *name == "OutDatagrams");
        found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    };
    let snmp = ["cat", "/proc/net/snmp"];
    run.eventually_in("datagrams of others", "", &snmp, |snmp| datagrams(snmp) > 100);
    run.end();
}

#[test]
fn the_path_has_its_queue_loss_and_delay() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = format!("paths --loss 3 --delay 10 --queue 16 --quick --only linux,{}", mode());
    let run = Run::start(&lab, &words);
    let limits = ["tc", "qdisc", "show"];
    run.eventually_in("a limited link", "", &limits, |said| {
        said.contains("tbf") && said.contains("rate 100Mbit burst 16Kb")
    });
    // Each parameter has a figure of its own.
    for word in ["--loss 0.03 ", "--delay-us 10000 "] {
        eventually("a wire with loss and one with delay", || {
            let all = fs::read_dir("/proc").into_iter().flatten().flatten();
            let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
            lines
                .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
                .any(|line| line.contains("bad-wire") && line.contains(word))
        });
    }
    run.end();
}

#[test]
fn so_many_connections_stand() {
    let Some(lab) = Lab::with_rights() else { return };
    let words = "scale --connections 400 --programs 1 --quick --only linux";
    let run = Run::start(&lab, words);
    let established = ["ss", "-Htn", "state", "established"];
    run.eventually_in("400 connections", "", &established, |said| said.lines().count() >= 400);
    run.end();
}

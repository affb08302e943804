//! `hops` and `stages` measure one running instance by `tasuki stats` and `tasuki stages`.
//!
//! * `hops`: the system calls and wake-ups of each operation.
//! * `stages`: the time of sends and receives by stage. Sends stand beside the first paper's.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cleanup::CleanUp;
use crate::hosts::on_cpu;
use crate::operations::PAUSE;
use crate::running_server::RunningServer;
use crate::setup::Build;

/// Context switches that a thread wished for, and others.
pub(crate) const ALL_SWITCHES: [&str; 2] = ["voluntary", "nonvoluntary"];

/// The instance of `hops` and `stages`.
#[derive(Args)]
pub(crate) struct InstanceArgs {
    /// The `tasuki` command.
    #[arg(long, env = "TASUKI_BIN", default_value = "target/release/tasuki")]
    tasuki: PathBuf,
    /// How the instance is made: split or fused.
    #[arg(long, default_value = "split")]
    pub(crate) mode: String,
    /// Operations of each kind.
    #[arg(long, default_value_t = 1000)]
    count: u32,
    /// Bytes of each send (stages).
    #[arg(long, value_delimiter = ',', default_value = "256,512,768,1024,65536")]
    size: Vec<u32>,
    /// Print the result as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

const SERVER: &str = "10.218.2.1:5202";

/// Where the server listens and never accepts.
const SILENT: &str = "10.218.2.1:5209";

/// Tasuki's side, where the server of measurements listens ([`Instance::server`]).
const SERVES: &str = "10.218.2.2:5202";

/// The same, where `accepting` listens.
const ACCEPTS: &str = "10.218.2.2:5203";

/// An instance in a namespace of its own, with the server of measurements beside it.
pub(crate) struct Instance {
    tasuki: PathBuf,
    name: String,
    pinned: bool,
    /// It ends before the instance does.
    server: Option<RunningServer>,
    /// For an end of this process that runs no destructor.
    _clean_up: CleanUp,
}

/// How an instance is made.
pub(crate) struct Making<'a> {
    /// The `tasuki` command.
    pub(crate) tasuki: &'a Path,
    /// split or fused.
    pub(crate) mode: &'a str,
    /// Its processes and the clients have the first processor, the server the second.
    pub(crate) pinned: bool,
    /// A configuration file.
    pub(crate) config: Option<&'a Path>,
    /// Which build the command is of.
    pub(crate) build: Build,
}

impl Instance {
    pub(crate) fn new(args: &InstanceArgs) -> Result<Self> {
        let InstanceArgs { tasuki, mode, .. } = args;
        Self::made(&Making { tasuki, mode, pinned: false, config: None, build: Build::New })
    }

    /// As the arguments say.
    pub(crate) fn made(how: &Making<'_>) -> Result<Self> {
        let name = format!("tb{}{}{}", std::process::id(), how.build.letter(), how.mode);
        let (tasuki, pinned) = (how.tasuki.to_owned(), how.pinned);
        let clean_up = CleanUp::new(std::slice::from_ref(&name), &[])?;
        let mut made = Self { tasuki, name, pinned, server: None, _clean_up: clean_up };
        run(Command::new("ip").args(["netns", "add", &made.name]))?;
        run(made.inside("ip").args(["link", "set", "lo", "up"]))?;
        // The host's kernel would look for routers and report its groups on the device.
        for which in ["all", "default"] {
            let key = format!("net.ipv6.conf.{which}.disable_ipv6=1");
            run(made.inside("sysctl").args(["-qw", &key]))?;
        }
        let address = ["--address", "10.218.2.2/24", "--gateway", "10.218.2.1", "--ipv6", "off"];
        let mut up = made.tasuki();
        up.args(["up", "--mode", how.mode]).args(address).arg(&made.name);
        run(up.args(how.config.map(|_| "--config")).args(how.config))?;
        let mut server = made.inside_on("1", std::env::current_exe()?);
        server.args(["serve", "--bind", SERVER]);
        made.server = Some(RunningServer::start(server, false)?);
        Ok(made)
    }

    fn inside(&self, program: impl AsRef<OsStr>) -> Command {
        self.inside_on("0", program)
    }

    fn inside_on(&self, cpu: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = on_cpu(cpu, self.pinned);
        command.args(["ip", "netns", "exec", &self.name]).arg(program);
        command
    }

    fn tasuki(&self) -> Command {
        self.inside(&self.tasuki)
    }

    /// This program, on the instance.
    fn on_instance(&self) -> Result<Command> {
        let mut command = self.tasuki();
        command.args(["run", "--net", &self.name, "--"]).arg(std::env::current_exe()?);
        Ok(command)
    }

    /// A client on the instance.
    pub(crate) fn client(&self, words: &[&str]) -> Result<Command> {
        let mut command = self.on_instance()?;
        command.args(words).args(["--connect", SERVER]).stdout(Stdio::null());
        Ok(command)
    }

    /// The same on the kernel, for [`Instance::server`].
    pub(crate) fn kernel_client(&self, words: &[&str]) -> Result<Command> {
        let mut command = self.inside_on("1", std::env::current_exe()?);
        command.args(words).args(["--connect", SERVES]);
        Ok(command)
    }

    /// The server of measurements, on the instance.
    pub(crate) fn server(&self) -> Result<Command> {
        let mut command = self.on_instance()?;
        command.args(["serve", "--bind", SERVES]);
        Ok(command)
    }

    /// Its page, on this host's loopback address. It is outside of the namespace, whose processes
    /// are ended together, so the kernel ends it with this process.
    pub(crate) fn web(&self, interval: f64) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.tasuki).arg("web");
        command.arg(format!("--interval={interval}"));
        command.args(["--listen", "127.0.0.1:0", &self.name]);
        command
    }

    /// A program of `fairness` that does its worst ([`crate::fairness`]), with the words for that.
    pub(crate) fn worst(&self, kind: &str) -> Result<Command> {
        let mut command = self.inside(std::env::current_exe()?);
        let socket = format!("/run/tasuki/{}.sock", self.name);
        command.env("TASUKI_SOCKET", &socket);
        command.args(["worst", "--kind", kind, "--connect", SERVER, "--silent", SILENT]);
        let operator = format!("/run/tasuki/{}.operator.sock", self.name);
        command.args(["--stack", ACCEPTS, "--socket", &socket, "--operator", &operator]);
        Ok(command)
    }

    /// Makes another instance beside it, asks about this one, and ends the other.
    pub(crate) fn make_another(&self) -> Result<()> {
        let name = format!("{}-other", self.name);
        let device = format!("wire:/tmp/{name}.wire");
        let address = ["--address", "10.218.4.2/24", "--ipv6", "off"];
        run(self.tasuki().args(["up", "--nic", &device]).args(address).arg(&name))?;
        let status = self.asked(&["ps"]);
        run(self.tasuki().args(["down", &name]))?;
        status.map(|_| ())
    }

    /// The output of `tasuki COMMAND --json`.
    pub(crate) fn asked(&self, words: &[&str]) -> Result<Value> {
        let output = self.tasuki().args(words).arg("--json").arg(&self.name).output()?;
        if !output.status.success() {
            bail!("{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Counters, and with them the context switches of supervisor and servers.
    pub(crate) fn counters(&self) -> Result<BTreeMap<String, u64>> {
        let mut all: BTreeMap<String, u64> =
            serde_json::from_value(self.asked(&["stats"])?["counters"].take())?;
        let status = self.asked(&["ps"])?;
        for process in status[0]["processes"].as_array().into_iter().flatten() {
            let (role, pid) = (process["role"].as_str(), process["pid"].as_u64());
            let (Some(role), Some(pid)) = (role.filter(|role| *role != "client"), pid) else {
                continue;
            };
            let thread = PathBuf::from(format!("/proc/{pid}"));
            all.insert(format!("switches {role}"), switches_of(&thread, &ALL_SWITCHES)?);
        }
        Ok(all)
    }
}

impl Instance {
    /// The report of `tasuki stages` on one paced client, which sends or receives.
    pub(crate) fn staged(&self, count: u32, size: u32, receives: bool) -> Result<Value> {
        let (size, words) = (size.to_string(), count.to_string());
        let words = ["paced", "--size", &size, "--count", &words];
        let mut client = self.client(&words)?;
        client.args(receives.then_some("--receive"));
        let mut client = client.spawn()?;
        // Begin and end of the program are not watched: a quarter of its time each.
        let pauses = Duration::from_millis(PAUSE.into()) * count;
        std::thread::sleep(pauses / 4);
        let seconds = pauses.as_secs_f64() / 2.0;
        let report = self.asked(&["stages", "-s", &seconds.to_string()]);
        ended(&mut client)?;
        report
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.server = None;
        // An instance or namespace that is gone already is the goal.
        let _ = self.tasuki().args(["down", &self.name]).output();
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// Context switches of a thread, of these kinds. `thread`: its directory in /proc.
pub(crate) fn switches_of(thread: &Path, kinds: &[&str]) -> Result<u64> {
    let status = std::fs::read_to_string(thread.join("status"))?;
    let is_meant = |line: &&str| {
        line.split_once("_ctxt_switches").is_some_and(|(kind, _)| kinds.contains(&kind))
    };
    let lines = status.lines().filter(is_meant);
    Ok(lines.filter_map(|l| l.rsplit_once('\t')?.1.parse::<u64>().ok()).sum::<u64>())
}

fn ended(client: &mut Child) -> Result<()> {
    let status = client.wait()?;
    if !status.success() {
        bail!("the client ended with {status}");
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// The counted events of each operation: head of the column, and the counter.
const HOPS: [(&str, &str); 10] = [
    ("program bells", "program.bells-rung"),
    ("program sleeps", "program.sleeps"),
    ("server bells", "server.bells-rung"),
    ("of them to driver", "server.bells-to-drivers"),
    ("server sleeps", "server.sleeps"),
    ("woken for nothing", "server.idle-wake-ups"),
    ("driver bells", "nic.bells-rung"),
    ("driver wake-ups", "nic.wake-ups"),
    ("driver for nothing", "nic.idle-wake-ups"),
    ("calls", "calls.executed"),
];

/// System calls and wake-ups of one operation.
pub(crate) fn hops(args: &InstanceArgs) -> Result<()> {
    let instance = Instance::new(args)?;
    let count = args.count.to_string();
    let bulk = (u64::from(args.count) << 16).to_string();
    let stream = ["--size", "65536", "--bytes", &bulk];
    let operations: [(&str, Vec<&str>); 10] = [
        ("send, 64 B, paused", vec!["paced", "--size", "64", "--count", &count]),
        ("datagram, 64 B, paused", vec!["datagrams", "--paced", "--size", "64", "--count", &count]),
        ("datagram, 64 B", vec!["datagrams", "--size", "64", "--count", &count]),
        ("send, 64 KiB, stream", [&["client", "--test", "send"], &stream[..]].concat()),
        ("receive, 64 KiB, stream", [&["client", "--test", "receive"], &stream[..]].concat()),
        ("round trip, 64 B", vec!["client", "--test", "rtt", "--size", "64", "--count", &count]),
        (
            "connect, request, close",
            vec!["client", "--test", "connect", "--size", "64", "--count", &count],
        ),
        ("accept, close", vec!["accepting", "--count", &count]),
        ("null call", vec!["nulls", "--together", "1", "--count", &count]),
        ("null call, of 100", vec!["nulls", "--together", "100", "--count", &count]),
    ];
    let mut found = serde_json::Map::new();
    for (title, words) in &operations {
        let before = instance.counters()?;
        let mut client = instance.client(words)?.spawn()?;
        if words[0] == "accepting" {
            let mut dials = instance.inside_on("1", std::env::current_exe()?);
            run(dials.args(["dialing", "--count", &count, "--connect", ACCEPTS]))?;
        }
        ended(&mut client)?;
        let after = instance.counters()?;
        let each = after.iter().map(|(name, now)| {
            let done = now.saturating_sub(before.get(name).copied().unwrap_or(0));
            (name.clone(), done as f64 / f64::from(args.count))
        });
        found.insert((*title).to_owned(), each.collect());
    }
    let found = Hops { mode: args.mode.clone(), each: found };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print!("{}", hops_table(&found));
    }
    Ok(())
}

/// The result of `hops`: counters of one operation, for each.
#[derive(Serialize, Deserialize)]
pub(crate) struct Hops {
    mode: String,
    each: serde_json::Map<String, Value>,
}

/// As Markdown.
pub(crate) fn hops_table(Hops { mode, each: found }: &Hops) -> String {
    let switches = found.values().next().and_then(Value::as_object).into_iter().flatten();
    let switches = switches.map(|(name, _)| (name.as_str(), name.as_str()));
    let switches = switches.filter(|(name, _)| name.starts_with("switches "));
    let columns: Vec<(&str, &str)> = HOPS.into_iter().chain(switches).collect();
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let mut text = format!("| of one operation, {mode} | {} |\n", heads.join(" | "));
    text += &format!("|---|{}\n", "---:|".repeat(columns.len()));
    for (title, each) in found {
        let cell = |counter: &str| format!("{:.2}", each[counter].as_f64().unwrap_or(0.0));
        let cells: Vec<String> = columns.iter().map(|(_, counter)| cell(counter)).collect();
        text += &format!("| {title} | {} |\n", cells.join(" | "));
    }
    text
}

/// The first paper's microseconds for the rows of `tasuki stages`: AnT at 256 B and at 1,024 B.
const PAPER: [(&str, &str); 13] = [
    ("0.19", "0.32"),
    ("5.13", "5.15"),
    ("0.08", "0.08"),
    ("2.67", "3.49"),
    ("0.53", "0.52"),
    ("0.14", "0.14"),
    ("0.13", "0.13"),
    ("6.91", "6.89"),
    ("0.04", "0.04"),
    ("4.25", "4.85"),
    ("0.20", "0.20"),
    ("3.11", "3.12"),
    ("0.20", "0.21"),
];

/// Where the time of sends and receives goes, for each size.
pub(crate) fn stages(args: &InstanceArgs) -> Result<()> {
    let instance = Instance::new(args)?;
    let (mut found, mut received) = (Vec::new(), Vec::new());
    for size in &args.size {
        found.push(instance.staged(args.count, *size, false)?);
        received.push(instance.staged(args.count, *size, true)?);
    }
    let found = Stages { mode: args.mode.clone(), sizes: args.size.clone(), found, received };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print!("{}", stages_table(&found));
    }
    Ok(())
}

/// The result of `stages`: a report of `tasuki stages` for each size.
#[derive(Serialize, Deserialize)]
pub(crate) struct Stages {
    mode: String,
    sizes: Vec<u32>,
    found: Vec<Value>,
    /// The same of receives; none in files from before there were any.
    #[serde(default)]
    received: Vec<Value>,
}

/// Median microseconds of a row of reports.
fn micros(reports: &[Value], way: &str, row: usize) -> String {
    let micros = |report: &Value| {
        let nanos = report[way][row]["median_ns"].as_f64().unwrap_or(0.0);
        format!("{:.2}", nanos / 1000.0)
    };
    reports.iter().map(micros).collect::<Vec<_>>().join(" | ")
}

/// As Markdown.
pub(crate) fn stages_table(Stages { mode, sizes, found, received }: &Stages) -> String {
    let heads: Vec<String> = sizes.iter().map(|size| format!("{size} B")).collect();
    let heads_of = heads.join(" | ");
    let mut text =
        format!("| median us of a send, {mode} | {heads_of} | AnT 256 B | AnT 1024 B |\n");
    text += &format!("|---|{}\n", "---:|".repeat(heads.len() + 2));
    for (row, (small, large)) in PAPER.iter().enumerate() {
        let stage = found.first().and_then(|report| report["stages"][row]["stage"].as_str());
        let (stage, cells) = (stage.unwrap_or("?"), micros(found, "stages", row));
        text += &format!("| {stage} | {cells} | {small} | {large} |\n");
    }
    let Some(rows) = received.first().and_then(|first| first["receive_stages"].as_array()) else {
        return text;
    };
    text += &format!("\n| median us of a receive, {mode} | {heads_of} |\n");
    text += &format!("|---|{}\n", "---:|".repeat(heads.len()));
    for (row, first) in rows.iter().enumerate() {
        let stage = first["stage"].as_str().unwrap_or("?");
        text += &format!("| {stage} | {} |\n", micros(received, "receive_stages", row));
    }
    text
}

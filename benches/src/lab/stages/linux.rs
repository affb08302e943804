//! The bar of Linux: what happens within the system call of a send.
//!
//! Where the machine allows it, a tracing instance of the kernel (tracefs) has the times at which a
//! send enters the kernel, reaches the device's queue, the device, and returns. TCP and IP have no
//! tracepoint between them, so they are one part. The far end of the veth pair receives within the
//! same call, which belongs to the return. Times are whole microseconds, so a part is the mean over
//! sends, without the tenth of them that took longest and the tenth that took shortest. A
//! tracepoint itself takes some hundred nanoseconds.
//!
//! Elsewhere the bar is one part: the median time of the call, as the program sees it.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use crate::args::Congestion;
use crate::cleanup::CleanUp;
use crate::hosts::{Host, Programs};
use crate::setup::{Role, Setup};

/// Places in [`super::SEND`].
const ETHERNET: usize = 5;
const IO: usize = 9;
const RETURN: usize = 12;
const TCP_AND_IP: usize = 14;
const WHOLE: usize = 15;

/// Where tracing instances are made.
const INSTANCES: &str = "/sys/kernel/tracing/instances";
/// What is traced.
const EVENTS: &str = "syscalls:sys_enter_sendto syscalls:sys_exit_sendto net:net_dev_queue \
                      net:net_dev_start_xmit net:net_dev_xmit";

/// A kernel's client, and the tracing instance if there is one.
pub(super) struct LinuxSends {
    host: Host,
    tracing: Option<TracingInstance>,
}

impl LinuxSends {
    pub(super) fn new(tasuki: &Path) -> Result<Self> {
        let programs = Programs::new(tasuki, Path::new(""))?;
        let congestion = Congestion::cubic();
        let host = Host::new(Setup::LinuxOn, Role::Client, &programs, &congestion, true)?;
        // A kernel that allows no tracing has a bar of one part.
        Ok(Self { host, tracing: TracingInstance::new().ok() })
    }

    /// Parts of a send by their places in [`super::SEND`], microseconds.
    pub(super) fn parts(&self, count: u32, size: u32) -> Result<Vec<(usize, f64)>> {
        let (size, count) = (size.to_string(), count.to_string());
        let words = ["paced", "--timed", "--size", &size, "--count", &count];
        let mut command = self.host.program(&words)?;
        let mut client = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        // All words before the program are replaced by it (exec), so the process is the same.
        let traced = self.tracing.as_ref().map(|tracing| tracing.begin(client.id()));
        let mut said = String::new();
        client.stdout.take().context("the client's output")?.read_to_string(&mut said)?;
        let status = client.wait()?;
        ensure!(status.success(), "the client ended with {status}");
        if let (Some(tracing), Some(Ok(()))) = (&self.tracing, traced) {
            let parts = mean_parts(&tracing.end()?);
            if !parts.is_empty() {
                return Ok(parts);
            }
        }
        let nanos: f64 = said.trim().parse().with_context(|| format!("a time, not `{said}`"))?;
        Ok(vec![(WHOLE, nanos / 1000.0)])
    }
}

/// A directory of tracefs, which is removed in the end.
struct TracingInstance {
    path: PathBuf,
    _clean_up: CleanUp,
}

impl TracingInstance {
    fn new() -> Result<Self> {
        let path = Path::new(INSTANCES).join(format!("tasuki-lab-{}", std::process::id()));
        fs::create_dir(&path)?;
        let _clean_up = CleanUp::of_groups(std::slice::from_ref(&path))?;
        let made = Self { path, _clean_up };
        made.write("tracing_on", "0")?;
        made.write("set_event", EVENTS)?;
        Ok(made)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Traces this process alone.
    fn begin(&self, process: u32) -> Result<()> {
        self.write("trace", "")?;
        self.write("set_event_pid", &process.to_string())?;
        self.write("tracing_on", "1")
    }

    /// What was traced.
    fn end(&self) -> Result<String> {
        self.write("tracing_on", "0")?;
        Ok(fs::read_to_string(self.path.join("trace"))?)
    }
}

/// Where a send is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendMoment {
    Enter,
    Queue,
    Device,
    Sent,
    Exit,
}

impl SendMoment {
    /// A line of a trace: when, in microseconds, and what.
    fn of_line(line: &str) -> Option<(f64, Self)> {
        let all = [
            (": sys_sendto(", Self::Enter),
            (": sys_sendto -> ", Self::Exit),
            (": net_dev_queue: ", Self::Queue),
            (": net_dev_start_xmit: ", Self::Device),
            (": net_dev_xmit: ", Self::Sent),
        ];
        let (before, moment) =
            all.iter().find_map(|(text, moment)| Some((line.split_once(text)?.0, *moment)))?;
        let seconds: f64 = before.split_whitespace().last()?.parse().ok()?;
        Some((seconds * 1e6, moment))
    }

    /// The part that begins with it.
    fn part(self) -> Option<usize> {
        match self {
            Self::Enter => Some(TCP_AND_IP),
            Self::Queue => Some(ETHERNET),
            Self::Device => Some(IO),
            Self::Sent => Some(RETURN),
            Self::Exit => None,
        }
    }
}

/// The parts of one send, each with its time.
type SendParts = [f64; 4];
/// Where the parts of [`SendParts`] are among all.
const PARTS: [usize; 4] = [TCP_AND_IP, ETHERNET, IO, RETURN];

/// The mean parts over all sends in a trace, microseconds; empty if it has none.
fn mean_parts(trace: &str) -> Vec<(usize, f64)> {
    let mut sends: Vec<SendParts> = Vec::new();
    let mut last: Option<(f64, SendMoment)> = None;
    let mut now: SendParts = [0.0; 4];
    for (when, moment) in trace.lines().filter_map(SendMoment::of_line) {
        let part = last.and_then(|(began, moment)| Some((began, moment.part()?)));
        if moment == SendMoment::Enter {
            now = [0.0; 4];
        } else if let Some((began, part)) = part
            && let Some(at) = PARTS.iter().position(|it| *it == part)
        {
            now[at] += when - began;
        }
        if moment == SendMoment::Exit && last.is_some() {
            sends.push(now);
        }
        // Frames that leave between two sends, such as acknowledgements, belong to none.
        let is_within =
            moment != SendMoment::Exit && (last.is_some() || moment == SendMoment::Enter);
        last = is_within.then_some((when, moment));
    }
    let total = |send: &SendParts| send.iter().sum::<f64>();
    sends.sort_by(|a, b| total(a).total_cmp(&total(b)));
    let tenth = sends.len() / 10;
    let usual = &sends[tenth..sends.len() - tenth];
    let mean = |at: usize| usual.iter().map(|send| send[at]).sum::<f64>() / usual.len() as f64;
    if usual.is_empty() { Vec::new() } else { (0..4).map(|at| (PARTS[at], mean(at))).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_becomes_parts() {
        let line = |micros: u32, what: &str| {
            format!("  tasuki-bench-77 [000] ..... 12.{micros:06}: {what}\n")
        };
        let trace = line(1, "net_dev_queue: dev=veth0")
            + &line(10, "sys_sendto(fd: 3, buff: 0, len: 100)")
            + &line(14, "net_dev_queue: dev=veth0 skbaddr=1 len=310")
            + &line(15, "net_dev_start_xmit: dev=veth0")
            + &line(18, "net_dev_xmit: dev=veth0")
            + &line(20, "net_dev_queue: dev=veth0")
            + &line(20, "net_dev_start_xmit: dev=veth0")
            + &line(21, "net_dev_xmit: dev=veth0")
            + &line(30, "sys_sendto -> 0x100")
            + &line(40, "net_dev_queue: dev=veth0");
        let parts = mean_parts(&trace);
        let close = |(part, time): (usize, f64)| (part, time.round() as u32);
        let parts: Vec<(usize, u32)> = parts.into_iter().map(close).collect();
        assert_eq!(parts, [(TCP_AND_IP, 4), (ETHERNET, 1), (IO, 4), (RETURN, 11)]);
        assert_eq!(mean_parts("# tracer: nop\n"), []);
    }
}

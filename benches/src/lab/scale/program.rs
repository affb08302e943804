//! One run of a program with many connections, and what its end of the path costs meanwhile.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::hosts::Host;
use crate::idle::{IdleCost, watched};
use crate::many_connections::ManyConnections;
use crate::process_memory::{ProcessMemory, of_kernel_sockets, of_processes, with_descendants};

/// One phase of the program takes no longer: thirty times what 10,000 connections take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long it is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScalePace {
    /// After the last byte, before memory is looked at; `None`: it is not. After two seconds
    /// without a byte a connection of Tasuki keeps less memory.
    pub(super) settling: Option<Duration>,
    /// How long idle processes are watched; `None`: not at all.
    pub(super) idle: Option<Duration>,
    /// Round trips.
    pub(super) count: u32,
}

/// What was found with so many connections.
#[derive(Debug, Clone)]
pub(super) struct ScaleCost {
    pub(super) trips: ManyConnections,
    pub(super) idle: Option<IdleCost>,
    pub(super) memory: Option<EndMemory>,
}

/// Bytes of all processes of this end, and of its sockets in the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndMemory {
    pub(super) all: f64,
    /// The part of it that came with all connections but the first, without pages of files.
    pub(super) growth: f64,
}

/// The running program, which is ended with this.
struct PhasedProgram {
    child: Child,
    orders: ChildStdin,
    said: Receiver<String>,
}

impl PhasedProgram {
    fn start(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = child.stdin.take().context("its input")?;
        let output = BufReader::new(child.stdout.take().context("its output")?);
        let (tell, said) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Nobody may be interested any more.
                let _ = tell.send(line);
            }
        });
        Ok(Self { child, orders, said })
    }

    fn line(&self) -> Result<String> {
        let line = self.said.recv_timeout(PATIENCE);
        line.context("the program with the connections has ended, or says nothing")
    }

    fn expect(&self, word: &str) -> Result<()> {
        let line = self.line()?;
        if line != word {
            bail!("the program with the connections says `{line}` instead of `{word}`");
        }
        Ok(())
    }

    fn go_on(&mut self) -> Result<()> {
        Ok(self.orders.write_all(b"\n")?)
    }
}

impl Drop for PhasedProgram {
    fn drop(&mut self) {
        // It is `tasuki run`, which ends all its processes, or the program itself. It may have
        // ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs it with so many connections. `counts_kernel`: the sockets are the kernel's at both ends.
pub(super) fn measure(
    host: &Host,
    connections: u32,
    pace: ScalePace,
    counts_kernel: bool,
) -> Result<ScaleCost> {
    let (connections, count) = (connections.to_string(), pace.count.to_string());
    let words = ["many-connections", "--connections", &connections, "--count", &count];
    let mut program = PhasedProgram::start(host.program(&words)?)?;
    let first = program.child.id();
    let memory = || -> Result<(ProcessMemory, f64)> {
        let processes = of_processes(&with_descendants(first))?;
        let kernel = counts_kernel.then(of_kernel_sockets).flatten().unwrap_or(0) as f64;
        Ok((processes, kernel))
    };
    program.expect("began")?;
    let before = memory()?;
    program.go_on()?;
    program.expect("connected")?;
    let memory = match pace.settling {
        Some(settling) => {
            sleep(settling);
            let after = memory()?;
            // Half of the kernel's sockets are the other end's.
            let kernel = (after.1 - before.1).max(0.0) / 2.0;
            let growth = after.0.without_files as f64 - before.0.without_files as f64;
            Some(EndMemory { all: after.0.all as f64 + kernel, growth: (growth + kernel).max(0.0) })
        }
        None => None,
    };
    let idle = pace.idle.map(|time| watched(&with_descendants(first), time)).transpose()?;
    program.go_on()?;
    let line = program.line()?;
    let trips = serde_json::from_str(&line).with_context(|| format!("what it says: `{line}`"))?;
    let status = program.child.wait()?;
    if !status.success() {
        bail!("the program with the connections ended with {status}");
    }
    Ok(ScaleCost { trips, idle, memory })
}

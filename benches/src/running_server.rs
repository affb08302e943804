//! A program that serves at one end of a measurement, from its start to its end.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::shell::sh;

/// See the module. A drop ends it.
pub(crate) struct RunningServer {
    program: Child,
    /// It was started by `tasuki run`, which ends its program and its servers on request.
    on_tasuki: bool,
}

impl RunningServer {
    /// Starts it, and waits until it listens.
    ///
    /// # Errors
    /// If it cannot be started, or ends before it listens.
    pub(crate) fn start(mut command: Command, on_tasuki: bool) -> Result<Self> {
        let program = command.stdout(Stdio::piped()).spawn();
        let program = program.context("starting `ip netns exec`: is iproute2 installed?")?;
        let mut server = Self { program, on_tasuki };
        let ready = first_line(&mut server.program);
        ready.with_context(|| format!("the benchmark's server: {command:?}"))?;
        Ok(server)
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = match self.on_tasuki {
            true => sh(&format!("kill {}", self.program.id())),
            false => self.program.kill().map_err(Into::into),
        };
        let _ = self.program.wait();
    }
}

/// The first line of a program's piped output, by which it says that it is ready.
///
/// # Errors
/// If it ends without one.
pub(crate) fn first_line(program: &mut Child) -> Result<String> {
    let mut line = String::new();
    let output = program.stdout.take().context("its output")?;
    BufReader::new(output).read_line(&mut line)?;
    ensure!(!line.is_empty(), "it did not start");
    Ok(line)
}

//! `tasuki-bench programs-at-once`: how several programs share a path that each of them could fill.
//!
//! It starts so many clients of `goodput` ([`crate::client`]) as processes of their own. They
//! connect, and begin together when all connections stand. On an instance each is a client of it,
//! as this program would be.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::client::STANDS;
use crate::row::Sample;

/// Its words.
#[derive(Args)]
pub(crate) struct AtOnceArgs {
    /// The server.
    #[arg(long)]
    connect: SocketAddr,
    /// How many programs.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8))]
    programs: u32,
    /// For so many seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

/// A client, which is ended with this.
struct SendingProgram {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl SendingProgram {
    fn start(args: &AtOnceArgs) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["client", "--test=goodput", "--wait"]);
        command.arg(format!("--connect={}", args.connect));
        command.arg(format!("--most-seconds={}", args.seconds));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let said = BufReader::new(child.stdout.take().context("its output")?);
        let mut sender = Self { child, said };
        let mut line = String::new();
        sender.said.read_line(&mut line)?;
        ensure!(line.trim() == STANDS, "a program has no connection: `{}`", line.trim());
        Ok(sender)
    }

    fn begin(&mut self) -> Result<()> {
        Ok(self.child.stdin.as_mut().context("its input")?.write_all(b"\n")?)
    }

    /// Waits for its end.
    fn rate(&mut self) -> Result<f64> {
        let mut line = String::new();
        self.said.read_to_string(&mut line)?;
        let sample: Sample = serde_json::from_str(&line)
            .with_context(|| format!("what a program says: `{line}`"))?;
        Ok(sample.rate)
    }
}

impl Drop for SendingProgram {
    fn drop(&mut self) {
        // It has ended if all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints the rate of each, MiB/s, as JSON.
pub(crate) fn run(args: &AtOnceArgs) -> Result<()> {
    let start = |_| SendingProgram::start(args);
    let mut senders: Vec<SendingProgram> = (0..args.programs).map(start).collect::<Result<_>>()?;
    senders.iter_mut().try_for_each(SendingProgram::begin)?;
    let rates: Vec<f64> = senders.iter_mut().map(SendingProgram::rate).collect::<Result<_>>()?;
    println!("{}", serde_json::to_string(&rates)?);
    Ok(())
}

//! Commands of clients, from their start to their end. One that hangs is ended.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::hosts::Host;
use crate::processor_time::KernelThreads;

/// The most time for one command of a client: thirty times that of the slowest.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often we look whether it is over.
const LOOK: Duration = Duration::from_millis(5);

/// The output of a client.
pub(crate) fn output_of(
    host: &Host,
    arguments: &[String],
    threads: Option<&mut KernelThreads>,
) -> Result<String> {
    run_client(host.client(arguments)?, threads)
}

/// The same, of any client. One that does not end is ended.
pub(crate) fn run_client(
    mut command: Command,
    mut threads: Option<&mut KernelThreads>,
) -> Result<String> {
    let mut client = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut output = client.stdout.take().context("the client's output")?;
    // It may be more than a pipe holds.
    let reader = thread::spawn(move || {
        let mut said = String::new();
        output.read_to_string(&mut said).map(|_| said)
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = client.try_wait()? {
            break status;
        }
        if began.elapsed() > PATIENCE {
            // The child is `tasuki run`, which ends all its processes, or the program itself.
            client.kill()?;
            client.wait()?;
            bail!("no end after {PATIENCE:?}");
        }
        if let Some(threads) = &mut threads {
            threads.look();
        }
        sleep(LOOK);
    };
    if !status.success() {
        bail!("it ended with {status}");
    }
    Ok(reader.join().map_err(|_| anyhow!("reading the client's output panicked"))??)
}

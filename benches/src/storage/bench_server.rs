//! A program of this binary that serves on an instance while something is measured.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::world::{StorageSide, StorageWorld};

/// The program, on the target's instance. It ends with this.
pub(super) struct BenchServer {
    child: Child,
    /// What it says when it is ready.
    pub(super) first_line: String,
}

impl BenchServer {
    /// Starts this binary with these words, and waits for its first line.
    pub(super) fn new(world: &StorageWorld, words: &[&str]) -> Result<Self> {
        let me = std::env::current_exe()?.to_string_lossy().into_owned();
        let words: Vec<&str> = [&[&*me][..], words].concat();
        let mut command = world.on_instance(StorageSide::Target, &words);
        let child = command.stdout(Stdio::piped()).spawn().context("starting a server")?;
        let mut server = Self { child, first_line: String::new() };
        let output = server.child.stdout.as_mut().context("the server's output")?;
        BufReader::new(output).read_line(&mut server.first_line)?;
        ensure!(!server.first_line.is_empty(), "`{}` did not start", words[1]);
        Ok(server)
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        // `tasuki run` ends its program on request.
        let pid = self.child.id().to_string();
        let _ = std::process::Command::new("kill").arg(pid).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

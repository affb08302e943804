//! Removes namespaces, their processes and files when this process ends, by whatever cause.
//!
//! A second process does it: `tasuki-bench clean-up`, outside of the terminal's process group. It
//! begins when its standard input ends. That is when [`CleanUp`] is dropped, or when this process
//! was killed, also by Ctrl-C.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

/// The words of `clean-up`.
#[derive(Args)]
pub(crate) struct CleanUpArgs {
    /// A network namespace, with all processes in it.
    #[arg(long)]
    namespace: Vec<String>,
    /// A file, or a folder with all that it holds.
    #[arg(long)]
    path: Vec<PathBuf>,
    /// The directory of a control group, with all processes in it, or of a tracing instance. Both
    /// go as a whole by rmdir(2).
    #[arg(long)]
    group: Vec<PathBuf>,
}

/// Removes what it was made for when it is dropped.
pub(crate) struct CleanUp(Child);

impl CleanUp {
    /// Promises to remove these, whether they are there yet or not.
    pub(crate) fn new(namespaces: &[String], paths: &[PathBuf]) -> Result<Self> {
        let all = namespaces.iter().flat_map(|name| [OsStr::new("--namespace"), name.as_ref()]);
        Self::of(all.chain(paths.iter().flat_map(|path| [OsStr::new("--path"), path.as_ref()])))
    }

    /// The same for control groups and tracing instances.
    pub(crate) fn of_groups(groups: &[PathBuf]) -> Result<Self> {
        Self::of(groups.iter().flat_map(|path| [OsStr::new("--group"), path.as_ref()]))
    }

    fn of<'a>(words: impl Iterator<Item = &'a OsStr>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("clean-up").process_group(0).stdin(Stdio::piped()).stdout(Stdio::null());
        command.args(words);
        Ok(Self(command.spawn().context("starting `tasuki-bench clean-up`")?))
    }
}

impl Drop for CleanUp {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It cannot fail to end.
        let _ = self.0.wait();
    }
}

/// How long processes may take to end after SIGTERM. `tasuki run` ends its servers meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);

/// Waits for the end of standard input, then removes everything.
pub(crate) fn run(args: &CleanUpArgs) -> Result<()> {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for namespace in &args.namespace {
        signal("-TERM", &processes(namespace));
    }
    for namespace in &args.namespace {
        let began = Instant::now();
        while !processes(namespace).is_empty() {
            if began.elapsed() > PATIENCE {
                signal("-KILL", &processes(namespace));
            }
            sleep(LOOK);
        }
        // One that was never made is no failure.
        let _ = Command::new("ip").args(["netns", "del", namespace]).stderr(Stdio::null()).status();
    }
    for group in &args.group {
        remove_group(group);
    }
    for path in &args.path {
        // A path that is not there is the goal.
        let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
    }
    Ok(())
}

/// Ends the processes of a control group, and removes it.
fn remove_group(group: &Path) {
    let began = Instant::now();
    while group.exists() && fs::remove_dir(group).is_err() && began.elapsed() < PATIENCE {
        let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        let processes: Vec<String> = listed.lines().map(str::to_owned).collect();
        signal("-KILL", &processes);
        sleep(LOOK);
    }
}

/// The processes in a namespace.
fn processes(namespace: &str) -> Vec<String> {
    let command = Command::new("ip").args(["netns", "pids", namespace]).output();
    let said = command.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).split_whitespace().map(str::to_owned).collect()
}

fn signal(signal: &str, processes: &[String]) {
    if !processes.is_empty() {
        // Some may have ended meanwhile.
        let _ = Command::new("kill").arg(signal).args(processes).stderr(Stdio::null()).status();
    }
}

//! What another user of the machine can do: a program that is not root's, and in no group.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use rustix::fs::FlockOperation;

use super::kind::Kind;
use super::program::{WorstArgs, begun};

/// The number of the user "nobody".
const NOBODY: u32 = 65_534;

pub(super) fn run(args: &WorstArgs) -> Result<()> {
    if rustix::process::getuid().is_root() {
        // The groups of root go with the number.
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).uid(NOBODY).gid(NOBODY);
        let status = command.status().context("starting this program as another user")?;
        bail!("it ended: {status}");
    }
    let directory = args.socket.parent().context("a socket in the runtime directory")?;
    match args.kind {
        Kind::DirectoryLock => lock(directory),
        _ => write(directory, &args.socket),
    }
}

/// Takes the lock of the runtime directory, if it can, and keeps it.
fn lock(directory: &Path) -> Result<()> {
    let mut held = Vec::new();
    let mut is_begun = false;
    loop {
        // That it is refused is what this is about.
        if let Ok(opened) = File::open(directory)
            && rustix::fs::flock(&opened, FlockOperation::LockExclusive).is_ok()
        {
            held.push(opened);
        }
        if !std::mem::replace(&mut is_begun, true) {
            begun();
        }
    }
}

/// Makes files, links and sockets there, and removes the instance's.
fn write(directory: &Path, socket: &Path) -> Result<()> {
    begun();
    let names = ["worst.sock", "worst.log", "worst.operator.sock"].map(|name| directory.join(name));
    let log = socket.with_extension("log");
    loop {
        // Nothing of this may succeed.
        for name in &names {
            let _ = OpenOptions::new().write(true).create_new(true).open(name);
            let _ = symlink("/etc/passwd", name);
            let _ = UnixListener::bind(name);
            let _ = fs::hard_link(&log, name);
            let _ = fs::create_dir(name);
            let _ = fs::rename(socket, name);
        }
        let _ = OpenOptions::new().write(true).truncate(true).open(&log);
        let _ = fs::remove_file(socket);
        let _ = fs::remove_file(&log);
    }
}

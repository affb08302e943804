//! Commands whose work goes on in the background: `tasuki up`, `tasuki target up`.
//!
//! The command starts itself again in a session of its own, with the log file as standard error. It
//! waits for one line of JSON on the other's standard output ([`Start`]): that it is ready, or why
//! not. So a failure while starting is reported, with its exit code, in the user's terminal.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::exit::{self, Code, Failure};

/// Called when the work can be used.
pub(super) type Ready = Box<dyn FnOnce() -> Result<(), Failure>>;

/// Set for the background process: the path of its log file.
const BACKGROUND: &str = "TASUKI_UP_BACKGROUND";

/// The log file, if this is the background process.
pub(crate) fn log_path() -> Option<PathBuf> {
    std::env::var_os(BACKGROUND).map(PathBuf::from)
}

/// The report of the background process to the process that started it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Start {
    /// It can be used.
    Ready,
    /// It does not.
    Failed { code: u8, sentence: String },
}

/// Starts the background process with a log file, and waits until it is ready.
///
/// # Errors
/// The system's. A failure of the process itself is told here, and its code returned.
pub(super) fn detach(log: (PathBuf, File)) -> Result<u8, Failure> {
    start(log, Stdio::null(), |_| {})
}

/// As [`detach`]. `give` writes to the process's standard input, and closes it.
///
/// # Errors
/// As there.
pub(super) fn detach_with(
    log: (PathBuf, File),
    give: impl FnOnce(ChildStdin),
) -> Result<u8, Failure> {
    start(log, Stdio::piped(), |input| {
        if let Some(input) = input {
            give(input);
        }
    })
}

fn start(
    (log_path, log): (PathBuf, File),
    input: Stdio,
    give: impl FnOnce(Option<ChildStdin>),
) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| Failure::system("start the background process", error);
    let mut child = Command::new("/proc/self/exe")
        .arg0("tasuki")
        .args(std::env::args_os().skip(1))
        .env(BACKGROUND, &log_path)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(failed)?;
    give(child.stdin.take());
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(failed)?;
    }
    match serde_json::from_str(&line) {
        Ok(Start::Ready) => Ok(0),
        Ok(Start::Failed { code, sentence }) => {
            // It has nothing more to do and ends. Its log stays if it says more.
            let _ = child.wait();
            let others = code == Code::AlreadyRunning as u8;
            if !others && std::fs::metadata(&log_path).is_ok_and(|log| log.len() == 0) {
                let _ = std::fs::remove_file(&log_path);
            }
            exit::say(format_args!("tasuki: {sentence}"));
            Ok(code)
        }
        Err(_) => {
            let status = child.wait().map_err(failed)?;
            let log = log_path.display();
            let sentence = format!("the background process ended early ({status}); see {log}");
            Err(Failure::new(Code::Internal, sentence))
        }
    }
}

/// Is the background process. `work` is given what it calls when it is ready.
///
/// # Errors
/// Why the work did not go on.
pub(super) fn work(
    log: &Path,
    work: impl FnOnce(Ready) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    // Fails only for the leader of a process group, which a child of `detach` is not.
    let _ = rustix::process::setsid();
    let ready = Rc::new(Cell::new(false));
    let is_ready = Rc::clone(&ready);
    let tell_ready = move || {
        is_ready.set(true);
        tell(&Start::Ready)
    };
    match work(Box::new(tell_ready)) {
        Err(failure) if !ready.get() => {
            let Failure { code, sentence } = failure;
            tell(&Start::Failed { code: code as u8, sentence })?;
            Ok(code as u8)
        }
        Ok(code) => {
            // An orderly end leaves nothing behind.
            let _ = std::fs::remove_file(log);
            Ok(code)
        }
        // No process waits for it any more, so it goes to the log.
        failed => failed,
    }
}

/// Writes one line to standard output, the pipe to [`detach`], and closes it.
fn tell(start: &Start) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::system("tell how the start went", error);
    let mut line = serde_json::to_vec(start).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    std::io::stdout().write_all(&line).and_then(|()| std::io::stdout().flush()).map_err(failed)?;
    let null = File::options().write(true).open("/dev/null").map_err(failed)?;
    rustix::stdio::dup2_stdout(&null).map_err(|errno| failed(errno.into()))
}

/// Tells systemd that the work can be used (sd_notify(3)), if it asked.
///
/// # Errors
/// The system's.
pub(super) fn notify() -> Result<(), Failure> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::SocketAddr;
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let send = || {
        let address = match path.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&path)?,
        };
        UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address)
    };
    send()
        .map(drop)
        .map_err(|error| Failure::system(format!("notify systemd at {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        let failed = Start::Failed { code: 120, sentence: "in \"use\"\nnow".to_owned() };
        for start in [Start::Ready, failed] {
            let line = serde_json::to_string(&start).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Start>(&line).unwrap(), start);
        }
    }
}

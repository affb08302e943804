//! `tasuki up`: an instance that programs share.
//!
//! In the background, this process starts itself again in a session of its own, with the log file
//! as standard error, and waits for one line of JSON on the other's standard output ([`Start`]):
//! that it is ready, or why not. So a failure while starting is reported, with its exit code, in
//! the user's terminal.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::cli::UpArgs;
use crate::exit::{self, Code, Failure};
use crate::runtime_dir::RuntimeDir;
use crate::settings::Settings;
use crate::supervisor::{Instance, Signals, Supervisor, Workload};

/// Set for the background process: the path of its log file.
const BACKGROUND: &str = "TASUKI_UP_BACKGROUND";

/// The log file, if this is the background process.
pub(crate) fn background_log() -> Option<PathBuf> {
    std::env::var_os(BACKGROUND).map(PathBuf::from)
}

/// The report of the background process to the process that started it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Start {
    /// The instance answers.
    Ready,
    /// It does not.
    Failed { code: u8, sentence: String },
}

/// Starts the instance, or is it.
///
/// # Errors
/// Why it did not start, or (in the foreground) did not go on.
pub(crate) fn up(args: &UpArgs) -> Result<u8, Failure> {
    if let Some(log) = background_log() {
        return background(args, &log);
    }
    let settings = Settings::new(args.name.clone(), &args.options)?;
    if args.foreground {
        return serve(settings, Box::new(notify));
    }
    detach(args)
}

fn serve(
    settings: Settings,
    ready: Box<dyn FnOnce() -> Result<(), Failure>>,
) -> Result<u8, Failure> {
    let signals = Signals::catch()?;
    let instance = Instance::make(settings)?;
    Supervisor::start(instance, signals, Workload::Serve(ready))?.run()
}

/// Starts the background process and waits until it is ready.
fn detach(args: &UpArgs) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| Failure::system("start the background process", error);
    // The log of a running instance must not be overwritten. If the instance runs, report just
    // that.
    if let Ok(_running) = crate::operator::Operator::connect(&args.name) {
        let name = &args.name;
        let sentence =
            format!("instance {name} is already running; end it with `tasuki down {name}`");
        return Err(Failure::new(Code::AlreadyRunning, sentence));
    }
    let (log_path, log) = RuntimeDir::make()?.make_log(&args.name)?;
    let mut child = Command::new("/proc/self/exe")
        .arg0("tasuki")
        .args(std::env::args_os().skip(1))
        .env(BACKGROUND, &log_path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(failed)?;
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

/// The background process.
fn background(args: &UpArgs, log: &Path) -> Result<u8, Failure> {
    // Fails only for the leader of a process group, which a child of `detach` is not.
    let _ = rustix::process::setsid();
    let ready = Rc::new(Cell::new(false));
    let is_ready = Rc::clone(&ready);
    let done = Settings::new(args.name.clone(), &args.options).and_then(|settings| {
        std::env::set_current_dir("/").map_err(|error| Failure::system("change to /", error))?;
        let tell_ready = move || {
            is_ready.set(true);
            tell(&Start::Ready)
        };
        serve(settings, Box::new(tell_ready))
    });
    match done {
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

/// Tells systemd that the instance is ready (sd_notify(3)), if it asked.
fn notify() -> Result<(), Failure> {
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

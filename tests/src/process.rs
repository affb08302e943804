//! Programs of a test: under a time limit, with all their output at hand.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::tools::PATIENCE;

/// Both outputs of a program, so far.
#[derive(Default)]
struct Output {
    stdout: String,
    stderr: String,
}

#[derive(Default)]
struct Shared {
    said: Mutex<Output>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Output> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A program that runs. It is killed when this is dropped.
pub struct Running {
    child: Child,
    title: String,
    shared: Arc<Shared>,
    readers: Vec<JoinHandle<()>>,
}

/// A program that ended by itself.
pub struct Finished {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
    title: String,
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, stdout, stderr, title } = self;
        write!(f, "{title}: {status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---")
    }
}

impl Finished {
    /// Asserts that it ended with exit code 0.
    ///
    /// # Panics
    /// If it did not.
    #[must_use]
    pub fn success(self) -> Self {
        assert!(self.status.success(), "{self}");
        self
    }

    /// Asserts that it ended with this exit code.
    ///
    /// # Panics
    /// If it did not.
    #[must_use]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self
    }

    /// Asserts that `ping -c COUNT -w SECONDS` had an answer to each of its first requests. With -w
    /// it may send more than it waits for, and calls that loss.
    ///
    /// # Panics
    /// If one is missing.
    #[must_use]
    pub fn answered(self, count: u32) -> Self {
        let said = self.success();
        for number in 1..=count {
            assert!(said.stdout.contains(&format!("icmp_seq={number} ttl=")), "{number}: {said}");
        }
        said
    }
}

impl Running {
    /// Starts `command` with both outputs watched.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let title = format!("{command:?}");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{title}: {error}"));
        let shared = Arc::new(Shared::default());
        let out = child.stdout.take().map(|pipe| watch(pipe, &shared, |said| &mut said.stdout));
        let err = child.stderr.take().map(|pipe| watch(pipe, &shared, |said| &mut said.stderr));
        Self { child, title, shared, readers: out.into_iter().chain(err).collect() }
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the program prints a line that contains `text` on either output. Returns that
    /// line.
    ///
    /// # Panics
    /// When both outputs end, or after [`PATIENCE`], without it.
    #[must_use]
    pub fn line(&self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut said = self.shared.lock();
        loop {
            let mut lines =
                said.stdout.split_inclusive('\n').chain(said.stderr.split_inclusive('\n'));
            if let Some(line) = lines.find(|line| line.ends_with('\n') && line.contains(text)) {
                return line.trim_end().to_owned();
            }
            let ended = self.readers.iter().all(JoinHandle::is_finished);
            let late = Instant::now() >= deadline;
            assert!(
                !ended && !late,
                "{} {} without saying {text:?}\n--- stdout\n{}\n--- stderr\n{}\n---",
                self.title,
                if ended { "ended" } else { "goes on" },
                said.stdout,
                said.stderr
            );
            let wait = self.shared.changed.wait_timeout(said, Duration::from_millis(50));
            said = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends a signal by its name without SIG, such as `INT`.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a child has a process id"), signal)
            .unwrap_or_else(|errno| panic!("{}: {errno}", self.title));
    }

    /// Has it ended?
    ///
    /// # Panics
    /// When the system refuses to tell.
    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// After [`PATIENCE`].
    #[must_use]
    pub fn finish(self) -> Finished {
        self.finish_within(PATIENCE)
    }

    /// As [`Running::finish`], for a program that may take so long.
    ///
    /// # Panics
    /// After `limit`.
    #[must_use]
    pub fn finish_within(mut self, limit: Duration) -> Finished {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if Instant::now() >= deadline {
                let said = self.shared.lock();
                let Output { stdout, stderr } = &*said;
                panic!("{} does not end\n--- stdout\n{stdout}\n--- stderr\n{stderr}", self.title);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        // A grandchild may hold the pipes. Its later output does not count.
        let grace = Instant::now() + Duration::from_secs(2);
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < grace {
            std::thread::sleep(Duration::from_millis(1));
        }
        let said = std::mem::take(&mut *self.shared.lock());
        let title = std::mem::take(&mut self.title);
        Finished { status, stdout: said.stdout, stderr: said.stderr, title }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn watch(
    pipe: impl Read + Send + 'static,
    shared: &Arc<Shared>,
    which: fn(&mut Output) -> &mut String,
) -> JoinHandle<()> {
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while matches!(pipe.read_until(b'\n', &mut line), Ok(1..)) {
            which(&mut shared.lock()).push_str(&String::from_utf8_lossy(&line));
            shared.changed.notify_all();
            line.clear();
        }
    })
}

/// A process as /proc shows it. Another process with its number has another start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KernelProcess {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// In clock ticks since boot.
    start: u64,
}

impl KernelProcess {
    /// Every process that has not ended.
    pub(crate) fn all() -> Vec<Self> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter_map(Self::of).collect()
    }

    fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses, and may have some itself.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let ended = fields.next()? == "Z";
        let parent = fields.next().filter(|_| !ended)?.parse().ok()?;
        Some(Self { pid, parent, start: fields.nth(17)?.parse().ok()? })
    }
}

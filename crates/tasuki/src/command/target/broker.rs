//! The broker of a target: the process that keeps its user's rights.
//!
//! A target parses what hostile peers send, and holds keys. So it is a process of its own in a
//! sandbox, which opens nothing. `tasuki target up` is its broker. It starts the target, makes the
//! socket by which that is managed, stores the state of units and looks keys up for it, passes on
//! signals, and removes what is left at the end.
//!
//! ```text
//!   tasuki target up ──starts──▶ broker ──starts──▶ target ◀── initiators
//!                                  │ ▲                 │
//!      state, known keys ◀─────────┘ └── its requests ─┘  (a channel: the target's standard input)
//! ```
//!
//! A target that is taken over gets no more of the broker than its requests: state of [`MOST_LUNS`]
//! units, each bounded by a message's length, and whether a key is known.
//!
//! The broker takes the folder for state from the target, which has read the configuration. It does
//! so once, and before the target is ready: until then no byte from outside has reached it.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use sandbox::{Demand, UserLease};
use shm::channel::TryRecv;
use shm::{Channel, ChannelError};
use storage::{DeviceError, LunNumber, MOST_LUNS, StateFolder, StateStore as _};

use super::broker_messages::{BrokerReply, BrokerRequest, unit};
use crate::command::background::Ready;
use crate::exit::{Code, Failure};
use crate::keys::{KeyDirectory, KnownFile};
use crate::runtime_dir::{RuntimeDir, SocketFile};
use crate::settings;
use crate::supervisor::{Signals, lease_user};

/// Set for the target's process, whose standard input is the line to its broker.
const BROKERED: &str = "TASUKI_TARGET_BROKERED";
/// Longest request, bytes: the registrations of a unit, 256 at most, as numbers in JSON.
const LONGEST: usize = 512 << 10;

/// Is this the target's process?
pub(super) fn is_target() -> bool {
    std::env::var_os(BROKERED).is_some()
}

/// Starts the target of this command line, and is its broker until it ends. `ready` is called when
/// initiators can connect.
///
/// # Errors
/// Why the target does not serve, or how it ended.
pub(super) fn run(ready: Ready) -> Result<u8, Failure> {
    let demand = settings::sandbox()?;
    let failed = |error: &dyn std::fmt::Display| Failure::system("start the target", error);
    let (line, end) = Channel::pair().map_err(|error| failed(&error))?;
    let mut signals = Signals::catch()?;
    let target = TargetProcess::start(demand, end)?;
    let mut broker = Broker {
        demand,
        line: line.limited(LONGEST, 0),
        target,
        ready: Some(ready),
        prepared: None,
        failure: None,
        stored: BTreeSet::new(),
    };
    let done = broker.serve(&mut signals);
    if let Err(error) = &done {
        tracing::error!(%error, "the target is ended");
        broker.target.signal(Signal::KILL);
    }
    let status = broker.target.wait()?;
    match broker.failure.take() {
        Some(failure) => Err(failure),
        None if status.success() => Ok(0),
        None => Err(Failure::new(Code::Internal, broker.target.how(status))),
    }
}

/// What there is for a target that was prepared.
#[derive(Debug)]
struct Prepared {
    socket: SocketFile,
    state: Option<StateFolder>,
    /// No other process has the target's user until it has ended.
    user: Option<UserLease>,
}

struct Broker {
    demand: Demand,
    line: Channel,
    target: TargetProcess,
    /// `None`: the target is ready.
    ready: Option<Ready>,
    prepared: Option<Prepared>,
    /// Why the target does not serve.
    failure: Option<Failure>,
    /// Units whose state was stored.
    stored: BTreeSet<LunNumber>,
}

impl Broker {
    /// Answers requests until the target closes its end, which it does by ending.
    fn serve(&mut self, signals: &mut Signals) -> Result<(), ChannelError> {
        loop {
            let mut fds =
                [PollFd::new(&self.line, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if signals.arrived().into_iter().any(|signal| signal.ends()) {
                // It has no handler before it is ready, and process 1 ignores such a signal.
                self.target.signal(if self.ready.is_none() { Signal::TERM } else { Signal::KILL });
            }
            loop {
                match self.line.try_recv()? {
                    TryRecv::Message(message) => self.answer(&message.body)?,
                    TryRecv::Empty => break,
                    TryRecv::Ended => return Ok(()),
                }
            }
        }
    }

    /// Never waits: a target that reads no replies is broken.
    fn answer(&mut self, body: &[u8]) -> Result<(), ChannelError> {
        let request = serde_json::from_slice(body)
            .map_err(|error| Failure::new(Code::Internal, format!("no request: {error}")));
        let reply = request.and_then(|request| self.carry_out(request));
        let reply = reply.unwrap_or_else(|Failure { code, sentence }| {
            tracing::debug!(sentence, "the target's request fails");
            BrokerReply::Failed { code, sentence }
        });
        let is_prepared = matches!(reply, BrokerReply::Prepared { .. });
        let socket = self.prepared.as_ref().filter(|_| is_prepared);
        let socket: Vec<BorrowedFd<'_>> =
            socket.iter().map(|prepared| prepared.socket.listener().as_fd()).collect();
        let body = serde_json::to_vec(&reply).unwrap_or_default();
        self.line.post(&body, &socket).map(drop)
    }

    fn carry_out(&mut self, request: BrokerRequest) -> Result<BrokerReply, Failure> {
        let no_unit = |sentence| Failure::new(Code::Internal, sentence);
        match request {
            BrokerRequest::Prepare { name, state } => {
                let prepared = self.prepare(&name, state)?;
                let user = prepared.user.as_ref().map(UserLease::uid);
                self.prepared = Some(prepared);
                Ok(BrokerReply::Prepared { user, pid: self.target.child.id() })
            }
            BrokerRequest::Ready => {
                if let Some(ready) = self.ready.take() {
                    ready()?;
                }
                Ok(BrokerReply::Done)
            }
            BrokerRequest::Failed { code, sentence } => {
                self.failure = Some(Failure::new(code, sentence));
                Ok(BrokerReply::Done)
            }
            BrokerRequest::Load { lun } => {
                let kept = self.state()?.load(unit(lun).map_err(no_unit)?);
                kept.map(BrokerReply::from).map_err(|error| {
                    Failure::system(format!("read the state of unit {lun}"), error)
                })
            }
            BrokerRequest::Store { lun, state } => {
                let unit = unit(lun).map_err(no_unit)?;
                self.stored.insert(unit);
                if self.stored.len() > MOST_LUNS {
                    self.stored.remove(&unit);
                    return Err(no_unit(format!("state of {MOST_LUNS} units was stored before")));
                }
                let stored = self.state()?.store(unit, &state.into());
                stored.map(|()| BrokerReply::Done).map_err(|error| {
                    Failure::system(format!("store the state of unit {lun}"), error)
                })
            }
            BrokerRequest::IsKnown { key } => {
                let key = key
                    .parse()
                    .map_err(|error| Failure::system(format!("look up the key {key:?}"), error))?;
                // The file is read each time, so a change needs no restart.
                let known = KeyDirectory::find()?.known(KnownFile::Initiators)?;
                Ok(BrokerReply::Known(known.find(key).is_some()))
            }
        }
    }

    fn prepare(&self, name: &str, state: Option<PathBuf>) -> Result<Prepared, Failure> {
        if self.prepared.is_some() {
            return Err(Failure::new(Code::Internal, "the target was prepared before"));
        }
        let name = name.parse().map_err(|sentence| Failure::new(Code::Internal, sentence))?;
        let directory = RuntimeDir::make()?;
        let lock = directory.lock()?;
        let socket = directory.bind_target(&name)?;
        drop(lock);
        let state = state.map(StateFolder::new).transpose().map_err(|error| {
            Failure::new(Code::Configuration, DeviceError::State(error).to_string())
        })?;
        let user = lease_user(self.demand, &socket.path().with_file_name("users"));
        Ok(Prepared { socket, state, user })
    }

    fn state(&self) -> Result<&StateFolder, Failure> {
        let state = self.prepared.as_ref().and_then(|prepared| prepared.state.as_ref());
        state.ok_or_else(|| Failure::new(Code::Internal, "the target has no folder for state"))
    }
}

/// The target's process.
#[derive(Debug)]
struct TargetProcess {
    child: Child,
    status: Option<ExitStatus>,
}

impl TargetProcess {
    /// Starts it: this same command once more, in a process namespace of its own if it gets a
    /// sandbox.
    fn start(demand: Demand, line: Channel) -> Result<Self, Failure> {
        let failed = |error| Failure::system("start the target", error);
        let mut command = Command::new("/proc/self/exe");
        command.arg0("tasuki-target").args(std::env::args_os().skip(1)).env(BROKERED, "1");
        // A terminal's Ctrl-C is for the broker, which passes it on.
        command.process_group(0);
        command.stdin(std::os::fd::OwnedFd::from(line)).stdout(Stdio::null());
        let child = match demand {
            Demand::Off => command.spawn(),
            Demand::On | Demand::Require => {
                // Symbols are out of reach in the sandbox.
                command.env_remove("RUST_BACKTRACE");
                sandbox::supervisor::in_new_pid_namespace(|| command.spawn())
                    .map_err(|error| Failure::new(Code::Internal, error.to_string()))?
            }
        };
        Ok(Self { child: child.map_err(failed)?, status: None })
    }

    fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            // It may have ended by itself.
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    fn wait(&mut self) -> Result<ExitStatus, Failure> {
        let waited = self.child.wait();
        let status = waited.map_err(|error| Failure::system("wait for the target", error))?;
        self.status = Some(status);
        Ok(status)
    }

    /// A sentence about its end.
    fn how(&self, status: ExitStatus) -> String {
        let how = match (status.code(), status.signal()) {
            (Some(sandbox::EXIT_CODE), _) => {
                "by a system call that its sandbox does not allow (the log names it)".to_owned()
            }
            (Some(code), _) => format!("with exit code {code}"),
            (_, Some(signal)) => format!("by signal {signal}"),
            _ => "in an unknown way".to_owned(),
        };
        format!("the target (process {}) ended {how}", self.child.id())
    }
}

impl Drop for TargetProcess {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

//! One server process: how it begins, and how it ended.
//!
//! A server is this same executable, started anew. Its standard input is its control connection,
//! and standard output is the second one of a fused server. Standard error takes its messages, and
//! its environment has only TASUKI_LOG, and RUST_BACKTRACE where it has no sandbox: symbols are out
//! of reach in one, and to read them before made a start take three times as long. All other
//! descriptors reach it over the control connection. It leads a process group of its own, so that a
//! terminal's Ctrl-C is for the program only. It ends with its control connection, so it cannot
//! outlive the supervisor.
//!
//! It enters its sandbox by itself ([`sandbox::enter`]). What it cannot do for itself comes from
//! here: a process namespace, whose first process it is, and a user that nobody else has.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use abi::control::SandboxStatus;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sandbox::{Demand, DeviceKind, Role, UserLease};
use shm::Channel;

use crate::exit::{Code, Failure};

/// The sandboxes that servers get.
#[derive(Debug, Default)]
pub(super) struct SandboxPlan {
    pub(super) demand: Demand,
    /// Where users are leased, if there is no systemd.
    pub(super) leases: PathBuf,
    /// The devices of the drivers.
    pub(super) devices: Vec<DeviceKind>,
}

/// A user for a process with a sandbox, where this one may have any. `leases` is the folder of
/// leases, if there is no systemd.
pub(crate) fn lease_user(demand: Demand, leases: &Path) -> Option<UserLease> {
    if demand == Demand::Off || !rustix::process::geteuid().is_root() {
        return None;
    }
    match UserLease::take(leases) {
        Ok(lease) => Some(lease),
        Err(error) => {
            tracing::warn!(%error, "there is no user for a server: it stays root");
            None
        }
    }
}

/// A server process.
pub(super) struct ServerProcess {
    /// As `tasuki ps` writes it.
    pub(super) role: &'static str,
    child: Child,
    pub(super) pidfd: OwnedFd,
    pub(super) status: Option<ExitStatus>,
    /// What it said of its sandbox.
    pub(super) sandbox: Option<SandboxStatus>,
    /// Its user is nobody else's until it has ended.
    _user: Option<UserLease>,
}

impl ServerProcess {
    /// Starts it, with its end of its control connection, and of the second one.
    ///
    /// # Errors
    /// When the system has no process or descriptor left.
    pub(super) fn start(
        plan: &mut SandboxPlan,
        role: Role,
        line: &Channel,
        second: Option<&Channel>,
    ) -> Result<Self, Failure> {
        let (name, word) = match role {
            Role::Inet => ("inet", "inet"),
            Role::Driver(_) => ("nic", "nic"),
            Role::Fused(_) => ("inet+nic", "fused"),
            Role::Relay => ("relay", "relay"),
            Role::Connector => ("connector", "host"),
            Role::Target => ("target", "target"),
        };
        let failed = |error| Failure::system(format!("start the {name} server"), error);
        let stdio = |line: &Channel| line.as_fd().try_clone_to_owned().map(Stdio::from);
        let mut command = Command::new("/proc/self/exe");
        command.arg0(format!("tasuki-{word}")).args(["server", &role.to_string()]);
        command.env_clear().process_group(0).current_dir("/");
        command.stdin(stdio(line).map_err(failed)?);
        command.stdout(match second {
            Some(second) => stdio(second).map_err(failed)?,
            None => Stdio::null(),
        });
        let symbols = (plan.demand == Demand::Off).then_some("RUST_BACKTRACE");
        for name in ["TASUKI_LOG"].into_iter().chain(symbols) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let demand = plan.demand;
        command.args(["--sandbox", &demand.to_string()]);
        let user = lease_user(demand, &plan.leases);
        command.args(user.iter().map(|user| format!("--user={}", user.uid())));
        let mut child = match demand {
            Demand::Off => command.spawn(),
            _ => sandbox::supervisor::in_new_pid_namespace(|| command.spawn())
                .map_err(|error| Failure::new(Code::Internal, error.to_string()))?,
        }
        .map_err(failed)?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => {
                Ok(Self { role: name, child, pidfd, status: None, sandbox: None, _user: user })
            }
            Err(errno) => {
                end(&mut child);
                Err(failed(errno.into()))
            }
        }
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Collects it when it has ended. Returns a sentence about its end, once.
    pub(super) fn collect(&mut self) -> Option<String> {
        if self.status.is_some() {
            return None;
        }
        let status = self.child.try_wait().ok()??;
        self.status = Some(status);
        let how = match (status.code(), status.signal()) {
            (Some(sandbox::EXIT_CODE), _) => {
                "by a system call that its sandbox does not allow (the log names it)".to_owned()
            }
            (Some(code), _) if code == Code::Rights as i32 => {
                "because it cannot have the whole sandbox (the log says what is missing)".to_owned()
            }
            (Some(code), _) => format!("with exit code {code}"),
            (_, Some(signal)) => format!("by signal {signal}"),
            _ => "in an unknown way".to_owned(),
        };
        let (role, pid) = (self.role, self.child.id());
        Some(format!("the {role} server (process {pid}) ended {how}; the instance ends"))
    }

    /// Kills and collects it.
    pub(super) fn kill(&mut self) {
        self.status = end(&mut self.child);
    }
}

/// Kills a child and collects it. Neither fails for a child that was not collected yet.
fn end(child: &mut Child) -> Option<ExitStatus> {
    let _ = child.kill();
    child.wait().ok()
}

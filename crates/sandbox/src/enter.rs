//! All of the sandbox in its order.
//!
//! Each step takes rights away that an earlier one needed: namespaces need CAP_SYS_ADMIN, dropping
//! capabilities needs CAP_SETPCAP, and no call of all these is on a filter's list.

use std::os::fd::AsFd;

use rustix::fs::FileType;
use rustix::process::{Pid, Resource, Signal, set_parent_process_death_signal};
use rustix::thread::CapabilitySet;

use crate::demand::Demand;
use crate::error::SandboxError;
use crate::role::{DeviceKind, Role};
use crate::{filter, landlocked, namespaces, privilege, trap};

/// The sandbox of a process.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// What the process is.
    pub role: Role,
    /// How much of it the user wants.
    pub demand: Demand,
    /// The user to become, of [`crate::UserLease`]; where the caller is root.
    pub user: Option<u32>,
    /// With the filter of system calls. Only tests of the other layers are without.
    pub filter: bool,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restriction {
    /// The version of Landlock in force, `v7`; `None`: there is none.
    pub landlock: Option<String>,
    /// The layers that are missing, with the system's reasons.
    pub missing: Vec<String>,
}

/// Takes this process into its sandbox for good. It must have one thread. With
/// [`Demand::Off`] it only ends with its parent.
///
/// `begin_threads` begins the threads that the process is to have: it can begin none later.
///
/// # Errors
/// [`SandboxError::Incomplete`] with [`Demand::Require`]; otherwise only when the process is in no
/// defined state.
pub fn enter(plan: &Plan, begin_threads: impl FnOnce()) -> Result<Restriction, SandboxError> {
    let mut restriction = Restriction::default();
    match plan.demand {
        Demand::Off => end_with_parent()?,
        Demand::On | Demand::Require => restriction.apply(plan, begin_threads)?,
    }
    match plan.demand {
        Demand::Require if !restriction.missing.is_empty() => {
            Err(SandboxError::Incomplete { missing: restriction.missing.join(", ") })
        }
        _ => Ok(restriction),
    }
}

/// The control connection's end ends a server, too. This also ends one that is stuck.
fn end_with_parent() -> Result<(), SandboxError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(SandboxError::system("be ended with the supervisor"))
}

impl Restriction {
    fn apply(&mut self, plan: &Plan, begin_threads: impl FnOnce()) -> Result<(), SandboxError> {
        let spared = spared_limits(plan.role);
        let has_user = self.leave_host(plan);
        self.drop_privileges(plan, has_user)?;
        self.note("no inspection", privilege::forbid_inspection());
        self.note("no_new_privs", rustix::thread::set_no_new_privs(true));
        if plan.role != Role::Relay {
            // Changing the user takes this back, so it comes behind.
            end_with_parent()?;
        }
        match landlocked::restrict(plan.role) {
            Ok(version) => self.landlock = Some(version),
            Err(why) => self.missing.push(format!("Landlock ({why})")),
        }
        // They have all of the above from their begin, and the filter together with this one.
        begin_threads();
        self.note("limits", privilege::lower_limits(&spared));
        if plan.filter {
            trap::install(plan.role.to_string())?;
            self.note("seccomp", filter::install(plan.role));
        }
        Ok(())
    }

    fn note<E: std::fmt::Display>(&mut self, name: &str, done: Result<(), E>) {
        if let Err(error) = done {
            self.missing.push(format!("{name} ({error})"));
        }
    }

    /// Namespaces, in a user namespace where the caller may not make them otherwise. `true`: the
    /// user was changed before that, or could not be.
    fn leave_host(&mut self, plan: &Plan) -> bool {
        let capable = rustix::thread::capabilities(None)
            .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
        if !capable {
            // Root of a container: no other user can be had inside of a user namespace.
            self.become_user(plan);
            if let Err(error) = namespaces::begin_user() {
                self.missing.push(format!("user namespace ({error})"));
            }
        }
        // The supervisor of a user who is not root cannot make one.
        if plan.user.is_some() && rustix::process::getpid() != Pid::INIT {
            self.missing.push("process namespace".to_owned());
        }
        self.missing.extend(namespaces::leave(plan.role));
        !capable
    }

    fn become_user(&mut self, plan: &Plan) {
        if let Some(uid) = plan.user {
            self.note("user of its own", privilege::become_user(uid));
        }
    }

    fn drop_privileges(&mut self, plan: &Plan, has_user: bool) -> Result<(), SandboxError> {
        // Without CAP_SETPCAP there is nothing to lock, and with no_new_privs nothing to regain.
        let sets = rustix::thread::capabilities(None).map_err(SandboxError::system("capget"))?;
        if sets.effective.contains(CapabilitySet::SETPCAP) {
            self.note("secure bits", privilege::lock_secure_bits());
            self.note("bounding set", privilege::bound(CapabilitySet::empty()));
        }
        if !has_user {
            self.become_user(plan);
        }
        privilege::drop_but(plan.role.keeps())
            .map_err(SandboxError::system("drop the capabilities"))
    }
}

/// The limits that a process of this role needs.
fn spared_limits(role: Role) -> Vec<Resource> {
    let grows = match role {
        // Programs' /etc/resolv.conf, where they see one of ours; the files of units.
        Role::Relay | Role::Target => true,
        // Memory that is shared is a file, too.
        _ => matches!(role.device(), Some(DeviceKind::Pcap | DeviceKind::Wire)),
    };
    let mut spared = Vec::new();
    spared.extend((grows || writes_to_file()).then_some(Resource::Fsize));
    // The kernel's own threads for an io_uring are counted. The filter has no call that begins one.
    spared.extend((role == Role::Target).then_some(Resource::Nproc));
    spared
}

/// Do messages go to a file?
fn writes_to_file() -> bool {
    let stderr = rustix::stdio::stderr();
    rustix::fs::fstat(stderr.as_fd())
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

//! Hosts of a set-up that are made when something is measured there first, and kept.

use anyhow::Result;

use crate::args::Congestion;
use crate::hosts::{Host, Programs};
use crate::setup::{Role, Setup};

/// See the module.
pub(crate) struct LateHost {
    setup: Setup,
    role: Role,
    host: Option<Host>,
}

impl LateHost {
    /// Makes nothing yet.
    pub(crate) fn new(setup: Setup, role: Role) -> Self {
        Self { setup, role, host: None }
    }

    /// The set-up.
    pub(crate) fn setup(&self) -> Setup {
        self.setup
    }

    /// Whether the set-up's end is the client or the server.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// The hosts: those that were made before, or others.
    ///
    /// # Errors
    /// If they cannot be made.
    pub(crate) fn get(
        &mut self,
        programs: &Programs,
        congestion: &Congestion,
        pinned: bool,
    ) -> Result<&Host> {
        let Self { setup, role, host } = self;
        Ok(match host {
            Some(host) => host,
            none => none.insert(Host::new(*setup, *role, programs, congestion, pinned)?),
        })
    }

    /// Have they an instance of Tasuki that outlives a measurement?
    pub(crate) fn has_lasting_instance(&self) -> bool {
        self.role == Role::Server && self.setup.tasuki().is_some()
            || self.setup.is_tasuki_at_both_ends()
    }

    /// Removes them.
    pub(crate) fn remove(&mut self) {
        self.host = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_servers_and_of_both_ends_last() {
        let lasts = |setup, role| LateHost::new(setup, role).has_lasting_instance();
        assert!(lasts(Setup::Split, Role::Server));
        assert!(lasts(Setup::BridgeFused, Role::Client));
        assert!(!lasts(Setup::Split, Role::Client));
        assert!(!lasts(Setup::LinuxOn, Role::Server));
    }
}

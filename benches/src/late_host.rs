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

    /// Removes them.
    pub(crate) fn remove(&mut self) {
        self.host = None;
    }
}

//! The set-ups of streams: whose sockets the client and the server have, and over what.

use std::path::Path;

use anyhow::Result;
use lab::plan::{LabOptions, LabSetup};

use crate::args::Congestion;
use crate::hosts::{Host, Programs};
use crate::lab::peers::peers_in;
use crate::lab::rootless::{own_congestion, rootless_setups};
use crate::late_host::LateHost;
use crate::setup::{Role, Setup};

/// The kernel, and Tasuki in its modes: at the client's end, and with the kernel as client.
const SETUPS: [(LabSetup, Setup); 4] = [
    (LabSetup::Linux, Setup::LinuxOn),
    (LabSetup::Split, Setup::Split),
    (LabSetup::Fused, Setup::Fused),
    (LabSetup::Library, Setup::Library),
];
/// Further ones, for cells of transfer units alone.
const UNIT_SETUPS: [(LabSetup, Setup); 2] =
    [(LabSetup::Split, Setup::SplitNative), (LabSetup::Fused, Setup::FusedNative)];
/// Tasuki at both ends, in its modes.
const BOTH_ENDS: [(LabSetup, Setup); 3] = [
    (LabSetup::Split, Setup::BridgeSplit),
    (LabSetup::Fused, Setup::BridgeFused),
    (LabSetup::Library, Setup::BridgeLibrary),
];

/// A set-up and its hosts.
pub(super) struct StreamSetup(LateHost);

impl StreamSetup {
    fn client(setup: Setup) -> Self {
        Self(LateHost::new(setup, Role::Client))
    }

    /// The name of its series.
    pub(super) fn title(&self) -> String {
        let from = if self.0.role() == Role::Server { "Linux to " } else { "" };
        format!("{from}{}", self.0.setup().title())
    }

    /// The kernel's, that others are compared with.
    pub(super) fn is_base(&self) -> bool {
        self.0.setup().base() == self.0.setup()
    }

    /// Is an end on Tasuki?
    pub(super) fn has_tasuki(&self) -> bool {
        self.0.setup().tasuki().is_some()
    }

    /// Are client and server both on Tasuki?
    pub(super) fn is_tasuki_at_both_ends(&self) -> bool {
        self.0.setup().is_tasuki_at_both_ends()
    }

    /// By the native API?
    pub(super) fn is_native(&self) -> bool {
        self.0.setup().tasuki().is_some_and(|tasuki| tasuki.native)
    }

    /// Are units swept for it? They are the client's, and the peers have none.
    pub(super) fn has_cells(&self) -> bool {
        let setup = self.0.setup();
        self.0.role() == Role::Client && !setup.is_tasuki_at_both_ends() && !setup.is_peer()
    }

    /// Ends the instance that its server is on. Another one starts when it is measured.
    pub(super) fn renew(&mut self) {
        if self.0.setup().serves_on_tasuki(self.0.role()) {
            self.0.remove();
        }
    }

    /// Its hosts.
    ///
    /// # Errors
    /// If they cannot be made.
    pub(super) fn host(&mut self, programs: &Programs) -> Result<&Host> {
        let is_rootless = self.0.setup().is_rootless();
        let congestion = if is_rootless { own_congestion()? } else { Congestion::cubic() };
        self.0.get(programs, &congestion, true)
    }
}

/// The set-ups of connections and throughput that the options choose. A quick run has one server on
/// Tasuki, the first.
pub(super) fn chosen(options: &LabOptions) -> Vec<StreamSetup> {
    if !rustix::process::geteuid().is_root() {
        return rootless_setups(options).into_iter().map(StreamSetup::client).collect();
    }
    let mut setups = Vec::new();
    for setup in named(options, &SETUPS) {
        setups.push(StreamSetup::client(setup));
        let is_first = setups.len() == 2;
        if options.has(LabSetup::Linux) && setup != Setup::LinuxOn && (is_first || !options.quick) {
            setups.push(StreamSetup(LateHost::new(setup, Role::Server)));
        }
    }
    setups
}

/// Those of throughput besides: Tasuki at both ends, and other stacks. `with_units`: cells of
/// transfer units are measured.
pub(super) fn further(options: &LabOptions, name: &str, with_units: bool) -> Vec<StreamSetup> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let folder: Option<&Path> = options.peers.as_deref();
    let peers = folder.into_iter().flat_map(|folder| peers_in(folder, name));
    let modes = options.modes_at_both_ends(LabSetup::BothEnds);
    let both = BOTH_ENDS.into_iter().filter(|(mode, _)| modes.contains(mode));
    let native = named(options, &UNIT_SETUPS).filter(|_| with_units);
    let all = peers.chain(both.map(|(_, setup)| setup)).chain(native);
    all.map(StreamSetup::client).collect()
}

fn named(options: &LabOptions, all: &[(LabSetup, Setup)]) -> impl Iterator<Item = Setup> {
    all.iter().filter(|(setup, _)| options.has(*setup)).map(|(_, setup)| *setup)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::options_of;

    #[test]
    fn linux_and_each_mode_are_client_and_server() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let titles = |words: &str| -> Vec<String> {
            chosen(&options_of(words)).iter().map(StreamSetup::title).collect()
        };
        let all = ["Linux", "split", "Linux to split", "fused", "Linux to fused"];
        assert_eq!(titles("throughput")[..5], all);
        assert_eq!(titles("throughput --quick"), all[..4]);
        assert_eq!(titles("throughput --only fused"), ["fused"]);
        assert_eq!(titles("throughput --only linux,fused"), ["Linux", "fused", "Linux to fused"]);
    }
}

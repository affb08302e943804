//! Where sender and receiver are, and which pairs of them are measured.

use lab::plan::{ExperimentName, LabOptions, LabSetup};

use crate::lab::peers::peers_in;
use crate::lab::rootless::rootless_setups;
use crate::setup::Setup;

/// Where the sockets of an end are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hosting {
    Kernel,
    /// On an instance of this mode.
    Tasuki(&'static str),
    /// On another stack, which is in the program itself.
    Peer(Setup),
}

impl Hosting {
    /// As the figures name it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Kernel => "Linux",
            Self::Tasuki(mode) => mode,
            Self::Peer(setup) => setup.title(),
        }
    }
}

/// Sender and receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TripEnds {
    pub(super) from: Hosting,
    pub(super) to: Hosting,
    /// A wire is between two instances.
    pub(super) by_wire: bool,
}

/// By which way the ends meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TripWay {
    /// A path of namespaces, or none where a wire or a bridge joins the ends.
    Chain(TripEnds),
    /// From this sender over passt to a receiver on this host, for a user without rights.
    Passt(Setup),
}

/// Who takes turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TripSetup {
    pub(super) title: String,
    pub(super) way: TripWay,
}

impl TripSetup {
    /// Its title has the receiver only where Tasuki is.
    fn new(from: Hosting, to: Hosting) -> Self {
        let title = match to {
            Hosting::Kernel => from.title().to_owned(),
            to => format!("{} to {}", from.title(), to.title()),
        };
        Self { title, way: TripWay::Chain(TripEnds { from, to, by_wire: false }) }
    }

    /// Over passt.
    fn over_passt(sender: Setup) -> Self {
        Self { title: sender.title().to_owned(), way: TripWay::Passt(sender) }
    }

    /// With a wire from one instance to another.
    fn by_wire(tasuki: Hosting) -> Self {
        let title = format!("{}, wire", Self::new(tasuki, tasuki).title);
        let ends = TripEnds { from: tasuki, to: tasuki, by_wire: true };
        Self { title, way: TripWay::Chain(ends) }
    }

    /// Does a wire join the ends?
    pub(super) fn is_by_wire(&self) -> bool {
        matches!(self.way, TripWay::Chain(TripEnds { by_wire: true, .. }))
    }

    /// How many ends are on Tasuki?
    fn count_of_tasuki(&self) -> usize {
        match self.way {
            TripWay::Chain(TripEnds { from, to, .. }) => {
                [from, to].iter().filter(|end| matches!(end, Hosting::Tasuki(_))).count()
            }
            TripWay::Passt(sender) => usize::from(sender.tasuki().is_some()),
        }
    }

    /// Is an end on Tasuki?
    pub(super) fn has_tasuki(&self) -> bool {
        self.count_of_tasuki() > 0
    }

    /// Are both ends on Tasuki?
    pub(super) fn is_tasuki_at_both_ends(&self) -> bool {
        self.count_of_tasuki() == 2
    }
}

/// How a mode is named, in figures and on the command line.
fn mode(setup: LabSetup) -> Option<&'static str> {
    Some(match setup {
        LabSetup::Split => "split",
        LabSetup::Fused => "fused",
        LabSetup::Library => "library",
        LabSetup::Linux | LabSetup::BothEnds | LabSetup::Wire => return None,
    })
}

/// Linux at both ends; for each mode Tasuki as sender, and as receiver of Linux's requests; then
/// Tasuki at both ends, and with a wire; then other stacks as senders. A quick run has one receiver
/// on Tasuki, the first. A user without rights has the senders, over passt.
pub(super) fn setups(options: &LabOptions) -> Vec<TripSetup> {
    if !rustix::process::geteuid().is_root() {
        return rootless_setups(options).into_iter().map(TripSetup::over_passt).collect();
    }
    let (mut setups, has_linux) = (Vec::new(), options.has(LabSetup::Linux));
    if has_linux {
        setups.push(TripSetup::new(Hosting::Kernel, Hosting::Kernel));
    }
    for setup in LabSetup::MODES.into_iter().filter(|setup| options.has(*setup)) {
        let Some(tasuki) = mode(setup).map(Hosting::Tasuki) else { continue };
        setups.push(TripSetup::new(tasuki, Hosting::Kernel));
        // Linux and this one.
        let is_first = setups.len() == 2;
        if has_linux && (is_first || !options.quick) {
            setups.push(TripSetup::new(Hosting::Kernel, tasuki));
        }
    }
    let both = |link: LabSetup| {
        options.modes_at_both_ends(link).into_iter().filter_map(mode).map(Hosting::Tasuki)
    };
    setups.extend(both(LabSetup::BothEnds).map(|tasuki| TripSetup::new(tasuki, tasuki)));
    setups.extend(both(LabSetup::Wire).map(TripSetup::by_wire));
    let peers = options.peers.as_deref().map(|folder| peers_in(folder, ExperimentName::Rtt.name()));
    let peers = peers.into_iter().flatten().map(Hosting::Peer);
    setups.extend(peers.map(|peer| TripSetup::new(peer, Hosting::Kernel)));
    setups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::options_of;

    fn titles(words: &str) -> Vec<String> {
        setups(&options_of(words)).into_iter().map(|setup| setup.title).collect()
    }

    #[test]
    fn each_mode_is_at_each_end_and_at_both() {
        if !rustix::process::geteuid().is_root() {
            assert_eq!(titles("rtt --only split,fused"), ["split", "fused"]);
            return;
        }
        assert_eq!(
            titles("rtt"),
            [
                "Linux",
                "split",
                "Linux to split",
                "fused",
                "Linux to fused",
                "library",
                "Linux to library",
                "split to split",
                "fused to fused",
                "split to split, wire",
                "fused to fused, wire",
            ]
        );
        let quick = titles("rtt --quick");
        assert_eq!(quick[..3], ["Linux", "split", "Linux to split"]);
        assert_eq!(quick[3..], ["fused", "split to split"]);
        assert_eq!(titles("rtt --only split"), ["split"]);
        // Others need programs of their own.
        let peers = titles("rtt --only linux --peers /nowhere");
        assert_eq!(peers, ["Linux", "smoltcp"]);
        let only = ["library", "library to library"];
        assert_eq!(titles("rtt --only library,both-ends"), only);
    }
}

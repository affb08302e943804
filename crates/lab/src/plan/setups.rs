//! The set-ups among which `--only` chooses.

use clap::ValueEnum;

/// Whose sockets are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabSetup {
    /// The kernel's
    Linux,
    /// Tasuki, one process each for program, inet server and driver
    Split,
    /// Tasuki, inet server and driver in one process
    Fused,
    /// Tasuki inside the program
    Library,
    /// Tasuki at both ends, in the modes that are named too, or in split and fused: rtt, throughput
    BothEnds,
    /// The same with a wire between the two instances, and nothing of the kernel's: rtt
    Wire,
}

impl LabSetup {
    /// The modes of Tasuki.
    pub const MODES: [Self; 3] = [Self::Split, Self::Fused, Self::Library];
    /// What makes network namespaces in every experiment.
    pub(super) const OF_ROOT: [Self; 2] = [Self::BothEnds, Self::Wire];
    /// What a quick run has only if it is named: it has three minutes.
    pub(super) const NOT_QUICK: [Self; 2] = [Self::Library, Self::Wire];
}

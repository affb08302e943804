//! Set-ups of a user without rights: a client on Tasuki over passt, or on the kernel in a namespace
//! of the user's that pasta connects. The server is on this host's loopback address.

use anyhow::{Context as _, Result};
use lab::plan::{LabOptions, LabSetup};
use user::exit::say;

use crate::args::Congestion;
use crate::hosts::try_pasta;
use crate::setup::Setup;

/// The kernel, and Tasuki in its modes.
const SETUPS: [(LabSetup, Setup); 4] = [
    (LabSetup::Linux, Setup::Pasta),
    (LabSetup::Split, Setup::PasstSplit),
    (LabSetup::Fused, Setup::PasstFused),
    (LabSetup::Library, Setup::PasstLibrary),
];

/// Those that the options choose. The kernel is left out where pasta does not work: it needs
/// /dev/net/tun, which passt does not.
pub(super) fn rootless_setups(options: &LabOptions) -> Vec<Setup> {
    let chosen = SETUPS.iter().filter(|(setup, _)| options.has(*setup));
    let mut setups: Vec<Setup> = chosen.map(|(_, setup)| *setup).collect();
    if options.has(LabSetup::Linux)
        && let Err(error) = try_pasta()
    {
        say(format_args!("Linux is left out: it needs pasta (of passt), which says: {error:#}"));
        setups.retain(|setup| *setup != Setup::Pasta);
    }
    setups
}

/// The machine's congestion control, which no user needs a right for.
///
/// # Errors
/// If the kernel does not tell it.
pub(super) fn own_congestion() -> Result<Congestion> {
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    let congestion = std::fs::read_to_string(path).context(path)?.trim().to_owned();
    Ok(Congestion { congestion })
}

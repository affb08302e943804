//! `tasuki completion`: scripts for shells.

use super::print;
use crate::cli::{CompletionArgs, visible};
use crate::exit::Failure;

/// Prints the script.
///
/// # Errors
/// When standard output cannot be written to.
pub(crate) fn completion(args: &CompletionArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(), "tasuki", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

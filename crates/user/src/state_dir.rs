//! Where a user keeps what must outlive instances.

use std::path::{Path, PathBuf};

/// Names another directory.
const VARIABLE: &str = "TASUKI_STATE";

/// The directory of this user: `$TASUKI_STATE`, or `/var/lib/tasuki` (root), or
/// `$XDG_STATE_HOME/tasuki` or `~/.local/state/tasuki` (others). It need not be there. `None`: no
/// variable tells where it is.
#[must_use]
pub fn state_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let path = if let Some(path) = variable(VARIABLE) {
        PathBuf::from(path)
    } else if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/lib/tasuki")
    } else if let Some(state) = variable("XDG_STATE_HOME") {
        Path::new(&state).join("tasuki")
    } else {
        Path::new(&variable("HOME")?).join(".local/state/tasuki")
    };
    // A process in the background may have another working directory.
    std::path::absolute(path).ok()
}

//! Scripts of the shell, which make namespaces and devices.

use std::process::Command;

use anyhow::{Result, bail};

/// Runs a script of the shell. The error is what it said.
pub(crate) fn sh(script: &str) -> Result<()> {
    let output = Command::new("sh").args(["-c", script]).output()?;
    if !output.status.success() {
        bail!("`{script}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

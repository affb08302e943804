//! The default congestion control of a network namespace.
//!
//! Only the first namespace takes each one. Others take what programs without rights may choose
//! (`net.ipv4.tcp_allowed_congestion_control`). Where the kernel was built with BBR as its default,
//! that is not CUBIC. So it is allowed for the moment in which a namespace gets it.

use std::fs::File;

use anyhow::{Context as _, Result};
use rustix::fs::{FlockOperation, flock};

use crate::shell::sh;

/// The names that programs without rights may choose. The list is the whole machine's.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Sockets that are made in `namespace` from now on have the congestion control `name`.
///
/// # Errors
/// If the kernel has none of this name, or, in a container, does not let it be allowed.
pub(crate) fn set_default(namespace: &str, name: &str) -> Result<()> {
    let set = || {
        let key = format!("net.ipv4.tcp_congestion_control={name}");
        sh(&format!("ip netns exec {namespace} sysctl -qw {key}")).with_context(|| {
            format!("{key}: see `sysctl net.ipv4.tcp_available_congestion_control`")
        })
    };
    set().or_else(|refused| match Allowed::also(name) {
        Ok(_allowed) => set(),
        Err(_) => Err(refused),
    })
}

/// While it lives, programs without rights may choose one more.
struct Allowed {
    before: String,
    /// Processes that do this at once take turns: each has to put back what was there.
    _lock: File,
}

impl Allowed {
    fn also(name: &str) -> Result<Self> {
        let lock = File::open(ALLOWED)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let before = std::fs::read_to_string(ALLOWED)?;
        std::fs::write(ALLOWED, format!("{} {name}", before.trim()))?;
        Ok(Self { before, _lock: lock })
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        // Nothing is lost if it fails: a program without rights has one more to choose from.
        let _ = std::fs::write(ALLOWED, &self.before);
    }
}

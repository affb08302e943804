//! Resource limits of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's limit of descriptors as far as allowed: a supervisor needs six for each
/// client. Do not call it before starting a program that should have the user's own limit.
pub(crate) fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(errno) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::info!(%errno, "the limit of open files cannot be raised");
    }
}

/// sendmsg(2), ETOOMANYREFS.
pub(crate) const TOO_MANY_IN_FLIGHT: &str = concat!(
    "descriptors cannot be passed now: processes of the same user have sent too many that were ",
    "not received yet (unix(7), ETOOMANYREFS)"
);

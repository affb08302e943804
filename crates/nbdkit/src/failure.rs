//! Why a request, or the start, fails: a sentence for nbdkit's log, a number for the client.

use std::fmt;

use libc::c_int;
use storage::DiskError;

/// Why nbdkit gets no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PluginError {
    /// The error number, which nbdkit turns into one of NBD's.
    pub(crate) errno: c_int,
    pub(crate) sentence: String,
}

impl PluginError {
    pub(crate) fn new(errno: c_int, sentence: impl Into<String>) -> Self {
        Self { errno, sentence: sentence.into() }
    }

    /// The disk's error, with what was to be done.
    pub(crate) fn of_disk(doing: &str, error: &DiskError) -> Self {
        let sentence = format!("cannot {doing}: {error}");
        Self::new(error.errno().raw_os_error(), sentence)
    }
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// What is wrong with the start.
impl From<user::exit::Failure> for PluginError {
    fn from(failure: user::exit::Failure) -> Self {
        Self::new(libc::EINVAL, failure.sentence)
    }
}

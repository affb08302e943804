//! The instance that the environment names.

use std::ffi::OsString;
use std::sync::OnceLock;

use crate::error::ENV;

static REMEMBERED: OnceLock<OsString> = OnceLock::new();

fn from_env() -> Option<OsString> {
    std::env::var_os(ENV).filter(|path| !path.is_empty())
}

/// Remembers the instance that [`ENV`] names now, if it names one. Servers clear their environment,
/// and a later process of them still belongs to the instance.
pub fn remember_instance() {
    if let Some(path) = from_env() {
        REMEMBERED.get_or_init(|| path);
    }
}

/// The path of the instance that [`ENV`] names now, or named when it was remembered.
#[must_use]
pub fn named_instance() -> Option<OsString> {
    from_env().or_else(|| REMEMBERED.get().cloned())
}

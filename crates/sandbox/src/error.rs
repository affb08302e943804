//! Why a process has no sandbox.

/// Why a process has no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The user demanded all of it.
    #[error(
        "the sandbox lacks {missing}: run it as root on a newer kernel, or without \
         TASUKI_SANDBOX=require"
    )]
    Incomplete {
        /// The layers, with the system's reasons.
        missing: String,
    },
    /// A system call failed whose failure leaves the process in no defined state.
    #[error("cannot {doing}: {error}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The system's reason.
        error: std::io::Error,
    },
}

impl SandboxError {
    /// A failed operation.
    pub(crate) fn system<E: Into<std::io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { doing, error: error.into() }
    }
}

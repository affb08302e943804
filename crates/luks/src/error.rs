//! Why a LUKS volume cannot be used.

/// Why a LUKS volume cannot be opened or made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LuksError {
    /// libcryptsetup cannot be loaded.
    #[error(
        "libcryptsetup cannot be loaded: install it, on Debian by `apt-get install \
         libcryptsetup12` ({0})"
    )]
    Library(String),
    /// There is no header.
    #[error("the unit has no LUKS header: check the URL, or make one with `tasuki disk format`")]
    NoHeader,
    /// A version that we do not know.
    #[error(
        "the unit's LUKS header has version {0}, and Tasuki knows 1 and 2: use a newer Tasuki, or \
         make a new header with `tasuki disk format --force`"
    )]
    Version(u16),
    /// The header has wrong contents.
    #[error(
        "the unit's LUKS header is damaged: restore it with `cryptsetup luksHeaderRestore` from \
         a backup ({0})"
    )]
    Damaged(String),
    /// The header wants something else than AES-256-XTS.
    #[error(
        "the unit's LUKS header asks for {0}, and Tasuki has aes-xts-plain64 with a key of 512 \
         bits only: use cryptsetup for this unit"
    )]
    Unsupported(String),
    /// The unit ends too early.
    #[error(
        "the unit has {size} bytes, and its LUKS header says at least {needed}: the unit was \
         truncated; give it its size again before anything is written"
    )]
    Truncated {
        /// Bytes that the header asks for.
        needed: u64,
        /// Bytes of the unit.
        size: u64,
    },
    /// No key slot takes the passphrase.
    #[error(
        "the passphrase opens no key slot: check it; a key file is taken as it is, with the \
         newline at its end"
    )]
    Passphrase,
    /// The unit has no room for a header.
    #[error("the unit has {size} bytes, and a LUKS header takes {needed}: take a larger unit")]
    TooSmall {
        /// Bytes of the header and one sector.
        needed: u64,
        /// Bytes of the unit.
        size: u64,
    },
    /// Options that do not fit together.
    #[error("{0}")]
    Options(&'static str),
    /// libcryptsetup fails.
    #[error("libcryptsetup cannot {doing}: {why}")]
    Failed {
        /// What was asked for.
        doing: &'static str,
        /// What it says.
        why: String,
    },
}

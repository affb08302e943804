//! Secrets of CHAP. A secret is overwritten when it is dropped, and is never printed.

use std::fmt;

use zeroize::Zeroizing;

/// A shared secret.
#[derive(Clone)]
pub struct ChapSecret(Zeroizing<Vec<u8>>);

impl ChapSecret {
    /// A secret of these bytes. RFC 7143 9.2.1 asks for at least 96 random bits.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ChapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChapSecret(…)")
    }
}

//! Secrets of CHAP. A secret is overwritten when it is dropped, and is never printed.

use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// A shared secret.
#[derive(Clone)]
pub struct ChapSecret(Zeroizing<Vec<u8>>);

impl ChapSecret {
    /// A secret of these bytes. RFC 7143 9.2.1 asks for at least 96 random bits.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    /// Whether two secrets are the same, in a time that depends on their lengths only.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its bytes, to be given to a process that may have the secret.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ChapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChapSecret(…)")
    }
}

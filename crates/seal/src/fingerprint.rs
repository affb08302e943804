//! Fingerprints of public keys.

use core::fmt;
use core::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};
use base64ct::{Base64Unpadded, Encoding as _};

/// In front of each fingerprint in text.
const PREFIX: &str = "SHA256:";

/// SHA-256 over a public key's SubjectPublicKeyInfo in DER (RFC 5280 4.1.2.7).
///
/// The text is like ssh's: `SHA256:` and base64 without padding. A key has the same fingerprint as
/// a raw public key and in any certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a SubjectPublicKeyInfo in DER.
    pub fn of_public_key(spki: &[u8]) -> Self {
        Self(sha256(spki))
    }

    /// The hash itself.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", Base64Unpadded::encode_string(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is SHA256: and 43 characters of base64, as `tasuki key` prints it")]
pub struct BadFingerprint;

impl FromStr for Fingerprint {
    type Err = BadFingerprint;

    fn from_str(text: &str) -> Result<Self, BadFingerprint> {
        let hash = text.strip_prefix(PREFIX).filter(|hash| hash.len() == 43);
        let hash = Base64Unpadded::decode_vec(hash.ok_or(BadFingerprint)?);
        let hash = hash.map_err(|_| BadFingerprint)?;
        Ok(Self(<[u8; 32]>::try_from(hash).map_err(|_| BadFingerprint)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_hash_are_one() {
        // SHA-256 of nothing.
        let text = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
        let fingerprint = Fingerprint::of_public_key(b"");
        assert_eq!(fingerprint.to_string(), text);
        assert_eq!(text.parse(), Ok(fingerprint));
        assert_ne!(Fingerprint::of_public_key(b"x"), fingerprint);
    }

    #[test]
    fn other_texts_are_refused() {
        let right = Fingerprint::of_public_key(b"").to_string();
        let short = &right[..right.len() - 1];
        let padded = format!("{right}=");
        let long = format!("{right}A");
        let other = right.replace("SHA256", "MD5");
        let bad = right.replace('+', "-");
        for text in ["", "SHA256:", short, &padded, &long, &other, &bad] {
            assert_eq!(text.parse::<Fingerprint>(), Err(BadFingerprint), "{text}");
        }
    }
}

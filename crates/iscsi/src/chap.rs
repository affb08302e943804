//! CHAP (RFC 1994; RFC 7143 12.1.3): responses and their comparison.

use md5::Md5;
use sha2::{Digest, Sha256};
use sha3::Sha3_256;
use subtle::ConstantTimeEq;

use crate::secret::ChapSecret;
use crate::settings::ChapAlgorithm;

/// Longest challenge and response in bytes (RFC 7143 12.1.3).
pub(crate) const MAX_BINARY: usize = 1024;
/// Shortest challenge of a peer in bytes that is answered.
pub(crate) const MIN_CHALLENGE: usize = 8;

impl ChapAlgorithm {
    /// The number in CHAP_A.
    pub const fn code(self) -> u32 {
        match self {
            Self::Md5 => 5,
            Self::Sha256 => 7,
            Self::Sha3_256 => 8,
        }
    }
}

/// The response to a challenge: the digest of identifier, secret and challenge (RFC 1994 4.1).
pub(crate) fn respond(
    algorithm: ChapAlgorithm,
    id: u8,
    secret: &ChapSecret,
    challenge: &[u8],
) -> Vec<u8> {
    fn digest<D: Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
        let mut digest = D::new();
        parts.into_iter().for_each(|part| digest.update(part));
        digest.finalize().to_vec()
    }
    let parts = [&[id][..], secret.bytes(), challenge];
    match algorithm {
        ChapAlgorithm::Md5 => digest::<Md5>(parts),
        ChapAlgorithm::Sha256 => digest::<Sha256>(parts),
        ChapAlgorithm::Sha3_256 => digest::<Sha3_256>(parts),
    }
}

/// Whether two values are equal, in a time that depends on their lengths only.
pub(crate) fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::hex;

    /// Values computed with Python's hashlib.
    #[test]
    fn responses_are_digests_of_identifier_secret_and_challenge() {
        let secret = ChapSecret::new(b"secretsecret");
        let response = |algorithm| hex(&respond(algorithm, 7, &secret, b"challenge"));
        assert_eq!(response(ChapAlgorithm::Md5), "0x86c83b16dc3ccdec6e4c7abd9ec85125");
        assert_eq!(
            response(ChapAlgorithm::Sha256),
            "0x414b7380d5220298574e5825b2d3b0c5918df966633e3cba6cf6a7047340485f"
        );
        assert_eq!(
            response(ChapAlgorithm::Sha3_256),
            "0x9d8275ce5a803290985cd2cc9d852530128a0591ddff55309018b84e7c1e249e"
        );
        assert_eq!(format!("{secret:?}"), "ChapSecret(…)");
    }

    #[test]
    fn values_of_different_lengths_differ() {
        assert!(is_same(b"ab", b"ab") && !is_same(b"ab", b"ac") && !is_same(b"ab", b"a"));
    }
}

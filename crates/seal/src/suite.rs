//! Cipher suites: which two exist, and which one this processor does best.
//!
//! The suite of a session is the suite that the TLS handshake negotiated. So the choice is part of
//! the transcript, which both Finished messages cover (RFC 8446 4.4). No middle man can change it.

use aws_lc_rs::{aead, hkdf};
use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::{CipherSuite, SupportedCipherSuite};

/// A cipher with the hash of its key schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-256-GCM with HKDF-SHA-384, negotiated as TLS_AES_256_GCM_SHA384.
    Aes256Gcm,
    /// ChaCha20-Poly1305 with HKDF-SHA-256, negotiated as TLS_CHACHA20_POLY1305_SHA256.
    ChaCha20Poly1305,
}

/// Bytes of a key, for both ciphers.
pub(crate) const KEY_LEN: usize = 32;
/// Bytes of a nonce, for both ciphers.
pub(crate) const NONCE_LEN: usize = 12;
/// Bytes of an authentication tag, for both ciphers.
pub const TAG_LEN: usize = 16;

impl Suite {
    /// The number of the suite in TLS (RFC 8446 B.4).
    pub fn number(self) -> u16 {
        match self {
            Self::Aes256Gcm => 0x1302,
            Self::ChaCha20Poly1305 => 0x1303,
        }
    }

    /// Bytes of the hash, of secrets and of the exporter's output.
    pub fn hash_len(self) -> usize {
        match self {
            Self::Aes256Gcm => 48,
            Self::ChaCha20Poly1305 => 32,
        }
    }

    pub(crate) fn of_tls(suite: CipherSuite) -> Option<Self> {
        [Self::Aes256Gcm, Self::ChaCha20Poly1305]
            .into_iter()
            .find(|ours| ours.number() == u16::from(suite))
    }

    pub(crate) fn tls(self) -> SupportedCipherSuite {
        match self {
            Self::Aes256Gcm => cipher_suite::TLS13_AES_256_GCM_SHA384,
            Self::ChaCha20Poly1305 => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        }
    }

    pub(crate) fn aead(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }

    pub(crate) fn hkdf(self) -> hkdf::Algorithm {
        match self {
            Self::Aes256Gcm => hkdf::HKDF_SHA384,
            Self::ChaCha20Poly1305 => hkdf::HKDF_SHA256,
        }
    }
}

/// Which suites an end offers or takes, and which one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SuiteChoice {
    /// Both, AES-256-GCM first if this processor has instructions for it.
    ///
    /// AES-256-GCM is used if both ends prefer it, else ChaCha20-Poly1305.
    #[default]
    ByProcessor,
    /// Both, this one first.
    Prefer(Suite),
    /// This one alone. A peer that does not offer it is refused.
    Only(Suite),
}

impl SuiteChoice {
    /// The suites in order of preference.
    pub(crate) fn order(self) -> Vec<Suite> {
        let first = match self {
            Self::Only(suite) => return vec![suite],
            Self::Prefer(suite) => suite,
            Self::ByProcessor if has_aes_instructions() => Suite::Aes256Gcm,
            Self::ByProcessor => Suite::ChaCha20Poly1305,
        };
        match first {
            Suite::Aes256Gcm => vec![Suite::Aes256Gcm, Suite::ChaCha20Poly1305],
            Suite::ChaCha20Poly1305 => vec![Suite::ChaCha20Poly1305, Suite::Aes256Gcm],
        }
    }

    /// Whether a server follows its own order, not the client's.
    ///
    /// ChaCha20-Poly1305 is good on each processor, AES-256-GCM only where it has instructions. So
    /// the end that prefers ChaCha20-Poly1305 has its way.
    pub(crate) fn insists(self) -> bool {
        self.order()[0] == Suite::ChaCha20Poly1305
    }
}

/// Whether the processor has instructions for AES and for GCM's multiplication.
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
fn has_aes_instructions() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

/// Whether the processor has instructions for AES and for GCM's multiplication.
#[cfg(target_arch = "aarch64")]
fn has_aes_instructions() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull")
}

/// Whether the processor has instructions for AES: not known of this kind of processor.
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
fn has_aes_instructions() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_tls() {
        for suite in [Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
            assert_eq!(u16::from(suite.tls().suite()), suite.number());
            assert_eq!(Suite::of_tls(suite.tls().suite()), Some(suite));
            assert_eq!(suite.aead().key_len(), KEY_LEN);
            assert_eq!((suite.aead().nonce_len(), suite.aead().tag_len()), (NONCE_LEN, TAG_LEN));
        }
        assert_eq!(Suite::of_tls(CipherSuite::TLS13_AES_128_GCM_SHA256), None);
    }

    #[test]
    fn the_first_choice_comes_first() {
        use Suite::{Aes256Gcm, ChaCha20Poly1305};
        assert_eq!(SuiteChoice::Only(ChaCha20Poly1305).order(), [ChaCha20Poly1305]);
        assert_eq!(SuiteChoice::Prefer(Aes256Gcm).order(), [Aes256Gcm, ChaCha20Poly1305]);
        let mine = if has_aes_instructions() { Aes256Gcm } else { ChaCha20Poly1305 };
        assert_eq!(SuiteChoice::ByProcessor.order()[0], mine);
    }
}

//! The own identity: a private key, and what proves it to the peer.
//!
//! A **raw key** is an Ed25519 key without a certificate (RFC 7250, RFC 8410). The peer knows it by
//! its fingerprint. A **certificate** names its holder and is signed by an authority.
//!
//! The caller reads files and checks their rights; this module parses what was in them. Buffers
//! with private keys are overwritten when they are dropped.

use core::fmt;
use std::sync::Arc;

use aws_lc_rs::signature::Ed25519KeyPair;
use base64ct::{Base64, Encoding as _};
use rustls::SignatureAlgorithm;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use crate::fingerprint::Fingerprint;
use crate::peer::CredentialKind;

/// A key or certificate that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The text has no private key in PEM.
    #[error("no private key in PEM (-----BEGIN PRIVATE KEY-----): {0}")]
    NoKey(String),
    /// The key's algorithm or encoding cannot be used.
    #[error("the private key cannot be used: {0}")]
    BadKey(String),
    /// A raw key that is not Ed25519.
    #[error("a raw key is an Ed25519 key; `tasuki key` makes one")]
    NotEd25519,
    /// The text has no certificate in PEM.
    #[error("no certificate in PEM (-----BEGIN CERTIFICATE-----): {0}")]
    NoCertificate(String),
    /// The text has no revocation list in PEM.
    #[error("no revocation list in PEM (-----BEGIN X509 CRL-----): {0}")]
    NoRevocationList(String),
    /// The certificate cannot be read, or is of another key.
    #[error("the certificate does not fit the private key: {0}")]
    WrongCertificate(String),
    /// The library could not make a key.
    #[error("the cryptographic library could not make a key")]
    Library,
}

/// The own key, and the certificate if there is one.
#[derive(Clone)]
pub struct Identity {
    pub(crate) certified: Arc<CertifiedKey>,
    kind: CredentialKind,
    fingerprint: Fingerprint,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("kind", &self.kind)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// A raw public key: `key_pem` is an Ed25519 key in PKCS#8 (RFC 8410 7) and PEM.
    ///
    /// # Errors
    /// The text holds no such key.
    pub fn raw_key(key_pem: &str) -> Result<Self, IdentityError> {
        let key = private_key(key_pem)?;
        let key = any_supported_type(&key).map_err(|e| IdentityError::BadKey(e.to_string()))?;
        if key.algorithm() != SignatureAlgorithm::ED25519 {
            return Err(IdentityError::NotEd25519);
        }
        let spki = key.public_key().ok_or(IdentityError::NotEd25519)?;
        let fingerprint = Fingerprint::of_public_key(&spki);
        let spki = CertificateDer::from(spki.to_vec());
        let certified = Arc::new(CertifiedKey::new(vec![spki], key));
        Ok(Self { certified, kind: CredentialKind::RawKey, fingerprint })
    }

    /// A certificate with its intermediates, the holder's first, and the holder's private key.
    ///
    /// The key may be of any algorithm that the library signs with: Ed25519, ECDSA, RSA.
    ///
    /// # Errors
    /// A text does not hold what it should, or the key is not the certificate's.
    pub fn certificate(chain_pem: &str, key_pem: &str) -> Result<Self, IdentityError> {
        let chain = certificates(chain_pem)?;
        let key = private_key(key_pem)?;
        let key = any_supported_type(&key).map_err(|e| IdentityError::BadKey(e.to_string()))?;
        let spki = key.public_key().ok_or(IdentityError::Library)?;
        let fingerprint = Fingerprint::of_public_key(&spki);
        let certified = CertifiedKey::new(chain, Arc::clone(&key));
        let matched = certified.keys_match();
        matched.map_err(|e| IdentityError::WrongCertificate(e.to_string()))?;
        let certified = Arc::new(certified);
        Ok(Self { certified, kind: CredentialKind::Certificate, fingerprint })
    }

    /// The fingerprint that the peer sees.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Whether the identity is a raw key or a certificate.
    pub fn kind(&self) -> CredentialKind {
        self.kind
    }

    /// What the peer gets first in the Certificate message: certificate or SubjectPublicKeyInfo.
    pub(crate) fn credential(&self) -> &[u8] {
        self.certified.cert.first().map_or(&[], |cert| cert.as_ref())
    }
}

/// The private key in `pem`; its buffer is overwritten when it is dropped.
fn private_key(pem: &str) -> Result<Zeroizing<PrivateKeyDer<'static>>, IdentityError> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes());
    key.map(Zeroizing::new).map_err(|e| IdentityError::NoKey(e.to_string()))
}

/// All certificates in `pem`, at least one.
///
/// # Errors
/// [`IdentityError::NoCertificate`].
pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    all_in(pem, IdentityError::NoCertificate)
}

/// All sections of one kind in `pem`, at least one.
fn all_in<T: PemObject>(
    pem: &str,
    none: fn(String) -> IdentityError,
) -> Result<Vec<T>, IdentityError> {
    let found: Result<Vec<T>, _> = T::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => Err(none("none there".into())),
        found => found.map_err(|error| none(error.to_string())),
    }
}

/// All revocation lists in `pem`, at least one.
///
/// # Errors
/// [`IdentityError::NoRevocationList`].
pub fn revocation_lists(
    pem: &str,
) -> Result<Vec<CertificateRevocationListDer<'static>>, IdentityError> {
    all_in(pem, IdentityError::NoRevocationList)
}

/// A new Ed25519 key in PKCS#8 (RFC 5958, version 1) and PEM, as `openssl genpkey` writes it.
///
/// # Errors
/// [`IdentityError::Library`].
pub fn generate_key_pem() -> Result<Zeroizing<String>, IdentityError> {
    let pair = Ed25519KeyPair::generate().map_err(|_| IdentityError::Library)?;
    let der = pair.to_pkcs8v1().map_err(|_| IdentityError::Library)?;
    let body = Zeroizing::new(Base64::encode_string(der.as_ref()));
    // Longer than the text becomes, so that it does not move and leave a copy.
    let mut pem = Zeroizing::new(String::with_capacity(body.len() + 128));
    pem.push_str("-----BEGIN PRIVATE KEY-----\n");
    for line in body.as_bytes().chunks(64) {
        line.iter().for_each(|byte| pem.push(char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 8410 10.3.
    const RFC_8410: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";

    /// openssl makes the same public key of it, and sha256sum the same fingerprint.
    #[test]
    fn a_known_key_has_its_known_fingerprint() {
        let identity = Identity::raw_key(RFC_8410).unwrap();
        let expected = "SHA256:oekVYFTgT6yJmunydRMs3Ael28TqLCrTof/G4NJTaB8";
        assert_eq!(identity.fingerprint().to_string(), expected);
        assert_eq!(identity.kind(), CredentialKind::RawKey);
        assert_eq!(
            format!("{identity:?}"),
            format!("Identity {{ kind: RawKey, fingerprint: {expected}, .. }}")
        );
    }

    #[test]
    fn new_keys_differ_and_are_read_back() {
        let (one, two) = (generate_key_pem().unwrap(), generate_key_pem().unwrap());
        assert_ne!(*one, *two);
        // The same encoding as that of RFC 8410: 48 bytes, 64 characters, in one line.
        assert_eq!(one.lines().map(str::len).collect::<Vec<_>>(), [27, 64, 25]);
        assert_eq!(one[28..49], RFC_8410[28..49]);
        let identity = Identity::raw_key(&one).unwrap();
        assert_eq!(Identity::raw_key(&one).unwrap().fingerprint(), identity.fingerprint());
        assert_ne!(Identity::raw_key(&two).unwrap().fingerprint(), identity.fingerprint());
    }

    #[test]
    fn other_texts_are_no_raw_key() {
        let other = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let other = Identity::raw_key(&other.serialize_pem());
        assert_eq!(other.unwrap_err(), IdentityError::NotEd25519);
        for text in ["", "no key", &RFC_8410[..60], &RFC_8410.replace("PRIVATE", "PUBLIC")] {
            let error = Identity::raw_key(text).unwrap_err();
            assert!(matches!(error, IdentityError::NoKey(_)), "{error:?}");
        }
        // Its first byte is no SEQUENCE.
        let error = Identity::raw_key(&RFC_8410.replace("MC4C", "AC4C")).unwrap_err();
        assert!(matches!(error, IdentityError::BadKey(_)), "{error:?}");
    }

    #[test]
    fn a_certificate_belongs_to_its_key() {
        let made = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let identity = Identity::certificate(&chain, &key).unwrap();
        assert_eq!(identity.kind(), CredentialKind::Certificate);
        let spki = rustls::server::ParsedCertificate::try_from(made.cert.der()).unwrap();
        let spki = spki.subject_public_key_info();
        assert_eq!(identity.fingerprint(), Fingerprint::of_public_key(&spki));
        let error = Identity::certificate(&chain, RFC_8410).unwrap_err();
        assert!(matches!(error, IdentityError::WrongCertificate(_)), "{error:?}");
        let error = Identity::certificate(&key, &key).unwrap_err();
        assert_eq!(error, IdentityError::NoCertificate("none there".into()));
        let error = Identity::certificate(&chain, &chain).unwrap_err();
        assert!(matches!(error, IdentityError::NoKey(_)), "{error:?}");
        assert_eq!(certificates(&chain.repeat(3)).unwrap().len(), 3);
        let error = revocation_lists(&chain).unwrap_err();
        assert_eq!(error, IdentityError::NoRevocationList("none there".into()));
    }
}

//! A verifier for raw public keys: it checks the proof, and leaves the judgement to the shell.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    SignatureScheme,
};

/// The SubjectPublicKeyInfo of each Ed25519 key begins so (RFC 8410 4), and 32 bytes follow.
const ED25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// Takes any Ed25519 key whose holder signs the handshake.
#[derive(Debug)]
pub(crate) struct AnyRawKey {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyRawKey {
    pub(crate) fn new(provider: &Arc<CryptoProvider>) -> Self {
        Self { algorithms: provider.signature_verification_algorithms }
    }

    /// Whether the credential is a lone Ed25519 key.
    fn check(key: &CertificateDer<'_>, more: &[CertificateDer<'_>]) -> Result<(), Error> {
        let sound = key.len() == 44 && key.starts_with(&ED25519_PREFIX) && more.is_empty();
        if sound { Ok(()) } else { Err(CertificateError::BadEncoding.into()) }
    }

    /// The proof: the signature of the handshake's transcript (RFC 8446 4.4.3).
    fn verify(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let spki = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &spki, signature, &self.algorithms)
    }
}

impl ServerCertVerifier for AnyRawKey {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Self::check(key, more).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for AnyRawKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Self::check(key, more).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lone SubjectPublicKeyInfo of Ed25519, and nothing else.
    #[test]
    fn only_lone_ed25519_keys_are_taken() {
        let right = [&ED25519_PREFIX[..], &[7; 32]].concat();
        let check = |bytes: &[u8], more: &[CertificateDer<'_>]| {
            AnyRawKey::check(&CertificateDer::from(bytes.to_vec()), more).is_ok()
        };
        assert!(check(&right, &[]));
        assert!(!check(&right, &[CertificateDer::from(right.clone())]));
        assert!(!check(&right[..43], &[]) && !check(&[&right[..], &[0]].concat(), &[]));
        assert!(!check(&[], &[]) && !check(&[7; 44], &[]));
        // Another algorithm: X25519 (RFC 8410 3).
        let mut other = right;
        other[8] = 0x6e;
        assert!(!check(&other, &[]));
    }
}

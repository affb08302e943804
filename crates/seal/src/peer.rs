//! Whom the handshake found at the other end.

use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use webpki::EndEntityCert;

use crate::fingerprint::Fingerprint;

/// How an end proves its identity. The numbers are those of RFC 7250.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CredentialKind {
    /// An X.509 certificate that an authority signed.
    Certificate = 0,
    /// An Ed25519 public key without a certificate (RFC 7250).
    RawKey = 2,
}

/// The peer's proven identity, to be judged by the shell.
///
/// The handshake has proven that the peer holds the private key. Of a certificate it has also
/// checked authority, validity and use, and on the client's side the server's name. Whether this
/// peer may come in is the shell's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIdentity {
    kind: CredentialKind,
    fingerprint: Fingerprint,
    names: Vec<String>,
}

impl PeerIdentity {
    /// The identity in the first entry of a Certificate message; `None` if it cannot be read.
    pub(crate) fn of_credential(kind: CredentialKind, der: &CertificateDer<'_>) -> Option<Self> {
        match kind {
            CredentialKind::RawKey => {
                let spki = SubjectPublicKeyInfoDer::from(der.as_ref());
                let fingerprint = Fingerprint::of_public_key(&spki);
                Some(Self { kind, fingerprint, names: Vec::new() })
            }
            CredentialKind::Certificate => {
                let certificate = EndEntityCert::try_from(der).ok()?;
                let spki = certificate.subject_public_key_info();
                let fingerprint = Fingerprint::of_public_key(&spki);
                let names = certificate.valid_dns_names().chain(certificate.valid_uri_names());
                let names = names.map(str::to_owned).collect();
                Some(Self { kind, fingerprint, names })
            }
        }
    }

    /// Whether the peer has a certificate or a raw key.
    pub fn kind(&self) -> CredentialKind {
        self.kind
    }

    /// The fingerprint of the peer's public key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// DNS names and URIs of the certificate's subjectAltName (RFC 5280 4.2.1.6).
    ///
    /// A raw key has none.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

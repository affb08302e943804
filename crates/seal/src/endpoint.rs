//! What an end brings to all its handshakes: identity, trust, suites; and rustls set up with them.
//!
//! A process makes its endpoints before it enters its sandbox. After that, the library needs
//! getrandom, futex and memory of the kernel, and nothing else.
//!
//! TLS 1.3 alone, one ALPN protocol, mutual authentication, no resumption, no early data, no
//! tickets, no certificate compression. So each handshake is a full one with fresh keys.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::aws_lc_rs::rand;
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::{
    AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, WebPkiClientVerifier,
};
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, ServerConfig, version};

use crate::identity::Identity;
use crate::peer::CredentialKind;
use crate::raw_keys::AnyRawKey;
use crate::suite::SuiteChoice;

/// The only ALPN protocol (RFC 7301) of this version.
pub const ALPN: &[u8] = b"tasuki-seal/1";

/// Whose credentials an end takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Any raw Ed25519 key. The shell judges its fingerprint, for instance by
    /// [`KnownPeers`](crate::KnownPeers).
    RawKeys,
    /// Certificates of these authorities.
    Authorities {
        /// The authorities' own certificates, at least one.
        roots: Vec<CertificateDer<'static>>,
        /// Revocation lists in DER. If there are any, each certificate of a chain needs one.
        revocations: Vec<CertificateRevocationListDer<'static>>,
    },
}

impl Trust {
    pub(crate) fn kind(&self) -> CredentialKind {
        match self {
            Self::RawKeys => CredentialKind::RawKey,
            Self::Authorities { .. } => CredentialKind::Certificate,
        }
    }
}

/// A configuration that rustls refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the authorities or revocation lists cannot be used: {0}")]
pub struct BadTrust(String);

/// The time that the shell told, as rustls asks for it.
#[derive(Debug, Default)]
struct ToldTime(AtomicU64);

impl TimeProvider for ToldTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}

/// The parts that client and server have in common.
#[derive(Debug)]
struct Common {
    identity: Identity,
    peer_kind: CredentialKind,
    time: Arc<ToldTime>,
}

impl Common {
    fn new(identity: Identity, trust: &Trust) -> Self {
        Self { identity, peer_kind: trust.kind(), time: Arc::default() }
    }
}

/// The library with our suites and key exchanges.
///
/// The library sets up its generator of random numbers with the first number. That takes system
/// calls, which a sandbox may refuse later; all further numbers take getrandom alone.
fn provider(suites: SuiteChoice) -> Arc<CryptoProvider> {
    // A failure shows again, and is told, when the first handshake draws a number.
    let _ = rand::fill(&mut [0]);
    let cipher_suites = suites.order().into_iter().map(|suite| suite.tls()).collect();
    // Whatever features of the library others in the workspace ask for: these, in this order.
    let kx_groups =
        vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];
    Arc::new(CryptoProvider { cipher_suites, kx_groups, ..aws_lc_rs::default_provider() })
}

fn root_store(roots: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, BadTrust> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).map_err(|e| BadTrust(e.to_string()))?;
    }
    Ok(Arc::new(store))
}

/// What a client brings to its handshakes. One is enough for any number of sessions.
#[derive(Debug)]
pub struct ClientEndpoint {
    common: Common,
    pub(crate) tls: Arc<ClientConfig>,
}

/// What a server brings to its handshakes. One is enough for any number of sessions.
#[derive(Debug)]
pub struct ServerEndpoint {
    common: Common,
    pub(crate) tls: Arc<ServerConfig>,
}

macro_rules! common_getters {
    ($endpoint:ty) => {
        impl $endpoint {
            /// The own identity.
            pub fn identity(&self) -> &Identity {
                &self.common.identity
            }

            /// The only kind of credential that is taken from a peer.
            pub(crate) fn peer_kind(&self) -> CredentialKind {
                self.common.peer_kind
            }

            /// Tells the time, in seconds since 1970, for all handshakes that are under way.
            pub(crate) fn tell_time(&self, now: u64) {
                self.common.time.0.store(now, Ordering::Relaxed);
            }
        }
    };
}

common_getters!(ClientEndpoint);
common_getters!(ServerEndpoint);

impl ClientEndpoint {
    /// A client's side.
    ///
    /// # Errors
    /// An authority's certificate or a revocation list cannot be read, or there is no authority.
    pub fn new(identity: Identity, trust: &Trust, suites: SuiteChoice) -> Result<Self, BadTrust> {
        let common = Common::new(identity, trust);
        let time = Arc::clone(&common.time) as Arc<dyn TimeProvider>;
        let mut tls = client_config(&common.identity, trust, suites, time)?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self { common, tls: Arc::new(tls) })
    }
}

/// A client's TLS of one version, with mutual authentication. There is no ALPN protocol.
pub(crate) fn client_config(
    identity: &Identity,
    trust: &Trust,
    suites: SuiteChoice,
    time: Arc<dyn TimeProvider>,
) -> Result<ClientConfig, BadTrust> {
    let provider = provider(suites);
    let builder = ClientConfig::builder_with_details(Arc::clone(&provider), time)
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|e| BadTrust(e.to_string()))?;
    let builder = match trust {
        Trust::RawKeys => {
            let verifier = Arc::new(AnyRawKey::new(&provider));
            builder.dangerous().with_custom_certificate_verifier(verifier)
        }
        Trust::Authorities { roots, revocations } => {
            let roots = root_store(roots)?;
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
                .with_crls(revocations.iter().cloned())
                .build()
                .map_err(|e| BadTrust(e.to_string()))?;
            builder.with_webpki_verifier(verifier)
        }
    };
    let certified = Arc::clone(&identity.certified);
    let mut tls = builder.with_client_cert_resolver(match identity.kind() {
        CredentialKind::RawKey => Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified)),
        CredentialKind::Certificate => Arc::new(SingleCertAndKey::from(certified)),
    });
    tls.resumption = Resumption::disabled();
    // The name serves for checking certificates. A server has one identity.
    tls.enable_sni = false;
    Ok(tls)
}

impl ServerEndpoint {
    /// A server's side.
    ///
    /// # Errors
    /// An authority's certificate or a revocation list cannot be read, or there is no authority.
    pub fn new(identity: Identity, trust: &Trust, suites: SuiteChoice) -> Result<Self, BadTrust> {
        let common = Common::new(identity, trust);
        let time = Arc::clone(&common.time) as Arc<dyn TimeProvider>;
        let mut tls = server_config(&common.identity, trust, suites, time)?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self { common, tls: Arc::new(tls) })
    }
}

/// A server's TLS of one version, with mutual authentication. There is no ALPN protocol.
pub(crate) fn server_config(
    identity: &Identity,
    trust: &Trust,
    suites: SuiteChoice,
    time: Arc<dyn TimeProvider>,
) -> Result<ServerConfig, BadTrust> {
    let provider = provider(suites);
    let builder = ServerConfig::builder_with_details(Arc::clone(&provider), time)
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|e| BadTrust(e.to_string()))?;
    let builder = match trust {
        Trust::RawKeys => builder.with_client_cert_verifier(Arc::new(AnyRawKey::new(&provider))),
        Trust::Authorities { roots, revocations } => {
            let roots = root_store(roots)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                .with_crls(revocations.iter().cloned())
                // The names of the authorities are nobody's business before the client's proof.
                .clear_root_hint_subjects()
                .build()
                .map_err(|e| BadTrust(e.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let certified = Arc::clone(&identity.certified);
    let mut tls = builder.with_cert_resolver(match identity.kind() {
        CredentialKind::RawKey => Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified)),
        CredentialKind::Certificate => Arc::new(SingleCertAndKey::from(certified)),
    });
    tls.session_storage = Arc::new(NoServerSessionStorage {});
    tls.send_tls13_tickets = 0;
    // A server without AES instructions insists on ChaCha20; else the client's order counts.
    tls.ignore_client_order = suites.insists();
    Ok(tls)
}

//! TLS 1.3 alone, as the baseline beside sealed: the same identities, trust and suites, and TLS's
//! own records around the same bytes.
//!
//! A portal that speaks TLS serves initiators behind any TLS proxy or library. There is no ALPN
//! protocol, because none is registered for iSCSI. The shell drives rustls itself, and judges the
//! peer as it does with sealed: [`peer_of_tls`].

use std::sync::Arc;

use rustls::time_provider::DefaultTimeProvider;
use rustls::{ClientConfig, CommonState, ServerConfig};

use crate::endpoint::{BadTrust, Trust, client_config, server_config};
use crate::identity::Identity;
use crate::peer::PeerIdentity;
use crate::suite::SuiteChoice;

/// A client's side, for any number of connections.
///
/// # Errors
/// An authority's certificate or a revocation list cannot be read, or there is no authority.
pub fn tls_client(
    identity: &Identity,
    trust: &Trust,
    suites: SuiteChoice,
) -> Result<Arc<ClientConfig>, BadTrust> {
    client_config(identity, trust, suites, Arc::new(DefaultTimeProvider)).map(Arc::new)
}

/// A server's side, for any number of connections.
///
/// # Errors
/// An authority's certificate or a revocation list cannot be read, or there is no authority.
pub fn tls_server(
    identity: &Identity,
    trust: &Trust,
    suites: SuiteChoice,
) -> Result<Arc<ServerConfig>, BadTrust> {
    server_config(identity, trust, suites, Arc::new(DefaultTimeProvider)).map(Arc::new)
}

/// Whom a finished handshake of [`tls_client`] or [`tls_server`] found at the other end. `None`:
/// the handshake is not finished, or the credential cannot be read.
pub fn peer_of_tls(state: &CommonState, trust: &Trust) -> Option<PeerIdentity> {
    PeerIdentity::of_credential(trust.kind(), state.peer_certificates()?.first()?)
}

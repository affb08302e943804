//! What an end shows of itself, and whom it lets in.

use std::fmt;
use std::sync::Arc;

use seal::{Fingerprint, Identity, PeerIdentity, Reason, SessionSettings, SuiteChoice, Trust};

/// What an end brings to TLS and sealed.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Its own key or certificate.
    pub identity: Identity,
    /// The kind of credential that it takes.
    pub trust: Trust,
    /// Which credentials of that kind it takes.
    pub judge: Judge,
    /// Its ciphers.
    pub suites: SuiteChoice,
    /// Records of sealed.
    pub records: SessionSettings,
}

/// Why a peer is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Its key is not known.
    Unknown,
    /// Another key is known for its address.
    Changed(Fingerprint),
    /// The judge has failed.
    Failed(String),
}

impl Refusal {
    /// What the peer is told.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Unknown | Self::Changed(_) => Reason::UnknownIdentity,
            Self::Failed(_) => Reason::Internal,
        }
    }
}

/// What decides: called with who the peer has proven to be.
type Decide = dyn Fn(&PeerIdentity) -> Result<(), Refusal> + Send + Sync;

/// Decides about a peer whose proof was right. It is asked at each handshake.
#[derive(Clone)]
pub struct Judge(Arc<Decide>);

impl Judge {
    /// A judge that is this function.
    pub fn new(
        judge: impl Fn(&PeerIdentity) -> Result<(), Refusal> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(judge))
    }

    pub(crate) fn judge(&self, peer: &PeerIdentity) -> Result<(), Refusal> {
        (self.0)(peer)
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Judge")
    }
}

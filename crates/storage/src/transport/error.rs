//! Why a stream could not be protected, or is not any more.

use std::io;

use seal::{Fingerprint, HandshakeError, OpenError, PeerIdentity, Reason, SealError};

use super::credentials::Refusal;

/// A failure of a transport.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The stream's.
    #[error(transparent)]
    Stream(#[from] io::Error),
    /// The handshake of sealed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// TLS: its handshake, or a record.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// A received record.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A record to be sent.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The peer refuses us, or gives up the session.
    #[error("the other end has given up the session: {0}")]
    Alert(Reason),
    /// We refuse the peer: its key is not known here.
    #[error("the key {0} of the other end is not known here")]
    Unknown(Fingerprint),
    /// We refuse the peer: another key is known for its address.
    #[error("the other end has the key {got}, and {known} is known for it")]
    Changed {
        /// The key that answered.
        got: Fingerprint,
        /// The key that is known.
        known: Fingerprint,
    },
    /// We cannot judge the peer.
    #[error("the other end cannot be judged: {0}")]
    NotJudged(String),
    /// The peer took too long.
    #[error("the handshake took longer than {0} s")]
    Slow(u64),
}

impl TransportError {
    /// The error of a peer that was not let in.
    pub(super) fn refused(refusal: Refusal, peer: &PeerIdentity) -> Self {
        let got = peer.fingerprint();
        match refusal {
            Refusal::Unknown => Self::Unknown(got),
            Refusal::Changed(known) => Self::Changed { got, known },
            Refusal::Failed(why) => Self::NotJudged(why),
        }
    }

    /// What an Alert tells the peer of this error; `None`: nothing is to be sent.
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self {
            Self::Open(_) => Some(Reason::BadRecord),
            Self::Seal(_) => Some(Reason::Internal),
            _ => None,
        }
    }
}

impl From<TransportError> for io::Error {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Stream(error) => error,
            other => Self::other(other),
        }
    }
}

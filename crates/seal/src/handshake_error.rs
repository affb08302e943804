//! Why a handshake failed.

use crate::fault::Fault;

/// A handshake that failed. [`Handshake::poll_output`](crate::Handshake::poll_output) may still
/// have an alert for the peer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HandshakeError {
    /// The peer does not speak TLS, so it does not speak sealed.
    #[error("the peer's first byte here is {first:#04x}, which begins no TLS record: {hint}")]
    NotTls {
        /// The byte where a TLS record was to begin.
        first: u8,
        /// What such a byte tells.
        hint: &'static str,
    },
    /// The header of a TLS record is wrong.
    #[error("a TLS record of {length} bytes with version {version:#06x} breaks RFC 8446 5.1")]
    BadTlsRecord {
        /// The record's version.
        version: u16,
        /// The record's length, in bytes.
        length: u16,
    },
    /// The peer's part of the handshake is too long.
    #[error("the peer's part of the handshake is longer than {most} bytes")]
    TooLong {
        /// The bound, in bytes.
        most: usize,
    },
    /// TLS failed: credential, signature, parameters, or an alert of the peer.
    #[error("the TLS handshake failed: {0}")]
    Tls(rustls::Error),
    /// The handshake did not agree on the ALPN protocol `tasuki-seal/1`.
    #[error(
        "the peer did not agree on the ALPN protocol tasuki-seal/1: it may speak TLS, at an \
         address that begins with iscsi+tls://"
    )]
    WrongProtocol,
    /// The peer's credential cannot be read.
    #[error("the peer's key or certificate cannot be read")]
    UnreadableCredential,
    /// The server went on with TLS where its first sealed record was to come.
    #[error("the server sent a TLS record after its Finished, where sealed records begin")]
    TlsAfterSwitch,
    /// The stream ended within the handshake. A client that refuses a server ends it so.
    #[error("{}", truncated(*.received))]
    Truncated {
        /// Bytes of the peer's that had come.
        received: usize,
    },
    /// The name of the server is neither a DNS name nor an address.
    #[error("{name:?} is neither a DNS name nor an IP address")]
    BadName {
        /// The name.
        name: String,
    },
    /// The call does not fit the handshake's step.
    #[error("the call does not fit the step of the handshake")]
    OutOfStep,
    /// The handshake failed before.
    #[error("the handshake has failed before")]
    Failed,
    /// The cryptographic library failed.
    #[error("the cryptographic library could not derive a key")]
    Library,
}

fn truncated(received: usize) -> String {
    match received {
        0 => "the other end closed the connection before it said anything: it may speak plain \
              iSCSI, at an address that begins with iscsi://"
            .to_owned(),
        _ => format!("the stream ended within the handshake, after {received} bytes of the peer's"),
    }
}

impl HandshakeError {
    /// The party at fault.
    pub fn fault(&self) -> Fault {
        match self {
            // Before the keys stand, anything on the path can cause these.
            Self::NotTls { .. }
            | Self::BadTlsRecord { .. }
            | Self::TooLong { .. }
            | Self::Truncated { .. } => Fault::PeerOrPath,
            Self::Tls(error) => fault_of_tls(error),
            Self::WrongProtocol | Self::UnreadableCredential | Self::TlsAfterSwitch => Fault::Peer,
            Self::BadName { .. } => Fault::Configuration,
            Self::OutOfStep | Self::Failed => Fault::Caller,
            Self::Library => Fault::Library,
        }
    }
}

fn fault_of_tls(error: &rustls::Error) -> Fault {
    use rustls::Error as Tls;
    match error {
        Tls::InvalidCertificate(_)
        | Tls::InvalidCertRevocationList(_)
        | Tls::NoCertificatesPresented
        | Tls::NoApplicationProtocol => Fault::Peer,
        Tls::InconsistentKeys(_) | Tls::BadMaxFragmentSize => Fault::Configuration,
        Tls::FailedToGetCurrentTime
        | Tls::FailedToGetRandomBytes
        | Tls::EncryptError
        | Tls::General(_) => Fault::Library,
        // Among them alerts and refused parameters: they come before the keys stand.
        _ => Fault::PeerOrPath,
    }
}

//! Errors. [`ProtocolError`] is the peer's fault, [`UsageError`] that of the caller.

use crate::pdu_error::PduError;

/// A breach of RFC 7143 by the peer that ends the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The digest of a header is wrong (7.8): the end of the PDU is unknown.
    #[error("the peer sent a header with a wrong digest: it was damaged on its way")]
    HeaderDigest,
    /// The digest of a payload is wrong, and the PDU is one that this end cannot do without.
    #[error("a payload came with a wrong digest: it was damaged on its way (operation {0:#04x})")]
    DataDigest(u8),
    /// A payload is longer than this end's MaxRecvDataSegmentLength.
    #[error("the peer sent a payload of {length} bytes; at most {most} are agreed")]
    TooLong {
        /// The DataSegmentLength.
        length: u32,
        /// The bound in bytes.
        most: u32,
    },
    /// A header cannot be read.
    #[error("the peer sent a malformed PDU: {0}")]
    Malformed(#[from] PduError),
    /// A PDU that has no place in the phase of the connection.
    #[error("the peer sent operation {0:#04x}, which has no place in this phase")]
    OutOfPlace(u8),
    /// Text that cannot be read or breaks a bound.
    #[error("the peer sent text that cannot be used: {0}")]
    Text(&'static str),
    /// A key has a value that the negotiation cannot have.
    #[error("the peer sent a value of {0} that the negotiation does not allow")]
    Negotiation(String),
    /// A login that breaks the rules of stages.
    #[error("the peer broke the rules of the login: {0}")]
    Login(&'static str),
    /// A sequence number, offset or length of data that was not agreed.
    #[error("the peer sent data out of order or place: {0}")]
    Data(&'static str),
    /// An answer to a request that was not made.
    #[error("the peer answered a request that was not made (tag {0:#x})")]
    UnknownTag(u32),
    /// The peer did not prove who it is.
    #[error("the peer did not authenticate itself: {0}")]
    Authentication(&'static str),
}

/// A call that does not fit the state of the connection. The caller is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// The identifier names no request that is open.
    #[error("no such request is open on this connection")]
    UnknownRequest,
    /// The call has no place in the phase of the connection.
    #[error("the connection is not in the phase for that call")]
    WrongPhase,
    /// The bound on open requests is reached; wait for an answer.
    #[error("the connection has as many open requests as it may")]
    Full,
    /// A length or range that the request does not have.
    #[error("the range lies outside of the request's data")]
    Range,
    /// The parameter's value is not allowed.
    #[error("{0}")]
    Invalid(&'static str),
}

//! The states of loss recovery.

/// State of the recovery, as Linux names and numbers them (`tcpi_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
pub(in crate::tcp) enum CaState {
    /// Nothing unusual.
    #[default]
    Open,
    /// SACKs or duplicate ACKs have come.
    Disorder,
    /// The window is being reduced without a loss to be repaired.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// Recovery after a timeout.
    Loss,
}

/// Segments that may be retransmitted in answer to the last ACK, before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::tcp) enum RetransmitPolicy {
    /// None.
    #[default]
    Nothing,
    /// Segments held to be lost.
    Lost,
    /// F-RTO: new data; segments held to be lost only if there is none (RFC 5682 2.1
    /// step 2b).
    NewFirst,
}

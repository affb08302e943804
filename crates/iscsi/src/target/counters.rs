//! What a connection counts.

/// Counters of a connection since its begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionCounters {
    /// R2Ts that have left.
    pub r2ts: u64,
    /// Received PDUs with a wrong digest of their header or their payload.
    pub digest_errors: u64,
    /// Received PDUs that were rejected.
    pub rejects: u64,
}

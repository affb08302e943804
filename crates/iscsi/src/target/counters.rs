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

impl std::ops::Add for ConnectionCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            r2ts: self.r2ts.saturating_add(other.r2ts),
            digest_errors: self.digest_errors.saturating_add(other.digest_errors),
            rejects: self.rejects.saturating_add(other.rejects),
        }
    }
}

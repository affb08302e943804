//! The names of the congestion control algorithms.

/// The congestion control algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CongestionKind {
    /// CUBIC (RFC 9438) with HyStart.
    #[default]
    Cubic,
    /// NewReno (RFC 5681, RFC 6582).
    Reno,
}

impl CongestionKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Cubic, Self::Reno];

    /// The name that `TCP_CONGESTION` uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
        }
    }

    /// The algorithm of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

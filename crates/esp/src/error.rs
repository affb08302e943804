//! Why there is no cipher for an association.

/// Why an association's algorithms are refused. The user named them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CipherRefusal {
    /// There is no such algorithm.
    #[error("there is no {kind} algorithm {name:?} here; known are {known}")]
    Unknown {
        /// aead, enc or auth.
        kind: &'static str,
        /// The name given.
        name: String,
        /// The names that there are.
        known: &'static str,
    },
    /// The key's length does not fit.
    #[error("{name} takes a key of {right} bytes, not of {given}")]
    KeyLength {
        /// The algorithm.
        name: &'static str,
        /// The lengths that fit.
        right: &'static str,
        /// The key's length.
        given: usize,
    },
    /// The key is missing.
    #[error("the {0} algorithm has no key")]
    NoKey(&'static str),
    /// The length of the check value does not fit.
    #[error("{name} has a check value of {right} bits here, not of {given}")]
    CheckLength {
        /// The algorithm.
        name: &'static str,
        /// The length that fits.
        right: u16,
        /// The length given.
        given: u16,
    },
    /// The algorithms do not go together.
    #[error("an association has either an aead algorithm, or enc and auth together")]
    Combination,
    /// The algorithm protects too little.
    #[error("{0} protects too little today: say insecure if it is meant nevertheless")]
    Insecure(&'static str),
    /// The owner of the key has reserved no initialization vectors.
    #[error("no initialization vectors were reserved for the key")]
    NoVectors,
    /// Such as three equal keys of triple DES.
    #[error("the library refuses the key of {0}")]
    Key(&'static str),
}

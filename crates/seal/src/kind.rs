//! The kinds of records.

use core::fmt;

/// What a record is.
///
/// No kind equals a content type of TLS (20 to 24), so the first byte tells the two apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// First record of each direction: "I have accepted you", and the receiver's bound.
    Hello = 1,
    /// Bytes of the stream.
    Data = 2,
    /// Last record under this key.
    Rekey = 3,
    /// Last record of the direction.
    End = 4,
    /// The sender gives up the session, with a reason.
    Alert = 5,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hello => "Hello",
            Self::Data => "Data",
            Self::Rekey => "Rekey",
            Self::End => "End",
            Self::Alert => "Alert",
        })
    }
}

//! What the owner of the stack should know about its associations.

use super::association::SaId;

/// Something happened to an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EspNotice {
    /// Which one.
    pub id: SaId,
    /// What.
    pub kind: EspNoticeKind,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EspNoticeKind {
    /// A soft bound of its lifetime is passed: it is time for another one.
    Dying,
    /// A hard bound of its lifetime is passed: it is not used any more.
    Expired,
    /// It has no sequence number left.
    SequenceExhausted,
    /// Its cipher does not encrypt with this key any more.
    KeyExhausted,
}

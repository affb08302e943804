//! The names of the parties that share a stack, and the rule for each one's share.

/// Times the free room that one owner may have.
const FAIR_SHARE: usize = 16;

/// Names a party that has sockets. The default is the owner of the stack itself, whose share has no
/// bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnerId(u16);

impl OwnerId {
    pub(crate) fn new(number: u16) -> Self {
        Self(number)
    }

    pub(crate) fn number(self) -> u16 {
        self.0
    }

    /// A small number of its own, for tables: 0 is the default.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether its share is bounded.
    pub(crate) fn is_limited(self) -> bool {
        self.0 != 0
    }

    /// Whether an owner that has `own` of something may have one more while `free` are left.
    pub(crate) fn may_have(self, own: usize, free: usize) -> bool {
        !self.is_limited() || is_fair(own, free)
    }
}

/// [`OwnerId::may_have`], with the same bound for the owner of the stack.
pub(crate) fn is_fair(own: usize, free: usize) -> bool {
    own < free.saturating_mul(FAIR_SHARE)
}

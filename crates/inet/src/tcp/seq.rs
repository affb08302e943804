//! Sequence numbers (RFC 9293 3.4).
//!
//! Sequence numbers live on a circle of 2^32, so there is no order on them. Two numbers can only be
//! compared if they are known to be less than 2^31 apart. Hence methods with names instead of
//! `Ord`.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Seq(u32);

impl Seq {
    /// The number as it is on the wire.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number as it is on the wire.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// How far `self` lies after `other`; negative if before. Meaningful within 2^31.
    pub const fn offset_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// How far `self` lies after `earlier`; zero if it does not.
    pub const fn since(self, earlier: Self) -> u32 {
        if self.after(earlier) { self.0.wrapping_sub(earlier.0) } else { 0 }
    }

    /// `self < other`.
    pub const fn before(self, other: Self) -> bool {
        self.offset_from(other) < 0
    }

    /// `self > other`.
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// `self <= other`.
    pub const fn at_or_before(self, other: Self) -> bool {
        !other.before(self)
    }

    /// `self >= other`.
    pub const fn at_or_after(self, other: Self) -> bool {
        !self.before(other)
    }

    /// The later of the two.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// The earlier of the two.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.before(other) { self } else { other }
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, n: u32) {
        *self = *self + n;
    }
}

impl Sub<u32> for Seq {
    type Output = Self;
    fn sub(self, n: u32) -> Self {
        Self(self.0.wrapping_sub(n))
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn comparisons_hold_over_the_wrap() {
        let last = Seq::new(u32::MAX);
        let first = Seq::new(0);
        assert!(last.before(first) && first.after(last));
        assert_eq!(last + 1, first);
        assert_eq!(first - 1, last);
        assert_eq!(first.since(last), 1);
        assert_eq!(last.since(first), 0);
        assert_eq!(last.max(first), first);
        assert_eq!(last.min(first), last);
    }

    proptest! {
        #[test]
        fn a_number_lies_before_all_that_follow_it(n: u32, d in 1_u32..1 << 31) {
            let (a, b) = (Seq::new(n), Seq::new(n) + d);
            prop_assert!(a.before(b) && !b.before(a) && b.after(a) && !a.after(b));
            prop_assert!(a.at_or_before(b) && b.at_or_after(a));
            prop_assert_eq!(b.since(a), d);
            prop_assert_eq!(a.since(b), 0);
            prop_assert_eq!(b - d, a);
            prop_assert_eq!((a.max(b), a.min(b)), (b, a));
            prop_assert_eq!(i64::from(b.offset_from(a)), i64::from(d));
        }

        #[test]
        fn a_number_equals_itself_only(n: u32) {
            let a = Seq::new(n);
            prop_assert!(a.at_or_before(a) && a.at_or_after(a) && !a.before(a) && !a.after(a));
        }
    }
}

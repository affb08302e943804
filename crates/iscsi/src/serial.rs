//! Serial numbers (RFC 7143 4.2.2.1; RFC 1982): CmdSN, StatSN, DataSN and R2TSN.
//!
//! Serial numbers lie on a circle of 2^32. Two of them compare only if they are less than 2^31
//! apart. So the type has methods with names and no `Ord`.

use std::fmt;
use std::ops::{Add, Sub};

/// A number of 32 bits that counts PDUs of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SerialNumber(u32);

impl SerialNumber {
    /// The number as it is on the wire.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number as it is on the wire.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The next number.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// How far `self` lies after `other`; negative if before.
    pub const fn offset_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// `self < other`.
    pub const fn before(self, other: Self) -> bool {
        self.offset_from(other) < 0
    }

    /// `self > other`.
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }
}

impl Add<u32> for SerialNumber {
    type Output = Self;
    fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

impl Sub<u32> for SerialNumber {
    type Output = Self;
    fn sub(self, n: u32) -> Self {
        Self(self.0.wrapping_sub(n))
    }
}

impl fmt::Debug for SerialNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn comparisons_hold_over_the_wrap() {
        let last = SerialNumber::new(u32::MAX);
        let first = SerialNumber::new(0);
        assert!(last.before(first) && first.after(last) && !first.before(last));
        assert_eq!(last.next(), first);
        assert_eq!(first - 1, last);
    }

    proptest! {
        #[test]
        fn a_number_lies_before_those_that_follow_it(n: u32, d in 1_u32..1 << 31) {
            let (a, b) = (SerialNumber::new(n), SerialNumber::new(n) + d);
            prop_assert!(a.before(b) && b.after(a) && !a.after(b) && !b.before(a));
            prop_assert_eq!(i64::from(b.offset_from(a)), i64::from(d));
        }
    }
}

//! Logical unit numbers as eight bytes (SAM-5 4.7; RFC 7143 11.2.1.7).

use std::fmt;

/// A logical unit number as it is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Lun([u8; 8]);

impl Lun {
    /// The eight bytes of the wire.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// The eight bytes of the wire.
    pub const fn bytes(self) -> [u8; 8] {
        self.0
    }

    /// A single-level number: peripheral addressing below 256, flat addressing below 16,384
    /// (SAM-5 4.7.7.2, 4.7.7.3). `None` for larger numbers.
    pub const fn from_number(number: u16) -> Option<Self> {
        let [high, low] = number.to_be_bytes();
        match number {
            0..=255 => Some(Self([0, low, 0, 0, 0, 0, 0, 0])),
            256..=16_383 => Some(Self([0x40 | high, low, 0, 0, 0, 0, 0, 0])),
            _ => None,
        }
    }

    /// The number of a single-level LUN with peripheral or flat addressing on bus 0; `None` for
    /// other forms.
    pub fn number(self) -> Option<u16> {
        let [first, second, rest @ ..] = self.0;
        let high = match (first >> 6, rest) {
            (0, [0, 0, 0, 0, 0, 0]) if first == 0 => 0,
            (1, [0, 0, 0, 0, 0, 0]) => first & 0x3f,
            _ => return None,
        };
        Some(u16::from_be_bytes([high, second]))
    }
}

impl fmt::Debug for Lun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number() {
            Some(number) => write!(f, "Lun({number})"),
            None => write!(f, "Lun({:02x?})", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_forms_of_sam() {
        let bytes = |number| Lun::from_number(number).map(Lun::bytes);
        assert_eq!(bytes(5), Some([0, 5, 0, 0, 0, 0, 0, 0]));
        assert_eq!(bytes(300), Some([0x41, 44, 0, 0, 0, 0, 0, 0]));
        assert_eq!(bytes(16_384), None);
        for number in [0, 255, 256, 16_383] {
            assert_eq!(Lun::from_number(number).and_then(Lun::number), Some(number));
        }
        assert_eq!(Lun::from_bytes([0xc1, 1, 0, 0, 0, 0, 0, 0]).number(), None);
        assert_eq!(Lun::from_bytes([0, 1, 0, 1, 0, 0, 0, 0]).number(), None);
    }
}

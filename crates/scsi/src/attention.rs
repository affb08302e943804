//! Unit attention conditions that wait for one nexus at one unit (SAM-5 5.14).

use crate::sense::{Sense, SenseCode, SenseKey};

/// What happened. The order is that of reporting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Attention {
    PowerOn,
    Reset,
    MediumChanged,
    LunsChanged,
    CapacityChanged,
    ModeChanged,
    ReservationsPreempted,
    ReservationsReleased,
    RegistrationsPreempted,
    CommandsCleared,
    InquiryChanged,
}

impl Attention {
    const ALL: [Self; 11] = [
        Self::PowerOn,
        Self::Reset,
        Self::MediumChanged,
        Self::LunsChanged,
        Self::CapacityChanged,
        Self::ModeChanged,
        Self::ReservationsPreempted,
        Self::ReservationsReleased,
        Self::RegistrationsPreempted,
        Self::CommandsCleared,
        Self::InquiryChanged,
    ];

    /// Its sense data (SPC-4 annex F.2).
    pub(crate) const fn sense(self) -> Sense {
        let (code, qualifier) = match self {
            Self::PowerOn => (0x29, 0x00),
            Self::Reset => (0x29, 0x03),
            Self::MediumChanged => (0x28, 0x00),
            Self::LunsChanged => (0x3f, 0x0e),
            Self::CapacityChanged => (0x2a, 0x09),
            Self::ModeChanged => (0x2a, 0x01),
            Self::ReservationsPreempted => (0x2a, 0x03),
            Self::ReservationsReleased => (0x2a, 0x04),
            Self::RegistrationsPreempted => (0x2a, 0x05),
            Self::CommandsCleared => (0x2f, 0x00),
            Self::InquiryChanged => (0x3f, 0x03),
        };
        Sense::new(SenseKey::UnitAttention, SenseCode(code, qualifier))
    }
}

/// The conditions that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AttentionSet(u16);

impl AttentionSet {
    /// Adds a condition. Power on and reset replace all others, which they explain.
    pub(crate) fn add(&mut self, attention: Attention) {
        if matches!(attention, Attention::PowerOn | Attention::Reset) {
            self.0 &= 1;
        }
        self.0 |= 1 << attention as u8;
    }

    /// Takes out the first condition.
    pub(crate) fn take(&mut self) -> Option<Attention> {
        let first = self.peek()?;
        self.0 &= !(1 << first as u8);
        Some(first)
    }

    /// Takes out one condition, if it waits.
    pub(crate) fn remove(&mut self, attention: Attention) {
        self.0 &= !(1 << attention as u8);
    }

    /// The first condition.
    pub(crate) fn peek(self) -> Option<Attention> {
        Attention::ALL.into_iter().find(|attention| self.0 & 1 << *attention as u8 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_come_in_their_order() {
        let mut set = AttentionSet::default();
        set.add(Attention::ModeChanged);
        set.add(Attention::PowerOn);
        set.add(Attention::InquiryChanged);
        set.add(Attention::CapacityChanged);
        let taken: Vec<Attention> = std::iter::from_fn(|| set.take()).collect();
        let expected = [Attention::PowerOn, Attention::CapacityChanged, Attention::InquiryChanged];
        assert_eq!(taken, expected);
    }

    #[test]
    fn each_condition_has_a_place_of_its_own() {
        let mut set = AttentionSet::default();
        Attention::ALL.into_iter().rev().for_each(|attention| set.add(attention));
        assert_eq!(std::iter::from_fn(|| set.take()).collect::<Vec<_>>(), [Attention::PowerOn]);
        for attention in &Attention::ALL[2..] {
            set.add(*attention);
        }
        assert_eq!(std::iter::from_fn(|| set.take()).collect::<Vec<_>>(), Attention::ALL[2..]);
    }
}

//! Typed sets of flags. Each set is a type of its own, so flags of two sets cannot be mixed.

/// Defines a set of flags over an unsigned word, with a named constant for each flag.
macro_rules! flag_set {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($word:ty) {
            $($(#[$doc:meta])* $flag:ident = $bits:expr;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name($word);

        impl $name {
            /// No flag.
            pub const NONE: Self = Self(0);
            $($(#[$doc])* pub const $flag: Self = Self($bits);)*
            /// The bits that have a name.
            #[allow(dead_code, reason = "not every set is decoded on its own")]
            pub(crate) const KNOWN: $word = 0 $(| $bits)*;

            /// The word that travels.
            #[must_use]
            #[inline]
            pub const fn bits(self) -> $word {
                self.0
            }

            /// The flags of a word; `None` if a bit of it means nothing.
            #[must_use]
            #[inline]
            pub const fn from_bits(bits: $word) -> Option<Self> {
                if bits & !Self::KNOWN == 0 { Some(Self(bits)) } else { None }
            }

            /// The flags of a word, bits without a meaning included: for a word whose writer may be
            /// newer.
            #[must_use]
            #[inline]
            pub const fn from_bits_retain(bits: $word) -> Self {
                Self(bits)
            }

            /// The flags of both.
            #[must_use]
            #[inline]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The flags that `other` does not have.
            #[must_use]
            #[inline]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Are all flags of `other` set?
            #[must_use]
            #[inline]
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Is at least one flag of `other` set?
            #[must_use]
            #[inline]
            pub const fn has_any(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// Is no flag set?
            #[must_use]
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// This set if `on`, else [`Self::NONE`].
            #[must_use]
            #[inline]
            pub const fn when(self, on: bool) -> Self {
                if on { self } else { Self::NONE }
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            #[inline]
            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        impl core::ops::BitOrAssign for $name {
            #[inline]
            fn bitor_assign(&mut self, other: Self) {
                *self = self.with(other);
            }
        }
    };
}

pub(crate) use flag_set;

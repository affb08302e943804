//! Socket options as they travel in calls: Linux's level and name, and the value's own bytes.
//!
//! A value is what the program gave or gets, in the machine's byte order. Who knows the option
//! reads it; whoever passes it on need not. A call has room for [`SET_MOST`] bytes, which all
//! options that are known fit into; a result for [`GET_PART`], so a long value such as
//! `struct tcp_info` comes in parts, each of which says how long the whole is.

use crate::bits::{pack32, u32_at};

/// Most bytes of a value in a `setsockopt` call; longer values are cut, their length is told.
pub const SET_MOST: usize = 24;
/// Bytes of a value in a `getsockopt` result.
pub const GET_PART: usize = 40;
/// Longest value of any option.
pub const GET_MOST: usize = 280;

/// Which option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionKey {
    /// SOL_SOCKET or a protocol, by Linux's numbers.
    pub level: i32,
    /// The option of that level.
    pub name: i32,
}

impl OptionKey {
    /// As one word of a call's arguments.
    #[must_use]
    pub fn to_word(self) -> u64 {
        pack32(self.level.cast_unsigned(), self.name.cast_unsigned())
    }

    /// Out of one word of a call's arguments.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        Self { level: u32_at(word, 0).cast_signed(), name: u32_at(word, 1).cast_signed() }
    }
}

/// The first `8 N` bytes of `bytes` as words; what is missing is 0.
#[must_use]
pub fn bytes_to_words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(whole);
    }
    words
}

/// The inverse of [`bytes_to_words`].
pub fn words_to_bytes(words: &[u64]) -> impl Iterator<Item = u8> {
    words.iter().flat_map(|word| word.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_keys_survive() {
        let bytes: Vec<u8> = (1..=21).collect();
        let words: [u64; 3] = bytes_to_words(&bytes);
        let back: Vec<u8> = words_to_bytes(&words).collect();
        assert_eq!((&back[..21], &back[21..]), (&bytes[..], &[0; 3][..]));
        let key = OptionKey { level: -1, name: 41 };
        assert_eq!(OptionKey::from_word(key.to_word()), key);
    }
}

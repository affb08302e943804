//! Socket options as they travel in calls: Linux's level and name, and the value's own bytes.
//!
//! A value is the program's own bytes, in the machine's byte order. Only the code that carries out
//! an option reads its value; code that passes the value on does not.
//!
//! A call has room for [`SET_MOST`] bytes; every known option fits into them. A result has room for
//! [`GET_PART`] bytes. So a long value such as `struct tcp_info` comes in parts, each with the
//! length of the whole value.

use crate::bits::{pack32, u32_at};

/// Most bytes of a value in a `setsockopt` call. A longer value is cut off; the call carries its
/// length.
pub const SET_MOST: usize = 24;
/// Bytes of a value in a `getsockopt` result.
pub const GET_PART: usize = 40;
/// Longest value of any option.
pub const GET_MOST: usize = 280;

/// The level of a call that brings a part of a value longer than [`SET_MOST`]; its name is the
/// offset of the part. The parts come in order, before the call that names the option. They are
/// also how getsockopt knows what the program passed in.
pub const LONG_VALUE: i32 = 0x5441_5356;
/// Longest value that comes in parts, bytes: a `struct group_filter` with 64 sources.
pub const LONG_MOST: usize = 144 + 64 * 128;

/// The key of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionKey {
    /// SOL_SOCKET or a protocol, by Linux's numbers.
    pub level: i32,
    /// The option of that level.
    pub name: i32,
}

impl OptionKey {
    /// Does a value longer than [`SET_MOST`] come in parts? Of others only the beginning matters.
    /// These are the memberships that name sources: MCAST_JOIN_GROUP and those after it, and
    /// IP_MSFILTER.
    #[must_use]
    pub fn is_long(self) -> bool {
        matches!((self.level, self.name), (0, 41..=48) | (41, 42..=48))
    }

    /// Does getsockopt look at what the program passes in? IP_MSFILTER and MCAST_MSFILTER do.
    #[must_use]
    pub fn is_question(self) -> bool {
        matches!((self.level, self.name), (0, 41 | 48) | (41, 48))
    }

    /// As one word of a call's arguments.
    #[must_use]
    #[inline]
    pub fn to_word(self) -> u64 {
        pack32(self.level.cast_unsigned(), self.name.cast_unsigned())
    }

    /// Out of one word of a call's arguments.
    #[must_use]
    #[inline]
    pub fn from_word(word: u64) -> Self {
        Self { level: u32_at(word, 0).cast_signed(), name: u32_at(word, 1).cast_signed() }
    }
}

/// A value to be set: its first [`SET_MOST`] bytes, and its length in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionValue {
    len: u32,
    words: [u64; 3],
}

impl OptionValue {
    /// The value that a program gave.
    #[must_use]
    #[inline]
    pub fn new(value: &[u8]) -> Self {
        let len = u32::try_from(value.len()).unwrap_or(u32::MAX);
        Self { len, words: words_of(value) }
    }

    /// Bytes that the program gave. Of more than [`SET_MOST`] only the first are here.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Did the program give nothing?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first [`SET_MOST`] bytes, with zeros behind the value's end. [`OptionValue::len`] says
    /// how many of them the program gave.
    #[must_use]
    pub fn bytes(&self) -> [u8; SET_MOST] {
        bytes_of(&self.words)
    }

    /// As four words of a call's arguments.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; 4] {
        let [a, b, c] = self.words;
        [self.len.into(), a, b, c]
    }

    /// The inverse of [`OptionValue::to_words`].
    #[inline]
    pub(crate) fn from_words([len, words @ ..]: [u64; 4]) -> Self {
        Self { len: u32::try_from(len).unwrap_or(u32::MAX), words }
    }
}

/// A part of a value that a program reads: [`GET_PART`] bytes, with zeros behind the value's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionPart {
    /// Bytes of the whole value.
    pub len: u64,
    /// The part.
    pub bytes: [u8; GET_PART],
}

impl OptionPart {
    /// The part of `value` from byte `from` on.
    #[must_use]
    pub fn new(value: &[u8], from: u32) -> Self {
        let part = usize::try_from(from).ok().and_then(|from| value.get(from..));
        let mut bytes = [0; GET_PART];
        bytes.iter_mut().zip(part.unwrap_or_default()).for_each(|(to, from)| *to = *from);
        Self { len: value.len() as u64, bytes }
    }

    /// As the six words of a result.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; 6] {
        let [a, b, c, d, e] = words_of(&self.bytes);
        [self.len, a, b, c, d, e]
    }

    /// The inverse of [`OptionPart::to_words`].
    #[inline]
    pub(crate) fn from_words([len, words @ ..]: &[u64; 6]) -> Self {
        Self { len: *len, bytes: bytes_of(words) }
    }
}

/// The first `8 N` bytes of `bytes` as words; missing bytes are 0.
#[inline]
fn words_of<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(whole);
    }
    words
}

/// The inverse of [`words_of`]: the first `N` bytes.
#[inline]
fn bytes_of<const N: usize>(words: &[u64]) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_keys_survive() {
        let bytes: Vec<u8> = (1..=21).collect();
        let value = OptionValue::from_words(OptionValue::new(&bytes).to_words());
        let back = value.bytes();
        assert_eq!((&back[..21], &back[21..]), (&bytes[..], &[0; 3][..]));
        assert_eq!(value.len(), 21);
        let part = OptionPart::from_words(&OptionPart::new(&bytes, 20).to_words());
        assert_eq!((part.len, &part.bytes[..2]), (21, &[21, 0][..]));
        let key = OptionKey { level: -1, name: 41 };
        assert_eq!(OptionKey::from_word(key.to_word()), key);
    }
}

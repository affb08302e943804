//! Values of options, in the form of programs.

use abi::Errno;
use abi::option::{GET_MOST, OptionValue, SET_MOST};

use super::numbers::IPPROTO_IP;

/// An option's value, as the program gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OptionBytes(Vec<u8>);

impl OptionBytes {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.iter().copied().take(GET_MOST).collect())
    }

    /// A value of any length.
    pub(super) fn long(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(super) fn int(value: i32) -> Self {
        Self::new(&value.to_ne_bytes())
    }

    /// A number as an `int`; the largest `int` for a number above it.
    pub(super) fn count(value: u64) -> Self {
        Self::int(i32::try_from(value).unwrap_or(i32::MAX))
    }

    /// Two `int`s.
    pub(super) fn pair(first: i32, second: i32) -> Self {
        Self::new([first.to_ne_bytes(), second.to_ne_bytes()].as_flattened())
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A value to be set: its first bytes, and its length in the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetValue<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) len: u32,
}

impl<'a> SetValue<'a> {
    /// `bytes` are those of `value` with zeros behind its end.
    pub(crate) fn new(value: &OptionValue, bytes: &'a [u8; SET_MOST]) -> Self {
        let len = value.len();
        let shown = usize::try_from(len).unwrap_or(SET_MOST).min(SET_MOST);
        Self { bytes: &bytes[..shown], len }
    }

    /// The bytes that are here.
    pub(crate) fn shown(&self) -> &'a [u8] {
        self.bytes
    }

    /// A value of which all bytes are here.
    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, len: u32::try_from(bytes.len()).unwrap_or(u32::MAX) }
    }

    /// An `int`. As Linux: for options of IPPROTO_IP a single byte is enough, and nothing is 0.
    pub(super) fn int(&self, level: i32) -> Result<i32, Errno> {
        match (self.bytes.first_chunk(), self.bytes.first()) {
            (Some(int), _) if self.len >= 4 => Ok(i32::from_ne_bytes(*int)),
            (_, Some(byte)) if level == IPPROTO_IP && self.len >= 1 => Ok((*byte).into()),
            _ if level == IPPROTO_IP && self.len == 0 => Ok(0),
            _ => Err(Errno::INVAL),
        }
    }

    /// An `int` that must not be negative.
    pub(super) fn positive(&self, level: i32) -> Result<u32, Errno> {
        u32::try_from(self.int(level)?).map_err(|_| Errno::INVAL)
    }

    /// Two `int`s.
    pub(super) fn pair(&self) -> Result<(i32, i32), Errno> {
        let bytes: &[u8; 8] = self.bytes.first_chunk().ok_or(Errno::INVAL)?;
        let [a, b, c, d, e, f, g, h] = *bytes;
        match self.len {
            8.. => Ok((i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h]))),
            _ => Err(Errno::INVAL),
        }
    }
}

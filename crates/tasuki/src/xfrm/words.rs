//! The words of a command line, one after the other.

use std::fmt::Display;
use std::str::FromStr;

/// The words that are still to be read.
#[derive(Debug, Clone)]
pub(super) struct XfrmWords<'a> {
    rest: std::slice::Iter<'a, String>,
}

impl<'a> XfrmWords<'a> {
    pub(super) fn new(all: &'a [String]) -> Self {
        Self { rest: all.iter() }
    }

    /// The next word.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        self.rest.next().map(String::as_str)
    }

    /// The next word, without taking it.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.rest.as_slice().first().map(String::as_str)
    }

    /// The word that follows `key`.
    ///
    /// # Errors
    /// A sentence if there is none.
    pub(super) fn value(&mut self, key: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{key} needs a value after it"))
    }

    /// The value of the word that follows `key`.
    ///
    /// # Errors
    /// A sentence if there is none, or if it has no such value.
    pub(super) fn parsed<T: FromStr<Err: Display>>(&mut self, key: &str) -> Result<T, String> {
        self.value(key)?.parse().map_err(|error| format!("{key}: {error}"))
    }

    /// The number, decimal or hexadecimal after 0x, that follows `key`.
    ///
    /// # Errors
    /// A sentence if there is none, or if it is too large.
    pub(super) fn number<T: TryFrom<u64>>(&mut self, key: &str) -> Result<T, String> {
        let word = self.value(key)?;
        let number = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        };
        let fits = number.and_then(|number| T::try_from(number).ok());
        fits.ok_or_else(|| format!("{key}: {word} is not a number that fits"))
    }
}

/// A word that does not belong where it stands.
pub(super) fn unexpected(word: &str, known: &str) -> String {
    format!("`{word}` is not known here; known are {known}")
}

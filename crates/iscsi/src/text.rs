//! Text of logins and Text PDUs: `key=value` pairs (RFC 7143 6.1, 6.2, 11.10.6).
//!
//! A text of several PDUs is put together first, up to [`MAX_TEXT`] bytes and [`MAX_PAIRS`] pairs.

mod assembler;
mod pairs;
mod value;

pub use assembler::{MAX_TEXT, TextAssembler};
pub use pairs::{MAX_PAIRS, TextWriter, parse};
pub use value::{binary, boolean, hex, number};

#[cfg(test)]
mod tests;

//! Text of logins and Text PDUs: `key=value` pairs (RFC 7143 6.1, 6.2, 11.10.6).
//!
//! A text of several PDUs is put together first, up to 16,384 bytes and 64 pairs.

mod assembler;
mod pairs;
mod value;

pub use assembler::TextAssembler;
pub use pairs::{TextWriter, parse};
pub use value::{binary, boolean, hex, number};

#[cfg(test)]
mod tests;
